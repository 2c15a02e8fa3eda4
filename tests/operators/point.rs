//! Pointwise operators, against tables seen with DALI and plain loops.

use super::{Picture, apply, channels, step};
use forebay::rng;

/// Every level once.
fn levels() -> Picture {
    Picture::new(16, 16, |x, y| (16 * y + x) as f32)
}

/// One row of levels.
fn row<const W: usize>(levels: [f32; W]) -> Picture {
    Picture::rows(&[levels])
}

fn bits(picture: &Picture) -> Vec<u32> {
    picture.values.iter().map(|v| v.to_bits()).collect()
}

/// Half away from zero and saturating.
fn to_u8(v: f32) -> f32 {
    v.round().clamp(0.0, 255.0)
}

#[test]
fn brightness_contrast_gives_dalis_values() {
    let input = row([0., 1., 2., 3., 50., 100., 127., 128., 129., 150., 200., 254., 255.]);
    for (args, expected) in [
        (
            "contrast = 0.5",
            [64., 65., 65., 66., 89., 114., 128., 128., 129., 139., 164., 191., 192.],
        ),
        ("contrast = 0", [128.; 13]),
        ("contrast = 2", [0., 0., 0., 0., 0., 72., 126., 128., 130., 172., 255., 255., 255.]),
        ("brightness = 1.5", [0., 2., 3., 5., 75., 150., 191., 192., 194., 225., 255., 255., 255.]),
        (
            "brightness_shift = 0.1",
            [26., 27., 28., 29., 76., 126., 153., 154., 155., 176., 226., 255., 255.],
        ),
        ("brightness = -1", [0.; 13]),
        ("brightness = 0.5", [0., 1., 1., 2., 25., 50., 64., 64., 65., 75., 100., 127., 128.]),
    ] {
        let steps = step(&format!("op = \"brightness_contrast\"\n{args}"));
        assert_eq!(apply(&steps, &input), row(expected), "{args}");
    }
    // On f32 the range is 1 and the centre 0.5.
    let steps = step("op = \"cast\"\ndtype = \"f32\"")
        + &step("op = \"brightness_contrast\"\nbrightness_shift = 0.1\ncontrast = 2");
    assert_eq!(apply(&steps, &row([10.0])), row([10.0 * 2.0 + (0.1 + (0.5 - 2.0 * 0.5))]));
}

#[test]
fn brightness_contrast_rounds_product_and_sum_apart() {
    let (b, c, shift, centre) = (1.037_f32, 0.953_f32, 0.013_f32, 117.3_f32);
    let steps = step(&format!(
        "op = \"brightness_contrast\"\nbrightness = {b}\ncontrast = {c}\n\
         brightness_shift = {shift}\ncontrast_center = {centre}"
    ));
    let (factor, offset) = (b * c, shift * 255.0 + b * (centre - c * centre));
    let expected = Picture::new(16, 16, |x, y| to_u8((16 * y + x) as f32 * factor + offset));
    assert_eq!(apply(&steps, &levels()), expected);
}

#[test]
fn normalize_rounds_three_times() {
    let (mean, std) = ([0.4914_f32, 0.4822, 0.4465], [0.2023_f32, 0.1994, 0.2010]);
    let steps = step(&format!("op = \"normalize\"\nmean = {mean:?}\nstd = {std:?}"));
    for layout in ["HWC", "CHW"] {
        let steps = format!("{steps}[output]\nlayout = \"{layout}\"\n");
        for (c, got) in channels(&steps, &levels(), 0).iter().enumerate() {
            let expected =
                Picture::new(16, 16, |x, y| ((16 * y + x) as f32 / 255.0 - mean[c]) / std[c]);
            assert_eq!(bits(got), bits(&expected), "{layout}, channel {c}");
        }
    }
    let steps = step("op = \"normalize\"\nmean = 100\nstd = 7\nscale = 1");
    let expected = Picture::new(16, 16, |x, y| ((16 * y + x) as f32 - 100.0) / 7.0);
    assert_eq!(bits(&apply(&steps, &levels())), bits(&expected));
}

