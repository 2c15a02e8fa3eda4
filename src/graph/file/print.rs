//! [`Spec`] to TOML: defaults left out, one step a line inside branches.

use crate::graph::number::{Shortest, widen};
use crate::graph::spec::{
    Arg, Body, Condition, DecoderSpec, Dist, DrawSpec, Output, Placement, ReaderKind, ReaderSpec,
    Spec, Step,
};
use crate::policy::LastBatch;
use std::fmt::Write;

/// A key and its value as TOML text.
type Pair = (String, String);

pub(super) fn spec(spec: &Spec) -> String {
    let mut file = format!("seed = {}\n", spec.seed);
    table(&mut file, "[reader]", reader(&spec.reader));
    table(&mut file, "[decoder]", decoder(&spec.decoder));
    for draw in &spec.draws {
        table(&mut file, "[[draw]]", shared_draw(draw));
    }
    for one in &spec.steps {
        table(&mut file, "[[step]]", step(one, 0));
    }
    match spec.outputs.as_slice() {
        [only] => {
            let mut pairs = output(only);
            pairs.retain(|(key, value)| key != "name" || value != "\"images\"");
            if !pairs.is_empty() {
                table(&mut file, "[output]", pairs);
            }
        }
        several => several.iter().for_each(|one| table(&mut file, "[[output]]", output(one))),
    }
    file
}

fn table(file: &mut String, title: &str, pairs: Vec<Pair>) {
    let _ = writeln!(file, "\n{title}");
    for (key, value) in pairs {
        let _ = writeln!(file, "{key} = {value}");
    }
}

fn inline(pairs: &[Pair]) -> String {
    let pairs: Vec<String> = pairs.iter().map(|(key, value)| format!("{key} = {value}")).collect();
    format!("{{ {} }}", pairs.join(", "))
}

fn pair(key: &str, value: impl Into<String>) -> Pair {
    (key.to_owned(), value.into())
}

fn text(value: &str) -> String {
    toml::Value::from(value).to_string()
}

fn numbers(values: &[f64]) -> String {
    let values: Vec<String> = values.iter().map(|v| Shortest(*v).to_string()).collect();
    format!("[{}]", values.join(", "))
}

fn reader(reader: &ReaderSpec) -> Vec<Pair> {
    let mut pairs = match &reader.kind {
        ReaderKind::File { file_list } => {
            vec![pair("kind", "\"file\""), pair("file_list", text(file_list))]
        }
        ReaderKind::Folders => vec![pair("kind", "\"folders\"")],
        ReaderKind::Tar => vec![pair("kind", "\"tar\"")],
        ReaderKind::Cifar10 { train } => {
            let split = if *train { "\"train\"" } else { "\"test\"" };
            vec![pair("kind", "\"cifar10\""), pair("split", split)]
        }
    };
    pairs.push(pair("shuffle", reader.shuffle.to_string()));
    if reader.last_batch != LastBatch::default() {
        let policy = match reader.last_batch {
            LastBatch::Drop => "\"drop\"",
            LastBatch::Partial => "\"partial\"",
            LastBatch::Pad => "\"pad\"",
        };
        pairs.push(pair("last_batch", policy));
    }
    let default = ReaderSpec::default();
    if reader.on_error != default.on_error {
        pairs.push(pair("on_error", text(&reader.on_error.to_string())));
    }
    if reader.max_bad != default.max_bad {
        pairs.push(pair("max_bad", reader.max_bad.to_string()));
    }
    if reader.cache != default.cache {
        pairs.push(pair("cache", text(&reader.cache.to_string())));
    }
    pairs
}

fn decoder(decoder: &DecoderSpec) -> Vec<Pair> {
    let default = DecoderSpec::default();
    let device = match decoder.device {
        Placement::Cpu => "\"cpu\"",
        Placement::Mixed => "\"mixed\"",
    };
    let mut pairs = vec![pair("device", device)];
    if decoder.backend != default.backend {
        pairs.push(pair("backend", text(decoder.backend.name())));
    }
    if decoder.exact != default.exact {
        pairs.push(pair("exact", decoder.exact.to_string()));
    }
    if decoder.split != default.split {
        pairs.push(pair("split", decoder.split.to_string()));
    }
    if decoder.scale != default.scale {
        pairs.push(pair("scale", text(decoder.scale.name())));
    }
    pairs
}

