//! The JPEG decoder under AddressSanitizer and UBSan, libjpeg-turbo's own code included: whole, cut and
//! changed files and a part of each, whose outcome must be that of the library's build, and of whole ones
//! the pixels.
//!
//! Sanitizers do not see assembly, so libjpeg-turbo is built without its SIMD code here.

#[path = "../decoder/encode.rs"]
#[allow(dead_code)] // A part is used.
mod encode;

use encode::{Kind, SUBSAMPLINGS, cmyk_jpeg, jpeg, picture, with_orientation};
use forebay::decoder::{Decoder, Limits, Pixels, Region, Scale, Wanted};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const SANITIZE: &str = "-O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined \
                        -fno-sanitize-recover=all";
const MOST_PIXELS: u64 = 1 << 22;
const MAX_SCANS: u32 = 100;
/// Of each kind of file.
const CUTS: usize = 40;
const CHANGES: usize = 200;

/// `make test-sanitize`.
#[test]
#[ignore = "compiles libjpeg-turbo, which takes a minute: make test-sanitize"]
fn decoder() {
    let files = files();
    let dir = tempfile::tempdir().unwrap();
    let pack = dir.path().join("pack");
    let packed =
        |(file, _): &(Vec<u8>, bool)| [&(file.len() as u32).to_le_bytes()[..], file].concat();
    std::fs::write(&pack, files.iter().flat_map(packed).collect::<Vec<u8>>()).unwrap();
    let program = program();
    let [got, again] = ["0", "165"].map(|stain| run(&program, &pack, stain));
    assert!(got == again, "pixels that nobody wrote");
    let got: Vec<_> = got.lines().collect();
    assert_eq!(got.len(), files.len() * 2);

    let limits = Limits { pixels: MOST_PIXELS, scans: MAX_SCANS, ..Limits::default() };
    let (mut decoder, mut pixels) = (Decoder::new(limits), Pixels::new());
    let (mut good, mut others) = (0, 0);
    for (n, got) in got.iter().enumerate() {
        let (k, (file, whole)) = (n / 2, &files[n / 2]);
        let result = if n % 2 == 0 {
            decoder.decode(file, &mut pixels)
        } else {
            let wanted = |width, height, scales| Ok(part(width, height, scales, k as u32));
            decoder.decode_region(file, wanted, &mut pixels)
        };
        let (outcome, digest) = match result {
            Ok(_) => {
                let size = format!("ok {}x{}", pixels.width(), pixels.height());
                (size, Some(format!("{:016x}", fnv1a(pixels.bytes()))))
            }
            Err(error) => (format!("{:?}", error.kind()), None),
        };
        let rest = got.strip_prefix(&outcome).map(str::trim);
        let place = format!("case {n}, {} bytes: {got}, the library: {outcome}", file.len());
        let same = rest.expect(&place) == digest.as_deref().unwrap_or_default();
        // SIMD code and C round the same, but wrap otherwise where damage made coefficients that no
        // picture has.
        assert!(same || !whole, "{place}, other pixels");
        good += usize::from(digest.is_some());
        others += usize::from(!same);
    }
    println!(
        "{} files and a part of each under ASan and UBSan, {good} pictures; of changed files {others} have \
         other pixels than by SIMD code",
        files.len()
    );
}

/// The part of file number `k` that decode.c asks for, too.
fn part(width: u32, height: u32, scales: bool, k: u32) -> Wanted {
    let scale = if scales { Scale::ALL[k as usize % 4] } else { Scale::Full };
    let (width, height) = (scale.size(width), scale.size(height));
    let (x, y) = (k * 7 % width, k * 5 % height);
    let (width, height) = (1 + k * 3 % (width - x), 1 + k * 11 % (height - y));
    Wanted { region: Region { x, y, width, height }, scale }
}

/// The driver over `pack`, in memory that is full of `stain` before it is written.
fn run(program: &Path, pack: &Path, stain: &str) -> String {
    // The leak check traces its process, which containers may forbid.
    let fill = format!("malloc_fill_byte={stain}:max_malloc_fill_size=1073741824");
    let output = succeed(
        Command::new(program)
            .arg(pack)
            .args([MOST_PIXELS.to_string(), MAX_SCANS.to_string()])
            .arg(Limits::default().work.to_string())
            .env("ASAN_OPTIONS", format!("detect_leaks=0:{fill}")),
    );
    String::from_utf8(output.stdout).unwrap()
}

fn fnv1a(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01B3);
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, step)
}

