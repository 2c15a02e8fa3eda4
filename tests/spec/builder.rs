use forebay::graph::builder::{Border, Graph, Image};
use forebay::graph::file::{parse, print};
use forebay::graph::plan::Plan;
use forebay::graph::spec::{Backend, DecodeScale, DecoderSpec, Placement, Spec};
use forebay::ops::ALL;
use forebay::policy::LastBatch;
use forebay::tensor::DType;

const MEAN: [f32; 3] = [0.4914, 0.4822, 0.4465];
const STD: [f32; 3] = [0.2023, 0.1994, 0.2010];

/// A graph that decodes `labels.txt` on the CPU, and its image.
fn start() -> (Graph, Image) {
    let g = Graph::new(0);
    let (jpegs, _) = g.read_file_list("labels.txt").build();
    let images = g.decode(&jpegs, Placement::Cpu);
    (g, images)
}

/// The spec of a graph whose one output is what `build` returns.
fn built(build: impl FnOnce(&Graph, Image) -> Image) -> Result<Spec, String> {
    let (g, images) = start();
    let image = build(&g, images);
    g.output("images", image);
    g.spec().map_err(|error| error.to_string())
}

/// The builder yields what `file` reads as; its spec prints back and compiles.
fn assert_same(build: impl FnOnce(&Graph, Image) -> Image, file: &str) {
    let spec = built(build).unwrap();
    let expected = parse(file).unwrap();
    assert_eq!(spec, expected, "\n{}\n{}", print(&spec), print(&expected));
    assert_eq!(parse(&print(&spec)).unwrap(), spec);
    Plan::compile(&spec, ALL).unwrap();
}

#[test]
fn the_course_in_rust_and_in_toml() {
    let g = Graph::new(42);
    let (jpegs, labels) = g.read_file_list("labels.txt").shuffle(true).build();
    let images = g.decode(&jpegs, Placement::Mixed);
    let images =
        g.when(g.chance(0.5), &images, |x| g.rotate(x, g.uniform(-15.0, 15.0)).keep_size(true));
    let images = g.when(g.chance(0.5), &images, |x| {
        let shifts = g.uniform(-1.0, 1.0).per_channel() * [15.0, 15.0, 15.0];
        (x + shifts).clamp(0.0, 255.0).cast(DType::U8)
    });
    let images = (images / 255.0 - MEAN) / STD;
    g.output("images", images.transpose([2, 0, 1]));
    g.output("labels", labels.cast(DType::I64));

    let file = r#"
        seed = 42
        [reader]
        kind = "file"
        file_list = "labels.txt"
        shuffle = true
        [decoder]
        device = "mixed"
        [[step]]
        op = "rotate"
        when = { probability = 0.5 }
        angle = { uniform = [-15.0, 15.0] }
        keep_size = true
        [[step]]
        op = "expr"
        when = { probability = 0.5 }
        expr = "cast(clamp(x + u * [15, 15, 15], 0, 255), u8)"
        u = { uniform = [-1, 1], per = "channel" }
        [[step]]
        op = "expr"
        expr = "(x / 255 - [0.4914, 0.4822, 0.4465]) / [0.2023, 0.1994, 0.201]"
        [[step]]
        op = "transpose"
        layout = "CHW"
    "#;
    let spec = g.spec().unwrap();
    assert_eq!(spec, parse(file).unwrap(), "{}", print(&spec));
    Plan::compile(&spec, ALL).unwrap();
}

#[test]
fn readers_and_decoder() {
    let g = Graph::new(1);
    let (jpegs, _) = g.read_cifar10(false).last_batch(LastBatch::Drop).build();
    let decoder = DecoderSpec {
        device: Placement::Mixed,
        backend: Backend::Own,
        exact: true,
        split: 9,
        scale: DecodeScale::Fast,
    };
    g.output("pixels", g.decode_with(&jpegs, decoder));
    let file = r#"
        seed = 1
        [reader]
        kind = "cifar10"
        split = "test"
        last_batch = "drop"
        [decoder]
        device = "mixed"
        backend = "own"
        exact = true
        split = 9
        scale = "fast"
        [output]
        name = "pixels"
    "#;
    assert_eq!(g.spec().unwrap(), parse(file).unwrap());

    let g = Graph::new(0);
    let (jpegs, _) = g.read_folders().build();
    g.output("images", g.decode(&jpegs, Placement::Cpu));
    assert_eq!(g.spec().unwrap(), parse("reader.kind = \"folders\"").unwrap());

    let g = Graph::new(0);
    let (jpegs, _) = g.read_tar().build();
    g.output("images", g.decode(&jpegs, Placement::Cpu));
    assert_eq!(g.spec().unwrap(), parse("reader.kind = \"tar\"").unwrap());
}

