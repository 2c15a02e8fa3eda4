//! What a plan makes of a pipeline, and what it refuses.

use forebay::graph::file;
use forebay::graph::plan::{ImagePlan, Plan};
use forebay::graph::program::{Pass, Scalar, Step};
use forebay::{ops, rng};

fn compile(text: &str) -> forebay::error::Result<Plan> {
    Plan::compile(&file::parse(text)?, ops::ALL)
}

/// What the kernels are given of the plan, without the steps' names.
fn anonymous(text: &str) -> (Vec<Scalar>, Vec<Pass>, Vec<Step>, Vec<ImagePlan>) {
    let plan = compile(text).unwrap();
    let steps = plan.steps().iter().map(|&step| Step { name: 0, ..step }).collect();
    (plan.scalars().to_vec(), plan.passes().to_vec(), steps, plan.images().to_vec())
}

#[test]
fn normalize_and_its_formula_are_one_plan() {
    let normalize = "[[step]]\nop = \"normalize\"\nmean = [0.1, 0.2, 0.3]\nstd = [0.5, 0.6, 0.7]";
    let formula = "[[step]]\nop = \"expr\"\nexpr = \"(x / 255 - mean) / std\"\n\
                   mean = [0.1, 0.2, 0.3]\nstd = [0.5, 0.6, 0.7]";
    let numbers = "[[step]]\nop = \"expr\"\n\
                   expr = \"(x / 255 - [0.1, 0.2, 0.3]) / [0.5, 0.6, 0.7]\"";
    assert_eq!(anonymous(normalize), anonymous(formula));
    assert_eq!(anonymous(normalize), anonymous(numbers));
}

#[test]
fn the_courses_pipeline_is_one_pass() {
    let plan = compile(include_str!("../../pipelines/cifar10-train.toml")).unwrap();
    assert_eq!((plan.passes().len(), plan.images().len()), (1, 2));
}

