//! `shim.cpp` for safe code: what tch lacks of libtorch.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::ptr;
use tch::{Device, Kind, TchError, Tensor};

type Result<T> = std::result::Result<T, TchError>;

/// A tensor as libtorch has it.
type Raw = *const c_void;

#[repr(C)]
struct Was {
    enabled: bool,
    kind: i8,
}

unsafe extern "C" {
    fn forebay_allow_tf32(allow: bool);
    fn forebay_tf32() -> bool;
    fn forebay_autocast_enter(cuda: bool, kind: i8, was: *mut Was) -> *mut c_char;
    fn forebay_autocast_exit(cuda: bool, was: *const Was) -> *mut c_char;
    fn forebay_backward(output: Raw, gradient: Raw) -> *mut c_char;
    fn forebay_sgd(
        parameters: *const Raw,
        gradients: *const Raw,
        buffers: *const Raw,
        n: usize,
        rate: f64,
        momentum: f64,
        weight_decay: f64,
        nesterov: bool,
        scale: Raw,
        found_inf: Raw,
    ) -> *mut c_char;
    fn forebay_adam(
        parameters: *const Raw,
        gradients: *const Raw,
        first: *const Raw,
        second: *const Raw,
        steps: *const Raw,
        n: usize,
        decoupled: bool,
        rate: f64,
        beta1: f64,
        beta2: f64,
        epsilon: f64,
        weight_decay: f64,
        scale: Raw,
        found_inf: Raw,
    ) -> *mut c_char;
    fn forebay_unscale(
        gradients: *const Raw,
        n: usize,
        found_inf: Raw,
        inverse: Raw,
    ) -> *mut c_char;
    fn forebay_blob(
        data: *mut c_void,
        shape: *const i64,
        axes: usize,
        kind: i8,
        device: c_int,
        free: unsafe extern "C" fn(*mut c_void),
        owner: *mut c_void,
        out: *mut *mut torch_sys::C_tensor,
    ) -> *mut c_char;
}

unsafe extern "C" {
    // The C library's; messages come from strdup.
    fn free(pointer: *mut c_void);
}

/// What a function of the shim said.
///
/// # Safety
/// `message` is null or from strdup, and nobody else's.
unsafe fn said(message: *mut c_char) -> Result<()> {
    if message.is_null() {
        return Ok(());
    }
    // SAFETY: a string of C, by the caller's promise, freed once, after its last use.
    unsafe {
        let text = CStr::from_ptr(message).to_string_lossy().into_owned();
        free(message.cast());
        Err(TchError::Torch(text))
    }
}

fn raw(tensor: &Tensor) -> Raw {
    tensor.as_ptr().cast()
}

fn maybe(tensor: Option<&Tensor>) -> Raw {
    tensor.map_or(ptr::null(), raw)
}

fn all(tensors: &[Tensor]) -> Vec<Raw> {
    tensors.iter().map(raw).collect()
}

/// Of `at::ScalarType`, whose numbers are fixed: files hold them.
fn code(kind: Kind) -> i8 {
    match kind {
        Kind::Int64 => 4,
        Kind::Half => 5,
        Kind::Float => 6,
        Kind::BFloat16 => 15,
        other => unreachable!("the trainer does not use {other:?}"),
    }
}

/// Lets convolutions and matrix products on GPUs compute in TF32, or no longer. For all of the
/// process, and not while libtorch is at work on another thread.
pub fn allow_tf32(allow: bool) {
    // SAFETY: sets flags of libtorch, which it reads when an operation starts.
    unsafe { forebay_allow_tf32(allow) }
}

/// What [`allow_tf32`] was last told, by libtorch's own account.
pub fn is_tf32() -> bool {
    // SAFETY: reads the same flags.
    unsafe { forebay_tf32() }
}

/// While it lives, this thread's operations on `device` compute in `kind` where libtorch deems that
/// good enough, and casts of weights are kept. What it was before comes back at the end. Nested ones
/// end in the reverse order of their beginning.
#[derive(Debug)]
pub struct Autocast {
    cuda: bool,
    was: (bool, i8),
    /// The state is that of the thread.
    _thread: PhantomData<*const ()>,
}

impl Autocast {
    /// Begins; `kind` is `Kind::BFloat16` or `Kind::Half`.
    pub fn begin(device: Device, kind: Kind) -> Result<Self> {
        let cuda = matches!(device, Device::Cuda(_));
        let mut was = Was { enabled: false, kind: 0 };
        // SAFETY: writes `was` alone and flags of this thread.
        unsafe { said(forebay_autocast_enter(cuda, code(kind), &mut was))? };
        Ok(Autocast { cuda, was: (was.enabled, was.kind), _thread: PhantomData })
    }
}

impl Drop for Autocast {
    fn drop(&mut self) {
        let was = Was { enabled: self.was.0, kind: self.was.1 };
        // SAFETY: as in `begin`. An error has nobody left to tell.
        let _ = unsafe { said(forebay_autocast_exit(self.cuda, &was)) };
    }
}

/// Runs the backward pass from `output`, whose own gradient is `gradient`, and adds to the gradients
/// of the leaves behind it.
pub fn backward(output: &Tensor, gradient: &Tensor) -> Result<()> {
    // SAFETY: both live for the call, which checks their shapes and types.
    unsafe { said(forebay_backward(raw(output), raw(gradient))) }
}

