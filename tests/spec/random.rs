//! Random specs print as files that read back to the same spec.

use forebay::graph::expr::{Binary, Expr, Unary, is_name};
use forebay::graph::file::{parse, print};
use forebay::graph::spec::{
    Arg, Backend, Body, Condition, DecodeScale, DecoderSpec, Dist, DrawSpec, Output, Placement,
    ReaderKind, ReaderSpec, Spec, Step,
};
use forebay::policy::{Cache, LastBatch, MaxBad, OnError};
use forebay::tensor::{DType, Layout};
use proptest::prelude::*;

const DRAWS: [&str; 3] = ["coin", "u", "_t3"];

fn finite() -> impl Strategy<Value = f32> {
    prop_oneof![
        any::<f32>().prop_filter("finite", |v| v.is_finite()),
        (-1000i16..1000).prop_map(|v| f32::from(v) / 20.0),
    ]
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        finite().prop_map(f64::from),
        (-(1i64 << 53)..=1 << 53).prop_map(|v| v as f64),
        (-100_000i32..100_000).prop_map(|v| f64::from(v) / 1000.0),
    ]
}

fn dist() -> impl Strategy<Value = Dist> {
    prop_oneof![
        (finite(), finite()).prop_map(|(a, b)| Dist::Uniform { lo: a.min(b), hi: a.max(b) }),
        (0f32..=1.0).prop_map(|p| Dist::Bernoulli { p }),
        (finite(), finite()).prop_map(|(mean, std)| Dist::Normal { mean, std: std.abs() }),
    ]
}

/// Expressions on the shared draws alone; those of arbitrary trees are tested with the parser.
fn expr() -> impl Strategy<Value = Expr> {
    let leaf = prop_oneof![
        finite().prop_map(|v| Expr::Number(f64::from(v))),
        prop::sample::select(DRAWS.as_slice()).prop_map(|name| Expr::Name(name.into())),
    ];
    leaf.prop_recursive(3, 12, 2, |inner| {
        let inner = inner.prop_map(Box::new);
        let op = prop_oneof![Just(Binary::Mul), Just(Binary::Lt), Just(Binary::And)];
        prop_oneof![
            (op, inner.clone(), inner.clone()).prop_map(|(op, a, b)| Expr::Binary(op, a, b)),
            inner.clone().prop_map(|a| Expr::Unary(Unary::Not, a)),
            inner.prop_map(|a| Expr::Cast(a, DType::U8)),
        ]
    })
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z_]{1,8}", any::<String>()]
}

fn arg() -> impl Strategy<Value = Arg> {
    prop_oneof![
        any::<bool>().prop_map(Arg::Bool),
        number().prop_map(Arg::Number),
        prop::collection::vec(number(), 0..4).prop_map(Arg::Numbers),
        text().prop_map(Arg::Text),
        (dist(), any::<bool>()).prop_map(|(dist, per_channel)| Arg::Draw { dist, per_channel }),
        expr().prop_map(Arg::Expr),
    ]
}

fn args() -> impl Strategy<Value = Vec<(String, Arg)>> {
    let keys = prop::collection::btree_set("[a-z_][a-z0-9_]{0,5}", 4);
    (keys, prop::collection::vec(arg(), 4)).prop_map(|(keys, args)| {
        let reserved = ["op", "name", "from", "when", "then", "else", "expr", "x"];
        let good = |key: &String| is_name(key) && !reserved.contains(&key.as_str());
        keys.into_iter().filter(good).zip(args).collect()
    })
}

fn operator() -> impl Strategy<Value = Body> {
    let op = prop_oneof!["[a-z]{1,8}", text()].prop_filter("no expr", |op| op != "expr");
    let expression = (expr(), args()).prop_map(|(expr, mut args)| {
        args.insert(args.len() / 2, ("expr".into(), Arg::Expr(expr)));
        Body::Op { op: "expr".into(), args }
    });
    prop_oneof![
        3 => (op, args()).prop_map(|(op, args)| Body::Op { op, args }),
        1 => expression,
    ]
}

fn condition() -> impl Strategy<Value = Condition> {
    prop_oneof![
        (0f32..=1.0).prop_map(Condition::Probability),
        prop::sample::select(DRAWS.as_slice()).prop_map(|name| Condition::Draw(name.into())),
        expr().prop_map(Condition::Expr),
    ]
}

/// Steps with branches up to three deep; names are made unique later.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = |body: BoxedStrategy<Body>| {
        let name = prop::option::of(Just(String::new()));
        (name, prop::option::of(text()), condition(), any::<bool>(), body).prop_map(
            |(name, from, when, always, body)| {
                let always = always && matches!(body, Body::Op { .. });
                Step { name, from, when: (!always).then_some(when), body }
            },
        )
    };
    let step = step(operator().boxed()).prop_recursive(3, 12, 3, move |inner| {
        let branch = prop::collection::vec(inner, 0..3);
        let body =
            (branch.clone(), branch).prop_map(|(then, otherwise)| Body::Branch { then, otherwise });
        step(body.boxed())
    });
    prop::collection::vec(step, 0..5)
}