#[test]
fn rgb_shift_adds_a_value_a_channel() {
    let shift = [-300.0_f32, 0.5, 14.49];
    let steps = step(&format!("op = \"rgb_shift\"\nshift = {shift:?}"));
    for (got, shift) in channels(&steps, &levels(), 0).iter().zip(shift) {
        assert_eq!(*got, Picture::new(16, 16, |x, y| to_u8((16 * y + x) as f32 + shift)));
    }
}

/// DALI's table of casts to u8.
#[test]
fn casts_round_half_away_and_saturate() {
    for (value, expected) in [
        ("-1.5", 0.0),
        ("-0.5", 0.0),
        ("0.4", 0.0),
        ("0.5", 1.0),
        ("1.5", 2.0),
        ("2.5", 3.0),
        ("254.5", 255.0),
        ("300", 255.0),
        ("x / x", 0.0), // 0 / 0
        ("1 / x", 255.0),
        ("-1 / x", 0.0),
    ] {
        // On the pixels, and, where there is no pixel, on numbers.
        let mut formulas = vec![format!("cast(x + ({value}), u8)")];
        if !value.contains('x') {
            formulas.push(format!("x + cast({value}, u8)"));
        }
        for formula in formulas {
            let steps = step(&format!("op = \"expr\"\nexpr = \"{formula}\""));
            assert_eq!(apply(&steps, &row([0.0])), row([expected]), "{formula}");
        }
    }
    let exact = step("op = \"cast\"\ndtype = \"f32\"");
    assert_eq!(apply(&exact, &levels()), levels());
}

#[test]
fn clamp_keeps_the_type() {
    let steps = step("op = \"clamp\"\nlo = 20.4\nhi = 200");
    let expected = Picture::new(16, 16, |x, y| ((16 * y + x) as f32).clamp(20.4, 200.0).round());
    assert_eq!(apply(&steps, &levels()), expected);
    let steps = step("op = \"cast\"\ndtype = \"f32\"") + &steps;
    let expected = Picture::new(16, 16, |x, y| ((16 * y + x) as f32).clamp(20.4, 200.0));
    assert_eq!(apply(&steps, &levels()), expected);
}

#[test]
fn expressions_round_each_operation() {
    type Formula = fn(f32) -> f32;
    let truth = |b: bool| f32::from(u8::from(b));
    let cases: [(&str, Formula); 12] = [
        ("x * 0.1 + 0.7", |x| x * 0.1 + 0.7),
        ("1.1 - x / 3", |x| 1.1 - x / 3.0),
        ("7 / (x + 1)", |x| 7.0 / (x + 1.0)),
        ("-x - -3", |x| -x + 3.0),
        ("min(x, 100) - max(x, 50)", |x| x.min(100.0) - x.max(50.0)),
        ("clamp(x, 10, 20) * 3", |x| x.clamp(10.0, 20.0) * 3.0),
        ("cast(x * 0.37, u8) * 0.5", |x| to_u8(x * 0.37) * 0.5),
        ("x - cast(x < 128, f32)", |x| x - f32::from(u8::from(x < 128.0))),
        ("x + cast(x >= 99 and not (x == 120), f32)", |x| {
            x + f32::from(u8::from(x >= 99.0 && x != 120.0))
        }),
        ("0.5 * cast(x <= 3 or x > 250, f32)", |x| {
            0.5 * f32::from(u8::from(x <= 3.0 || x > 250.0))
        }),
        ("0.5 * cast(30 < x and x != 31, f32)", |x| {
            0.5 * f32::from(u8::from(30.0 < x && x != 31.0))
        }),
        ("(x / 255 - 0.485) / 0.229", |x| (x / 255.0 - 0.485) / 0.229),
    ];
    for (formula, meaning) in cases {
        let steps = step(&format!("op = \"expr\"\nexpr = \"{formula}\""));
        let expected = Picture::new(16, 16, |x, y| meaning((16 * y + x) as f32));
        assert_eq!(bits(&apply(&steps, &levels())), bits(&expected), "{formula}");
    }
    // Comparisons give a u8 image.
    let steps = step("op = \"expr\"\nexpr = \"x > 100\"");
    let expected = Picture::new(16, 16, |x, y| truth(16 * y + x > 100));
    assert_eq!(apply(&steps, &levels()), expected);
}

