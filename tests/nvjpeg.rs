//! nvJPEG without a GPU: its header, the real library's refusal, and our side of its calls on a
//! library that only writes them down.
#![allow(unsafe_code)]

use forebay::ErrorKind;
use forebay::decoder::nvjpeg::{Item, Library, Nvjpeg, Outcome, sys};
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr::null_mut;

/// nvjpeg.h of the wheel beside libtorch, or a printed skip.
fn header() -> Option<PathBuf> {
    let wheels = PathBuf::from(std::env::var_os("LIBTORCH")?).with_file_name("nvidia");
    let folders = std::fs::read_dir(wheels).into_iter().flatten().flatten();
    folders.map(|folder| folder.path().join("include/nvjpeg.h")).find(|path| path.is_file())
}

/// The constants that a header's enums and `#define`s give, by name.
fn constants(text: &str) -> BTreeMap<&str, i64> {
    let number = |text: &str| -> Option<i64> {
        let text = text.split("//").next()?.trim().trim_end_matches(',').trim();
        if let Some((left, right)) = text.split_once("<<") {
            return Some(left.trim().parse::<i64>().ok()? << right.trim().parse::<u32>().ok()?);
        }
        match text.strip_prefix("0x") {
            Some(hex) => i64::from_str_radix(hex, 16).ok(),
            None => text.parse().ok(),
        }
    };
    let lines = text.lines().map(str::trim);
    lines
        .filter_map(|line| match line.strip_prefix("#define ") {
            Some(line) => line.split_once(' '),
            None => line.split_once('='),
        })
        .filter_map(|(name, value)| Some((name.trim(), number(value)?)))
        .collect()
}

#[test]
fn constants_are_those_of_the_header() {
    let Some(path) = header() else { return println!("skipped: no nvjpeg.h beside LIBTORCH") };
    let text = std::fs::read_to_string(&path).unwrap();
    let theirs = constants(&text);
    for (name, ours) in [
        ("NVJPEG_MAX_COMPONENT", i64::from(sys::MAX_COMPONENT)),
        ("NVJPEG_BACKEND_DEFAULT", sys::BACKEND_DEFAULT.into()),
        ("NVJPEG_BACKEND_HARDWARE", sys::BACKEND_HARDWARE.into()),
        ("NVJPEG_OUTPUT_RGBI", sys::OUTPUT_RGBI.into()),
        ("NVJPEG_FLAGS_BITSTREAM_STRICT", sys::FLAGS_BITSTREAM_STRICT.into()),
        (
            "NVJPEG_FLAGS_UPSAMPLING_WITH_INTERPOLATION",
            sys::FLAGS_UPSAMPLING_WITH_INTERPOLATION.into(),
        ),
    ] {
        assert_eq!(theirs.get(name), Some(&ours), "{name}");
    }
    // Each status has its name, and no other number has one.
    let mut statuses = 0;
    for (name, &value) in &theirs {
        if let Some(name) = name.strip_prefix("NVJPEG_STATUS_") {
            assert_eq!(sys::status_name(value as sys::Status), Some(name));
            statuses += 1;
        }
    }
    assert_eq!((0..1000).filter(|&status| sys::status_name(status).is_some()).count(), statuses);
    println!("{}: {} constants, {statuses} statuses", path.display(), theirs.len());
}

