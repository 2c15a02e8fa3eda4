//! NVRTC, the CUDA compiler as a library: it needs neither a GPU nor a driver.

#![allow(unsafe_code)]

use std::env;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fs;
use std::path::{Path, PathBuf};
use std::ptr;

use libloading::Library;

/// The oldest version that knows every architecture of [`ARCHITECTURES`].
const OLDEST: (c_int, c_int) = (12, 8);

/// Machine code for the GPUs that are out there, and PTX for those to come.
pub(crate) const ARCHITECTURES: [&str; 6] =
    ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120", "compute_120"];

/// The float rules that make a GPU's values those of the host, and the log of registers and spills.
const OPTIONS: [&CStr; 6] = [
    c"--std=c++17",
    c"--fmad=false",
    c"--ftz=false",
    c"--prec-div=true",
    c"--prec-sqrt=true",
    c"--ptxas-options=-v",
];

/// NVRTC, loaded. Threads may share it.
pub(crate) struct Nvrtc {
    /// The library's file.
    pub(crate) path: PathBuf,
    /// Major and minor, as in CUDA 13.0.
    pub(crate) version: (c_int, c_int),
    api: Api,
    // Unloaded last: the functions of `api` live here.
    _library: Library,
    _builtins: Library,
}

/// A kernel file, compiled.
pub(crate) struct Compiled {
    /// A cubin for `sm_*`; PTX text without its final NUL for `compute_*`.
    pub(crate) image: Vec<u8>,
    /// Warnings, and for a cubin each kernel's registers, stack and spills.
    pub(crate) log: String,
}

/// Finds NVRTC in `CUDA_HOME`, beside the PyTorch of `LIBTORCH` (where its wheels put it), or in
/// `/usr/local/cuda`. The error names every folder that was searched and what was wrong there.
pub(crate) fn find() -> Result<Nvrtc, String> {
    let mut folders = Vec::new();
    for variable in ["CUDA_HOME", "CUDA_PATH"] {
        println!("cargo::rerun-if-env-changed={variable}");
        if let Some(home) = env::var_os(variable) {
            folders.extend(["lib64", "lib"].map(|lib| Path::new(&home).join(lib)));
        }
    }
    println!("cargo::rerun-if-env-changed=LIBTORCH");
    if let Some(libtorch) = env::var_os("LIBTORCH") {
        let wheels = Path::new(&libtorch).with_file_name("nvidia");
        folders.extend(entries(&wheels).into_iter().map(|wheel| wheel.join("lib")));
        folders.push(Path::new(&libtorch).join("lib"));
    }
    folders.push("/usr/local/cuda/lib64".into());

    let mut failures = Vec::new();
    for folder in &folders {
        match load(folder) {
            Ok(nvrtc) => {
                println!("cargo::rerun-if-changed={}", nvrtc.path.display());
                return Ok(nvrtc);
            }
            Err(reason) => failures.push(format!("{}: {reason}", folder.display())),
        }
    }
    Err(failures.join("; "))
}

fn load(folder: &Path) -> Result<Nvrtc, String> {
    // Wheels also carry `libnvrtc.alt.so`, the same compiler with another memory allocator.
    let files = entries(folder);
    let named = |prefix: &str| {
        let mut matches = files.iter().filter(|file| {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(prefix) && name.contains(".so.") && !name.contains(".alt.")
        });
        matches.next().ok_or_else(|| format!("no {prefix}"))
    };
    let path = named("libnvrtc.so")?;
    // Loaded by its full path first, since libnvrtc looks for it by name alone.
    // SAFETY: NVIDIA's library, whose initialisers only set up its own state.
    let builtins = unsafe { Library::new(named("libnvrtc-builtins.so")?) };
    // SAFETY: as above.
    let library = unsafe { Library::new(path) };
    let (builtins, library) = (builtins.map_err(text)?, library.map_err(text)?);
    let api = Api::load(&library)?;

    let mut version = (0, 0);
    // SAFETY: both pointers are valid for the call.
    api.check(unsafe { (api.version)(&mut version.0, &mut version.1) })?;
    if version < OLDEST {
        let [(major, minor), (least_major, least_minor)] = [version, OLDEST];
        return Err(format!("NVRTC {major}.{minor} is older than {least_major}.{least_minor}"));
    }
    Ok(Nvrtc { path: path.clone(), version, api, _library: library, _builtins: builtins })
}

/// A folder's entries by name, so that the choice among several is always the same.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