#[test]
fn operators_and_their_arguments() {
    assert_same(
        |g, x| {
            let x = g.affine(&x, 5).with("scale", g.uniform(0.9, 1.1)).border(Border::Reflect);
            let x = g.rotate(&x, g.normal(0.0, 3.0)).border(Border::Constant).fill(7.5).nearest();
            let x = g.rgb_shift(&x, [1.0, 2.0, -3.0]);
            let x = g.brightness_contrast(&x, g.uniform(0.9, 1.1), 1.2f32);
            let x = g.crop(&g.flip_vertical(&g.flip_horizontal(&x)), [24, 32]);
            let x = g.random_crop(&x, [16, 16]).with("padding", 4).with("padding", 2);
            let x = x.cast(DType::F32).clamp(0.0, 200.0).named("bounded");
            g.normalize(&x, MEAN, STD)
        },
        r#"
        [[step]]
        op = "affine"
        angle = 5
        scale = { uniform = [0.9, 1.1] }
        border = "reflect"
        [[step]]
        op = "rotate"
        angle = { normal = [0, 3] }
        border = "constant"
        fill = 7.5
        interp = "nearest"
        [[step]]
        op = "rgb_shift"
        shift = [1, 2, -3]
        [[step]]
        op = "brightness_contrast"
        brightness = { uniform = [0.9, 1.1] }
        contrast = 1.2
        [[step]]
        op = "flip"
        [[step]]
        op = "flip"
        horizontal = false
        vertical = true
        [[step]]
        op = "crop"
        size = [24, 32]
        [[step]]
        op = "crop"
        size = [16, 16]
        position = "random"
        padding = 2
        [[step]]
        op = "expr"
        name = "bounded"
        expr = "clamp(cast(x, f32), 0, 200)"
        [[step]]
        op = "normalize"
        mean = [0.4914, 0.4822, 0.4465]
        std = [0.2023, 0.1994, 0.201]
        "#,
    );
    assert_same(
        |g, x| {
            let x = g.random_resized_crop(&x, [224, 200]).with("area", [0.25, 1.0]);
            let x = g.resize(&x, [64, 64]).with("mode", "shorter").nearest();
            let x = g.crop_mirror_normalize(&x, 127.5, [50.0, 60.0, 70.0]);
            x.with("size", [48, 48]).with("mirror", g.chance(0.5))
        },
        r#"
        [[step]]
        op = "random_resized_crop"
        size = [224, 200]
        area = [0.25, 1]
        [[step]]
        op = "resize"
        size = [64, 64]
        mode = "shorter"
        interp = "nearest"
        [[step]]
        op = "crop_mirror_normalize"
        mean = 127.5
        std = [50, 60, 70]
        size = [48, 48]
        mirror = { bernoulli = 0.5 }
        "#,
    );
    assert_same(
        |_, x| x.clamp(-1.0, 255.0).named("a").cast(DType::U8),
        r#"
        [[step]]
        op = "clamp"
        name = "a"
        lo = -1
        hi = 255
        [[step]]
        op = "cast"
        dtype = "u8"
        "#,
    );
}

#[test]
fn draws_of_one_step_stay_in_it_and_others_are_shared() {
    assert_same(
        |g, x| {
            let coin = g.chance(0.5).named("coin");
            let u = g.uniform(0.0, 1.0);
            let angle = &u * 30.0 - 15.0;
            let x = g.when(&coin, &x, |x| g.rotate(x, angle).keep_size(true));
            let x = g.when(u.lt(0.25).and(coin.not()), &x, |x| g.flip_horizontal(x));
            // Once in a step, though twice in its expression.
            let n = g.normal(0.0, 2.0);
            let b = g.uniform(0.5, 1.0).max(0.75);
            x * &n + n * b
        },
        r#"
        [[draw]]
        name = "coin"
        bernoulli = 0.5
        [[draw]]
        name = "draw_1"
        uniform = [0, 1]
        [[step]]
        op = "rotate"
        when = "coin"
        angle = { expr = "draw_1 * 30 - 15" }
        keep_size = true
        [[step]]
        op = "flip"
        when = { expr = "draw_1 < 0.25 and not coin" }
        [[step]]
        op = "expr"
        expr = "x * n + n * max(u, 0.75)"
        n = { normal = [0, 2] }
        u = { uniform = [0.5, 1] }
        "#,
    );
}

#[test]
fn any_acyclic_graph() {
    let (g, x) = start();
    let turned = g.rotate(&x, 90.0);
    let flipped = g.flip_horizontal(&x);
    let sum = (&turned + &flipped) / 2.0;
    let unused = g.op("no such operator", &sum);
    let mask = (1.0 - &sum / 255.0).gt(0.5);
    let product = &mask * &mask * &x;
    g.output("images", &sum);
    g.output("product", product.min(&flipped));
    g.output("raw", x);
    drop(unused);
    let file = r#"
        [[step]]
        op = "rotate"
        name = "rotate"
        angle = 90
        [[step]]
        op = "flip"
        name = "flip"
        from = "decode"
        [[step]]
        op = "expr"
        name = "expr"
        expr = "(rotate + x) / 2"
        [[step]]
        op = "expr"
        expr = "1 - x / 255 > 0.5"
        [[step]]
        op = "expr"
        expr = "min(x * x * decode, flip)"
        [[output]]
        name = "images"
        from = "expr"
        [[output]]
        name = "product"
        [[output]]
        name = "raw"
        from = "decode"
    "#;
    let spec = g.spec().unwrap();
    assert_eq!(spec, parse(file).unwrap(), "{}", print(&spec));
}