fn compile(arguments: &[&str]) {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let output = Command::new(compiler).args(["-std=c11", "-Wall"]).args(arguments).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A Rust type of `sys` as nvjpeg.h writes it.
fn in_c(rust: &str) -> String {
    if let Some(to) = rust.strip_prefix("*mut ") {
        return in_c(to) + " *";
    }
    if let Some(to) = rust.strip_prefix("*const ") {
        return in_c(to) + " const *";
    }
    let name = match rust {
        "c_int" => "int",
        "c_uint" => "unsigned int",
        "c_uchar" => "unsigned char",
        "usize" => "size_t",
        "CudaStream" => "cudaStream_t",
        "PropertyType" => "libraryPropertyType",
        name => return format!("nvjpeg{name}_t"),
    };
    name.to_owned()
}

/// The C compiler sees the functions, sizes and offsets that Rust sees.
#[test]
fn declarations_are_those_of_the_header() {
    let folder = header().and_then(|path| Some(path.parent()?.to_path_buf()));
    let Some(folder) = folder.filter(|folder| folder.join("library_types.h").is_file()) else {
        return println!("skipped: no nvjpeg.h and library_types.h beside LIBTORCH");
    };
    // The runtime's header needs others that its wheel lacks; nvjpeg.h wants one type of it.
    let mut text = "#include <stddef.h>\n\
         #define __CUDA_RUNTIME_API_H__\n\
         typedef struct CUstream_st *cudaStream_t;\n\
         #include \"nvjpeg.h\"\n"
        .to_owned();
    for (i, (name, arguments)) in sys::Functions::SIGNATURES.iter().enumerate() {
        let arguments: Vec<_> = arguments.iter().map(|argument| in_c(argument)).collect();
        text += &format!("nvjpegStatus_t (*f{i})({}) = {name};\n", arguments.join(", "));
    }
    for (what, value) in [
        ("sizeof(nvjpegImage_t)", size_of::<sys::Image>()),
        ("offsetof(nvjpegImage_t, channel)", std::mem::offset_of!(sys::Image, channel)),
        ("offsetof(nvjpegImage_t, pitch)", std::mem::offset_of!(sys::Image, pitch)),
        ("sizeof(nvjpegHandle_t)", size_of::<sys::Handle>()),
        ("sizeof(nvjpegBackend_t)", size_of::<sys::Backend>()),
        ("sizeof(nvjpegStatus_t)", size_of::<sys::Status>()),
        ("sizeof(nvjpegOutputFormat_t)", size_of::<sys::OutputFormat>()),
        ("sizeof(libraryPropertyType)", size_of::<sys::PropertyType>()),
        ("MAJOR_VERSION", sys::MAJOR_VERSION as usize),
        ("MINOR_VERSION", sys::MINOR_VERSION as usize),
        ("PATCH_LEVEL", sys::PATCH_LEVEL as usize),
    ] {
        text += &format!("_Static_assert({what} == {value}, \"\");\n");
    }
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("declarations.c");
    std::fs::write(&source, text).unwrap();
    let (folder, source) = (folder.to_str().unwrap(), source.to_str().unwrap());
    compile(&["-fsyntax-only", "-Werror", "-I", folder, source]);
    println!("{} functions", sys::Functions::SIGNATURES.len());
}

/// The library as it is, on a machine without a GPU: its own status becomes our error.
#[test]
fn the_real_library_without_a_gpu() {
    if Path::new("/dev/nvidiactl").exists() {
        return println!("skipped: there is a GPU");
    }
    let library = match Library::open() {
        Ok(library) => library,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Device);
            assert!(error.message().contains("nvidia-nvjpeg"), "{error}");
            return println!("skipped: {error}");
        }
    };
    println!("{library}");
    assert!(library.version() >= [12, 1, 0] && library.path().exists());
    let mut nvjpeg = Nvjpeg::new(library);
    let mut outcomes = Vec::new();
    let item = Item { bytes: b"\xFF\xD8\xFF\xD9", width: 1, height: 1, dest: 0 };
    for count in [0, 1, 3, 2] {
        // SAFETY: without a GPU no handle can be made, so nothing is written anywhere.
        unsafe { nvjpeg.decode(&vec![item; count], null_mut(), &mut outcomes) };
        assert_eq!(outcomes.len(), count);
        for outcome in &outcomes {
            let Outcome::Failed(error) = outcome else { panic!("{outcome:?}") };
            assert_eq!(error.kind(), ErrorKind::Device);
            assert!(error.message().starts_with("nvjpegCreateEx: EXECUTION_FAILED: "), "{error}");
        }
    }
    assert!(nvjpeg.start().is_err());
    println!("{}", nvjpeg.description());
}

#[test]
fn what_is_no_nvjpeg_is_refused() {
    let error = Library::open_file(Path::new("libc.so.6")).unwrap_err();
    assert!(error.message().contains("it has no nvjpegGetProperty"), "{error}");
    let error = Library::open_file(Path::new("/nowhere/libnvjpeg.so.13")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Device);
    assert!(!error.to_string().contains('\n'), "{error}");
}

/// tests/nvjpeg/scripted.c, opened.
struct Scripted {
    library: libloading::Library,
    dir: tempfile::TempDir,
}