impl Nvrtc {
    /// Compiles `source` for `arch` (of [`ARCHITECTURES`]). `name` stands in messages; `headers`
    /// are the (name, text) pairs that its `#include "name"` may ask for: no file is read.
    pub(crate) fn compile(
        &self,
        name: &str,
        source: &str,
        headers: &[(&str, &str)],
        arch: &str,
    ) -> Result<Compiled, String> {
        let [name, source, arch_option] =
            [name.to_owned(), source.to_owned(), format!("--gpu-architecture={arch}")]
                .map(CString::new);
        let (name, source, arch_option) =
            (name.map_err(text)?, source.map_err(text)?, arch_option.map_err(text)?);
        let mut strings = Vec::new();
        for (header, content) in headers {
            strings.push((
                CString::new(*header).map_err(text)?,
                CString::new(*content).map_err(text)?,
            ));
        }
        let (names, contents): (Vec<_>, Vec<_>) =
            strings.iter().map(|(n, c)| (n.as_ptr(), c.as_ptr())).unzip();
        let count = c_int::try_from(headers.len()).map_err(text)?;

        let mut program = Program { api: &self.api, handle: ptr::null_mut() };
        // SAFETY: every string is NUL-terminated and outlives the call, which copies them; `names`
        // and `contents` hold `count` pointers each.
        self.api.check(unsafe {
            (self.api.create)(
                &mut program.handle,
                source.as_ptr(),
                name.as_ptr(),
                count,
                contents.as_ptr(),
                names.as_ptr(),
            )
        })?;

        let mut options = vec![arch_option.as_ptr()];
        options.extend(OPTIONS.map(CStr::as_ptr));
        // SAFETY: the handle is a live program, and `options` holds that many strings.
        let status =
            unsafe { (self.api.compile)(program.handle, options.len() as c_int, options.as_ptr()) };
        let log = program.read(self.api.log_size, self.api.log)?;
        let log = String::from_utf8_lossy(&log).trim_end_matches(['\0', '\n']).to_owned();
        self.api.check(status).map_err(|error| format!("{error} for {arch}\n{log}"))?;

        let image = if arch.starts_with("sm_") {
            program.read(self.api.cubin_size, self.api.cubin)?
        } else {
            let mut ptx = program.read(self.api.ptx_size, self.api.ptx)?;
            ptx.truncate(ptx.iter().position(|&byte| byte == 0).unwrap_or(ptx.len()));
            ptx
        };
        Ok(Compiled { image, log })
    }
}

struct Program<'a> {
    api: &'a Api,
    handle: *mut c_void,
}

impl Program<'_> {
    fn read(&self, size: GetSize, get: GetBytes) -> Result<Vec<u8>, String> {
        let mut length = 0;
        // SAFETY: the handle is a live program and `length` a valid place.
        self.api.check(unsafe { size(self.handle, &mut length) })?;
        let mut bytes = vec![0; length];
        // SAFETY: `bytes` has the room that NVRTC asked for.
        self.api.check(unsafe { get(self.handle, bytes.as_mut_ptr().cast()) })?;
        Ok(bytes)
    }
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: the handle is a live program that nobody uses after this.
            unsafe { (self.api.destroy)(&mut self.handle) };
        }
    }
}

type GetSize = unsafe extern "C" fn(*mut c_void, *mut usize) -> c_int;
type GetBytes = unsafe extern "C" fn(*mut c_void, *mut c_char) -> c_int;
type Strings = *const *const c_char;

struct Api {
    version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int,
    error: unsafe extern "C" fn(c_int) -> *const c_char,
    create: unsafe extern "C" fn(
        *mut *mut c_void,
        *const c_char,
        *const c_char,
        c_int,
        Strings,
        Strings,
    ) -> c_int,
    compile: unsafe extern "C" fn(*mut c_void, c_int, Strings) -> c_int,
    destroy: unsafe extern "C" fn(*mut *mut c_void) -> c_int,
    log_size: GetSize,
    log: GetBytes,
    cubin_size: GetSize,
    cubin: GetBytes,
    ptx_size: GetSize,
    ptx: GetBytes,
}

impl Api {
    fn load(library: &Library) -> Result<Self, String> {
        macro_rules! symbol {
            ($name:literal) => {
                // SAFETY: the field's type is the function's declaration in nvrtc.h.
                *unsafe { library.get($name) }.map_err(text)?
            };
        }
        Ok(Self {
            version: symbol!("nvrtcVersion"),
            error: symbol!("nvrtcGetErrorString"),
            create: symbol!("nvrtcCreateProgram"),
            compile: symbol!("nvrtcCompileProgram"),
            destroy: symbol!("nvrtcDestroyProgram"),
            log_size: symbol!("nvrtcGetProgramLogSize"),
            log: symbol!("nvrtcGetProgramLog"),
            cubin_size: symbol!("nvrtcGetCUBINSize"),
            cubin: symbol!("nvrtcGetCUBIN"),
            ptx_size: symbol!("nvrtcGetPTXSize"),
            ptx: symbol!("nvrtcGetPTX"),
        })
    }

    fn check(&self, status: c_int) -> Result<(), String> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: for any status NVRTC returns a string that lives as long as the library.
        Err(unsafe { CStr::from_ptr((self.error)(status)) }.to_string_lossy().into_owned())
    }
}

fn text(error: impl ToString) -> String {
    error.to_string()
}
