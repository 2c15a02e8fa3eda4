//! Finding and opening libnvjpeg, which nothing is linked with.

use super::result::Failure;
use super::sys::Functions;
use crate::error::{Error, ErrorKind, Result};
use std::env;
use std::ffi::{OsStr, c_int};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The library's names, the newest first.
const NAMES: [&str; 2] = ["libnvjpeg.so.13", "libnvjpeg.so.12"];

/// The first version that interpolates chroma when asked to; older ones ignore the flag.
const OLDEST: [c_int; 2] = [12, 1];

/// nvJPEG, opened; never closed again, so that its functions stay where they are.
pub struct Library {
    pub(super) functions: Functions,
    version: [c_int; 3],
    path: PathBuf,
    _library: libloading::Library,
}

impl Library {
    /// Finds and opens nvJPEG once in the life of the process: in `CUDA_HOME`, beside libtorch
    /// (where Python's wheels put it), then by the loader's own search.
    ///
    /// Errors: no library in any of these places, or none that is usable; the text says what was
    /// tried, what was wrong, and which package brings it.
    pub fn open() -> Result<&'static Library> {
        static FOUND: OnceLock<Result<&'static Library>> = OnceLock::new();
        FOUND.get_or_init(|| find(&folders())).clone()
    }

    /// Opens the nvJPEG at `path`; a name without a folder is left to the loader's search.
    pub fn open_file(path: &Path) -> Result<&'static Library> {
        load(path).map_err(|reason| Error::new(ErrorKind::Device, reason).at_path(path))
    }

    /// Major, minor and patch version.
    pub fn version(&self) -> [c_int; 3] {
        self.version
    }

    /// The library's file, or its name alone where the loader found it.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// `nvJPEG 13.0.1 (/usr/lib/libnvjpeg.so.13)`.
impl fmt::Display for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.version;
        write!(f, "nvJPEG {major}.{minor}.{patch} ({})", self.path.display())
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The folders to look in before the loader's.
fn folders() -> Vec<PathBuf> {
    let mut folders = Vec::new();
    if let Some(home) = env::var_os("CUDA_HOME") {
        folders.extend(["lib64", "lib"].map(|lib| Path::new(&home).join(lib)));
    }
    // Wheels lie beside torch: site-packages/torch/lib and site-packages/nvidia/*/lib.
    let torch = env::var_os("LIBTORCH").map(PathBuf::from);
    let built = option_env!("FOREBAY_LIBTORCH").and_then(|lib| Path::new(lib).parent());
    for torch in [torch.as_deref(), built].into_iter().flatten() {
        folders.extend(wheels(&torch.with_file_name("nvidia")));
    }
    folders
}

/// `lib` in each folder of `nvidia`, by name, so that the choice among several is always the same.
fn wheels(nvidia: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<_> = std::fs::read_dir(nvidia)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().join("lib"))
        .collect();
    folders.sort();
    folders
}

fn find(folders: &[PathBuf]) -> Result<&'static Library> {
    let mut wrong = Vec::new();
    let files = folders.iter().flat_map(|folder| NAMES.map(|name| folder.join(name)));
    let by_loader = NAMES.map(PathBuf::from);
    for path in files.filter(|path| path.exists()).chain(by_loader) {
        match load(&path) {
            Ok(library) => return Ok(library),
            Err(reason) if is_absent(&reason, &path) => {}
            Err(reason) => wrong.push(format!("{}: {reason}", path.display())),
        }
    }
    let text = if wrong.is_empty() {
        let mut tried: Vec<_> = folders.iter().map(|f| f.display().to_string()).collect();
        tried.push("the loader's path".to_owned());
        format!("no {} or {} in {}", NAMES[0], NAMES[1], tried.join(", "))
    } else {
        format!("no usable nvJPEG: {}", wrong.join("; "))
    };
    let text = format!("{text}; install nvidia-nvjpeg (pip) or libnvjpeg (Debian)");
    Err(Error::new(ErrorKind::Device, text))
}

/// Whether the loader says that there is no file `path`, rather than what is wrong with it.
fn is_absent(reason: &str, path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    reason.starts_with(&format!("{name}: cannot open shared object file"))
}

fn load(path: &Path) -> Result<&'static Library, String> {
    let (library, functions) = super::sys::open(path)?;
    let version = functions.version().map_err(|failure: Failure| failure.to_string())?;
    let [major, minor, _] = version;
    if [major, minor] < OLDEST {
        let [least_major, least_minor] = OLDEST;
        return Err(format!(
            "nvJPEG {major}.{minor} does not interpolate chroma; {least_major}.{least_minor} is \
             the oldest that does"
        ));
    }
    let path = path.to_path_buf();
    Ok(Box::leak(Box::new(Library { functions, version, path, _library: library })))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error tells an empty folder from a file that is no library.
    #[test]
    fn the_error_says_what_was_tried() {
        let dir = std::env::temp_dir().join(format!("forebay-nvjpeg-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let empty = find(std::slice::from_ref(&dir));
        std::fs::write(dir.join(NAMES[1]), "no library").unwrap();
        let broken = find(std::slice::from_ref(&dir));
        std::fs::remove_dir_all(&dir).unwrap();
        // The loader may know a real one.
        let (Err(empty), Err(broken)) = (empty, broken) else { return };
        for (error, part) in [(empty, "no libnvjpeg.so.13 or"), (broken, "no usable nvJPEG: ")] {
            assert_eq!(error.kind(), ErrorKind::Device);
            assert!(error.message().starts_with(part), "{error}");
            assert!(error.message().contains(dir.to_str().unwrap()), "{error}");
            assert!(error.message().contains("nvidia-nvjpeg (pip)"), "{error}");
        }
    }
}