fn shared_draw(draw: &DrawSpec) -> Vec<Pair> {
    let mut pairs = vec![pair("name", text(&draw.name))];
    pairs.extend(distribution(draw.dist, draw.per_channel));
    pairs
}

fn distribution(dist: Dist, per_channel: bool) -> Vec<Pair> {
    let mut pairs = vec![match dist {
        Dist::Uniform { lo, hi } => pair("uniform", numbers(&[widen(lo), widen(hi)])),
        Dist::Bernoulli { p } => pair("bernoulli", Shortest(widen(p)).to_string()),
        Dist::Normal { mean, std } => pair("normal", numbers(&[widen(mean), widen(std)])),
    }];
    if per_channel {
        pairs.push(pair("per", "\"channel\""));
    }
    pairs
}

/// A step's keys; `depth` is how many arrays it stands in.
fn step(step: &Step, depth: usize) -> Vec<Pair> {
    let mut pairs = Vec::new();
    if let Body::Op { op, .. } = &step.body {
        pairs.push(pair("op", text(op)));
    }
    if let Some(name) = &step.name {
        pairs.push(pair("name", text(name)));
    }
    if let Some(from) = &step.from {
        pairs.push(pair("from", text(from)));
    }
    if let Some(when) = &step.when {
        pairs.push(pair("when", condition(when)));
    }
    match &step.body {
        Body::Op { op, args } => {
            pairs.extend(args.iter().map(|(key, arg)| match arg {
                Arg::Expr(expr) if op == "expr" && key == "expr" => {
                    pair(key, text(&expr.to_string()))
                }
                arg => pair(key, argument(arg)),
            }));
        }
        Body::Branch { then, otherwise } => {
            if !then.is_empty() || otherwise.is_empty() {
                pairs.push(pair("then", branch(then, depth)));
            }
            if !otherwise.is_empty() {
                pairs.push(pair("else", branch(otherwise, depth)));
            }
        }
    }
    pairs
}

/// An array of steps, one a line: arrays may span lines where inline tables may not.
fn branch(steps: &[Step], depth: usize) -> String {
    if steps.is_empty() {
        return "[]".into();
    }
    let indent = "    ".repeat(depth);
    let mut array = String::from("[\n");
    for one in steps {
        let _ = writeln!(array, "{indent}    {},", inline(&step(one, depth + 1)));
    }
    array + &indent + "]"
}

fn condition(condition: &Condition) -> String {
    match condition {
        Condition::Probability(p) => {
            inline(&[pair("probability", Shortest(widen(*p)).to_string())])
        }
        Condition::Draw(name) => text(name),
        Condition::Expr(expr) => inline(&[pair("expr", text(&expr.to_string()))]),
    }
}

fn argument(arg: &Arg) -> String {
    match arg {
        Arg::Bool(value) => value.to_string(),
        Arg::Number(value) => Shortest(*value).to_string(),
        Arg::Numbers(values) => numbers(values),
        Arg::Text(value) => text(value),
        Arg::Draw { dist, per_channel } => inline(&distribution(*dist, *per_channel)),
        Arg::Expr(expr) => inline(&[pair("expr", text(&expr.to_string()))]),
    }
}

fn output(output: &Output) -> Vec<Pair> {
    let mut pairs = vec![pair("name", text(&output.name))];
    if let Some(from) = &output.from {
        pairs.push(pair("from", text(from)));
    }
    if let Some(layout) = output.layout {
        pairs.push(pair("layout", text(layout.name())));
    }
    if let Some(dtype) = output.dtype {
        pairs.push(pair("dtype", text(dtype.name())));
    }
    pairs
}