/// Images of other steps, of either type and in either order of axes.
#[test]
fn expressions_read_stored_images() {
    let input = Picture::noise(13, 6);
    let flip = step("op = \"flip\"\nname = \"a\"");
    let halves =
        step("op = \"expr\"\nname = \"b\"\nfrom = \"decode\"\nexpr = \"x / 2 + [0, 1, 2]\"");
    let turned = step("op = \"transpose\"\nname = \"t\"\nlayout = \"CHW\"");
    let sum = step("op = \"expr\"\nfrom = \"decode\"\nexpr = \"x * 0.5 + a - t * b\"");
    for layout in ["HWC", "CHW"] {
        let steps = format!("{flip}{halves}{turned}{sum}[output]\nlayout = \"{layout}\"\n");
        for (c, got) in channels(&steps, &input, 0).iter().enumerate() {
            let expected = Picture::new(13, 6, |x, y| {
                let half = input.at(x, y) / 2.0 + c as f32;
                input.at(x, y) * 0.5 + input.at(12 - x, y) - half * half
            });
            assert_eq!(*got, expected, "{layout}, channel {c}");
        }
    }
}

/// A draw is a function of seed, epoch, sample, its name and the channel: the kernels' generator
/// gives what src/rng.rs gives.
#[test]
fn draws_are_those_of_their_identity() {
    let steps = step(
        "op = \"expr\"\nname = \"e\"\nexpr = \"x * 0 + u\"\n\
         u = { uniform = [-3, 5], per = \"channel\" }",
    );
    for id in [0, 1, 77, u64::from(u32::MAX), (1 << 48) - 1] {
        let got = channels(&steps, &row([9.0]), id);
        for (c, got) in got.iter().enumerate() {
            // tests/common runs samples with seed 42.
            let word = rng::draw_word(42, 0, id, rng::draw_number("e.u"), c as u32);
            let unit = (word >> 8) as f32 * 2f32.powi(-24);
            assert_eq!(got.at(0, 0), unit * 8.0 + -3.0, "sample {id} channel {c}");
        }
    }
}

#[test]
fn normal_draws_have_their_moments() {
    let steps =
        step("op = \"expr\"\nexpr = \"x * 0 + n\"\nn = { normal = [3, 2], per = \"channel\" }");
    let program = super::program(&steps);
    let source = super::common::pixels(1, 1, &[0; 3]);
    let values: Vec<f64> = (0..4000)
        .flat_map(|id| super::common::run(&program, &source, 0, id).remove(0).2)
        .collect::<Vec<u8>>()
        .chunks(4)
        .map(|b| f64::from(f32::from_le_bytes(b.try_into().unwrap())))
        .collect();
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let variance =
        values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / values.len() as f64;
    assert!((mean - 3.0).abs() < 0.1 && (variance - 4.0).abs() < 0.3, "{mean} {variance}");
}

/// DALI's formula, of which its CPU operator gave these bits.
#[test]
fn crop_mirror_normalize_rounds_as_dali() {
    let (mean, std, scale, shift) = (123.675_f32, 58.395_f32, 3.0_f32, 0.5_f32);
    for (scale, shift) in [(1.0, 0.0), (scale, shift)] {
        let steps = step(&format!(
            "op = \"crop_mirror_normalize\"\nsize = [15, 16]\nmirror = true\nmean = {mean}\n\
             std = {std}\nscale = {scale}\nshift = {shift}"
        ));
        let factor = scale / std;
        let centre = mean - shift / factor;
        // The centre of a spare row is rounded up; columns are mirrored.
        let value = |x: usize, y: usize| ((16 * (y + 1) + 15 - x) as f32 - centre) * factor;
        assert_eq!(bits(&apply(&steps, &levels())), bits(&Picture::new(16, 15, value)));
    }
    // Without arguments it is the cast to f32.
    let plain = apply(&step("op = \"crop_mirror_normalize\""), &levels());
    assert_eq!(plain, levels());
    // A drawn mirror is each sample's own.
    let steps = step("op = \"crop_mirror_normalize\"\nmirror = { bernoulli = 0.25 }");
    let mirrored = |id: u64| channels(&steps, &levels(), id)[0].at(0, 0) == 15.0;
    let count = (0..2000).filter(|&id| mirrored(id)).count();
    assert!((420..580).contains(&count), "{count} of 2000");
}
