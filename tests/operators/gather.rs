//! rotate and affine.

use super::{Picture, apply, step};

fn rotate(rest: &str) -> String {
    step(&format!("op = \"rotate\"\n{rest}"))
}

/// Seen with DALI 2.4's CPU operator.
#[test]
fn rotate_gives_dalis_values() {
    let ramp = Picture::new(4, 3, |x, y| (40 * y + 10 * x) as f32);
    let left = [[30., 70., 110.], [20., 60., 100.], [10., 50., 90.], [0., 40., 80.]];
    assert_eq!(apply(&rotate("angle = 90"), &ramp), Picture::rows(&left));

    let turned = apply(&rotate("angle = 180\nkeep_size = true"), &ramp);
    assert_eq!(turned, Picture::new(4, 3, |x, y| ramp.at(3 - x, 2 - y)));

    // Taps beyond the edge take the fill and are blended.
    let flat = Picture::new(3, 3, |_, _| 200.0);
    let turned = apply(&rotate("angle = 10\nkeep_size = true\nfill = 0"), &flat);
    assert_eq!([turned.at(0, 0), turned.at(2, 0), turned.at(0, 2), turned.at(2, 2)], [168.0; 4]);

    let small = Picture::rows(&[[0.0, 1.0], [2.0, 3.0]]);
    let float = step("op = \"cast\"\ndtype = \"f32\"");
    let turned = apply(&(float + &rotate("angle = 30\nkeep_size = true\nfill = 0")), &small);
    for (got, dali) in turned.values.iter().zip([0.25897, 1.33494, 1.11603, 2.19199]) {
        assert!((got - dali).abs() < 6e-6, "{turned:?}");
    }
}

/// Canvases of DALI 2.4: rows and columns.
#[test]
fn rotate_grows_dalis_canvas() {
    for ((h, w), angle, canvas) in [
        ((480, 640), 15, (630, 744)),
        ((480, 640), 45, (792, 792)),
        ((101, 50), 45, (108, 107)),
        ((101, 50), 90, (50, 101)),
    ] {
        let turned = apply(&rotate(&format!("angle = {angle}")), &Picture::noise(w, h));
        assert_eq!((turned.height, turned.width), canvas, "{h}x{w} by {angle}");
    }
}

/// `picture` turned counter-clockwise by `turns` quarters.
fn rot90(picture: &Picture, turns: u32) -> Picture {
    (0..turns).fold(picture.clone(), |p, _| {
        Picture::new(p.height, p.width, |x, y| p.at(p.width - 1 - y, x))
    })
}

#[test]
fn quarter_turns_move_pixels_exactly() {
    for side in [1, 2, 3, 8, 17, 32, 33, 224] {
        let square = Picture::noise(side, side);
        for (angle, turns) in [(0, 0), (90, 1), (180, 2), (270, 3), (-90, 3), (450, 1), (-720, 0)] {
            let expected = rot90(&square, turns);
            for interp in ["linear", "nearest"] {
                for border in ["clamp", "constant", "reflect"] {
                    let steps = rotate(&format!(
                        "angle = {angle}\nkeep_size = true\ninterp = \"{interp}\"\n\
                         border = \"{border}\""
                    ));
                    assert_eq!(apply(&steps, &square), expected, "{side} {angle} {interp}");
                }
            }
        }
    }
    // With a canvas that grows, any shape.
    for (width, height) in [(1, 2), (3, 4), (31, 8), (50, 101)] {
        let picture = Picture::noise(width, height);
        for turns in 0..4 {
            let steps = rotate(&format!("angle = {}", 90 * turns));
            assert_eq!(apply(&steps, &picture), rot90(&picture, turns), "{width}x{height} {turns}");
        }
    }
}

struct Affine {
    angle: f64,
    translate: [f64; 2],
    scale: f64,
    shear: [f64; 2],
}

impl Affine {
    fn steps(&self, rest: &str) -> String {
        let Affine { angle, translate: [tx, ty], scale, shear: [sx, sy] } = self;
        step(&format!(
            "op = \"affine\"\nangle = {angle}\ntranslate = [{tx}, {ty}]\nscale = {scale}\n\
             shear_x = {sx}\nshear_y = {sy}\n{rest}"
        ))
    }

    /// Source place of output pixel (x, y), in pixels from the first one's centre: torchvision's
    /// matrix, whose angle is positive clockwise, inverted.
    fn source(&self, picture: &Picture, x: usize, y: usize) -> [f64; 2] {
        let [rot, sx, sy] = [-self.angle, self.shear[0], self.shear[1]].map(f64::to_radians);
        let a = (rot - sy).cos() / sy.cos();
        let b = -(rot - sy).cos() * sx.tan() / sy.cos() - rot.sin();
        let c = (rot - sy).sin() / sy.cos();
        let d = -(rot - sy).sin() * sx.tan() / sy.cos() + rot.cos();
        let [a, b, c, d] = [a, b, c, d].map(|v| v * self.scale);
        let centre = [(picture.width as f64 - 1.0) / 2.0, (picture.height as f64 - 1.0) / 2.0];
        let dx = x as f64 - centre[0] - self.translate[0];
        let dy = y as f64 - centre[1] - self.translate[1];
        let det = a * d - b * c;
        [(d * dx - b * dy) / det + centre[0], (a * dy - c * dx) / det + centre[1]]
    }
}

