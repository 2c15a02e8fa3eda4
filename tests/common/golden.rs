//! Parameters of the golden outputs as steps of ours.

use super::common::step;
use forebay::graph::spec::{Arg, Step};
use serde_json::Value;

fn number(value: &Value) -> Arg {
    match value {
        Value::Array(parts) => Arg::Numbers(parts.iter().map(|v| v.as_f64().unwrap()).collect()),
        _ => Arg::Number(value.as_f64().unwrap()),
    }
}

/// The manifest's parameters as steps of ours.
pub(crate) fn steps(op: &str, params: &Value) -> Vec<Step> {
    let named = |op: &str, params: &Value, names: &[&str]| {
        let args: Vec<_> = names
            .iter()
            .filter(|name| !params[**name].is_null())
            .map(|&name| (name, number(&params[name])))
            .collect();
        step(op, &args)
    };
    match op {
        "decode" => vec![],
        "normalize_chw" => vec![named("normalize", params, &["mean", "std"])],
        "rotate" => {
            let mut args = vec![("angle", number(&params["angle"]))];
            args.push(("keep_size", Arg::Bool(params["keep_size"].as_bool().unwrap_or(true))));
            for name in ["interp", "border"] {
                if let Some(word) = params[name].as_str() {
                    args.push((name, Arg::Text(word.into())));
                }
            }
            if params["fill"].is_number() {
                args.push(("fill", number(&params["fill"])));
            }
            vec![step("rotate", &args)]
        }
        "rgb_shift" => vec![named(op, params, &["shift"])],
        "brightness_contrast" => {
            vec![named(op, params, &["brightness", "contrast", "contrast_center"])]
        }
        "chain" => {
            let mut chain = Vec::new();
            for op in ["rotate", "rgb_shift", "brightness_contrast"] {
                if !params[op].is_null() {
                    chain.extend(steps(op, &params[op]));
                }
            }
            chain.extend(steps("normalize_chw", params));
            chain
        }
        other => panic!("no such golden op: {other}"),
    }
}