/// What an update of an optimiser obeys.
#[derive(Debug, Clone, Copy, Default)]
pub struct Mask<'a> {
    /// Gradients are this many times too large: one f32 on the device.
    pub scale: Option<&'a Tensor>,
    /// Nothing changes where it holds 1 and not 0: one f32 on the device.
    pub found_inf: Option<&'a Tensor>,
}

/// Sizes and strides agree: the fused kernels walk all lists by one index and check neither.
fn alike(lists: &[&[Tensor]]) -> Result<()> {
    let first = lists[0];
    for list in &lists[1..] {
        let same = |(a, b): (&Tensor, &Tensor)| {
            a.size() == b.size() && a.stride() == b.stride() && a.device() == b.device()
        };
        if list.len() != first.len() || !first.iter().zip(*list).all(same) {
            let text = "parameters, gradients and state of an optimiser are not laid out alike";
            return Err(TchError::Shape(text.into()));
        }
    }
    Ok(())
}

/// One step of SGD without dampening: `buffer = momentum * buffer + gradient`, from buffers of zero.
/// `buffers` is empty where `momentum` is 0.
#[allow(clippy::too_many_arguments)] // The formula's.
pub fn sgd(
    parameters: &[Tensor],
    gradients: &[Tensor],
    buffers: &[Tensor],
    rate: f64,
    momentum: f64,
    weight_decay: f64,
    nesterov: bool,
    mask: Mask<'_>,
) -> Result<()> {
    alike(&[parameters, gradients])?;
    if momentum != 0.0 {
        alike(&[parameters, buffers])?;
    }
    // SAFETY: the lists have as many live tensors as `n` says, laid out alike; libtorch checks types.
    unsafe {
        said(forebay_sgd(
            all(parameters).as_ptr(),
            all(gradients).as_ptr(),
            all(buffers).as_ptr(),
            parameters.len(),
            rate,
            momentum,
            weight_decay,
            nesterov,
            maybe(mask.scale),
            maybe(mask.found_inf),
        ))
    }
}

/// The constants of Adam and AdamW.
#[derive(Debug, Clone, Copy)]
pub struct AdamStep {
    /// AdamW: decays weights apart from the gradient.
    pub decoupled: bool,
    /// The learning rate.
    pub rate: f64,
    /// Of the two averages.
    pub betas: (f64, f64),
    /// Added to the root.
    pub epsilon: f64,
    /// Times the weight.
    pub weight_decay: f64,
}

/// One step of Adam or AdamW. `steps` hold one f32 a parameter, which step this is, from 1.
pub fn adam(
    parameters: &[Tensor],
    gradients: &[Tensor],
    first: &[Tensor],
    second: &[Tensor],
    steps: &[Tensor],
    constants: AdamStep,
    mask: Mask<'_>,
) -> Result<()> {
    alike(&[parameters, gradients, first, second])?;
    if steps.len() != parameters.len() || steps.iter().any(|step| step.numel() != 1) {
        return Err(TchError::Shape("one step count a parameter".into()));
    }
    // SAFETY: as in `sgd`.
    unsafe {
        said(forebay_adam(
            all(parameters).as_ptr(),
            all(gradients).as_ptr(),
            all(first).as_ptr(),
            all(second).as_ptr(),
            all(steps).as_ptr(),
            parameters.len(),
            constants.decoupled,
            constants.rate,
            constants.betas.0,
            constants.betas.1,
            constants.epsilon,
            constants.weight_decay,
            maybe(mask.scale),
            maybe(mask.found_inf),
        ))
    }
}

/// Multiplies `gradients` by `inverse` and sets `found_inf` to 1 where a value is not finite; both
/// are one f32 on the device.
pub fn unscale(gradients: &[Tensor], found_inf: &mut Tensor, inverse: &Tensor) -> Result<()> {
    // SAFETY: as in `sgd`; the kernel reads and writes each gradient in its own layout.
    unsafe {
        said(forebay_unscale(
            all(gradients).as_ptr(),
            gradients.len(),
            raw(found_inf),
            raw(inverse),
        ))
    }
}

/// A dense tensor over memory that `owner` keeps; it drops when nothing refers to the memory any
/// more, on whatever thread that is.
///
/// # Safety
/// `data` points to the product of `shape` values of `kind` on `device`, which stay valid and
/// unwritten by others for as long as `owner` lives.
pub unsafe fn blob<T: Send + 'static>(
    data: *const u8,
    shape: &[i64],
    kind: Kind,
    device: Device,
    owner: T,
) -> Result<Tensor> {
    unsafe extern "C" fn drop_box<T>(owner: *mut c_void) {
        // SAFETY: the box that was leaked below; libtorch calls this once.
        drop(unsafe { Box::from_raw(owner.cast::<T>()) });
    }
    let device = match device {
        Device::Cuda(ordinal) => ordinal as c_int,
        _ => -1,
    };
    let owner = Box::into_raw(Box::new(owner)).cast();
    let mut out = ptr::null_mut();
    // SAFETY: the memory is as the caller promises. `owner` belongs to the shim from here on, which
    // frees it in every case; `out` is a new tensor where it is not null.
    unsafe {
        said(forebay_blob(
            data.cast_mut().cast(),
            shape.as_ptr(),
            shape.len(),
            code(kind),
            device,
            drop_box::<T>,
            owner,
            &mut out,
        ))?;
        Ok(Tensor::from_ptr(out))
    }
}
