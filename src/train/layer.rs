//! The layers that the network is made of, with PyTorch's parameter names.

use super::adapter::Adapter;
use super::init::{channels_last, uniform};
use tch::nn::Path;
use tch::{Kind, TchError, Tensor, no_grad};

type Result<T> = std::result::Result<T, TchError>;

/// What batch norms normalise with, and whether they learn from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// With the running statistics.
    Eval,
    /// With those of the batch, which also go into the running ones.
    Train,
    /// With those of the batch, as [`Mode::Train`], which saw this batch before.
    Again,
}

/// The weight of a convolution or of the head, and what is learned on top of it.
#[derive(Debug)]
pub(super) struct Weight {
    /// The layer's.
    name: String,
    base: Tensor,
    adapter: Option<Adapter>,
}

impl Weight {
    fn new(path: &Path<'_>, drawn: Tensor) -> Self {
        Weight { name: name(path), base: path.add("weight", drawn, true), adapter: None }
    }

    /// Puts low-rank matrices, drawn under the layer's name below `root`, on top of the weight.
    pub(super) fn adapt(&mut self, root: &Path<'_>, rank: i64) -> Result<()> {
        let path = self.name.split('.').fold(root.clone(), |path, part| path / part);
        self.adapter = Some(Adapter::new(&path, &self.base, rank)?);
        Ok(())
    }

    fn is_trainable(&self) -> bool {
        let adapter = self.adapter.as_ref();
        self.base.requires_grad() || adapter.is_some_and(Adapter::is_trainable)
    }
}

/// A square convolution without bias that keeps the image's size but for its stride.
#[derive(Debug)]
pub(super) struct Conv {
    pub(super) weight: Weight,
    stride: i64,
    padding: i64,
}

impl Conv {
    pub(super) fn new(
        path: &Path<'_>,
        from: i64,
        to: i64,
        kernel: i64,
        stride: i64,
    ) -> Result<Self> {
        // These values are drawn and thrown away as torchvision does: `reset` draws the real ones.
        let drawn = uniform(&[to, from, kernel, kernel], 1.0)?;
        let weight = Weight::new(path, channels_last(&drawn)?);
        Ok(Conv { weight, stride, padding: kernel / 2 })
    }

    /// Draws the weights from He's normal distribution over the fan-out.
    pub(super) fn reset(&self) -> Result<()> {
        let weight = &self.weight.base;
        let size = weight.size();
        let fan_out = (size[0] * size[2] * size[3]) as f64;
        let mut drawn = Tensor::f_empty(&size, tch::kind::FLOAT_CPU)?;
        let drawn = drawn.f_normal_(0.0, 2f64.sqrt() / fan_out.sqrt())?;
        no_grad(|| weight.shallow_clone().f_copy_(&drawn))
    }

    pub(super) fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let conv = |x: &Tensor, weight: &Tensor, stride, padding| {
            x.f_conv2d(weight, None::<Tensor>, [stride; 2], [padding; 2], [1, 1], 1)
        };
        let mut y = conv(x, &self.weight.base, self.stride, self.padding)?;
        match &self.weight.adapter {
            Some(Adapter { a, b }) => {
                y.f_add_(&conv(&conv(x, a, self.stride, self.padding)?, b, 1, 0)?)
            }
            None => Ok(y),
        }
    }

    pub(super) fn is_trainable(&self) -> bool {
        self.weight.is_trainable()
    }
}

/// Batch normalisation over N, H and W.
#[derive(Debug)]
pub(super) struct BatchNorm {
    /// The layer's.
    pub(super) name: String,
    /// Normalises with the running statistics, whatever the mode, and leaves them as they are.
    pub(super) frozen: bool,
    weight: Tensor,
    bias: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    /// Batches learned from: unused with a fixed momentum, but part of PyTorch's state dict.
    num_batches_tracked: Tensor,
}

impl BatchNorm {
    const MOMENTUM: f64 = 0.1;
    const EPSILON: f64 = 1e-5;

    pub(super) fn new(path: &Path<'_>, channels: i64) -> Result<Self> {
        let counter = Tensor::f_zeros([0; 0], (Kind::Int64, path.device()))?;
        Ok(BatchNorm {
            name: name(path),
            frozen: false,
            weight: path.f_ones("weight", &[channels])?,
            bias: path.f_zeros("bias", &[channels])?,
            running_mean: path.f_zeros_no_train("running_mean", &[channels])?,
            running_var: path.f_ones_no_train("running_var", &[channels])?,
            num_batches_tracked: path.add("num_batches_tracked", counter, false),
        })
    }

    pub(super) fn forward(&self, x: &Tensor, mode: Mode) -> Result<Tensor> {
        let mode = if self.frozen { Mode::Eval } else { mode };
        if mode == Mode::Train {
            let _ = self.num_batches_tracked.shallow_clone().f_add_scalar_(1)?;
        }
        // The statistics of the batch are the same whether or not there are any to add them to.
        let running = mode != Mode::Again;
        x.f_batch_norm(
            Some(&self.weight),
            Some(&self.bias),
            running.then_some(&self.running_mean),
            running.then_some(&self.running_var),
            mode != Mode::Eval,
            Self::MOMENTUM,
            Self::EPSILON,
            true,
        )
    }

    pub(super) fn is_trainable(&self) -> bool {
        self.weight.requires_grad() || self.bias.requires_grad()
    }
}

/// A fully connected layer.
#[derive(Debug)]
pub(super) struct Linear {
    pub(super) weight: Weight,
    bias: Tensor,
}

impl Linear {
    pub(super) fn new(path: &Path<'_>, from: i64, to: i64) -> Result<Self> {
        let bound = 1.0 / (from as f64).sqrt();
        let weight = Weight::new(path, uniform(&[to, from], bound)?);
        let bias = path.add("bias", uniform(&[to], bound)?, true);
        Ok(Linear { weight, bias })
    }

    pub(super) fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let mut y = x.f_linear(&self.weight.base, Some(&self.bias))?;
        match &self.weight.adapter {
            Some(Adapter { a, b }) => {
                y.f_add_(&x.f_linear(a, None::<Tensor>)?.f_linear(b, None::<Tensor>)?)
            }
            None => Ok(y),
        }
    }

    pub(super) fn is_trainable(&self) -> bool {
        self.weight.is_trainable() || self.bias.requires_grad()
    }
}

/// The dotted name of the layer at `path`.
fn name(path: &Path<'_>) -> String {
    path.components().collect::<Vec<_>>().join(".")
}
