//! `forebay explain`: the plan, for people.

use super::decodes;
use super::open::PipelineArgs;
use super::words::Words;
use anyhow::Result;
use forebay::device::cpu::Cpu;
use forebay::executor::program::{Program, Scratch};
use forebay::graph::plan::{ImagePlan, Plan};
use forebay::graph::primitive::Extent;
use forebay::graph::program::{FLAG_IMAGE, MAX_REGISTERS, Pass};
use forebay::graph::spec::{DecodeScale, ReaderKind, Spec};
use forebay::ops;
use forebay::policy::Cache;
use std::fmt::Write as _;
use std::io::{Write as _, stdout};
use std::str::FromStr;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pipeline: PipelineArgs,
    /// Size of the decoded image that bytes are counted for
    #[arg(long, value_name = "HxW", default_value = "32x32")]
    size: Size,
    /// Samples a batch that memory is counted for
    #[arg(long, value_name = "N", default_value = "256")]
    batch_size: u32,
}

/// Rows and columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Size {
    height: u32,
    width: u32,
}

impl FromStr for Size {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let side = |text: &str| text.parse().ok().filter(|side| (1..=65_500).contains(side));
        let sides = text.split_once('x').and_then(|(h, w)| Some((side(h)?, side(w)?)));
        let (height, width) = sides.ok_or("expected rows x columns, such as 224x224")?;
        Ok(Size { height, width })
    }
}

/// Prints what the pipeline compiles to.
pub(crate) fn run(args: &Args) -> Result<()> {
    let spec = args.pipeline.spec()?;
    let plan = Plan::compile(&spec, ops::ALL).map_err(|e| e.in_pipeline(args.pipeline.name()))?;
    let mut text = head(args.pipeline.name(), &spec);
    let sizes = sizes(&plan, args.size)?;
    passes(&mut text, &plan, &sizes);
    draws(&mut text, &plan);
    memory(&mut text, &plan, &sizes, args.batch_size);
    stdout().lock().write_all(text.as_bytes())?;
    Ok(())
}

fn head(name: &str, spec: &Spec) -> String {
    let source = match &spec.reader.kind {
        ReaderKind::File { file_list } => format!("the files listed in {file_list}"),
        ReaderKind::Folders => "one directory a class".into(),
        ReaderKind::Tar => "tar shards".into(),
        ReaderKind::Cifar10 { .. } => "CIFAR-10's binaries, which need no decoding".into(),
    };
    let order = if spec.reader.shuffle { "in an order of its own each epoch" } else { "in order" };
    let decoder = &spec.decoder;
    let on_cpu = decodes::on_cpu(decoder);
    let who = match decodes::on_gpu(decoder, true) {
        None => on_cpu,
        Some(on_gpu) => format!("where there is a GPU, {on_gpu} on it; else {on_cpu}"),
    };
    let exact = !decodes::asks_nvjpeg(decoder);
    let scale = match decoder.scale {
        DecodeScale::Fast => ", at a smaller scale where the first step shrinks that much",
        DecodeScale::Exact if !exact => "",
        DecodeScale::Exact => ", exact",
    };
    let seed = spec.seed;
    let mut head =
        format!("{name}, seed {seed}\nreads     {source}, {order}\ndecodes   {who}{scale}\n");
    head += match spec.reader.cache {
        Cache::None => "",
        Cache::Encoded => {
            "keeps     files in memory from epoch to epoch, as far as there is room\n"
        }
        Cache::Decoded => {
            "keeps     decoded images in memory from epoch to epoch, as far as there is room\n"
        }
    };
    head
}

/// Rows and columns of each image, where the decoded one has `size`; of a grown one, those before it
/// grows.
fn sizes(plan: &Plan, size: Size) -> Result<Vec<Size>> {
    let resized = |image: &ImagePlan| matches!(image.extent, Extent::Resized(_));
    let mut scratch = Scratch::default();
    let program = match Cpu::best() {
        Some(cpu) if plan.images().iter().any(resized) => {
            let program = Program::with(plan.clone(), cpu);
            program.resolve(&mut scratch, 0, 0, 0, size.width, size.height)?;
            Some(program)
        }
        _ => None,
    };
    let of = |(number, image): (usize, &ImagePlan)| match (&image.extent, &program) {
        (&Extent::Fixed(height, width), _) => Size { height, width },
        (Extent::Resized(_), Some(program)) => {
            let (height, width) = program.image_size(&scratch, number);
            Size { height, width }
        }
        _ => size,
    };
    Ok(plan.images().iter().enumerate().map(of).collect())
}