/// A pixel with indices beyond the edge brought back by `border`.
fn tap(picture: &Picture, x: i64, y: i64, border: &str) -> f64 {
    let inside = |i: i64, n: usize| {
        let n = n as i64;
        match border {
            "reflect" if n > 1 => {
                let m = i.rem_euclid(2 * (n - 1));
                Some(m.min(2 * (n - 1) - m))
            }
            "constant" => (0..n).contains(&i).then_some(i),
            _ => Some(i.clamp(0, n - 1)),
        }
    };
    match (inside(x, picture.width), inside(y, picture.height)) {
        (Some(x), Some(y)) => f64::from(picture.at(x as usize, y as usize)),
        _ => 30.0,
    }
}

fn linear(picture: &Picture, [x, y]: [f64; 2], border: &str) -> f64 {
    let (x0, y0, qx, qy) = (x.floor() as i64, y.floor() as i64, x - x.floor(), y - y.floor());
    let row =
        |y: i64| tap(picture, x0, y, border) * (1.0 - qx) + tap(picture, x0 + 1, y, border) * qx;
    row(y0) * (1.0 - qy) + row(y0 + 1) * qy
}

const CASES: [Affine; 7] = [
    Affine { angle: 0.0, translate: [0.0, 0.0], scale: 1.0, shear: [0.0, 0.0] },
    Affine { angle: 25.0, translate: [0.0, 0.0], scale: 1.0, shear: [0.0, 0.0] },
    Affine { angle: 0.0, translate: [3.25, -2.375], scale: 1.0, shear: [0.0, 0.0] },
    Affine { angle: 0.0, translate: [0.0, 0.0], scale: 1.75, shear: [0.0, 0.0] },
    Affine { angle: 0.0, translate: [0.0, 0.0], scale: 1.0, shear: [20.0, 0.0] },
    Affine { angle: 0.0, translate: [0.0, 0.0], scale: 1.0, shear: [0.0, -15.0] },
    Affine { angle: -131.0, translate: [-4.0, 1.5], scale: 0.6, shear: [-12.0, 33.0] },
];

#[test]
fn affine_follows_torchvisions_matrix() {
    let picture = Picture::noise(23, 18);
    for case in &CASES {
        for border in ["clamp", "constant", "reflect"] {
            let rest = match border {
                "constant" => "fill = 30".to_string(),
                _ => format!("border = \"{border}\""),
            };
            let float = step("op = \"cast\"\ndtype = \"f32\"");
            let smooth = apply(&(float + &case.steps(&rest)), &picture);
            let bytes = apply(&case.steps(&rest), &picture);
            let steps = case.steps(&format!("{rest}\ninterp = \"nearest\""));
            let nearest = apply(&steps, &picture);
            let mut decided = 0;
            for k in 0..picture.values.len() {
                let (x, y) = (k % picture.width, k / picture.width);
                let [sx, sy] = case.source(&picture, x, y);
                let exact = linear(&picture, [sx, sy], border);
                let got = f64::from(smooth.at(x, y));
                // A place is off by some 1e-5 pixels, of which each is at most 255 levels.
                assert!((got - exact).abs() < 0.01, "{border} ({x}, {y}): {got} {exact}");
                assert!((f64::from(bytes.at(x, y)) - exact).abs() < 0.51, "{border} ({x}, {y})");
                let edge = |v: f64| ((v + 0.5) - (v + 0.5).round()).abs() < 1e-4;
                if !edge(sx) && !edge(sy) {
                    let [x0, y0] = [sx, sy].map(|v| (v + 0.5).floor() as i64);
                    assert_eq!(f64::from(nearest.at(x, y)), tap(&picture, x0, y0, border));
                    decided += 1;
                }
            }
            assert!(decided > picture.values.len() / 2);
        }
    }
}

/// rotate is affine with an angle alone.
#[test]
fn rotate_is_affine() {
    let picture = Picture::noise(20, 31);
    for angle in [-77.5, 12.0, 45.0, 90.0] {
        let [rotated, turned] = [
            rotate(&format!("angle = {angle}\nkeep_size = true")),
            step(&format!("op = \"affine\"\nangle = {angle}")),
        ]
        .map(|steps| apply(&steps, &picture));
        assert_eq!(rotated, turned);
    }
}

/// The fill of a u8 image is u8, also where pointwise steps follow in the same pass.
#[test]
fn fill_is_of_the_images_type() {
    let flat = Picture::new(5, 5, |_, _| 100.0);
    for (fill, level) in [("2.5", 3.0), ("-7", 0.0), ("300", 255.0)] {
        for interp in ["nearest", "linear"] {
            let steps = step(&format!(
                "op = \"affine\"\ntranslate = [4, 0]\nfill = {fill}\ninterp = \"{interp}\""
            )) + &step("op = \"expr\"\nexpr = \"x * 2\"");
            assert_eq!(apply(&steps, &flat).at(0, 0), 2.0 * level, "{fill} {interp}");
        }
    }
}
