//! Pictures of a run.

use crate::train::log::csv::Row;
use crate::train::plot::{Format, Line, confusion, curves, png, rates};
use image::{Rgb, RgbImage};
use std::path::Path;

fn row(epoch: u64, train: f64, valid: Option<f64>) -> Row {
    Row {
        epoch: Some(epoch),
        train_loss: Some(train),
        train_acc: Some(1.0 / (1.0 + train)),
        valid_loss: valid,
        valid_acc: valid.map(|loss| 1.0 / (1.0 + loss)),
        ..Row::default()
    }
}

/// The points of each curve of an SVG. Legend and axes have two.
fn polylines(svg: &str) -> Vec<Vec<(i32, i32)>> {
    let point = |text: &str| {
        let (x, y) = text.split_once(',').unwrap();
        (x.parse().unwrap(), y.parse().unwrap())
    };
    svg.split("points=\"")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap().split_whitespace().map(point).collect())
        .filter(|points: &Vec<_>| points.len() > 2)
        .collect()
}

#[test]
fn curves_have_a_point_an_epoch_the_last_of_it() {
    let rows =
        [row(1, 9.0, None), row(1, 2.0, Some(2.0)), row(2, 1.0, Some(1.5)), row(3, 0.0, None)];
    let svg = curves(&[&rows[..], &[row(3, 0.5, Some(1.0))]].concat()).unwrap();
    let lines = polylines(&svg);
    assert_eq!(lines.iter().map(Vec::len).collect::<Vec<_>>(), [3; 4]);
    for line in &lines {
        assert!(line.is_sorted_by_key(|(x, _)| *x));
    }
    // Loss goes down in the picture and accuracy up; both curves start from the same place.
    assert!(lines[..2].iter().all(|line| line.is_sorted_by_key(|(_, y)| *y)));
    assert!(lines[2..].iter().all(|line| line.is_sorted_by_key(|(_, y)| -y)));
    assert_eq!((lines[0][0], lines[2][0]), (lines[1][0], lines[3][0]));
    for text in ["Loss", "Accuracy", "train", "valid", "epoch", "nats", "%"] {
        assert!(svg.contains(text), "{text}");
    }
    assert!(svg.starts_with("<svg width=\"900\" height=\"420\"") && svg.ends_with("</svg>\n"));
}

#[test]
fn curves_of_nothing_and_of_what_is_not_finite_are_drawn() {
    assert!(!curves(&[]).unwrap().contains("train"));
    let odd = [f64::NAN, f64::INFINITY, f64::MAX, -1.0, 0.0, 1e-300, 1e99];
    let rows: Vec<Row> =
        odd.iter().zip(1..).map(|(value, epoch)| row(epoch, *value, None)).collect();
    let svg = curves(&rows).unwrap();
    assert!(!svg.contains("NaN") && !svg.contains("valid"));
    assert_eq!(polylines(&svg)[0].len(), 4);
    let next = f64::from_bits(0.3_f64.to_bits() + 1);
    assert!(curves(&[row(1, 0.3, Some(-1.0)), row(u64::MAX, next, None)]).is_ok());
}

#[test]
fn rates_are_drawn_as_lines_or_as_pixels() {
    let points = (0..100).map(|step| (f64::from(step), f64::from(step) * 1e-4)).collect();
    let lines = [Line { name: "rising <&>".into(), points }];
    let svg = String::from_utf8(rates(&lines, Format::Svg).unwrap()).unwrap();
    assert!(svg.contains("rising &lt;&amp;&gt;") && svg.contains("step of the optimiser"));

    let bytes = rates(&lines, Format::Png).unwrap();
    let picture = image::load_from_memory(&bytes).unwrap().to_rgb8();
    assert_eq!(picture.dimensions(), (900, 420));
    // Every point of the line but its ends is blue in the other picture, too.
    let blue = Rgb([0, 114, 178]);
    for (x, y) in &polylines(&svg)[0][1..99] {
        let near = (-2..3).any(|dy| *picture.get_pixel(*x as u32, (y + dy) as u32) == blue);
        assert!(near, "{x}, {y}");
    }
    // There is text along the left side, read upwards, and below.
    let ink = |at: &dyn Fn(u32, u32) -> bool| {
        picture.enumerate_pixels().filter(|(x, y, p)| at(*x, *y) && p.0[0] < 100).count()
    };
    assert!(ink(&|x, y| x < 30 && y > 100) > 100);
    assert!(ink(&|_, y| y > 390) > 100);
}

#[test]
fn a_charts_kind_is_in_its_name() {
    assert_eq!(Format::of(Path::new("a/b.SVG")).unwrap(), Format::Svg);
    for name in ["a", "a.gif", "svg"] {
        assert!(Format::of(Path::new(name)).unwrap_err().to_string().contains(".svg or .png"));
    }
}

#[test]
fn a_confusion_matrix_is_shaded_by_row() {
    let classes = ["cat", "automobile"].map(String::from);
    let picture = confusion(&[vec![30, 0], vec![1, 3]], &classes).unwrap();
    let count =
        |picture: &RgbImage, color: [u8; 3]| picture.pixels().filter(|p| p.0 == color).count();
    // Rows of 30 and of 4 have the same weight: the shade of 1/4 is half of that of 1.
    assert!(count(&picture, [0, 84, 147]) > 500);
    assert!(count(&picture, [128, 170, 201]) > 500);
    let bytes = png(&picture).unwrap();
    assert_eq!(image::load_from_memory(&bytes).unwrap().to_rgb8(), picture);

    for classes in [0, 1, 21, 100, 1000] {
        let matrix = vec![vec![u64::MAX / 2_000_000; classes]; classes];
        let names: Vec<String> = (0..classes).map(|i| format!("class number {i}")).collect();
        let (width, height) = confusion(&matrix, &names).unwrap().dimensions();
        assert!(width <= 1200 && height <= 1200, "{classes}: {width}x{height}");
    }
    assert!(confusion(&[vec![1, 2]], &classes).unwrap_err().to_string().contains("2 classes"));
    let many = vec![String::new(); 1001];
    assert!(confusion(&vec![vec![0; 1001]; 1001], &many).is_err());
}
