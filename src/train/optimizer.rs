//! SGD, Adam and AdamW: torch.optim's updates, in libtorch's fused kernels, over state that is ours
//! to save.
//!
//! I. Sutskever, J. Martens, G. Dahl, G. Hinton: *On the importance of initialization and momentum
//! in deep learning* (ICML 2013); D. P. Kingma, J. Ba: *Adam* (ICLR 2015); I. Loshchilov, F. Hutter:
//! *Decoupled weight decay regularization* (ICLR 2019).

use super::shim::{self, AdamStep};
use super::state::restore;
use crate::error::{self, Error};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tch::{Kind, TchError, Tensor, no_grad};

type Result<T> = std::result::Result<T, TchError>;

/// How a gradient becomes an update. The learning rate comes with each step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "lowercase")]
pub enum Algorithm {
    /// Stochastic gradient descent, without dampening.
    Sgd {
        /// The share of the last update that goes into this one, 0 to 1.
        momentum: f64,
        /// Looks ahead by the momentum.
        nesterov: bool,
    },
    /// Adam; weight decay is added to the gradient.
    Adam {
        /// Of the averages of gradients and of their squares, 0 to below 1.
        betas: (f64, f64),
        /// Added to the root of the second, at least 0.
        epsilon: f64,
    },
    /// Adam; weight decay, times the learning rate, shrinks the weights.
    AdamW {
        /// As Adam's.
        betas: (f64, f64),
        /// As Adam's.
        epsilon: f64,
    },
}

impl Algorithm {
    /// Adam with PyTorch's constants, which are the paper's.
    pub const ADAM: Self = Algorithm::Adam { betas: (0.9, 0.999), epsilon: 1e-8 };

    /// What is kept of each parameter between two steps, by PyTorch's names. All begins at 0.
    fn kept(self) -> &'static [&'static str] {
        match self {
            Algorithm::Sgd { momentum: 0.0, .. } => &[],
            Algorithm::Sgd { .. } => &["momentum_buffer"],
            Algorithm::Adam { .. } | Algorithm::AdamW { .. } => &["exp_avg", "exp_avg_sq", STEP],
        }
    }
}

/// The one that is a number, not shaped as the parameter.
const STEP: &str = "step";

/// What a user chooses about an optimiser.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// The update.
    pub algorithm: Algorithm,
    /// At least 0; its meaning is the algorithm's.
    pub weight_decay: f64,
    /// Whether parameters of one axis, which are those of norms and biases, decay too.
    pub decay_norms_and_biases: bool,
}

impl Default for Options {
    /// Adam as PyTorch has it.
    fn default() -> Self {
        Options { algorithm: Algorithm::ADAM, weight_decay: 0.0, decay_norms_and_biases: true }
    }
}

impl Options {
    /// Whether every number is in its range.
    ///
    /// # Errors
    /// The number that is not, and the range.
    pub fn check(&self) -> error::Result<()> {
        let refuse = |what: &str, value: f64, range: &str| {
            Err(Error::spec(format!("the optimiser's {what} is {value}; it is {range}")))
        };
        match self.algorithm {
            Algorithm::Sgd { momentum, .. } if !(0.0..=1.0).contains(&momentum) => {
                return refuse("momentum", momentum, "from 0 to 1");
            }
            Algorithm::Sgd { momentum: 0.0, nesterov: true } => {
                return refuse("momentum", 0.0, "more than 0 with nesterov");
            }
            Algorithm::Sgd { .. } => {}
            Algorithm::Adam { betas, epsilon } | Algorithm::AdamW { betas, epsilon } => {
                for beta in [betas.0, betas.1] {
                    if !(0.0..1.0).contains(&beta) {
                        return refuse("beta", beta, "from 0 to below 1");
                    }
                }
                if !(0.0..f64::INFINITY).contains(&epsilon) {
                    return refuse("epsilon", epsilon, "0 or more");
                }
            }
        }
        match (0.0..f64::INFINITY).contains(&self.weight_decay) {
            true => Ok(()),
            false => refuse("weight decay", self.weight_decay, "0 or more"),
        }
    }
}

/// Parameters with what the algorithm keeps of them.
#[derive(Debug)]
pub struct Optimizer {
    algorithm: Algorithm,
    groups: Vec<Group>,
}

/// Parameters that one call of a fused kernel updates.
#[derive(Debug)]
struct Group {
    weight_decay: f64,
    parameters: Vec<Parameter>,
}

#[derive(Debug)]
struct Parameter {
    name: String,
    value: Tensor,
    /// As [`Algorithm::kept`] has it, in the layout of the value.
    kept: Vec<Tensor>,
}

