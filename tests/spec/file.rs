use forebay::graph::file::{load, parse, print};
use forebay::graph::spec::{
    Arg, Backend, Body, Condition, DecodeScale, DecoderSpec, Dist, Output, Placement, ReaderKind,
    ReaderSpec, Spec, Step,
};
use forebay::policy::{Cache, LastBatch, MaxBad, OnError};
use forebay::tensor::{DType, Layout};
use std::path::Path;

fn pipelines() -> impl Iterator<Item = std::path::PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("pipelines");
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path())
}

#[test]
fn ready_pipelines_read_and_print_back() {
    assert!(pipelines().count() >= 3);
    for path in pipelines() {
        let spec = load(&path).unwrap();
        assert_eq!(parse(&print(&spec)).unwrap(), spec, "{}", path.display());
    }
}

fn rotate() -> Step {
    let angle = Arg::Draw { dist: Dist::Uniform { lo: -15.0, hi: 15.0 }, per_channel: false };
    Step {
        name: None,
        from: None,
        when: Some(Condition::Probability(0.5)),
        body: Body::Op {
            op: "rotate".into(),
            args: vec![("angle".into(), angle), ("keep_size".into(), Arg::Bool(true))],
        },
    }
}

#[test]
fn a_file_reads_as_what_it_says() {
    let text = r#"
        seed = 18446744073709551615
        [reader]
        kind = "cifar10"
        split = "test"
        shuffle = true
        last_batch = "pad"
        on_error = "replace"
        max_bad = 12
        cache = "decoded"
        [decoder]
        device = "mixed"
        backend = "turbo"
        exact = true
        split = 1_000
        scale = "fast"
        [[step]]
        op = "rotate"
        when = { probability = 0.5 }
        angle = { uniform = [-15.0, 15] }
        keep_size = true
        [output]
        layout = "CHW"
        dtype = "f32"
    "#;
    let expected = Spec {
        seed: u64::MAX,
        reader: ReaderSpec {
            kind: ReaderKind::Cifar10 { train: false },
            shuffle: true,
            last_batch: LastBatch::Pad,
            on_error: OnError::Replace,
            max_bad: MaxBad::Count(12),
            cache: Cache::Decoded,
        },
        decoder: DecoderSpec {
            device: Placement::Mixed,
            backend: Backend::Turbo,
            exact: true,
            split: 1000,
            scale: DecodeScale::Fast,
        },
        draws: vec![],
        steps: vec![rotate()],
        outputs: vec![Output {
            name: "images".into(),
            from: None,
            layout: Some(Layout::Chw),
            dtype: Some(DType::F32),
        }],
    };
    assert_eq!(parse(text).unwrap(), expected);
    assert_eq!(parse(&text.replace('\n', "\r\n")).unwrap(), expected);
    assert_eq!(parse(&format!("\u{feff}{text}")).unwrap(), expected);
}

#[test]
fn an_empty_file_is_the_default_pipeline() {
    let spec = parse("").unwrap();
    assert_eq!((spec.seed, &spec.reader), (0, &ReaderSpec::default()));
    assert_eq!((&spec.decoder, spec.steps.len()), (&DecoderSpec::default(), 0));
    let images = Output { name: "images".into(), from: None, layout: None, dtype: None };
    assert_eq!(spec.outputs, [images]);
}

/// Prints in this very form, so that people can read on where the program wrote.
#[test]
fn branches_print_one_step_a_line() {
    let text = r#"seed = 7

[reader]
kind = "file"
file_list = "labels.txt"
shuffle = false

[decoder]
device = "cpu"

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
when = { expr = "tint < 1 and not coin" }
then = [
    { op = "rotate", angle = 5, border = "constant" },
    { when = "coin", then = [
        { op = "expr", expr = "x * tint + n", n = { normal = [0, 2.5] } },
    ] },
]
else = [
    { op = "rgb_shift", shift = { expr = "tint * 5" } },
]

[[output]]
name = "images"
layout = "CHW"

[[output]]
name = "plain"
from = "flipped"
dtype = "u8"
"#;
    assert_eq!(print(&parse(text).unwrap()), text);
}

