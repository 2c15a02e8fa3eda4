//! TOML to [`Spec`].

use super::fields::{Field, Place, Section};
use crate::error::{Error, Result};
use crate::graph::expr::{Expr, is_name};
use crate::graph::nearest;
use crate::graph::spec::{
    Arg, Backend, Body, Condition, DecodeScale, DecoderSpec, Dist, DrawSpec, Output, Placement,
    ReaderKind, ReaderSpec, Spec, Step,
};
use crate::policy::{Cache, LastBatch, MaxBad, OnError};
use crate::tensor::{DType, Layout};
use std::collections::HashMap;
use toml::de::{DeTable, DeValue};

const STEP_KEYS: [&str; 6] = ["op", "name", "from", "when", "then", "else"];
const DRAW_KEYS: [&str; 4] = ["uniform", "bernoulli", "normal", "per"];
const DRAW_FORM: &str = "a draw like { uniform = [-15, 15] }";

/// Reads a whole document.
pub(super) fn spec(text: &str) -> Result<Spec> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let document = DeTable::parse(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        Place::new(text, offset).error(error.message().replace('\n', " "))
    })?;
    let file = Section::new(Place::new(text, 0), "the pipeline file", document.get_ref());
    file.only(&["seed", "reader", "decoder", "draw", "step", "output"])?;

    let mut names = Names::default();
    let seed = file.get("seed").map_or(Ok(0), Field::whole)?;
    let reader = match file.get("reader") {
        Some(field) => reader(field.section("[reader]", "a table, [reader]")?)?,
        None => ReaderSpec::default(),
    };
    let decoder = match file.get("decoder") {
        Some(field) => decoder(field.section("[decoder]", "a table, [decoder]")?)?,
        None => DecoderSpec::default(),
    };
    let mut draws = Vec::new();
    if let Some(field) = file.get("draw") {
        for section in field.sections("[[draw]]", "tables, each under [[draw]]")? {
            let draw = shared_draw(section)?;
            names.claim(section.need("name")?, "[[draw]]")?;
            draws.push(draw);
        }
    }
    names.draws = draws.iter().map(|draw| draw.name.clone()).collect();
    let steps = match file.get("step") {
        Some(field) => steps(field, "[[step]]", "tables, each under [[step]]", &mut names)?,
        None => Vec::new(),
    };
    let outputs = match file.get("output") {
        Some(field) => outputs(field)?,
        None => vec![output_named("images")],
    };
    Ok(Spec { seed, reader, decoder, draws, steps, outputs })
}

/// The names given so far: draws and steps share them, since expressions see both.
#[derive(Default)]
struct Names {
    lines: HashMap<String, (&'static str, u64)>,
    draws: Vec<String>,
}

impl Names {
    fn claim(&mut self, field: Field<'_>, owner: &'static str) -> Result<String> {
        let name = field.text("a name")?;
        if name == "x" || name == "decode" || !is_name(name) {
            return Err(field.must_be(
                "letters, digits and _ (neither x nor decode nor a word of expressions)",
            ));
        }
        let line = field.place.line();
        match self.lines.insert(name.to_owned(), (owner, line)) {
            None => Ok(name.to_owned()),
            Some((other, other_line)) => {
                let message =
                    format!("name = \"{name}\" is taken by the {other} of line {other_line}");
                Err(field.place.error(message))
            }
        }
    }