impl Scripted {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("libnvjpeg.so.13");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/nvjpeg/scripted.c");
        compile(&["-shared", "-fPIC", "-o", path.to_str().unwrap(), source]);
        // SAFETY: it has no initialisers.
        Scripted { library: unsafe { libloading::Library::new(path) }.unwrap(), dir }
    }

    fn nvjpeg(&self) -> Nvjpeg {
        Nvjpeg::new(Library::open_file(&self.dir.path().join("libnvjpeg.so.13")).unwrap())
    }

    /// Forgets all calls; the `nth` of each `call` is to return `status`.
    fn script(&self, failures: &[(&'static CStr, c_int, sys::Status)]) {
        // SAFETY: the types of scripted.c.
        unsafe {
            self.library.get::<extern "C" fn()>("script_reset").unwrap()();
            let fail =
                self.library.get::<extern "C" fn(*const c_char, c_int, c_int)>("script_fail");
            let fail = fail.unwrap();
            for &(call, nth, status) in failures {
                fail(call.as_ptr(), nth, status as c_int);
            }
        }
    }

    /// The calls since then, without their arguments.
    fn calls(&self) -> String {
        // SAFETY: as above; a text that ends with a NUL.
        let log = unsafe {
            let log = self.library.get::<extern "C" fn() -> *const c_char>("script_log").unwrap();
            CStr::from_ptr(log()).to_str().unwrap()
        };
        let calls: Vec<_> = log.lines().map(|line| line.split(' ').next().unwrap()).collect();
        calls.join(" ")
    }

    fn live(&self) -> c_int {
        // SAFETY: as above.
        unsafe { self.library.get::<extern "C" fn() -> c_int>("script_live").unwrap()() }
    }
}

/// Decodes one file for each letter; gives the outcomes' letters (Hardware, Single, Failed) and the
/// failures' texts.
fn decode(nvjpeg: &mut Nvjpeg, files: &str) -> (String, Vec<String>) {
    let mut pixels = vec![[0_u8; 6]; files.len()];
    let items: Vec<_> = (0..files.len())
        .zip(&mut pixels)
        .map(|(i, pixels)| Item {
            bytes: &files.as_bytes()[i..=i],
            width: 2,
            height: 1,
            dest: pixels.as_mut_ptr() as u64,
        })
        .collect();
    let mut outcomes = vec![Outcome::Single; 99];
    // SAFETY: the stand-in writes a byte of each picture at once, and knows no streams.
    unsafe { nvjpeg.decode(&items, null_mut(), &mut outcomes) };
    let mut texts = Vec::new();
    let mut letters = String::new();
    for ((outcome, pixels), file) in outcomes.iter().zip(&pixels).zip(files.bytes()) {
        letters.push(match outcome {
            Outcome::Hardware => 'H',
            Outcome::Single => 'S',
            Outcome::Failed(error) => {
                texts.push(error.message().to_owned());
                'F'
            }
        });
        assert!(matches!(outcome, Outcome::Failed(_)) || pixels[0] == file);
    }
    assert_eq!(outcomes.len(), files.len());
    (letters, texts)
}

/// Handles are made once, a batch's size is told when it changes, and nothing is left over.
#[test]
fn handles_are_kept() {
    let scripted = Scripted::new();
    let mut nvjpeg = scripted.nvjpeg();
    scripted.script(&[]);
    assert_eq!(decode(&mut nvjpeg, "").0, "");
    assert_eq!(scripted.calls(), "");
    assert_eq!(decode(&mut nvjpeg, "hsh").0, "HSH");
    let first = "Create Stream Parse Supported Parse Supported Parse Supported State Initialize \
                 Batched Create State Decode";
    assert_eq!(scripted.calls(), first);
    for (files, expected, calls) in [
        ("hsh", "HSH", "Parse Supported Parse Supported Parse Supported Batched Decode"),
        ("h", "H", "Parse Supported Initialize Batched"),
        ("s", "S", "Parse Supported Decode"),
        ("h", "H", "Parse Supported Batched"),
    ] {
        scripted.script(&[]);
        assert_eq!(decode(&mut nvjpeg, files).0, expected);
        assert_eq!(scripted.calls(), calls);
    }
    assert!(nvjpeg.description().ends_with("hardware decoder (engines: 2, cores of each: 7)"));
    assert_eq!(scripted.live(), 5);
    drop(nvjpeg);
    assert_eq!(scripted.live(), 0);
}

#[test]
fn a_chip_without_an_engine_is_asked_once() {
    let scripted = Scripted::new();
    for status in [sys::ARCH_MISMATCH, sys::IMPLEMENTATION_NOT_SUPPORTED] {
        let mut nvjpeg = scripted.nvjpeg();
        scripted.script(&[(c"Create", 1, status)]);
        assert_eq!(decode(&mut nvjpeg, "hh").0, "SS");
        assert_eq!(decode(&mut nvjpeg, "h").0, "S");
        assert_eq!(scripted.calls(), "Create Create State Decode Decode Decode");
        assert!(nvjpeg.description().ends_with(", no hardware decoder"));
    }
    assert_eq!(scripted.live(), 0);
}

/// Each call fails in turn, with every status: every image still gets an outcome, what saw the
/// error is not used again, and the next batch is as if nothing had been.
#[test]
fn after_any_failure_the_next_batch_decodes() {
    let scripted = Scripted::new();
    let calls = [c"Create", c"State", c"Stream", c"Parse", c"Supported", c"Initialize", c"Batched"];
    let destroying = [c"Destroy", c"StateDestroy", c"StreamDestroy"];
    let mut live = scripted.live();
    for call in calls.into_iter().chain([c"Decode"]) {
        for nth in 1..=2 {
            for status in 1..=11 {
                let mut nvjpeg = scripted.nvjpeg();
                let also = destroying.map(|call| (call, 1, sys::INTERNAL_ERROR));
                scripted.script(&[&[(call, nth, status)][..], &also].concat());
                let (first, texts) = decode(&mut nvjpeg, "hshs");
                for text in &texts {
                    let name = sys::status_name(status).map(str::to_owned);
                    let name = name.unwrap_or_else(|| format!("status {status}"));
                    assert!(text.starts_with("nvjpeg") && text.contains(&name), "{text}");
                }
                // The engine's failures cost no image, since each is tried by itself.
                let single = call == c"Decode" || nth == 2 && [c"Create", c"State"].contains(&call);
                let failed = first.matches('F').count();
                assert_eq!(failed, usize::from(single), "{call:?} {nth} {status}: {first}");
                scripted.script(&[]);
                let second = decode(&mut nvjpeg, "hshs").0;
                // That there is no engine is remembered; nothing else is.
                let absent = nth == 1
                    && match status {
                        sys::ARCH_MISMATCH => {
                            [c"Create", c"State", c"Initialize", c"Batched"].contains(&call)
                        }
                        sys::IMPLEMENTATION_NOT_SUPPORTED | sys::JPEG_NOT_SUPPORTED => {
                            call == c"Create"
                        }
                        _ => false,
                    };
                assert_eq!(second, if absent { "SSSS" } else { "HSHS" }, "{call:?} {nth} {status}");
                drop(nvjpeg);
                // A handle whose state or stream could not be destroyed is left alone with it.
                let left = scripted.live() - live;
                assert!((0..=1).contains(&left), "{call:?} {nth} {status}: {left}");
                live += left;
            }
        }
    }
}

#[test]
fn a_failed_batch_is_tried_one_by_one() {
    let scripted = Scripted::new();
    let mut nvjpeg = scripted.nvjpeg();
    scripted.script(&[(c"Batched", 1, sys::EXECUTION_FAILED)]);
    assert_eq!(decode(&mut nvjpeg, "hh").0, "SS");
    let calls = "Create Stream Parse Supported Parse Supported State Initialize Batched \
                 StateDestroy StreamDestroy Destroy Create State Decode Decode";
    assert_eq!(scripted.calls(), calls);
    // A damaged image costs the state, not the handle.
    scripted.script(&[(c"Decode", 1, sys::BAD_JPEG)]);
    let (outcomes, texts) = decode(&mut nvjpeg, "ss");
    assert_eq!((outcomes.as_str(), texts), ("FS", vec!["nvjpegDecode: BAD_JPEG".to_owned()]));
    assert!(scripted.calls().ends_with("Decode StateDestroy State Decode"), "{}", scripted.calls());
}

#[test]
fn a_version_without_interpolation_is_refused() {
    let scripted = Scripted::new();
    // SAFETY: the types of scripted.c.
    let set = unsafe { scripted.library.get::<extern "C" fn(c_int, c_int)>("script_version") };
    let set = set.unwrap();
    for (major, minor, taken) in [(11, 9, false), (12, 0, false), (12, 1, true), (13, 0, true)] {
        set(major, minor);
        let result = Library::open_file(&scripted.dir.path().join("libnvjpeg.so.13"));
        assert_eq!(result.is_ok(), taken, "{major}.{minor}");
        if let Err(error) = result {
            assert!(error.message().contains("interpolate"), "{error}");
        }
    }
}
