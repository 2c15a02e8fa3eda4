//! resize and random_resized_crop.

use super::{Picture, apply, channels, program, step};
use forebay::rng;
use serde_json::Value;

fn resize(rest: &str) -> String {
    step(&format!("op = \"resize\"\n{rest}"))
}

fn float() -> String {
    step("op = \"cast\"\ndtype = \"f32\"")
}

/// A part of a picture.
#[derive(Debug, Clone, Copy)]
struct Window {
    left: usize,
    top: usize,
    width: usize,
    height: usize,
}

impl Window {
    fn all(picture: &Picture) -> Window {
        Window { left: 0, top: 0, width: picture.width, height: picture.height }
    }
}

/// Pixels of an axis and their weights in double, for output place `i` of `out`, `step` pixels apart, of
/// which place 0 begins at `start`.
fn taps(interp: &str, i: usize, step: f64, start: f64) -> Vec<(i64, f64)> {
    let centre = start + (i as f64 + 0.5) * step - 0.5;
    let radius = if interp == "triangle" { step.max(1.0) } else { 1.0 };
    let pixels = (centre - radius).floor() as i64..=(centre + radius).ceil() as i64;
    let weigh = |k: i64| (k, (1.0 - (k as f64 - centre).abs() / radius).max(0.0));
    let taps: Vec<_> = pixels.map(weigh).collect();
    let sum: f64 = taps.iter().map(|(_, w)| w).sum();
    taps.into_iter().map(|(k, w)| (k, w / sum)).collect()
}

/// The window as `out` [columns, rows], in double; each axis has its step and start.
fn expected(
    picture: &Picture,
    window: Window,
    out: [usize; 2],
    interp: &str,
    axes: [(f64, f64); 2],
) -> Vec<f64> {
    let [width, height] = out;
    let inside = |k: i64, n: usize| k.clamp(0, n as i64 - 1) as usize;
    let at = |x: i64, y: i64| {
        let (x, y) = (inside(x, window.width), inside(y, window.height));
        f64::from(picture.at(window.left + x, window.top + y))
    };
    let axis = |n: usize, (step, start): (f64, f64)| -> Vec<_> {
        (0..n).map(|i| taps(interp, i, step, start)).collect()
    };
    let (columns, rows) = (axis(width, axes[0]), axis(height, axes[1]));
    let value = |x: usize, y: usize| -> f64 {
        let line = |y| columns[x].iter().map(|&(x, w)| w * at(x, y)).sum::<f64>();
        rows[y].iter().map(|&(y, w)| w * line(y)).sum()
    };
    (0..width * height).map(|k| value(k % width, k / width)).collect()
}

fn stretch(window: Window, out: [usize; 2]) -> [(f64, f64); 2] {
    [(window.width as f64 / out[0] as f64, 0.0), (window.height as f64 / out[1] as f64, 0.0)]
}

fn close(got: &Picture, expected: &[f64], bound: f64, what: &str) {
    assert_eq!(got.values.len(), expected.len(), "{what}");
    for (k, (&got, &exact)) in got.values.iter().zip(expected).enumerate() {
        assert!((f64::from(got) - exact).abs() < bound, "{what}: {k}: {got} {exact}");
    }
}

const SIZES: [[usize; 4]; 12] = [
    // Columns and rows of the picture, then of the result.
    [1, 1, 1, 1],
    [1, 1, 5, 3],
    [7, 5, 1, 1],
    [7, 5, 3, 9],
    [16, 9, 16, 9],
    [20, 31, 13, 8],
    [33, 18, 70, 41],
    [64, 40, 63, 39],
    [150, 3, 100, 1],
    [90, 77, 31, 2],
    [300, 10, 3, 10], // beyond the taps that rows have tables for
    [600, 4, 520, 3], // more columns than a block has
];

#[test]
fn resize_follows_its_formula() {
    for [w, h, out_w, out_h] in SIZES {
        let (picture, out) = (Picture::noise(w, h), [out_w, out_h]);
        let axes = stretch(Window::all(&picture), out);
        for interp in ["triangle", "linear"] {
            let steps = resize(&format!("size = [{out_h}, {out_w}]\ninterp = \"{interp}\""));
            let exact = expected(&picture, Window::all(&picture), out, interp, axes);
            let what = format!("{w}x{h} to {out_w}x{out_h} {interp}");
            let smooth = apply(&(float() + &steps), &picture);
            assert_eq!((smooth.width, smooth.height), (out_w, out_h));
            close(&smooth, &exact, 1e-3, &what);
            close(&apply(&steps, &picture), &exact, 0.501, &what);
        }
        let steps = resize(&format!("size = [{out_h}, {out_w}]\ninterp = \"nearest\""));
        // The pixel in which the exact centre lies.
        let nearest = |i: usize, n: usize, out: usize| (2 * i + 1) * n / (2 * out);
        let exact = Picture::new(out_w, out_h, |x, y| {
            picture.at(nearest(x, w, out_w), nearest(y, h, out_h))
        });
        assert_eq!(apply(&steps, &picture), exact, "{w}x{h} to {out_w}x{out_h}");
    }
}

