//! Settings out of files: every flag of `forebay train` can stand in a TOML file under its own name,
//! with `_` or `-`.
//!
//! A file becomes arguments in front of the user's own, of which the last of a name holds. So there
//! is one definition of each setting, and flags win.

use anyhow::{Context, Result, anyhow, bail};
use clap::builder::ValueParser;
use clap::{ArgMatches, Command, value_parser};
use forebay::file;
use forebay::graph::nearest;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Flags that say where settings come from or what to do with them: no settings.
const NOT_SETTINGS: &[&str] =
    &["preset", "config", "print-config", "resume", "force-resume", "help", "version"];
/// The key of a file that starts from a recipe.
const PRESET: &str = "preset";
/// Settings that name a file or directory; a copy of the settings holds them from the root on.
const PATHS: &[&str] = &["data", "weights", "pipeline", "valid-pipeline", "quarantine"];

/// Settings ready to be read, and what to call them in an error.
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) text: String,
}

/// The recipes that come with the program.
pub(crate) const PRESETS: &[(&str, &str)] = &[
    ("basic", include_str!("presets/basic.toml")),
    ("callbacks", include_str!("presets/callbacks.toml")),
    ("unfreeze-last", include_str!("presets/unfreeze-last.toml")),
    ("unfreeze-most", include_str!("presets/unfreeze-most.toml")),
    ("unfreeze-full", include_str!("presets/unfreeze-full.toml")),
    ("warmup-cosine", include_str!("presets/warmup-cosine.toml")),
    ("lora", include_str!("presets/lora.toml")),
    ("gpu-loader", include_str!("presets/gpu-loader.toml")),
    ("affine", include_str!("presets/affine.toml")),
    ("accumulate", include_str!("presets/accumulate.toml")),
    ("fp16", include_str!("presets/fp16.toml")),
    ("bf16", include_str!("presets/bf16.toml")),
    ("fast-cifar", include_str!("presets/fast-cifar.toml")),
];

impl Source {
    /// The recipe `name`.
    pub(crate) fn preset(name: &str) -> Result<Self> {
        let known: Vec<&str> = PRESETS.iter().map(|(known, _)| *known).collect();
        let found = PRESETS.iter().find(|(known, _)| *known == name);
        let (_, text) = found.ok_or_else(|| anyhow!(nearest::unknown("preset", name, &known)))?;
        Ok(Source { name: format!("preset {name}"), text: (*text).to_string() })
    }

    /// The file at `path`.
    pub(crate) fn file(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let text = String::from_utf8(file::read(path, 1 << 20)?)
            .with_context(|| format!("{name}: a file of settings is UTF-8 text, this is not"))?;
        Ok(Source { name, text })
    }

    /// The sources that this one starts from, the first that holds least, and itself as the last.
    pub(crate) fn with_presets(self) -> Result<Vec<Source>> {
        match self.table()?.get(PRESET) {
            None => Ok(vec![self]),
            Some(toml::Value::String(name))
                if PRESETS.iter().any(|(known, text)| {
                    // Else a recipe that starts from itself would have no beginning.
                    known == name && *text != self.text
                }) =>
            {
                let mut sources = Source::preset(name)?.with_presets()?;
                sources.push(self);
                Ok(sources)
            }
            Some(other) => bail!("{}: no preset {other}", self.name),
        }
    }

    fn table(&self) -> Result<toml::Table> {
        self.text.parse().map_err(|error: toml::de::Error| {
            let line = error.span().map_or(0, |span| self.text[..span.start].matches('\n').count());
            anyhow!("{}:{}: {}", self.name, line + 1, error.message())
        })
    }

    /// The settings as arguments of `command`, each checked by itself.
    pub(crate) fn arguments(&self, command: &Command) -> Result<Vec<OsString>> {
        let known: Vec<String> = settings(command).map(|name| name.replace('-', "_")).collect();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        let mut arguments = Vec::new();
        for (key, value) in self.table()?.into_iter().filter(|(key, _)| key != PRESET) {
            let folded = key.replace('-', "_");
            if !known.contains(&folded.as_str()) {
                bail!("{}: {}", self.name, nearest::unknown("key", &key, &known));
            }
            let value = match value {
                toml::Value::String(text) => text,
                toml::Value::Integer(number) => number.to_string(),
                toml::Value::Float(number) => number.to_string(),
                toml::Value::Boolean(flag) => flag.to_string(),
                other => bail!("{}: {key} takes one value, not {}", self.name, other.type_str()),
            };
            let argument = format!("--{}={value}", folded.replace('_', "-"));
            let alone = command.clone().no_binary_name(true).try_get_matches_from([&argument]);
            if let Err(error) = alone {
                let text = error.render().to_string();
                let line = text.lines().next().unwrap_or_default();
                bail!("{}: {key}: {}", self.name, line.strip_prefix("error: ").unwrap_or(line));
            }
            arguments.push(argument.into());
        }
        Ok(arguments)
    }
}