fn passes(text: &mut String, plan: &Plan, sizes: &[Size]) {
    let words = Words::new(plan);
    for (number, pass) in plan.passes().iter().enumerate() {
        let (from, to) = (usize::from(pass.source), usize::from(pass.dest));
        _ = writeln!(text, "\npass {}    {} -> {}", number + 1, image(plan, from), image(plan, to));
        for line in words.steps(&plan.steps()[pass.first_step as usize..][..pass.steps as usize]) {
            _ = writeln!(text, "  {line}");
        }
        let (read, written) = moved(plan, pass, sizes);
        let Size { height, width } = sizes[0];
        _ = writeln!(text, "  a {height}x{width} image: {read} bytes read, {written} written");
    }
}

/// What an image is to a person: `images (f32 CHW, as decoded)`.
fn image(plan: &Plan, number: usize) -> String {
    let name = match plan.outputs().iter().find(|output| output.image == number) {
        Some(output) => format!("output \"{}\"", output.name),
        None if number == 0 => "decoded".into(),
        None => format!("image {number}"),
    };
    let ImagePlan { dtype, layout, extent } = &plan.images()[number];
    format!("{name} ({dtype} {}, {extent})", layout.name())
}

/// Bytes that a pass reads and writes.
fn moved(plan: &Plan, pass: &Pass, sizes: &[Size]) -> (u64, u64) {
    let steps = &plan.steps()[pass.first_step as usize..][..pass.steps as usize];
    let operands = steps.iter().filter(|step| step.flags & FLAG_IMAGE != 0);
    let operands = operands.map(|step| usize::from(step.regs[0]));
    let bytes = |number: usize| bytes(&plan.images()[number], sizes[number]);
    let read = operands.chain([usize::from(pass.source)]).map(bytes);
    (read.sum(), bytes(usize::from(pass.dest)))
}

/// Bytes of an image.
fn bytes(image: &ImagePlan, size: Size) -> u64 {
    u64::from(size.height) * u64::from(size.width) * 3 * image.dtype.size() as u64
}

fn draws(text: &mut String, plan: &Plan) {
    if plan.draws().is_empty() {
        text.push_str("\ndraws     none: every epoch sees the same pixels\n");
        return;
    }
    text.push_str(
        "\ndraws     each a function of seed, epoch, sample and the draw's number alone\n",
    );
    let words = Words::new(plan);
    let width = plan.draws().iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, number) in plan.draws() {
        _ = writeln!(text, "  {name:<width$}  {number:>5}  {}", words.draw(*number));
    }
}

fn memory(text: &mut String, plan: &Plan, sizes: &[Size], samples: u32) {
    let outputs = || plan.outputs().iter().map(|output| output.image);
    let of = |number: usize| bytes(&plan.images()[number], sizes[number]);
    let output: u64 = outputs().map(of).sum();
    // A label, an id and a flag beside each image.
    let batch = u64::from(samples) * (output + 17);
    let between = (1..plan.images().len()).filter(|i| outputs().all(|output| output != *i));
    let between: u64 = between.map(of).sum();
    let level = Cpu::best().map_or("none", |cpu| cpu.level());
    let grown = plan.images().iter().any(|image| matches!(image.extent, Extent::Grown(_)));
    let least = if grown { "at least " } else { "" };
    _ = writeln!(
        text,
        "\nkernels   resolve, then augment for each pass; {level} on this CPU\n\
         scalars   {} of {MAX_REGISTERS} registers\n\
         memory    {least}{batch} bytes a batch of {}, {least}{between} between passes a thread",
        plan.scalars().len(),
        samples,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_in_words() {
        assert_eq!("20x30".parse(), Ok(Size { height: 20, width: 30 }));
        for wrong in ["", "20", "x", "0x1", "20x-1", "1x1x1", "70000x1"] {
            assert!(wrong.parse::<Size>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_course_is_one_pass() {
        let spec = super::super::pipelines::built_in("cifar10-train").unwrap();
        let plan = Plan::compile(&spec, ops::ALL).unwrap();
        let mut text = String::new();
        let sizes = super::sizes(&plan, Size { height: 32, width: 32 }).unwrap();
        passes(&mut text, &plan, &sizes);
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let first =
            "pass 1    decoded (u8 HWC, as decoded) -> output \"images\" (f32 CHW, as decoded)";
        assert_eq!(lines[1], first);
        assert_eq!(lines[2], "rotate, if rotate.when < 0.5");
        let turn = "turn by rotate.angle * 30 - 15 degrees; linear taps, border clamp";
        assert_eq!(lines[3], turn);
        let normalize = "x = (x / 255 - [0.4914, 0.4822, 0.4465]) / [0.2023, 0.1994, 0.201]";
        assert_eq!(lines[lines.len() - 2], normalize);
        assert_eq!(lines[lines.len() - 1], "a 32x32 image: 3072 bytes read, 12288 written");
        assert!(!text.contains("pass 2"), "{text}");
    }
}
