//! Optimisers and clipping, against torch.optim's numbers and against themselves.

use crate::train::clip::clip_norm;
use crate::train::optimizer::{Algorithm, Optimizer, Options};
use crate::train::resnet::Mode;
use crate::{batch, model, seeded};
use serde::Deserialize;
use std::collections::BTreeMap;
use tch::{Kind, Reduction, Tensor, no_grad};

/// tests/data/optimizers.json; `tests/python/test_optimizer.py` writes it and holds torch.optim to it.
#[derive(Deserialize)]
struct Problem {
    shape: Vec<i64>,
    start: Vec<f32>,
    target: Vec<f32>,
    curvature: Vec<f32>,
    rates: Vec<f64>,
    momenta: Vec<f64>,
    steps: Vec<usize>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    options: Options,
    cycle: bool,
    shown: Vec<Vec<f32>>,
}

impl Problem {
    fn read() -> Self {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/optimizers.json");
        serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
    }

    /// A weight that lies channels-last, and a bias.
    fn split(&self, values: &[f32]) -> [Tensor; 2] {
        let (weight, bias) = values.split_at(self.shape.iter().product::<i64>() as usize);
        let weight = Tensor::from_slice(weight).reshape(&self.shape);
        let weight = weight.permute([0, 2, 3, 1]).contiguous().permute([0, 3, 1, 2]);
        [weight, Tensor::from_slice(bias)]
    }

    fn start(&self, options: Options) -> Learner<'_> {
        let parameters = self.split(&self.start).map(|tensor| tensor.set_requires_grad(true));
        Learner::new(self, options, parameters)
    }
}

/// Where the descent on a problem stands.
struct Learner<'a> {
    problem: &'a Problem,
    parameters: [Tensor; 2],
    optimizer: Optimizer,
}

impl<'a> Learner<'a> {
    fn new(problem: &'a Problem, options: Options, parameters: [Tensor; 2]) -> Self {
        let named = ["weight", "bias"].map(String::from).into_iter();
        let named = named.zip(parameters.each_ref().map(Tensor::shallow_clone)).collect();
        let optimizer = Optimizer::new(options, named).unwrap();
        Learner { problem, parameters, optimizer }
    }

    fn backward(&mut self) {
        let target = self.problem.split(&self.problem.target);
        let curvature = self.problem.split(&self.problem.curvature);
        let terms = self.parameters.iter().zip(&target).zip(&curvature);
        let losses = terms.map(|((p, t), c)| (c * (p - t).square()).sum(Kind::Float));
        self.optimizer.zero_grad().unwrap();
        (losses.reduce(|a, b| a + b).unwrap() / 2.0).backward();
    }

    fn step(&mut self, step: usize, cycle: bool) {
        self.backward();
        let momentum = cycle.then(|| self.problem.momenta[step]);
        self.optimizer.step(self.problem.rates[step], momentum, None).unwrap();
    }

    /// The parameters' values.
    fn values(&self) -> Vec<f32> {
        self.parameters.iter().flat_map(values).collect()
    }

    /// All that training changes, to the bit.
    fn bits(&self) -> Vec<u32> {
        let state = self.optimizer.state();
        let all = self.parameters.iter().chain(state.iter().map(|(_, tensor)| tensor));
        all.flat_map(values).map(f32::to_bits).collect()
    }

    fn saved(&self) -> BTreeMap<String, Tensor> {
        self.optimizer.state().into_iter().map(|(name, tensor)| (name, tensor.copy())).collect()
    }
}

fn values(tensor: &Tensor) -> Vec<f32> {
    Vec::try_from(tensor.flatten(0, -1)).unwrap()
}

#[test]
fn fifty_steps_are_torchs() {
    let problem = Problem::read();
    for case in &problem.cases {
        case.options.check().unwrap();
        let mut learner = problem.start(case.options);
        let mut shown = case.shown.iter();
        for step in 0..problem.rates.len() {
            learner.step(step, case.cycle);
            if problem.steps.contains(&(step + 1)) {
                let (got, expected) = (learner.values(), shown.next().unwrap());
                assert_eq!(got.len(), expected.len());
                let off = got.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                assert!(off < 1e-6, "{} is off by {off:e} after {} steps", case.name, step + 1);
            }
        }
        assert!(shown.next().is_none());
    }
}

