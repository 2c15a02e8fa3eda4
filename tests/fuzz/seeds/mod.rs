//! Small inputs to start from, made here, valid for the most part. Where the data folder lies beside
//! the project, its odd images and lists are seeds, too.

mod archives;
mod images;
#[cfg(feature = "train")]
mod training;

pub(crate) use archives::tars;
pub(crate) use images::{images, jpegs};
#[cfg(feature = "train")]
pub(crate) use training::{checkpoints, events, metrics, pickles, weights};

use crate::bodies::label_list::CUT;
use std::fs;
use std::path::{Path, PathBuf};

/// Longer files are no seeds: most changes would fall into pixels.
const MOST: u64 = 1 << 15;

/// The files of a folder of `FOREBAY_SHARED`, in order; none where that is not there.
fn shared(folder: &str) -> Vec<Vec<u8>> {
    let root = std::env::var_os("FOREBAY_SHARED").map(PathBuf::from);
    let root = root.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared"));
    let Ok(entries) = fs::read_dir(root.join(folder)) else { return Vec::new() };
    let is_small =
        |path: &PathBuf| fs::metadata(path).is_ok_and(|m| m.is_file() && m.len() <= MOST);
    let mut paths: Vec<_> = entries.map(|e| e.unwrap().path()).filter(is_small).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).expect("a file can be read")).collect()
}

pub(crate) fn label_lists() -> Vec<Vec<u8>> {
    let lists: [&[u8]; 8] = [
        b"a.jpg 0\nsub/b.jpg 1\n",
        b"\xEF\xBB\xBFa.jpg 3\r\n\r\n \t\nname with blanks.jpg\t 007 \nb",
        b"out 0\nup/secret 1\nlink 2\n./sub//b.jpg 3\nl 4\nsub 5\nnone 6",
        b"../secret 0\n/etc/passwd 1\na/../b 2\n.. 3\na..b 4\nx\0y 5\n",
        b"a -1\nb 1.5\nc cat\nd 9223372036854775807\ne 9223372036854775808\n 7\n",
        "\u{e9}\u{3000}.jpg 1\nesc\u{1b}[31m\rx.jpg 2\n".as_bytes(),
        b"labels.txt 0\nclasses.txt 1\n",
        b"\n\n",
    ];
    let classes: [&[u8]; 5] =
        [b"cat\ndog\n", b"\xEF\xBB\xBFcat\r\n dog \n\n", b"\ncat\n", b"\xFF\n", b""];
    let mut seeds: Vec<_> = lists.iter().map(|list| list.to_vec()).collect();
    seeds.extend(classes.iter().map(|classes| [lists[0], CUT, classes].concat()));
    seeds.extend(shared("data/odd-images/lists"));
    seeds
}

pub(crate) fn pipelines() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("pipelines");
    let mut paths: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut seeds: Vec<_> = paths.iter().map(|path| fs::read(path).unwrap()).collect();
    let texts = [
        "seed = 7\n[reader]\nkind = \"folders\"\nlast_batch = \"pad\"\n[decoder]\nexact = true\n",
        "[reader]\nkind = \"cifar10\"\nsplit = \"test\"\n[decoder]\ndevice = \"mixed\"\nsplit = 1_000\n",
        STEPS,
        BRANCHES,
        EXPRESSIONS,
    ];
    seeds.extend(texts.map(|text| text.as_bytes().to_vec()));
    seeds
}

/// Every operator.
const STEPS: &str = r#"
[[step]]
op = "affine"
angle = { uniform = [-30, 30] }
translate = [1, -2.5]
scale = 1.25
shear_x = 5
border = "reflect"
[[step]]
op = "rotate"
when = { probability = 0.5 }
angle = { uniform = [-15.0, 15.0] }
keep_size = true
interp = "nearest"
[[step]]
op = "rotate"
angle = 45
keep_size = false
border = "constant"
fill = 7
[[step]]
op = "crop"
size = [4, 4]
padding = 2
position = "random"
[[step]]
op = "flip"
when = { probability = 0.5 }
vertical = true
[[step]]
op = "rgb_shift"
shift = { normal = [0, 5], per = "channel" }
[[step]]
op = "brightness_contrast"
brightness = { uniform = [0.9, 1.1] }
contrast = 1.1
[[step]]
op = "clamp"
lo = 3
hi = 200
[[step]]
op = "cast"
dtype = "f32"
[[step]]
op = "normalize"
mean = [0.5, 0.4, 0.3]
std = 0.2
[[step]]
op = "transpose"
layout = "CHW"
[output]
dtype = "f32"
"#;

const BRANCHES: &str = r#"
[[draw]]
name = "coin"
bernoulli = 0.5
[[draw]]
name = "tint"
uniform = [0.9, 1.1]
per = "channel"
[[step]]
op = "flip"
name = "flipped"
from = "decode"
[[step]]
when = "coin"
then = [
    { op = "rotate", angle = 5, border = "constant", keep_size = true },
    { when = { expr = "not coin" }, then = [{ op = "flip" }], else = [] },
]
else = [{ op = "rgb_shift", shift = { expr = "tint * 5" } }]
[[output]]
name = "images"
layout = "CHW"
[[output]]
name = "plain"
from = "flipped"
dtype = "u8"
"#;

const EXPRESSIONS: &str = r#"
[[draw]]
name = "u"
uniform = [0, 1]
[[step]]
op = "expr"
expr = "(x / 255 - mean) / [0.2, 0.3, 0.4]"
mean = [0.4, 0.5, 0.6]
[[step]]
op = "expr"
when = { expr = "u < 0.3 or not (u >= 0.5 and u != 0.7)" }
expr = "-x * 2 + min(x, 1) - max(u, -0.5) + clamp(x, 0, 1)"
[[step]]
op = "expr"
expr = "cast(x * 255, u8) + cast(u, f32) * decode"
"#;