    /// Refuses names that are no `[[draw]]`'s: predicates see draws alone.
    fn need_draw(&self, field: Field<'_>, name: &str) -> Result<()> {
        if self.draws.iter().any(|draw| draw == name) {
            return Ok(());
        }
        let draws: Vec<&str> = self.draws.iter().map(String::as_str).collect();
        Err(field.place.error(format!("{}: {}", field.key, nearest::unknown("draw", name, &draws))))
    }
}

fn reader(section: Section<'_>) -> Result<ReaderSpec> {
    section.only(&[
        "kind",
        "file_list",
        "split",
        "shuffle",
        "last_batch",
        "on_error",
        "max_bad",
        "cache",
    ])?;
    let default = ReaderSpec::default();
    let kind = section.get("kind").map_or(Ok("file"), |field| {
        let kinds = ["file", "folders", "tar", "cifar10"];
        field.choice(&kinds.map(|kind| (kind, kind)))
    })?;
    for (key, owner) in [("file_list", "file"), ("split", "cifar10")] {
        if let Some(field) = section.get(key).filter(|_| kind != owner) {
            let message = format!("{key} goes with kind = \"{owner}\", not with \"{kind}\"");
            return Err(field.place.error(message));
        }
    }
    let kind = match kind {
        "folders" => ReaderKind::Folders,
        "tar" => ReaderKind::Tar,
        "cifar10" => ReaderKind::Cifar10 {
            train: section
                .get("split")
                .map_or(Ok(true), |field| field.choice(&[("train", true), ("test", false)]))?,
        },
        _ => match section.get("file_list") {
            Some(field) => ReaderKind::File { file_list: field.text("a file name")?.to_owned() },
            None => default.kind,
        },
    };
    let last_batch =
        [("drop", LastBatch::Drop), ("partial", LastBatch::Partial), ("pad", LastBatch::Pad)];
    Ok(ReaderSpec {
        kind,
        shuffle: section.get("shuffle").map_or(Ok(default.shuffle), Field::bool)?,
        last_batch: section
            .get("last_batch")
            .map_or(Ok(default.last_batch), |field| field.choice(&last_batch))?,
        on_error: section
            .get("on_error")
            .map_or(Ok(default.on_error), |field| field.choice(&OnError::NAMES))?,
        max_bad: section.get("max_bad").map_or(Ok(default.max_bad), max_bad)?,
        cache: section
            .get("cache")
            .map_or(Ok(default.cache), |field| field.choice(&Cache::NAMES))?,
    })
}

/// A whole number is a count, one with a point a share.
fn max_bad(field: Field<'_>) -> Result<MaxBad> {
    match field.value() {
        DeValue::Integer(_) => return field.whole().map(MaxBad::Count),
        DeValue::Float(_) => MaxBad::share(field.number()?),
        _ => None,
    }
    .ok_or_else(|| field.must_be(MaxBad::FORM))
}

fn decoder(section: Section<'_>) -> Result<DecoderSpec> {
    section.only(&["device", "backend", "exact", "split", "scale"])?;
    let default = DecoderSpec::default();
    let device = [("cpu", Placement::Cpu), ("mixed", Placement::Mixed)];
    let backend = section.get("backend");
    let decoder = DecoderSpec {
        backend: backend.map_or(Ok(default.backend), |field| field.choice(&Backend::NAMES))?,
        device: section.get("device").map_or(Ok(default.device), |field| field.choice(&device))?,
        exact: section.get("exact").map_or(Ok(default.exact), Field::bool)?,
        split: section.get("split").map_or(Ok(default.split), Field::whole)?,
        scale: section
            .get("scale")
            .map_or(Ok(default.scale), |field| field.choice(&DecodeScale::NAMES))?,
    };
    match (decoder.check(), backend) {
        (Err(error), Some(field)) => Err(field.blame(error)),
        (checked, _) => checked.map(|()| decoder),
    }
}

fn shared_draw(section: Section<'_>) -> Result<DrawSpec> {
    section.only(&["name", "uniform", "bernoulli", "normal", "per"])?;
    let name = section.need("name")?.text("a name")?.to_owned();
    let (dist, per_channel) = draw(section)?;
    Ok(DrawSpec { name, dist, per_channel })
}

/// The distribution of a draw's table, and whether it is drawn per channel.
fn draw(section: Section<'_>) -> Result<(Dist, bool)> {
    let mut kinds = section.fields().filter(|f| DRAW_KEYS[..3].contains(&f.key));
    let (Some(field), None) = (kinds.next(), kinds.next()) else {
        let message = format!("{} needs one of uniform, bernoulli, normal", section.title);
        return Err(section.place.error(message));
    };
    let dist = match field.key {
        "uniform" => {
            let [lo, hi] = field.pair("two numbers, [least, greatest]")?;
            Dist::Uniform { lo, hi }
        }
        "normal" => {
            let [mean, std] = field.pair("two numbers, [mean, standard deviation]")?;
            Dist::Normal { mean, std }
        }
        _ => Dist::Bernoulli { p: field.number()? as f32 },
    };
    dist.check().map_err(|error| field.place.error(error.message()))?;
    let per_channel = match section.get("per") {
        Some(field) => field.choice(&[("channel", true)])?,
        None => false,
    };
    Ok((dist, per_channel))
}

fn steps<'a>(field: Field<'a>, title: &'a str, what: &str, names: &mut Names) -> Result<Vec<Step>> {
    let sections = field.sections(title, what)?;
    sections
        .into_iter()
        .enumerate()
        .map(|(i, section)| {
            step(section, names).map_err(|error| error.at_step(title_of(section, i)))
        })
        .collect()
}