#[test]
fn the_same_size_changes_nothing() {
    let picture = Picture::noise(70, 9);
    for interp in ["triangle", "linear", "nearest"] {
        let steps = resize(&format!("size = [9, 70]\ninterp = \"{interp}\""));
        assert_eq!(apply(&steps, &picture), picture);
        assert_eq!(apply(&(float() + &steps), &picture), picture);
    }
}

/// Columns and rows of the result; the first three are of DALI's documentation.
#[test]
fn modes_find_the_size() {
    for (mode, [w, h], [rows, columns], expected) in [
        ("not_larger", [1280, 720], [480, 640], (640, 360)),
        ("not_smaller", [640, 480], [1080, 1920], (1920, 1440)),
        ("shorter", [375, 500], [256, 256], (256, 341)),
        ("shorter", [500, 375], [256, 256], (341, 256)),
        ("longer", [500, 375], [256, 256], (256, 192)),
        ("longer", [1000, 3], [100, 100], (100, 1)),
        ("longer", [1000, 1], [10, 10], (10, 1)),
        ("not_larger", [30, 40], [20, 20], (15, 20)),
        ("not_smaller", [30, 40], [21, 15], (16, 21)),
        ("stretch", [30, 40], [5, 7], (7, 5)),
        // A line, of which each output pixel would show its width many times over.
        ("longer", [4_000_000, 1], [10, 10], (10, 1)),
        // A half is rounded up.
        ("shorter", [2, 5], [1, 1], (1, 3)),
    ] {
        let steps = resize(&format!("size = [{rows}, {columns}]\nmode = \"{mode}\""));
        let (mut scratch, program) = (Default::default(), program(&steps));
        program.resolve(&mut scratch, 42, 0, 0, w, h).unwrap();
        let (height, width) = program.output_size(&scratch, 0);
        assert_eq!((width, height), expected, "{mode} {w}x{h}");
    }
}

/// A side that had to be rounded keeps its scale and centre, or shows all of the image.
#[test]
fn rounded_sides_keep_their_scale_where_asked() {
    let picture = Picture::noise(50, 37);
    let (out, step) = ([34, 25], 37.0 / 25.0);
    let start = (50.0 - 34.0 * step) / 2.0;
    for interp in ["triangle", "linear"] {
        for (flag, columns) in [("true", (step, start)), ("false", (50.0 / 34.0, 0.0))] {
            let steps = float()
                + &resize(&format!(
                    "size = 25\nmode = \"shorter\"\ninterp = \"{interp}\"\nsubpixel_scale = {flag}"
                ));
            let axes = [columns, (step, 0.0)];
            let exact = expected(&picture, Window::all(&picture), out, interp, axes);
            close(&apply(&steps, &picture), &exact, 1e-3, &format!("{interp} {flag}"));
        }
    }
}

/// What DALI 2.4's CPU operator makes of these pictures: `tests/python/dali_resize.py` wrote it down.
/// DALI finds places in f32, and of the two sums takes the one first that costs less.
#[test]
fn resize_gives_dalis_values() {
    let all: Value = serde_json::from_str(include_str!("../data/resize.json")).unwrap();
    let (mut values, mut equal) = (0, 0);
    for case in all["cases"].as_array().unwrap() {
        let number = |name: &str| case[name].as_u64().unwrap() as usize;
        let text = |name: &str| case[name].as_str().unwrap();
        let picture = Picture::noise(number("width"), number("height"));
        let got = apply(&resize(text("args")), &picture);
        assert_eq!((got.width, got.height), (number("out_width"), number("out_height")), "{case}");
        let bytes = text("values").as_bytes().chunks(2);
        let dali: Vec<f32> = bytes
            .map(|hex| f32::from(u8::from_str_radix(str::from_utf8(hex).unwrap(), 16).unwrap()))
            .collect();
        let same = got.values.iter().zip(&dali).filter(|(a, b)| a == b).count();
        let worst = got.values.iter().zip(&dali).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        let exact = text("args").contains("nearest");
        assert!(worst <= if exact { 0.0 } else { 1.0 }, "{}: off by {worst}", text("args"));
        assert_eq!(got.values.len(), dali.len());
        (values, equal) = (values + dali.len(), equal + same);
    }
    println!("{equal} of {values} values equal DALI's, the others are off by one level");
    assert!(equal as f64 > 0.995 * values as f64, "{equal} of {values}");
}