#[test]
fn branches_nest_and_see_what_is_outside() {
    assert_same(
        |g, x| {
            let flipped = g.flip_horizontal(&x);
            let base = g.affine(&flipped, 10.0);
            g.when_else(
                g.chance(0.25),
                &base,
                |x| {
                    let x = g.when(g.chance(0.5), x, |x| g.affine(x, 20.0));
                    let x =
                        g.when_else(g.chance(0.5), &x, Image::clone, |x| (x - 1.0).cast(DType::U8));
                    g.when(g.chance(0.1), &x, |x| g.affine(&g.flip_vertical(x), 30.0))
                },
                |_| flipped.clone(),
            )
        },
        r#"
        [[step]]
        op = "flip"
        name = "flip"
        [[step]]
        op = "affine"
        angle = 10
        [[step]]
        when = { probability = 0.25 }
        then = [
            { op = "affine", when = { probability = 0.5 }, angle = 20 },
            { when = { probability = 0.5 }, else = [{ op = "expr", expr = "cast(x - 1, u8)" }] },
            { when = { probability = 0.1 }, then = [
                { op = "flip", horizontal = false, vertical = true },
                { op = "affine", angle = 30 },
            ] },
        ]
        else = [{ op = "expr", from = "flip", expr = "x" }]
        "#,
    );
}

#[test]
fn mistakes_are_kept_for_the_end() {
    type Build = fn(&Graph, Image) -> Image;
    let cases: [(Build, &str); 14] = [
        (|g, x| g.rotate(&x, g.uniform(15.0, -15.0)), "uniform = [15, -15] is turned round"),
        (|g, x| g.when(g.chance(2.0), &x, Image::clone), "bernoulli = 2 is not between 0 and 1"),
        (|_, x| x + f32::NAN, "numbers must be finite f32, and NaN is not"),
        (|g, x| g.rotate(&x, f64::MAX), "numbers must be finite f32"),
        (|_, _| start().1, "nodes of two graphs are mixed"),
        (|_, x| x + start().1, "nodes of two graphs are mixed"),
        (|_, x| x.transpose([1, 2, 0]), "transpose([1, 2, 0]): images transpose by [2, 0, 1]"),
        (|_, x| x.cast(DType::I64), "an image casts to u8 or f32"),
        (|_, x| (x * 2.0).keep_size(true), "keep_size is set on something other than an operator"),
        (|g, x| x * (g.uniform(0.0, 1.0) * 2.0).per_channel(), "per_channel belongs to a draw"),
        (|g, x| g.flip_horizontal(&x).named("a b"), "\"a b\" cannot name a node"),
        (
            |g, x| g.flip_vertical(&g.flip_vertical(&x).named("f")).named("f"),
            "a step and another node are both called \"f\"",
        ),
        (
            |g, x| {
                let mut leaked = x.clone();
                let y = g.when(g.chance(0.5), &x, |x| {
                    leaked = g.flip_horizontal(x);
                    g.rotate(&leaked, 3.0)
                });
                y + leaked
            },
            "an image made inside a branch is used outside it",
        ),
        (|_, x| (0..5000).fold(x, |x, _| x + 1.0), "an expression has more than 1024 parts"),
    ];
    for (build, expected) in cases {
        let error = built(build).unwrap_err();
        assert!(error.starts_with(expected), "{error}\n{expected}");
    }
}

#[test]
fn a_value_that_doubles_is_refused_in_time() {
    let error = built(|g, x| {
        let u = (0..60).fold(g.uniform(0.0, 1.0), |u, _| &u * &u);
        x * u
    });
    assert!(error.unwrap_err().contains("more than 1024 parts"));
}

#[test]
fn what_a_graph_needs() {
    let spec_error = |g: &Graph| g.spec().unwrap_err().to_string();
    assert!(spec_error(&Graph::new(0)).contains("no reader"));
    let (g, x) = start();
    assert!(spec_error(&g).contains("no output"));
    g.output("images", &x);
    g.output("images", &x);
    assert!(spec_error(&g).contains("two outputs are called"));
    let (g, x) = start();
    g.output("../x", &x);
    assert!(spec_error(&g).contains("cannot name an output"));
    let (g, _) = start();
    g.read_folders().build();
    assert!(spec_error(&g).contains("one reader"));
}
