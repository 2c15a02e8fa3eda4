//! `clamp`: min(max(in, lo), hi). A u8 image stays u8.

use crate::error::{Error, Result};
use crate::graph::args::Args;
use crate::graph::op::Operator;
use crate::graph::primitive::{Build, NodeId};
use crate::graph::program::Op;
use crate::tensor::DType;

pub(super) struct Clamp;

impl Operator for Clamp {
    fn name(&self) -> &'static str {
        "clamp"
    }

    fn args(&self) -> &'static [&'static str] {
        &["lo", "hi"]
    }

    fn build(&self, build: &mut Build, input: NodeId, args: &mut Args<'_>) -> Result<NodeId> {
        let lo = args.channels(build, "lo", None)?;
        let hi = args.channels(build, "hi", None)?;
        for k in 0..3 {
            if let (Some(l), Some(h)) = (build.constant_value(lo[k]), build.constant_value(hi[k]))
                && l > h
            {
                return Err(Error::spec(format!("lo = {l} is above hi = {h}")));
            }
        }
        if let (Some((least, _)), Some((_, most))) = (args.bounds("lo"), args.bounds("hi"))
            && least > most
        {
            return Err(Error::spec("lo is above hi whatever is drawn"));
        }
        let bytes = build.image_type(input).dtype == DType::U8;
        let at_least = build.point_scalars(input, Op::Max, lo);
        let out = build.point_scalars(at_least, Op::Min, hi);
        Ok(if bytes { build.round(out) } else { out })
    }
}
