//! ResNet-18 as torchvision has it: the same architecture, parameter names and starting weights.
//!
//! K. He, X. Zhang, S. Ren, J. Sun: *Deep residual learning for image recognition* (CVPR 2016).
//!
//! Weights lie channels-last in memory, which convolutions follow; oneDNN is then about 4% faster
//! over forward and backward (32x32 images in batches of 128). Shapes and names do not tell. Images
//! on a GPU are brought into that order once, before the first convolution would do it in its
//! forward and again in its backward pass.

use serde::{Deserialize, Serialize};
use tch::nn::Path;
use tch::{Device, Kind, TchError, Tensor, no_grad};

type Result<T> = std::result::Result<T, TchError>;

/// What comes before the first residual block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stem {
    /// A 7x7 convolution of stride 2 and a pooling of stride 2, made for 224x224 images.
    #[default]
    Imagenet,
    /// A 3x3 convolution of stride 1: keeps all of a 32x32 image, at 16 times the work.
    Cifar,
}

/// The network: (N, 3, H, W) f32 images to (N, classes) logits.
#[derive(Debug)]
pub struct ResNet18 {
    stem: Stem,
    conv1: Conv,
    bn1: BatchNorm,
    blocks: Vec<Block>,
    fc: Linear,
}

impl ResNet18 {
    /// A network under `path`, with weights drawn from libtorch's generator of the CPU, where they
    /// are: [`tch::nn::VarStore::set_device`] takes them elsewhere, so that one seed gives one network
    /// on every device.
    ///
    /// The draws are torchvision's in number and order, so that one `manual_seed` gives, with the
    /// ImageNet stem, one and the same network here and there.
    pub fn new(path: &Path<'_>, stem: Stem, classes: i64) -> Result<Self> {
        let (kernel, stride) = if stem == Stem::Imagenet { (7, 2) } else { (3, 1) };
        let conv1 = Conv::new(&(path / "conv1"), 3, 64, kernel, stride)?;
        let bn1 = BatchNorm::new(&(path / "bn1"), 64)?;
        let mut blocks = Vec::new();
        let mut channels = 64;
        for (layer, width, stride) in [(1, 64, 1), (2, 128, 2), (3, 256, 2), (4, 512, 2)] {
            let path = path / format!("layer{layer}");
            blocks.push(Block::new(&(&path / 0), channels, width, stride)?);
            blocks.push(Block::new(&(&path / 1), width, width, 1)?);
            channels = width;
        }
        let fc = Linear::new(&(path / "fc"), channels, classes)?;
        let model = ResNet18 { stem, conv1, bn1, blocks, fc };
        model.convolutions().try_for_each(Conv::reset)?;
        Ok(model)
    }

    /// The logits of `images`. `train` says whether batch statistics are used and learned from, or
    /// the running ones are used.
    pub fn forward(&self, images: &Tensor, train: bool) -> Result<Tensor> {
        let x = match images.device() {
            Device::Cuda(_) => channels_last(images)?,
            _ => images.shallow_clone(),
        };
        let mut x = self.bn1.forward(&self.conv1.forward(&x)?, train)?.f_relu_()?;
        if self.stem == Stem::Imagenet {
            x = x.f_max_pool2d([3, 3], [2, 2], [1, 1], [1, 1], false)?;
        }
        for block in &self.blocks {
            x = block.forward(&x, train)?;
        }
        self.fc.forward(&x.f_adaptive_avg_pool2d([1, 1])?.f_flatten(1, -1)?)
    }

    fn convolutions(&self) -> impl Iterator<Item = &Conv> {
        std::iter::once(&self.conv1).chain(self.blocks.iter().flat_map(Block::convolutions))
    }
}

/// Two 3x3 convolutions and what they are added to.
#[derive(Debug)]
struct Block {
    conv1: Conv,
    bn1: BatchNorm,
    conv2: Conv,
    bn2: BatchNorm,
    /// The 1x1 convolution that brings the input to the output's shape, where they differ.
    downsample: Option<(Conv, BatchNorm)>,
}

impl Block {
    fn new(path: &Path<'_>, from: i64, to: i64, stride: i64) -> Result<Self> {
        let downsample = if stride != 1 || from != to {
            let path = path / "downsample";
            let conv = Conv::new(&(&path / 0), from, to, 1, stride)?;
            Some((conv, BatchNorm::new(&(&path / 1), to)?))
        } else {
            None
        };
        Ok(Block {
            conv1: Conv::new(&(path / "conv1"), from, to, 3, stride)?,
            bn1: BatchNorm::new(&(path / "bn1"), to)?,
            conv2: Conv::new(&(path / "conv2"), to, to, 3, 1)?,
            bn2: BatchNorm::new(&(path / "bn2"), to)?,
            downsample,
        })
    }