/// torchvision's rule in double, from the words of a sample's draw. `None`: no attempt fits.
fn drawn(id: u64, [w, h]: [usize; 2], area: [f64; 2], aspect: [f64; 2]) -> Option<Window> {
    let draw = u32::from(rng::draw_number("random_resized_crop.window"));
    (0..10).find_map(|attempt| {
        let words = rng::philox4x32(rng::key(42), [id as u32, draw << 16, 0, attempt]);
        let unit = |word: u32| f64::from(word >> 8) * 2f64.powi(-24);
        let place =
            |word: u32, spare: usize| ((u64::from(word) * (spare as u64 + 1)) >> 32) as usize;
        let target = (w * h) as f64 * (area[0] + unit(words[0]) * (area[1] - area[0]));
        let ratio = (aspect[0].ln() + unit(words[1]) * (aspect[1] / aspect[0]).ln()).exp();
        let width = (target * ratio).sqrt().round() as usize;
        let height = (target / ratio).sqrt().round() as usize;
        (width > 0 && height > 0 && width <= w && height <= h).then(|| Window {
            left: place(words[2], w - width),
            top: place(words[3], h - height),
            width,
            height,
        })
    })
}

#[test]
fn windows_are_drawn_as_torchvision_draws_them() {
    let steps = step("op = \"random_resized_crop\"\nsize = [6, 7]");
    let steps = float() + &steps;
    let picture = Picture::noise(50, 37);
    let [mut left_out, mut narrow] = [0; 2];
    for id in 0..300 {
        let Some(window) = drawn(id, [50, 37], [0.08, 1.0], [0.75, 4.0 / 3.0]) else {
            left_out += 1;
            continue;
        };
        narrow += usize::from(window.width < window.height);
        let exact = expected(&picture, window, [7, 6], "triangle", stretch(window, [7, 6]));
        let [got, ..] = channels(&steps, &picture, id);
        close(&got, &exact, 1e-3, &format!("sample {id}: {window:?}"));
    }
    assert!(left_out < 5 && (100..200).contains(&narrow), "{left_out} {narrow}");
}

#[test]
fn where_no_window_fits_the_largest_centred_one_is_taken() {
    for ([w, h], aspect, [left, top, width, height]) in [
        ([40, 10], [1.0, 2.0], [10, 0, 20, 10]),
        ([10, 45], [0.5, 1.0], [0, 12, 10, 20]),
        ([10, 11], [3.0, 4.0], [0, 4, 10, 3]),
    ] {
        let [least, largest] = aspect;
        let steps = step(&format!(
            "op = \"random_resized_crop\"\nsize = [5, 5]\narea = [0.9, 1.0]\naspect = [{least}, {largest}]"
        ));
        let picture = Picture::noise(w, h);
        let window = Window { left, top, width, height };
        let exact = expected(&picture, window, [5, 5], "triangle", stretch(window, [5, 5]));
        for id in 0..5 {
            assert!(drawn(id, [w, h], [0.9, 1.0], aspect).is_none());
            let [got, ..] = channels(&(float() + &steps), &picture, id);
            close(&got, &exact, 1e-3, &format!("{w}x{h}"));
        }
    }
}

/// A window is cropped first: nothing beyond it shows.
#[test]
fn a_window_of_all_is_a_resize() {
    let picture = Picture::noise(24, 24);
    let window =
        step("op = \"random_resized_crop\"\nsize = [10, 9]\narea = [1, 1]\naspect = [1, 1]");
    assert_eq!(apply(&window, &picture), apply(&resize("size = [10, 9]"), &picture));
    let crop = step("op = \"crop\"\nsize = [15, 17]");
    let inner = Picture::new(17, 15, |x, y| picture.at(x + 4, y + 5));
    let both = crop + &resize("size = [6, 8]");
    assert_eq!(apply(&both, &picture), apply(&resize("size = [6, 8]"), &inner));
}