fn rename(steps: &mut [Step], next: &mut usize) {
    for step in steps {
        if let Some(name) = &mut step.name {
            *name = format!("step_{next}");
            *next += 1;
        }
        if let Body::Branch { then, otherwise } = &mut step.body {
            rename(then, next);
            rename(otherwise, next);
        }
    }
}

fn reader() -> impl Strategy<Value = ReaderSpec> {
    let kind = prop_oneof![
        text().prop_map(|file_list| ReaderKind::File { file_list }),
        Just(ReaderKind::Folders),
        Just(ReaderKind::Tar),
        any::<bool>().prop_map(|train| ReaderKind::Cifar10 { train }),
    ];
    let last_batch = [LastBatch::Drop, LastBatch::Partial, LastBatch::Pad];
    let last_batch = prop::sample::select(last_batch.to_vec());
    let on_error = prop::sample::select(OnError::NAMES.map(|(_, choice)| choice).to_vec());
    let max_bad = prop_oneof![
        any::<u64>().prop_map(MaxBad::Count),
        (0..=100u8).prop_map(|percent| MaxBad::Share(f64::from(percent) / 100.0)),
    ];
    let cache = prop::sample::select(Cache::NAMES.map(|(_, choice)| choice).to_vec());
    (kind, any::<bool>(), last_batch, on_error, max_bad, cache).prop_map(
        |(kind, shuffle, last_batch, on_error, max_bad, cache)| ReaderSpec {
            kind,
            shuffle,
            last_batch,
            on_error,
            max_bad,
            cache,
        },
    )
}

fn outputs() -> impl Strategy<Value = Vec<Output>> {
    let layout = prop::option::of(prop_oneof![Just(Layout::Hwc), Just(Layout::Chw)]);
    let dtype = prop::option::of(prop_oneof![Just(DType::U8), Just(DType::F32)]);
    let output = (prop::option::of(text()), layout, dtype);
    (prop::collection::vec(output, 1..4), any::<bool>()).prop_map(|(outputs, plain)| {
        let name = |i| if i == 0 && plain { "images".into() } else { format!("out_{i}") };
        let outputs = outputs.into_iter().enumerate();
        outputs
            .map(|(i, (from, layout, dtype))| Output { name: name(i), from, layout, dtype })
            .collect()
    })
}

fn specs() -> impl Strategy<Value = Spec> {
    let scale = prop_oneof![Just(DecodeScale::Exact), Just(DecodeScale::Fast)];
    let backend = prop::sample::select(Backend::NAMES.map(|(_, backend)| backend).to_vec());
    let decoder = (any::<bool>(), any::<bool>(), any::<u64>(), scale, backend);
    let decoder = decoder.prop_map(|(cpu, exact, split, scale, backend)| {
        let device = if cpu { Placement::Cpu } else { Placement::Mixed };
        let backend = match backend {
            Backend::Nvjpeg if exact || cpu => Backend::Auto,
            backend => backend,
        };
        DecoderSpec { device, backend, exact, split, scale }
    });
    let draws = prop::collection::vec((dist(), any::<bool>()), DRAWS.len());
    (any::<u64>(), reader(), decoder, draws, steps(), outputs()).prop_map(
        |(seed, reader, decoder, draws, mut steps, outputs)| {
            rename(&mut steps, &mut 0);
            let draws = DRAWS.iter().zip(draws);
            let draws = draws
                .map(|(name, (dist, per_channel))| DrawSpec {
                    name: (*name).into(),
                    dist,
                    per_channel,
                })
                .collect();
            Spec { seed, reader, decoder, draws, steps, outputs }
        },
    )
}

proptest! {
    #[test]
    fn a_spec_prints_as_a_file_that_reads_back(spec in specs()) {
        let file = print(&spec);
        match parse(&file) {
            Ok(read) => prop_assert_eq!(read, spec, "{}", file),
            Err(error) => prop_assert!(false, "{}\n{}", error, file),
        }
    }

    /// A file with a few bytes changed is read or refused in one line with its place.
    #[test]
    fn damaged_files_are_read_or_refused(
        spec in specs(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), "[\\[\\]{}=\",.a-z0-9\n-]{0,3}"), 1..4),
    ) {
        let mut file: Vec<char> = print(&spec).chars().collect();
        for (at, text) in damage {
            let at = at.index(file.len());
            file.splice(at..at + 1, text.chars());
        }
        let file: String = file.into_iter().collect();
        match parse(&file) {
            Ok(read) => prop_assert_eq!(parse(&print(&read)).unwrap(), read),
            Err(error) => {
                let message = error.to_string();
                prop_assert!(message.starts_with("line ") && !message.contains('\n'), "{}", message);
            }
        }
    }
}
