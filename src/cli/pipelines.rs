//! Pipelines by name: those that come with the programs, and files. Shared by both programs.

use anyhow::{Context, Result, bail};
use forebay::graph::file;
use forebay::graph::spec::Spec;
use std::path::Path;

/// Pipelines that come with the programs.
const BUILT_IN: &[(&str, &str)] = &[
    ("cifar10-train", include_str!("../../pipelines/cifar10-train.toml")),
    ("cifar10-affine", include_str!("../../pipelines/cifar10-affine.toml")),
    ("cifar10-valid", include_str!("../../pipelines/cifar10-valid.toml")),
    ("fast-cifar", include_str!("../../pipelines/fast-cifar.toml")),
    ("imagenet-train", include_str!("../../pipelines/imagenet-train.toml")),
    ("imagenet-valid", include_str!("../../pipelines/imagenet-valid.toml")),
    ("decode-only", include_str!("../../pipelines/decode-only.toml")),
];

/// The built-in pipeline `name`.
pub(crate) fn built_in(name: &str) -> Result<Spec> {
    let found = BUILT_IN.iter().find(|(known, _)| *known == name);
    let (_, text) = found.with_context(|| format!("no built-in pipeline \"{name}\""))?;
    Ok(file::parse(text)?)
}

/// Whether `name` is a built-in pipeline.
pub(crate) fn is_built_in(name: &str) -> bool {
    BUILT_IN.iter().any(|(known, _)| *known == name)
}

/// The pipeline that `name` means: a built-in one, or a file.
pub(crate) fn named(name: &str) -> Result<Spec> {
    if is_built_in(name) {
        return built_in(name);
    }
    let path = Path::new(name);
    // A bare word that is no file was most likely meant as a built-in name.
    if !path.exists() && path.extension().is_none() && path.components().count() == 1 {
        let names = BUILT_IN.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        bail!("no pipeline \"{name}\"; give a file, or one of {names}");
    }
    Ok(file::load(path)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_pipelines_are_right() {
        for (name, _) in BUILT_IN {
            named(name).unwrap();
        }
    }
}