/// A file of each kind, whole (which is told), cut and changed; and the odd images, where the data folder
/// is.
fn files() -> Vec<(Vec<u8>, bool)> {
    let mut random = Random(1);
    let mut files = Vec::new();
    for whole in whole() {
        for _ in 0..CUTS {
            files.push((whole[..2 + random.below(whole.len() - 2)].to_vec(), false));
        }
        for k in 0..CHANGES {
            let mut changed = whole.clone();
            // Half of them where lengths, tables and sizes are.
            let reach = if k % 2 == 0 { changed.len() } else { changed.len().min(700) };
            for _ in 0..1 + random.below(5) {
                let at = 2 + random.below(reach - 2);
                match random.below(4) {
                    0 => changed[at] ^= 1 << random.below(8),
                    1 => changed[at] = random.below(256) as u8,
                    2 => changed[at] = [0x00, 0xFF, 0x7F, 0x80][random.below(4)],
                    // A part moved up, and with it all lengths off.
                    _ => changed.copy_within(at..reach, 2 + random.below(at - 1)),
                }
            }
            files.push((changed, false));
        }
        files.push((whole, true));
    }
    files.extend(odd_images().into_iter().map(|file| (file, false)));
    // The driver knows no EXIF and no other formats.
    files.retain(|(file, _)| file.starts_with(b"\xFF\xD8"));
    files.iter_mut().for_each(|(file, _)| hide(file, b"Exif\0\0"));
    files
}

fn hide(file: &mut [u8], word: &[u8]) {
    let places: Vec<_> = memchr::memmem::find_iter(file, word).collect();
    places.into_iter().for_each(|at| file[at] ^= 0x20);
}

fn whole() -> Vec<Vec<u8>> {
    let (width, height) = (50, 38);
    let base = Kind::COURSE;
    let mut kinds: Vec<_> =
        SUBSAMPLINGS.iter().map(|subsampling| Kind { subsampling: *subsampling, ..base }).collect();
    kinds.extend([
        Kind { progressive: true, ..base },
        Kind { progressive: true, restart: 3, subsampling: SUBSAMPLINGS[0], ..base },
        Kind { restart: 2, ..base },
        Kind { optimize: true, quality: 100, ..base },
        Kind { arithmetic: true, ..base },
        Kind { arithmetic: true, progressive: true, restart: 2, ..base },
        Kind { lossless: true, ..base },
    ]);
    let pixels = picture(width, height, 3);
    let mut files: Vec<_> = kinds.iter().map(|kind| jpeg(&pixels, width, height, *kind)).collect();
    files.push(with_orientation(&files[0], 6, true));
    files.extend([false, true].map(|ycck| cmyk_jpeg(&picture(19, 17, 4), 19, 17, ycck)));
    // One pixel, one column, one row; and one of which a part leaves blocks out.
    for (width, height) in [(1, 1), (1, 40), (40, 1), (150, 90)] {
        files.push(jpeg(&picture(width, height, 3), width, height, base));
    }
    files
}

fn odd_images() -> Vec<Vec<u8>> {
    let root = std::env::var_os("FOREBAY_SHARED").map(PathBuf::from);
    let folder = root.unwrap_or_else(|| Path::new(ROOT).join("../shared")).join("data/odd-images");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        println!("without the odd images: {} is not there (set FOREBAY_SHARED)", folder.display());
        return Vec::new();
    };
    let mut paths: Vec<_> = entries.map(|e| e.unwrap().path()).filter(|p| p.is_file()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % count as u64) as usize
    }
}

/// The driver over libjpeg-turbo, both with sanitizers. The library stays in `target` for the next time.
fn program() -> PathBuf {
    let source = libjpeg_turbo();
    let build = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libjpeg-turbo-sanitized");
    let jobs = std::thread::available_parallelism().map_or(1, usize::from).to_string();
    succeed(
        Command::new("cmake")
            .arg("-S")
            .arg(&source)
            .arg("-B")
            .arg(&build)
            .args(["-DCMAKE_BUILD_TYPE=None", "-DWITH_SIMD=0", "-DENABLE_SHARED=0"])
            .args(["-DWITH_TURBOJPEG=0".to_string(), format!("-DCMAKE_C_FLAGS={SANITIZE}")]),
    );
    let target = ["--target", "jpeg-static", "--parallel", &jobs];
    succeed(Command::new("cmake").arg("--build").arg(&build).args(target));
    let program = build.join("decode");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    succeed(
        Command::new(compiler)
            .args(SANITIZE.split_whitespace())
            .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-I"])
            .arg(&build)
            .arg("-isystem")
            .arg(source.join("src"))
            .arg(Path::new(ROOT).join("tests/sanitize/decode.c"))
            .arg(build.join("libjpeg.a"))
            .arg("-o")
            .arg(&program),
    );
    program
}

/// The sources that turbojpeg-sys builds.
fn libjpeg_turbo() -> PathBuf {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let arguments = ["metadata", "--format-version=1", "--locked"];
    let output = succeed(Command::new(cargo).current_dir(ROOT).args(arguments));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let package = packages.iter().find(|package| package["name"] == "turbojpeg-sys").unwrap();
    let manifest = Path::new(package["manifest_path"].as_str().unwrap());
    manifest.with_file_name("libjpeg-turbo")
}

fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}\n{err}", output.status);
    output
}
