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
#[derive(Debug)]
struct Was {
    enabled: bool,
    cached: bool,
    kind: i8,
}

unsafe extern "C" {
    fn forebay_allow_tf32(allow: bool);
    fn forebay_tf32() -> bool;
    fn forebay_autocast_enter(cuda: bool, kind: i8, was: *mut Was) -> *mut c_char;
    fn forebay_autocast_exit(cuda: bool, was: *const Was) -> *mut c_char;
    fn forebay_backward(output: Raw, gradient: Raw) -> *mut c_char;
    fn forebay_forget(tensors: *const Raw, n: usize) -> *mut c_char;
    fn forebay_sgd(
        parameters: *const Raw,
        gradients: *const Raw,
        buffers: *const Raw,
        n: usize,
        rate: f64,
        momentum: f64,
        weight_decay: f64,
        nesterov: bool,
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
        found_inf: Raw,
    ) -> *mut c_char;
    fn forebay_norm(
        tensors: *const Raw,
        n: usize,
        out: *mut *mut torch_sys::C_tensor,
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
/// good enough. What it was before comes back at the end. Nested ones end in the reverse order of
/// their beginning.
///
/// Casts of weights are made anew at each use, so that none outlives an optimiser's step, and a
/// forward pass without gradients leaves nothing behind for one that needs them.
#[derive(Debug)]
pub struct Autocast {
    cuda: bool,
    was: Was,
    /// The state is that of the thread.
    _thread: PhantomData<*const ()>,
}

impl Autocast {
    /// Begins; `kind` is `Kind::BFloat16` or `Kind::Half`.
    pub fn begin(device: Device, kind: Kind) -> Result<Self> {
        let cuda = matches!(device, Device::Cuda(_));
        let mut was = Was { enabled: false, cached: false, kind: 0 };
        // SAFETY: writes `was` alone and flags of this thread.
        unsafe { said(forebay_autocast_enter(cuda, code(kind), &mut was))? };
        Ok(Autocast { cuda, was, _thread: PhantomData })
    }
}

impl Drop for Autocast {
    fn drop(&mut self) {
        // SAFETY: as in `begin`. An error has nobody left to tell.
        let _ = unsafe { said(forebay_autocast_exit(self.cuda, &self.was)) };
    }
}

/// Runs the backward pass from `output`, whose own gradient is `gradient`, and adds to the gradients
/// of the leaves behind it.
pub fn backward(output: &Tensor, gradient: &Tensor) -> Result<()> {
    // SAFETY: both live for the call, which checks their shapes and types.
    unsafe { said(forebay_backward(raw(output), raw(gradient))) }
}

/// Frees the gradients of `tensors`, which are then as if no backward pass had been: the next one
/// moves its own into their place, where zeros would be read and written to add them.
pub fn forget(tensors: &[Tensor]) -> Result<()> {
    // SAFETY: the list has as many live tensors as `n` says; a gradient that somebody else holds is
    // counted there.
    unsafe { said(forebay_forget(all(tensors).as_ptr(), tensors.len())) }
}

/// Whether no two values of a tensor share a place and no place between them is left out.
fn dense(size: &[i64], stride: &[i64]) -> bool {
    let mut axes: Vec<_> = stride.iter().zip(size).filter(|(_, size)| **size != 1).collect();
    axes.sort_unstable();
    let mut next = 1;
    axes.iter().all(|(stride, size)| {
        let fits = **stride == next;
        next *= **size;
        fits
    })
}

/// Type, sizes, device and strides agree, and no tensor has gaps: the fused kernels walk over all
/// lists by one index and check nothing. The stride of an axis of one value says nothing.
fn alike(lists: &[&[Tensor]]) -> Result<()> {
    let same = |a: &Tensor, b: &Tensor| {
        let size = a.size();
        let strides = a.stride().into_iter().zip(b.stride()).zip(&size);
        size == b.size()
            && strides.into_iter().all(|((a, b), size)| a == b || *size == 1)
            && a.device() == b.device()
            && a.kind() == b.kind()
            && dense(&size, &a.stride())
    };
    let first = lists[0];
    let all_same = |list: &&[Tensor]| {
        list.len() == first.len() && first.iter().zip(*list).all(|(a, b)| same(a, b))
    };
    if !lists.iter().all(all_same) {
        let text = "parameters, gradients and state of an optimiser are not laid out alike";
        return Err(TchError::Shape(text.into()));
    }
    Ok(())
}

/// Each is one f32 without axes where `tensors` are: kernels read it through its address.
fn one_f32<'a>(tensors: &[Tensor], ones: impl IntoIterator<Item = &'a Tensor>) -> Result<()> {
    let device = tensors.first().map(Tensor::device);
    for one in ones {
        let there = device.is_none_or(|device| device == one.device());
        if one.dim() != 0 || one.kind() != Kind::Float || !there {
            let text =
                "scales, flags and step counts are one f32 without axes, where gradients are";
            return Err(TchError::Shape(text.into()));
        }
    }
    Ok(())
}

/// One step of SGD without dampening: `buffer = momentum * buffer + gradient`, from buffers of zero.
/// `buffers` is empty where `momentum` is 0. Nothing changes where `found_inf`, one f32 on the
/// device, holds 1 and not 0.
#[allow(clippy::too_many_arguments)] // The formula's.
pub fn sgd(
    parameters: &[Tensor],
    gradients: &[Tensor],
    buffers: &[Tensor],
    rate: f64,
    momentum: f64,
    weight_decay: f64,
    nesterov: bool,
    found_inf: Option<&Tensor>,
) -> Result<()> {
    alike(&[parameters, gradients])?;
    if momentum != 0.0 {
        alike(&[parameters, buffers])?;
    }
    one_f32(parameters, found_inf)?;
    // SAFETY: the lists have as many live tensors as `n` says, laid out alike, and the kernels read
    // `found_inf` where it is.
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
            maybe(found_inf),
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

/// One step of Adam or AdamW. `steps` hold one f32 a parameter, how many came before, and are raised.
/// Nothing changes where `found_inf`, one f32 on the device, holds 1 and not 0.
pub fn adam(
    parameters: &[Tensor],
    gradients: &[Tensor],
    first: &[Tensor],
    second: &[Tensor],
    steps: &[Tensor],
    constants: AdamStep,
    found_inf: Option<&Tensor>,
) -> Result<()> {
    alike(&[parameters, gradients, first, second])?;
    if steps.len() != parameters.len() {
        return Err(TchError::Shape("an optimiser has one step count a parameter".into()));
    }
    one_f32(parameters, steps.iter().chain(found_inf))?;
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
            maybe(found_inf),
        ))
    }
}

/// The L2 norm over all values of `tensors`, at least one, which are on one device: one f32 there.
pub fn norm(tensors: &[Tensor]) -> Result<Tensor> {
    let mut out = ptr::null_mut();
    // SAFETY: as in `forget`; `out` is a new tensor where nothing went wrong.
    unsafe {
        said(forebay_norm(all(tensors).as_ptr(), tensors.len(), &mut out))?;
        Ok(Tensor::from_ptr(out))
    }
}

/// Multiplies `gradients` by `inverse` and sets `found_inf` to 1 where a value was not finite; both
/// are one f32 on the device.
pub fn unscale(gradients: &[Tensor], found_inf: &mut Tensor, inverse: &Tensor) -> Result<()> {
    one_f32(gradients, [&*found_inf, inverse])?;
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