/// The names of the settings of `command`, as flags have them.
fn settings(command: &Command) -> impl Iterator<Item = &str> {
    command.get_arguments().filter_map(|arg| arg.get_long()).filter(|n| !NOT_SETTINGS.contains(n))
}

/// What holds, as the text of a file that gives it again. Settings without a value are comments.
/// With `absolute`, paths are those from the root, so that the text means the same anywhere.
pub(crate) fn print(command: &Command, matches: &ArgMatches, absolute: bool) -> String {
    let mut lines = Vec::new();
    let type_of = |name: &str| {
        let arg = command.get_arguments().find(|arg| arg.get_long() == Some(name));
        arg.expect("it is a setting").get_value_parser().type_id()
    };
    let texts = [value_parser!(String), value_parser!(PathBuf)];
    let texts = texts.map(|parser| parser.type_id());
    let numbers = ValueParser::from(value_parser!(f64)).type_id();
    // A copy lies where the run went.
    for name in settings(command).filter(|name| !absolute || *name != "out") {
        let key = name.replace('-', "_");
        let value = matches.get_raw(&key).and_then(|mut values| values.next_back());
        let Some(value) = value else {
            lines.push(format!("# {key} ="));
            continue;
        };
        let mut text = value.to_string_lossy().into_owned();
        if absolute && PATHS.contains(&name) && !crate::pipelines::is_built_in(&text) {
            let path = std::path::absolute(PathBuf::from(value));
            text = path.map_or(text, |path| path.display().to_string());
        }
        // A run may be called 007: only what is a number stands as one, and only where it reads back
        // to the same, which not all of 64 bits do.
        let kind = type_of(name);
        let plain = text.parse::<i64>().is_ok_and(|number| number.to_string() == text)
            || matches!(text.as_str(), "true" | "false");
        let float = text.parse::<f64>().ok().filter(|number| number.is_finite());
        lines.push(match float {
            Some(number) if kind == numbers => format!("{key} = {number:?}"),
            _ if plain && !texts.contains(&kind) => format!("{key} = {text}"),
            _ => format!("{key} = {}", toml::Value::String(text)),
        });
    }
    lines.join("\n") + "\n"
}

/// Settings that change no weight, or whose change shows elsewhere: in what a checkpoint says of its
/// samples, seed, batches, threads and processor.
const HARMLESS: &[&str] = &[
    "data",
    "batch_size",
    "pipeline",
    "valid_pipeline",
    "limit_train",
    "limit_valid",
    "threads",
    "pin_threads",
    "read_ahead",
    "follow_links",
    "max_bad",
    "quarantine",
    "cache",
    "cache_budget",
    "weights",
    "seed",
    "device",
    "torch_threads",
    "name",
    "out",
    "save_top_k",
    "save_every",
    "log_every",
    "no_sanity",
    "quiet",
];

/// What a run under the settings `now` does otherwise than one under `before`, both as [`print()`]
/// has them: `lr: 0.1 before, 0.01 now`.
///
/// # Errors
/// Where a plateau's history would be taken for another metric's or another rate's.
pub(crate) fn compare(before: &str, now: &str) -> Result<Vec<String>> {
    let (before, now): (toml::Table, toml::Table) = (before.parse()?, now.parse()?);
    let keys: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
    let value = |table: &toml::Table, key: &str| {
        table.get(key).map_or_else(|| "nothing".to_string(), toml::Value::to_string)
    };
    let is = |schedule: &[&str]| {
        now.get("schedule").and_then(toml::Value::as_str).is_some_and(|s| schedule.contains(&s))
    };
    let mut changes = Vec::new();
    for key in keys.into_iter().filter(|key| !HARMLESS.contains(&key.as_str())) {
        let (old, new) = (value(&before, key), value(&now, key));
        // More epochs of the same are what most runs go on for.
        if old == new || (key == "epochs" && !is(&["cosine", "onecycle"])) {
            continue;
        }
        let change = format!("{key}: {old} before, {new} now");
        if is(&["plateau"]) && ["monitor", "mode", "lr"].contains(&key.as_str()) {
            bail!("{change}; a plateau's history is of the first: begin anew from --weights");
        }
        changes.push(change);
    }
    Ok(changes)
}