/// What errors call a step: its name, else its op, else its number.
fn title_of(section: Section<'_>, index: usize) -> String {
    let text = |key| section.get(key).and_then(|field| field.value().as_str());
    match text("name").or_else(|| text("op")) {
        Some(title) => title.to_owned(),
        None => (index + 1).to_string(),
    }
}

fn step(section: Section<'_>, names: &mut Names) -> Result<Step> {
    let name = section.get("name").map(|field| names.claim(field, "step")).transpose()?;
    let from = section.get("from").map(|field| field.text("the name of a step")).transpose()?;
    let when = section.get("when").map(|field| condition(field, names)).transpose()?;
    let body = match section.get("op") {
        Some(op) => operator(section, op)?,
        None => branch(section, when.is_some(), names)?,
    };
    Ok(Step { name, from: from.map(str::to_owned), when, body })
}

fn operator(section: Section<'_>, op: Field<'_>) -> Result<Body> {
    let op = op.text("the name of an operator")?;
    if let Some(field) = section.get("then").or_else(|| section.get("else")) {
        let message =
            format!("a step has either op or {0}; put the op into {0} = [ … ]", field.key);
        return Err(field.place.error(message));
    }
    let mut args = Vec::new();
    for field in section.fields().filter(|field| !STEP_KEYS.contains(&field.key)) {
        let is_expr = op == "expr";
        let good = is_name(field.key) && !(is_expr && field.key == "x");
        if !good {
            let key = nearest::quote(field.key);
            let message = format!("{key} cannot name an argument: letters, digits and _ do");
            return Err(field.place.error(message));
        }
        let arg = match field.value().as_str() {
            Some(text) if is_expr && field.key == "expr" => Arg::Expr(expression(field, text)?),
            _ => argument(field)?,
        };
        args.push((field.key.to_owned(), arg));
    }
    Ok(Body::Op { op: op.to_owned(), args })
}

fn branch(section: Section<'_>, has_when: bool, names: &mut Names) -> Result<Body> {
    let [then, otherwise] = ["then", "else"].map(|key| section.get(key));
    if then.is_none() && otherwise.is_none() {
        return Err(section.place.error("a step needs op = \"…\", or when with then = [ … ]"));
    }
    section.only(&STEP_KEYS)?;
    if !has_when {
        return Err(section.place.error("then and else need when = …"));
    }
    let mut branch = |field: Option<Field<'_>>| match field {
        Some(field) => steps(field, field.key, "an array of steps, [{ op = \"…\" }, …]", names),
        None => Ok(Vec::new()),
    };
    Ok(Body::Branch { then: branch(then)?, otherwise: branch(otherwise)? })
}