/// What stands in a file, and the one line that refuses it.
#[test]
fn mistakes_are_refused_with_line_and_advice() {
    let step = |rest: &str| format!("[[step]]\nop = \"rotate\"\n{rest}");
    let draw = |rest: &str| format!("[[draw]]\nname = \"coin\"\n{rest}");
    let when = |rest: &str| format!("[[draw]]\nname = \"coin\"\nbernoulli = 0.5\n{}", step(rest));
    for (text, expected) in [
        ("seed =".into(), "line 1: "),
        ("sed = 4".into(), r#"line 1: the pipeline file: unknown key "sed", did you mean "seed"?"#),
        ("[[steps]]\nop = \"flip\"".into(), r#"unknown key "steps", did you mean "step"?"#),
        ("seed = -1".into(), "line 1: seed must be a whole number from 0 to 2^64 - 1, not -1"),
        ("seed = \"a\"".into(), r#"not "a""#),
        ("reader = 1".into(), "line 1: reader must be a table, [reader], not 1"),
        (
            "[reader]\nfile_lst = \"a\"".into(),
            r#"line 2: [reader]: unknown key "file_lst", did you mean "file_list"?"#,
        ),
        (
            "[reader]\nkind = \"folder\"".into(),
            r#"line 2: unknown kind = "folder", did you mean "folders"?"#,
        ),
        (
            "[reader]\nkind = \"lmdb\"".into(),
            r#"line 2: unknown kind = "lmdb", known are file, folders, tar, cifar10"#,
        ),
        (
            "[reader]\nkind = \"folders\"\nfile_list = \"a\"".into(),
            r#"line 3: file_list goes with kind = "file", not with "folders""#,
        ),
        ("[reader]\nshuffle = 1".into(), "line 2: shuffle must be true or false, not 1"),
        (
            "[decoder]\ndevice = \"gpu\"".into(),
            r#"line 2: unknown device = "gpu", did you mean "cpu"?"#,
        ),
        (
            "[decoder]\nbackend = \"nvjpg\"".into(),
            r#"line 2: unknown backend = "nvjpg", did you mean "nvjpeg"?"#,
        ),
        (
            "[decoder]\nbackend = \"nvjpeg\"".into(),
            r#"line 2: backend: "nvjpeg" needs device = "mixed""#,
        ),
        (
            "[decoder]\ndevice = \"mixed\"\nexact = true\nbackend = \"nvjpeg\"".into(),
            r#"line 4: backend: "nvjpeg" is not exact: leave out backend or exact"#,
        ),
        (
            "[decoder]\nscale = \"half\"".into(),
            r#"line 2: unknown scale = "half", known are exact, fast"#,
        ),
        ("[decoder]\nthreads = 2".into(), r#"line 2: [decoder]: unknown key "threads", known are"#),
        (
            draw("uniform = [15, -15]"),
            "line 3: uniform = [15, -15] is turned round, write [-15, 15]",
        ),
        (
            draw("uniform = [1]"),
            "line 3: uniform must be two numbers, [least, greatest], not an array",
        ),
        (
            draw("uniform = [0, nan]"),
            "line 3: uniform: every value must be a finite number within f32",
        ),
        (
            draw("uniform = [0, 1e39]"),
            "line 3: uniform: every value must be a finite number within f32",
        ),
        (draw("bernoulli = 1.5"), "line 3: bernoulli = 1.5 is not between 0 and 1"),
        (draw("bernoulli = inf"), "line 3: bernoulli must be a finite number within f32, not inf"),
        (draw("normal = [0, -1]"), "line 3: normal: the standard deviation -1 is negative"),
        (
            draw("uniform = [0, 1]\nper = \"pixel\""),
            r#"line 4: unknown per = "pixel", known are channel"#,
        ),
        (draw(""), "line 1: [[draw]] needs one of uniform, bernoulli, normal"),
        (draw("uniform = [0, 1]\nbernoulli = 0.5"), "line 1: [[draw]] needs one of"),
        ("[[draw]]\nbernoulli = 0.5".into(), "line 1: [[draw]] needs name = …"),
        (
            "[[draw]]\nname = \"a-b\"\nbernoulli = 0.5".into(),
            "line 2: name must be letters, digits and _",
        ),
        ("[[draw]]\nname = \"x\"\nbernoulli = 0.5".into(), "line 2: name must be letters"),
        (
            draw("bernoulli = 0.5\n[[step]]\nop = \"flip\"\nname = \"coin\""),
            r#"line 6: step "coin": name = "coin" is taken by the [[draw]] of line 2"#,
        ),
        (
            "[step]\nop = \"flip\"".into(),
            "line 1: step must be tables, each under [[step]], not a table",
        ),
        (
            "[[step]]\nfrom = \"decode\"".into(),
            r#"line 1: step "1": a step needs op = "…", or when"#,
        ),
        (step("then = []"), r#"line 3: step "rotate": a step has either op or then"#),
        ("[[step]]\nthen = []".into(), r#"line 1: step "1": then and else need when = …"#),
        (
            "[[step]]\nwhen = { probability = 1 }\nthen = [5]".into(),
            "line 3: step \"1\": then: every item must be a table",
        ),
        (
            step("angle = 2020-01-01"),
            r#"line 3: step "rotate": angle must be a number, a draw like"#,
        ),
        (
            step("angle = [\"a\"]"),
            "line 3: step \"rotate\": angle must be a number, an array of numbers",
        ),
        (
            step("angle = nan"),
            "line 3: step \"rotate\": angle must be a finite number within f32, not nan",
        ),
        (
            step("angle = { unifrom = [0, 1] }"),
            r#"angle: unknown key "unifrom", did you mean "uniform"?"#,
        ),
        (
            step("angle = { uniform = [1, 0] }"),
            "line 3: step \"rotate\": uniform = [1, 0] is turned round",
        ),
        (
            step("angle = { expr = \"u +\" }"),
            "line 3: step \"rotate\": expression, column 4: expected a number",
        ),
        (
            step("\"keep size\" = true"),
            r#"line 3: step "rotate": "keep size" cannot name an argument"#,
        ),
        (
            step("when = 0.5"),
            r#"line 3: step "rotate": when must be { probability = 0.5 }, the name"#,
        ),
        (
            step("when = { probability = 50 }"),
            "line 3: step \"rotate\": when: probability = 50 is not between",
        ),
        (
            step("when = { probabilty = 0.5 }"),
            r#"when: unknown key "probabilty", did you mean "probability"?"#,
        ),
        (
            when("when = \"coim\""),
            r#"line 6: step "rotate": when: unknown draw "coim", did you mean "coin"?"#,
        ),
        (
            when("when = { expr = \"con < 1\" }"),
            r#"line 6: step "rotate": when: unknown draw "con""#,
        ),
        (
            step("when = \"coin\""),
            r#"line 3: step "rotate": when: unknown draw "coin": there is none here"#,
        ),
        (
            "[[step]]\nop = \"expr\"\nexpr = \"x +\"".into(),
            r#"line 3: step "expr": expression, column 4"#,
        ),
        ("output = []".into(), "line 1: output must be one output or more"),
        ("[[output]]\n[[output]]".into(), "line 2: [[output]] needs name = …"),
        ("[output]\nname = \"../a\"".into(), r#"line 2: "../a" cannot name an output"#),
        ("[output]\nname = \"labels\"".into(), "line 2: every batch has labels"),
        (
            "[[output]]\nname = \"a\"\n[[output]]\nname = \"a\"".into(),
            r#"line 3: two outputs are called "a""#,
        ),
        (
            "[output]\nlayout = \"chw\"".into(),
            r#"line 2: unknown layout = "chw", did you mean "CHW"?"#,
        ),
        ("[output]\ndtype = \"i64\"".into(), r#"line 2: unknown dtype = "i64", known are u8, f32"#),
    ] {
        let error = parse(&text).expect_err(&text).to_string();
        assert!(
            error.contains(expected) && !error.contains('\n'),
            "{text}\n  {error}\n  {expected}"
        );
    }
}

#[test]
fn errors_of_a_file_name_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.toml");
    let refused = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        let error = load(&path).unwrap_err().to_string();
        error.strip_prefix(&*path.to_string_lossy()).expect(&error).to_owned()
    };
    assert!(refused(b"\nseed = true").starts_with(":2: seed must be a whole number"));
    assert!(refused(b"# \xff").starts_with(":1: a pipeline file is UTF-8 text"));
    assert!(refused(&[b'\n'; (1 << 20) + 1]).contains("above the limit of"));
    std::fs::remove_file(&path).unwrap();
    assert!(load(&path).unwrap_err().to_string().contains("p.toml: cannot read: no such file"));
    assert!(load(folder.path()).is_err());
}

#[test]
fn nesting_without_end_is_refused() {
    let mut text = String::from("[[step]]\nwhen = { probability = 1 }\nthen = ");
    text += &"[{ when = { probability = 1 }, then = ".repeat(5000);
    assert!(parse(&text).is_err());
    text += "[]";
    text += &"}]".repeat(5000);
    assert!(parse(&text).is_err());
}