    fn forward(&self, x: &Tensor, train: bool) -> Result<Tensor> {
        let y = self.bn1.forward(&self.conv1.forward(x)?, train)?.f_relu_()?;
        let mut y = self.bn2.forward(&self.conv2.forward(&y)?, train)?;
        let mut y = match &self.downsample {
            Some((conv, bn)) => y.f_add_(&bn.forward(&conv.forward(x)?, train)?)?,
            None => y.f_add_(x)?,
        };
        y.f_relu_()
    }

    fn convolutions(&self) -> impl Iterator<Item = &Conv> {
        let downsample = self.downsample.as_ref().map(|(conv, _)| conv);
        [&self.conv1, &self.conv2].into_iter().chain(downsample)
    }
}

/// A square convolution without bias that keeps the image's size but for its stride.
#[derive(Debug)]
struct Conv {
    weight: Tensor,
    stride: i64,
    padding: i64,
}

impl Conv {
    fn new(path: &Path<'_>, from: i64, to: i64, kernel: i64, stride: i64) -> Result<Self> {
        // These values are drawn and thrown away as torchvision does: `reset` draws the real ones.
        let weight = uniform(&[to, from, kernel, kernel], 1.0)?;
        let weight = path.add("weight", channels_last(&weight)?, true);
        Ok(Conv { weight, stride, padding: kernel / 2 })
    }

    /// Draws the weights from He's normal distribution over the fan-out.
    fn reset(&self) -> Result<()> {
        let size = self.weight.size();
        let fan_out = (size[0] * size[2] * size[3]) as f64;
        let mut drawn = Tensor::f_empty(&size, tch::kind::FLOAT_CPU)?;
        let drawn = drawn.f_normal_(0.0, 2f64.sqrt() / fan_out.sqrt())?;
        no_grad(|| self.weight.shallow_clone().f_copy_(&drawn))
    }

    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (stride, padding) = ([self.stride; 2], [self.padding; 2]);
        x.f_conv2d(&self.weight, None::<Tensor>, stride, padding, [1, 1], 1)
    }
}

/// Batch normalisation over N, H and W.
#[derive(Debug)]
struct BatchNorm {
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

    fn new(path: &Path<'_>, channels: i64) -> Result<Self> {
        let counter = Tensor::f_zeros([0; 0], (Kind::Int64, path.device()))?;
        Ok(BatchNorm {
            weight: path.f_ones("weight", &[channels])?,
            bias: path.f_zeros("bias", &[channels])?,
            running_mean: path.f_zeros_no_train("running_mean", &[channels])?,
            running_var: path.f_ones_no_train("running_var", &[channels])?,
            num_batches_tracked: path.add("num_batches_tracked", counter, false),
        })
    }

    fn forward(&self, x: &Tensor, train: bool) -> Result<Tensor> {
        if train {
            let _ = self.num_batches_tracked.shallow_clone().f_add_scalar_(1)?;
        }
        x.f_batch_norm(
            Some(&self.weight),
            Some(&self.bias),
            Some(&self.running_mean),
            Some(&self.running_var),
            train,
            Self::MOMENTUM,
            Self::EPSILON,
            true,
        )
    }
}

/// A fully connected layer.
#[derive(Debug)]
struct Linear {
    weight: Tensor,
    bias: Tensor,
}

impl Linear {
    fn new(path: &Path<'_>, from: i64, to: i64) -> Result<Self> {
        let bound = 1.0 / (from as f64).sqrt();
        let weight = path.add("weight", uniform(&[to, from], bound)?, true);
        let bias = path.add("bias", uniform(&[to], bound)?, true);
        Ok(Linear { weight, bias })
    }

    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.f_linear(&self.weight, Some(&self.bias))
    }
}

/// The same (N, C, H, W) values with the channels of a pixel side by side in memory.
fn channels_last(tensor: &Tensor) -> Result<Tensor> {
    tensor.f_permute([0, 2, 3, 1])?.f_contiguous()?.f_permute([0, 3, 1, 2])
}

/// Values between -`bound` and `bound`.
fn uniform(size: &[i64], bound: f64) -> Result<Tensor> {
    Tensor::f_empty(size, tch::kind::FLOAT_CPU)?.f_uniform_(-bound, bound)
}