fn condition(field: Field<'_>, names: &Names) -> Result<Condition> {
    let forms = "{ probability = 0.5 }, the name of a [[draw]], or { expr = \"u < 0.3\" }";
    let condition = match field.value() {
        DeValue::String(name) => {
            if !is_name(name) {
                return Err(field.must_be(forms));
            }
            names.need_draw(field, name)?;
            Condition::Draw(name.to_string())
        }
        DeValue::Table(_) => {
            let section = field.section("when", forms)?;
            section.only(&["probability", "expr"])?;
            match (section.get("probability"), section.get("expr")) {
                (Some(p), None) => Condition::Probability(p.number()? as f32),
                (None, Some(e)) => {
                    let expr = expression(e, e.text("an expression in quotes")?)?;
                    expr.names().try_for_each(|name| names.need_draw(field, name))?;
                    Condition::Expr(expr)
                }
                _ => return Err(field.must_be(forms)),
            }
        }
        _ => return Err(field.must_be(forms)),
    };
    condition.check().map_err(|error| field.blame(error))?;
    Ok(condition)
}

fn argument(field: Field<'_>) -> Result<Arg> {
    Ok(match field.value() {
        DeValue::Boolean(value) => Arg::Bool(*value),
        DeValue::Integer(_) | DeValue::Float(_) => Arg::Number(field.number()?),
        DeValue::String(text) => Arg::Text(text.to_string()),
        DeValue::Array(_) => Arg::Numbers(field.numbers()?.ok_or_else(|| {
            field.must_be(&format!("a number, an array of numbers, {DRAW_FORM}, or a name"))
        })?),
        DeValue::Table(_) => {
            let section = field.section(field.key, "a table")?;
            match section.get("expr") {
                Some(e) => {
                    section.only(&["expr"])?;
                    Arg::Expr(expression(e, e.text("an expression in quotes")?)?)
                }
                None => {
                    section.only(&["uniform", "bernoulli", "normal", "per", "expr"])?;
                    let (dist, per_channel) = draw(section)?;
                    Arg::Draw { dist, per_channel }
                }
            }
        }
        DeValue::Datetime(_) => {
            return Err(field.must_be(&format!("a number, {DRAW_FORM}, or a name")));
        }
    })
}

fn expression(field: Field<'_>, text: &str) -> Result<Expr> {
    Expr::parse(text).map_err(|error| field.place.error(error.message()))
}

fn output_named(name: &str) -> Output {
    Output { name: name.to_owned(), from: None, layout: None, dtype: None }
}

fn outputs(field: Field<'_>) -> Result<Vec<Output>> {
    let sections = match field.value() {
        DeValue::Table(_) => vec![field.section("[output]", "a table")?],
        _ => field.sections("[[output]]", "a table, [output], or several, [[output]]")?,
    };
    if sections.is_empty() {
        return Err(field.must_be("one output or more"));
    }
    let mut outputs: Vec<Output> = Vec::new();
    for section in sections {
        let output = output(section, outputs.is_empty())?;
        if outputs.iter().any(|other| other.name == output.name) {
            let message = format!("two outputs are called \"{}\"", output.name);
            return Err(section.place.error(message));
        }
        outputs.push(output);
    }
    Ok(outputs)
}

fn output(section: Section<'_>, first: bool) -> Result<Output> {
    section.only(&["name", "from", "layout", "dtype"])?;
    let mut output = output_named("images");
    if !first || section.get("name").is_some() {
        let field = section.need("name")?;
        output.name = field.text("a name")?.to_owned();
        output.check_name().map_err(|error: Error| field.place.error(error.message()))?;
    }
    if let Some(field) = section.get("from") {
        output.from = Some(field.text("the name of a step")?.to_owned());
    }
    if let Some(field) = section.get("layout") {
        output.layout = Some(field.choice(&[("HWC", Layout::Hwc), ("CHW", Layout::Chw)])?);
    }
    if let Some(field) = section.get("dtype") {
        output.dtype = Some(field.choice(&[("u8", DType::U8), ("f32", DType::F32)])?);
    }
    Ok(output)
}