#[test]
fn a_state_that_was_saved_goes_on_to_the_bit() {
    let problem = Problem::read();
    for case in &problem.cases {
        let mut whole = problem.start(case.options);
        (0..10).for_each(|step| whole.step(step, case.cycle));
        let parameters = whole.parameters.each_ref();
        let parameters = parameters.map(|tensor| tensor.detach().copy().set_requires_grad(true));
        let mut resumed = Learner::new(&problem, case.options, parameters);
        // A checkpoint has all in row-major order, and more than the optimiser's.
        let mut saved = whole.saved();
        saved.values_mut().for_each(|tensor| *tensor = tensor.contiguous());
        saved.insert("conv1.weight".into(), Tensor::from(1));
        resumed.optimizer.load_state(&saved).unwrap();
        for step in 10..20 {
            whole.step(step, case.cycle);
            resumed.step(step, case.cycle);
        }
        assert!(whole.bits() == resumed.bits(), "{}", case.name);
    }
}

#[test]
fn a_foreign_state_is_refused_by_name_and_not_taken() {
    let problem = Problem::read();
    let mut learner = problem.start(Options::default());
    learner.step(0, false);
    let before = learner.bits();
    let mut refused = |change: &dyn Fn(&mut BTreeMap<String, Tensor>)| {
        let mut saved = learner.saved();
        saved.values_mut().for_each(|tensor| *tensor += 1);
        change(&mut saved);
        let text = learner.optimizer.load_state(&saved).unwrap_err().to_string();
        assert!(learner.bits() == before, "{text}");
        text
    };
    let name = "optimizer/exp_avg_sq/weight";
    let text = refused(&|saved| assert!(saved.remove(name).is_some()));
    assert!(text.contains(&format!("lacks {name};")), "{text}");
    let text = refused(&|saved| assert!(saved.insert(name.into(), Tensor::from(1)).is_some()));
    assert!(text.contains(&format!("{name} is [] in the checkpoint, [4, 3, 1, 2] here")), "{text}");
    let extra = "optimizer/momentum_buffer/weight";
    let text = refused(&|saved| assert!(saved.insert(extra.into(), Tensor::from(1)).is_none()));
    assert!(text.contains(&format!("has {extra},")), "{text}");
}

#[test]
fn a_masked_step_leaves_every_bit() {
    let problem = Problem::read();
    for case in &problem.cases {
        let mut learner = problem.start(case.options);
        learner.step(0, false);
        let before = learner.bits();
        let step = |learner: &mut Learner<'_>, found_inf: f32| {
            learner.optimizer.step(0.1, None, Some(&Tensor::from(found_inf))).unwrap();
        };
        learner.backward();
        let _ = learner.parameters[0].grad().fill_(f64::NAN);
        step(&mut learner, 1.0);
        assert!(learner.bits() == before, "{}", case.name);
        learner.backward();
        let mut other = problem.start(case.options);
        other.step(0, false);
        other.backward();
        other.optimizer.step(0.1, None, None).unwrap();
        step(&mut learner, 0.0);
        assert!(learner.bits() == other.bits() && learner.bits() != before, "{}", case.name);
    }
}