/// A pipeline and the one line that refuses it.
#[test]
fn mistakes_name_the_step_and_what_was_expected() {
    let when = "when = { probability = 0.5 }";
    let crop = "[[step]]\nop = \"crop\"\nsize = 8";
    let normalize = "op = \"normalize\"\nmean = 0\nstd = 1";
    let two = |then: &str, otherwise: &str| {
        format!("[[step]]\n{when}\nthen = [{then}]\nelse = [{otherwise}]")
    };
    let coins = "[[draw]]\nname = \"coin\"\nbernoulli = 0.5\nper = \"channel\"";
    for (text, expected) in [
        (
            "op = \"rotat\"\nangle = 5".into(),
            r#"step "rotat": unknown operator "rotat", did you mean "rotate"?"#,
        ),
        (
            "op = \"rotate\"\nangel = 5".into(),
            r#"step "rotate": unknown argument "angel", did you mean "angle"?"#,
        ),
        ("op = \"rotate\"".into(), r#"step "rotate": angle is missing"#),
        ("op = \"rotate\"\nangle = [1, 2, 3]".into(), r#"step "rotate": angle must be one number"#),
        (
            "op = \"rotate\"\nangle = 5\ninterp = \"cubic\"".into(),
            r#"step "rotate": interp: unknown choice "cubic", known are"#,
        ),
        (
            "op = \"rotate\"\nangle = 5\nborder = \"clamp\"\nfill = 3".into(),
            r#"step "rotate": fill needs border = "constant""#,
        ),
        (
            "op = \"rotate\"\nangle = { uniform = [15, -15] }".into(),
            r#"step "rotate": uniform = [15, -15] is turned round, write [-15, 15]"#,
        ),
        (
            "op = \"flip\"\nwhen = { probability = 1.01 }".into(),
            r#"step "flip": when: probability = 1.01 is not between 0 and 1"#,
        ),
        (
            "op = \"flip\"\nhorizontal = 1".into(),
            r#"step "flip": horizontal must be true or false"#,
        ),
        ("op = \"crop\"".into(), r#"step "crop": size must be [rows, columns]"#),
        ("op = \"crop\"\nsize = [0, 4]".into(), r#"step "crop": size must be at least [1, 1]"#),
        (
            "op = \"crop\"\nsize = [65500, 65500]".into(),
            r#"step "crop": size = [65500, 65500] is beyond the limit of"#,
        ),
        (
            "op = \"crop\"\nsize = 4\nborder = \"reflect\"".into(),
            r#"step "crop": border and fill need a padding"#,
        ),
        (
            format!("op = \"flip\"\n{crop}\n[[step]]\nop = \"crop\"\nsize = [11, 4]"),
            r#"step "crop_2": size = [11, 4] is larger than the 8x8 image"#,
        ),
        (
            "op = \"normalize\"\nmean = 0\nstd = [1, 0, 1]".into(),
            r#"step "normalize": std must be above 0"#,
        ),
        (
            "op = \"normalize\"\nmean = [1, 2]\nstd = 1".into(),
            r#"step "normalize": mean has 2 numbers; give one, or three"#,
        ),
        ("op = \"clamp\"\nlo = 4\nhi = 2".into(), r#"step "clamp": lo = 4 is above hi = 2"#),
        ("op = \"cast\"".into(), r#"step "cast": dtype is missing"#),
        ("op = \"affine\"\nscale = 0".into(), r#"step "affine": scale must be above 0"#),
        ("op = \"expr\"\nexpr = \"y + 1\"".into(), r#"step "expr": unknown name "y""#),
        ("op = \"expr\"\nexpr = \"1 + 2\"".into(), r#"step "expr": "1 + 2" reads no image"#),
        (
            format!("{normalize}\n[[step]]\nop = \"rgb_shift\"\nshift = 1"),
            r#"step "rgb_shift": needs a u8 image and gets f32"#,
        ),
        (
            format!("{normalize}\n{when}"),
            r#"step "normalize": branches disagree in type: f32 where"#,
        ),
        (
            format!("op = \"transpose\"\nlayout = \"CHW\"\n{when}"),
            r#"step "transpose": branches disagree in layout"#,
        ),
        (
            format!("op = \"rotate\"\nangle = 5\n{when}"),
            r#"step "rotate": branches disagree in size: as grown by step "rotate" where"#,
        ),
        (
            two("{ op = \"crop\", size = 4 }", "{ op = \"crop\", size = [4, 5] }"),
            r#"(step "crop"), 4x5 where it is false (step "crop_2"); keep the size"#,
        ),
        (
            format!("op = \"flip\"\n{crop}\n[[step]]\nop = \"expr\"\nexpr = \"x + flip\""),
            r#"step "expr": the two images have different sizes: 8x8 and as decoded"#,
        ),
        (
            "op = \"flip\"\nwhen = \"u\"\n[[draw]]\nname = \"u\"\nuniform = [0, 1]".into(),
            r#"step "flip": when must be true or false"#,
        ),
        ("op = \"flip\"\nhorizontal = false".into(), r#"step "flip": neither horizontal nor"#),
        (
            "op = \"affine\"\nscale = { uniform = [-1, 1] }".into(),
            r#"step "affine": scale must be above 0, it can be -1"#,
        ),
        (
            "op = \"affine\"\nshear_x = { uniform = [-90, 9] }".into(),
            r#"step "affine": shear_x must be between -90 and 90 degrees"#,
        ),
        (
            "op = \"clamp\"\nlo = 0\nhi = { uniform = [-5, -1] }".into(),
            r#"step "clamp": lo is above hi whatever is drawn"#,
        ),
        (
            "op = \"resize\"\nsize = 8\nmode = \"short\"".into(),
            r#"step "resize": mode: unknown choice "short", did you mean "shorter"?"#,
        ),
        (
            "op = \"resize\"\nsize = [8, 9]\nmode = \"shorter\"".into(),
            r#"step "resize": mode "shorter" and "longer" take one number as size"#,
        ),
        (
            "op = \"resize\"\nsize = 8\nsubpixel_scale = false".into(),
            r#"step "resize": subpixel_scale is for modes that keep the aspect"#,
        ),
        (
            format!("op = \"resize\"\nsize = 8\nmode = \"longer\"\n{when}"),
            r#"branches disagree in size: as resized by step "resize" where"#,
        ),
        (
            "op = \"random_resized_crop\"\nsize = 8\narea = [0, 1]".into(),
            r#"area = [0, 1] must be [least, largest], above 0 and from 0 to 1"#,
        ),
        (
            "op = \"random_resized_crop\"\nsize = 8\naspect = [2, 1]".into(),
            r#"aspect = [2, 1] must be [least, largest], above 0 and from 0.001 to 1000"#,
        ),
        (
            "op = \"crop_mirror_normalize\"\nposition = \"random\"".into(),
            r#"step "crop_mirror_normalize": position needs a size"#,
        ),
        (
            "op = \"crop_mirror_normalize\"\nmirror = 1".into(),
            r#"step "crop_mirror_normalize": mirror must be true, false or a bernoulli draw"#,
        ),
        ("op = \"flip\"\nfrom = \"fip\"\n".into(), r#"from: unknown step "fip""#),
        (
            "op = \"flip\"\nname = \"a\"\n[[step]]\nop = \"flip\"\nname = \"a\"".into(),
            r#"step "a": name = "a" is taken by the step of line 3"#,
        ),
        (
            format!("op = \"flip\"\nwhen = \"coin\"\n{coins}"),
            r#"step "flip": when must be one truth a sample"#,
        ),
    ] {
        let text = if text.starts_with("[[") { text } else { format!("[[step]]\n{text}") };
        let error = compile(&text).expect_err(&text).to_string();
        assert!(
            error.contains(expected) && !error.contains('\n'),
            "{text}\n  {error}\n  {expected}"
        );
    }
}

/// Two names whose draws would be the same numbers.
#[test]
fn draws_that_collide_ask_for_a_name() {
    let draw = |k: u32| rng::draw_number(&format!("s{k}.when"));
    let (a, b) = (0..2000)
        .find_map(|b| (0..b).find(|&a| draw(a) == draw(b)).map(|a| (a, b)))
        .expect("2000 names share 65520 numbers");
    let flip = |k: u32| {
        format!("[[step]]\nop = \"flip\"\nname = \"s{k}\"\nwhen = {{ probability = 0.5 }}\n")
    };
    let error = compile(&(flip(a) + &flip(b))).unwrap_err().to_string();
    let expected =
        format!("step \"s{b}\": draws \"s{a}.when\" and \"s{b}.when\" get the same number");
    assert!(error.contains(&expected), "{error}");
    compile(&(flip(a) + &flip(b + 1))).unwrap();
}

/// What only a sample's size tells is that sample's error.
#[test]
fn samples_that_do_not_fit_name_the_step() {
    let refused = |text: &str, width, height| {
        let mut scratch = Default::default();
        let error = super::program(text).resolve(&mut scratch, 42, 0, 0, width, height);
        error.unwrap_err().to_string()
    };
    let crop = "[[step]]\nop = \"crop\"\nsize = 8\npadding = 1";
    let error = refused(crop, 9, 5);
    assert!(error.contains("step \"crop\": the crop is larger than the image"), "{error}");
    let grow = "[[step]]\nop = \"rotate\"\nangle = 45";
    let error = refused(grow, 10_000, 10_000);
    assert!(error.contains("step \"rotate\": its result would have"), "{error}");
    let same = "[[step]]\nop = \"rotate\"\nangle = 0\nkeep_size = true";
    let error = refused(same, (1 << 22) + 1, 1);
    assert!(error.contains("a side above 4194304"), "{error}");
    let error = refused(grow, 0, 5);
    assert!(error.contains("limit"), "{error}");
}

/// The kernels' tables number steps and images with 16 bits: more are refused, not wrapped round.
#[test]
fn too_many_steps_are_refused() {
    let text = "[[step]]\nop = \"flip\"\n".repeat(65_536 / 2);
    let mut spec = file::parse(&text).unwrap();
    assert!(Plan::compile(&spec, ops::ALL).is_ok());
    spec.steps.extend(spec.steps.clone());
    let error = Plan::compile(&spec, ops::ALL).unwrap_err().to_string();
    assert!(error.contains("too many steps"), "{error}");
}