impl Optimizer {
    /// An optimiser of those of the named `parameters` that require a gradient. They are where they
    /// stay; `options` are as [`Options::check`] wants them.
    pub fn new(options: Options, parameters: Vec<(String, Tensor)>) -> Result<Self> {
        let Options { algorithm, weight_decay, decay_norms_and_biases } = options;
        let parameters = parameters.into_iter().filter(|(_, value)| value.requires_grad());
        let parameters = parameters
            .map(|(name, value)| {
                let zeros = |kind: &&str| match *kind {
                    STEP => Tensor::f_zeros([0; 0], (Kind::Float, value.device())),
                    _ => no_grad(|| value.f_zeros_like()),
                };
                let kept = algorithm.kept().iter().map(zeros).collect::<Result<_>>()?;
                Ok(Parameter { name, value, kept })
            })
            .collect::<Result<Vec<_>>>()?;
        let decays = |parameter: &Parameter| decay_norms_and_biases || parameter.value.dim() > 1;
        let (decayed, other) = parameters.into_iter().partition(decays);
        let groups = [(weight_decay, decayed), (0.0, other)];
        let groups = groups.map(|(weight_decay, parameters)| Group { weight_decay, parameters });
        Ok(Optimizer { algorithm, groups: groups.into() })
    }

    /// Forgets all gradients. Until the next backward pass they take no memory, and that one puts
    /// its own in their place instead of adding them to zeros.
    pub fn zero_grad(&mut self) -> Result<()> {
        let values = self.parameters().map(|parameter| parameter.value.shallow_clone());
        shim::forget(&values.collect::<Vec<_>>())
    }

    /// The gradients that there are: a parameter has none before the first backward pass that
    /// reaches it.
    pub fn gradients(&self) -> Vec<Tensor> {
        let gradients = self.parameters().map(|parameter| parameter.value.grad());
        gradients.filter(Tensor::defined).collect()
    }

    /// Updates the parameters that have a gradient by it, at the learning rate `rate`.
    ///
    /// `momentum` takes the place of SGD's own, if that is not 0, or of Adam's first beta: schedules
    /// move it. Where `found_inf`, one f32 on the device, holds 1 and not 0, parameters and state
    /// keep every bit. Does not wait for the device.
    pub fn step(
        &mut self,
        rate: f64,
        momentum: Option<f64>,
        found_inf: Option<&Tensor>,
    ) -> Result<()> {
        let step = |group| step(self.algorithm, group, rate, momentum, found_inf);
        no_grad(|| self.groups.iter().try_for_each(step))
    }

    /// The state as it is, under names such as `optimizer/exp_avg/conv1.weight`. It shares memory
    /// with the optimiser's own.
    pub fn state(&self) -> Vec<(String, Tensor)> {
        let named = |parameter: &Parameter| {
            let kinds = self.algorithm.kept().iter().zip(&parameter.kept);
            let name = parameter.name.clone();
            kinds
                .map(|(kind, tensor)| (format!("{PREFIX}{kind}/{name}"), tensor.shallow_clone()))
                .collect::<Vec<_>>()
        };
        self.parameters().flat_map(named).collect()
    }

    /// Goes on from a `state` that was saved. Tensors whose names do not begin with `optimizer/` may
    /// be in it.
    ///
    /// # Errors
    /// The name that is missing, that is not wanted, or whose shape is another; the state is then as
    /// it was.
    pub fn load_state(&mut self, state: &BTreeMap<String, Tensor>) -> error::Result<()> {
        restore(PREFIX, &self.state(), state)
    }

    fn parameters(&self) -> impl Iterator<Item = &Parameter> {
        self.groups.iter().flat_map(|group| &group.parameters)
    }
}

/// Of names of the state.
const PREFIX: &str = "optimizer/";

fn step(
    algorithm: Algorithm,
    group: &Group,
    rate: f64,
    momentum: Option<f64>,
    found_inf: Option<&Tensor>,
) -> Result<()> {
    let with_gradient =
        group.parameters.iter().map(|parameter| (parameter, parameter.value.grad()));
    let (parameters, gradients): (Vec<_>, Vec<_>) =
        with_gradient.filter(|(_, gradient)| gradient.defined()).unzip();
    if parameters.is_empty() {
        return Ok(());
    }
    let values: Vec<_> = parameters.iter().map(|p| p.value.shallow_clone()).collect();
    let kept = |kind: usize| -> Vec<_> {
        parameters.iter().map(|p| p.kept[kind].shallow_clone()).collect()
    };
    let weight_decay = group.weight_decay;
    let adam = |decoupled, betas: (f64, f64), epsilon| {
        let betas = (momentum.unwrap_or(betas.0), betas.1);
        let constants = AdamStep { decoupled, rate, betas, epsilon, weight_decay };
        shim::adam(&values, &gradients, &kept(0), &kept(1), &kept(2), constants, found_inf)
    };
    match algorithm {
        Algorithm::Sgd { momentum: 0.0, .. } => {
            shim::sgd(&values, &gradients, &[], rate, 0.0, weight_decay, false, found_inf)
        }
        Algorithm::Sgd { momentum: own, nesterov } => {
            let momentum = momentum.unwrap_or(own);
            let buffers = kept(0);
            shim::sgd(
                &values,
                &gradients,
                &buffers,
                rate,
                momentum,
                weight_decay,
                nesterov,
                found_inf,
            )
        }
        Algorithm::Adam { betas, epsilon } => adam(false, betas, epsilon),
        Algorithm::AdamW { betas, epsilon } => adam(true, betas, epsilon),
    }
}