#[test]
fn parameters_without_a_gradient_stay_out_of_it() {
    let parameter = |values: &[f32]| Tensor::from_slice(values).set_requires_grad(true);
    let (used, unused) = (parameter(&[1.0, 2.0]), parameter(&[3.0]));
    let frozen = Tensor::from_slice(&[4_f32]);
    let named = [("used", &used), ("unused", &unused), ("frozen", &frozen)];
    let named = named.map(|(name, tensor)| (name.to_string(), tensor.shallow_clone()));
    let algorithm = Algorithm::AdamW { betas: (0.9, 0.999), epsilon: 1e-8 };
    let options = Options { algorithm, weight_decay: 0.1, ..Options::default() };
    let mut optimizer = Optimizer::new(options, named.into()).unwrap();
    optimizer.step(0.1, None, None).unwrap();
    (&used * &frozen).sum(Kind::Float).backward();
    assert_eq!(optimizer.gradients().len(), 1);
    optimizer.step(0.1, None, None).unwrap();
    let state: BTreeMap<_, _> = optimizer.state().into_iter().collect();
    let steps = |name: &str| state[&format!("optimizer/step/{name}")].double_value(&[]);
    assert_eq!((steps("used"), steps("unused"), state.len()), (1.0, 0.0, 6));
    assert_eq!((values(&unused), values(&frozen)), (vec![3.0], vec![4.0]));
    assert!(values(&used) != [1.0, 2.0]);
    optimizer.zero_grad().unwrap();
    assert!(optimizer.gradients().is_empty() && !used.grad().defined());
}

#[test]
fn numbers_out_of_range_are_refused() {
    let sgd = |momentum, nesterov| Algorithm::Sgd { momentum, nesterov };
    let adam = |beta, epsilon| Algorithm::Adam { betas: (0.9, beta), epsilon };
    let refused = [
        (sgd(1.5, false), 0.0, "momentum is 1.5"),
        (sgd(0.0, true), 0.0, "momentum is 0; it is more than 0 with nesterov"),
        (adam(1.0, 1e-8), 0.0, "beta is 1;"),
        (adam(0.999, f64::NAN), 0.0, "epsilon is NaN"),
        (Algorithm::ADAM, -0.1, "weight decay is -0.1"),
    ];
    for (algorithm, weight_decay, part) in refused {
        let options = Options { algorithm, weight_decay, ..Options::default() };
        let text = options.check().unwrap_err().to_string();
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn gradients_are_clipped_to_a_norm_over_all() {
    let gradients = || [Tensor::from_slice(&[3_f32, 0.0]), Tensor::from_slice2(&[[-4_f32]])];
    let clip = |max| {
        let gradients = gradients();
        let norm = clip_norm(&gradients, max).unwrap();
        (norm.double_value(&[]), gradients.iter().flat_map(values).collect::<Vec<_>>())
    };
    assert_eq!(clip(None), (5.0, vec![3.0, 0.0, -4.0]));
    assert_eq!(clip(Some(5.1)), (5.0, vec![3.0, 0.0, -4.0]));
    let (norm, clipped) = clip(Some(0.5));
    let factor = 0.5 / (5.0 + 1e-6);
    let off = clipped.iter().zip([3.0, 0.0, -4.0]).map(|(a, b)| (a - factor * b).abs());
    assert!(norm == 5.0 && off.fold(0.0, f32::max) < 1e-7, "{norm} {clipped:?}");
    assert_eq!(clip_norm(&[], Some(1.0)).unwrap().double_value(&[]), 0.0);
}

/// With running statistics, since batch statistics are those of the small batch.
#[test]
fn small_batches_accumulate_to_the_gradients_of_a_large_one() {
    let _turn = seeded(4);
    let (variables, model) = model(crate::Stem::Imagenet, 4);
    let mut optimizer =
        Optimizer::new(Options::default(), variables.variables().into_iter().collect()).unwrap();
    let (images, labels) = batch(8, 4);
    let mut gradients = |parts: i64| {
        optimizer.zero_grad().unwrap();
        for (images, labels) in images.chunk(parts, 0).iter().zip(labels.chunk(parts, 0)) {
            let logits = model.forward(images, Mode::Eval).unwrap();
            let loss =
                logits.cross_entropy_loss(&labels, None::<Tensor>, Reduction::Mean, -100, 0.);
            (loss / parts).backward();
        }
        optimizer.gradients()
    };
    let (whole, small) = (gradients(1), gradients(4));
    assert_eq!(whole.len(), 62);
    for (whole, small) in whole.iter().zip(&small) {
        let off =
            no_grad(|| (whole - small).norm().double_value(&[]) / whole.norm().double_value(&[]));
        assert!(off < 1e-5, "{:?} is off by {off:e}", whole.size());
    }
    // Weights of all of the network's layouts.
    optimizer.step(1e-3, None, None).unwrap();
}
