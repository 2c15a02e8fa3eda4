//! crop and flip.

use super::{Picture, apply, channels, step};

fn crop(rest: &str) -> String {
    step(&format!("op = \"crop\"\n{rest}"))
}

/// DALI's anchors: half of what is left over, rounded half away from zero.
#[test]
fn centred_crops_have_dalis_anchors() {
    let anchor = |from: usize, to: usize| {
        let ramp = Picture::new(from, from, |x, y| (10 * y + x) as f32);
        let window = apply(&crop(&format!("size = {to}")), &ramp);
        assert_eq!((window.width, window.height), (to, to));
        let left = window.at(0, 0) as usize % 10;
        assert_eq!(window, Picture::new(to, to, |x, y| ramp.at(x + left, y + left)));
        left
    };
    assert_eq!([anchor(3, 2), anchor(5, 2), anchor(3, 3), anchor(4, 2)], [1, 2, 0, 1]);
    for from in 1..=9 {
        for to in 1..=from {
            assert_eq!(anchor(from, to), (from - to).div_ceil(2));
        }
    }
}

#[test]
fn random_crops_are_uniform_over_all_places() {
    let program = super::program(&crop("size = [4, 5]\nposition = \"random\""));
    let (places, samples) = ([9, 8], 9 * 8 * 150);
    let bytes: Vec<u8> = (0..12 * 12).flat_map(|k| [(k % 12) as u8, (k / 12) as u8, 0]).collect();
    let source = super::common::pixels(12, 12, &bytes);
    let mut counts = [[0u32; 8]; 9];
    for id in 0..samples {
        let (_, _, out) = super::common::run(&program, &source, 0, id).remove(0);
        counts[usize::from(out[1])][usize::from(out[0])] += 1;
    }
    let expected = samples as f64 / f64::from(places[0] * places[1]);
    let chi_square: f64 = counts
        .iter()
        .flatten()
        .map(|&n| (f64::from(n) - expected) * (f64::from(n) - expected) / expected)
        .sum();
    println!("{samples} crops: chi-square {chi_square:.1} for 71 degrees of freedom");
    // Mean 71, deviation 11.9; both ends are among the 72 places.
    assert!(chi_square < 71.0 + 5.0 * 11.9 && counts.iter().flatten().all(|&n| n > 0));
}

/// The pixel that a padded image shows at (x, y) of the unpadded one.
fn padded(picture: &Picture, x: i64, y: i64, border: &str) -> f32 {
    let inside = |mut i: i64, n: usize| {
        let n = n as i64;
        while !(0..n).contains(&i) {
            i = match border {
                "constant" => return None,
                "reflect" if n > 1 && i < 0 => -i,
                "reflect" if n > 1 => 2 * (n - 1) - i,
                _ => i.clamp(0, n - 1),
            };
        }
        Some(i as usize)
    };
    match (inside(x, picture.width), inside(y, picture.height)) {
        (Some(x), Some(y)) => picture.at(x, y),
        _ => 77.0,
    }
}

#[test]
fn padding_shows_the_border() {
    for (w, h, padding) in [(1, 1, 3), (2, 3, 5), (6, 5, 2), (5, 7, 20), (33, 9, 4)] {
        let picture = Picture::noise(w, h);
        let (rows, columns) = (h + 2 * padding - 1, w + 2 * padding);
        for border in ["clamp", "constant", "reflect"] {
            let fill = if border == "constant" { "\nfill = 77" } else { "" };
            let steps = crop(&format!(
                "size = [{rows}, {columns}]\npadding = {padding}\nborder = \"{border}\"{fill}"
            ));
            let pad = padding as i64;
            // One row less than all of them: the centred window starts at row 1.
            let expected = Picture::new(columns, rows, |x, y| {
                padded(&picture, x as i64 - pad, y as i64 + 1 - pad, border)
            });
            assert_eq!(apply(&steps, &picture), expected, "{w}x{h} {padding} {border}");
        }
    }
    let dark = apply(&crop("size = 3\npadding = 1"), &Picture::new(1, 1, |_, _| 9.0));
    assert_eq!(dark, Picture::rows(&[[0., 0., 0.], [0., 9., 0.], [0., 0., 0.]]));
}

#[test]
fn flips_mirror() {
    for (w, h) in [(1, 1), (4, 3), (17, 2), (33, 31)] {
        let picture = Picture::noise(w, h);
        for (args, x_turned, y_turned) in [
            ("", true, false),
            ("\nhorizontal = true", true, false),
            ("\nvertical = true", false, true),
            ("\nhorizontal = true\nvertical = true", true, true),
        ] {
            let expected = Picture::new(w, h, |x, y| {
                picture
                    .at(if x_turned { w - 1 - x } else { x }, if y_turned { h - 1 - y } else { y })
            });
            assert_eq!(apply(&step(&format!("op = \"flip\"{args}")), &picture), expected, "{args}");
        }
    }
}

/// Maps before and after a gather keep their order, and the gather's border is the cropped image's.
#[test]
fn maps_keep_their_order_around_a_gather() {
    let picture = Picture::noise(14, 11);
    let parts = [
        crop("size = [9, 10]\npadding = 2\nborder = \"reflect\""),
        step("op = \"flip\""),
        step("op = \"rotate\"\nangle = 90\ninterp = \"nearest\""),
        crop("size = [8, 9]"),
        step("op = \"flip\"\nvertical = true"),
    ];
    let one_by_one = parts.iter().fold(picture.clone(), |p, steps| apply(steps, &p));
    assert_eq!(apply(&parts.concat(), &picture), one_by_one);
}

/// A draw under `when` is the step's own: the flip of a sample is that of its identity.
#[test]
fn random_flips_follow_their_probability() {
    let picture = Picture::rows(&[[1.0, 2.0]]);
    let steps = step("op = \"flip\"\nwhen = { probability = 0.25 }");
    let flipped = (0..4000).filter(|&id| channels(&steps, &picture, id)[0].at(0, 0) == 2.0).count();
    assert!((860..1140).contains(&flipped), "{flipped} of 4000");
}
