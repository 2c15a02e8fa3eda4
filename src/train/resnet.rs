//! ResNet-18 as torchvision has it: the same architecture, parameter names and starting weights.
//!
//! K. He, X. Zhang, S. Ren, J. Sun: *Deep residual learning for image recognition* (CVPR 2016).
//!
//! Weights lie channels-last in memory, which convolutions follow; oneDNN is then about 4% faster
//! over forward and backward (32x32 images in batches of 128). Shapes and names do not tell. Images
//! on a GPU are brought into that order once, before the first convolution would do it in its
//! forward and again in its backward pass.

pub use super::layer::Mode;

use super::init::channels_last;
use super::layer::{BatchNorm, Conv, Linear, Weight};
use serde::{Deserialize, Serialize};
use tch::nn::Path;
use tch::{Device, TchError, Tensor};

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
    segments: Vec<Segment>,
}

impl ResNet18 {
    /// A network under `path`, with weights drawn from libtorch's generator of the CPU, where they
    /// are: [`tch::nn::VarStore::set_device`] takes them elsewhere, so that one seed gives one network
    /// on every device.
    ///
    /// The draws are torchvision's in number and order, so that one `manual_seed` gives, with the
    /// ImageNet stem, one and the same network here and there.
    pub fn new(path: &Path<'_>, stem: Stem, classes: i64) -> Result<Self> {
        let mut segments = vec![Segment(Part::stem(path, stem)?)];
        let mut channels = 64;
        for (layer, width, stride) in [(1, 64, 1), (2, 128, 2), (3, 256, 2), (4, 512, 2)] {
            let path = path / format!("layer{layer}");
            segments.push(Segment(Part::block(&(&path / 0), channels, width, stride)?));
            segments.push(Segment(Part::block(&(&path / 1), width, width, 1)?));
            channels = width;
        }
        segments.push(Segment(Part::Head(Linear::new(&(path / "fc"), channels, classes)?)));
        let units = segments.iter().flat_map(|segment| segment.0.units());
        units.map(|unit| &unit.conv).try_for_each(Conv::reset)?;
        Ok(ResNet18 { segments })
    }

    /// The logits of `images`.
    pub fn forward(&self, images: &Tensor, mode: Mode) -> Result<Tensor> {
        let images = images.shallow_clone();
        self.segments.iter().try_fold(images, |x, segment| segment.forward(&x, mode))
    }

    /// What [`ResNet18::forward`] goes through: the stem, eight residual blocks, the head.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Batch norms for whose name (`layer1.0.bn1`) `frozen` holds use their running statistics in
    /// training too, and leave them as they are; the others no longer do. Whether their weights and
    /// biases learn is another matter.
    pub fn freeze_statistics(&mut self, frozen: impl Fn(&str) -> bool) {
        for unit in self.segments.iter_mut().flat_map(|segment| segment.0.units_mut()) {
            unit.norm.frozen = frozen(&unit.norm.name);
        }
    }

    /// The weights of all convolutions and of the head.
    pub(super) fn weights_mut(&mut self) -> impl Iterator<Item = &mut Weight> {
        self.segments.iter_mut().flat_map(|segment| match &mut segment.0 {
            Part::Head(head) => vec![&mut head.weight],
            part => part.units_mut().into_iter().map(|unit| &mut unit.conv.weight).collect(),
        })
    }
}

/// A part of the network that takes one tensor from the part before it and gives one to the next.
#[derive(Debug)]
pub struct Segment(Part);

impl Segment {
    /// What the next segment takes: of the stem, whose `x` is images, (N, 64, H, W) with a quarter
    /// of the height and width, or all of it with [`Stem::Cifar`]; of the head, logits.
    pub fn forward(&self, x: &Tensor, mode: Mode) -> Result<Tensor> {
        match &self.0 {
            Part::Stem { unit, stem } => {
                let x = match x.device() {
                    Device::Cuda(_) => channels_last(x)?,
                    _ => x.shallow_clone(),
                };
                let x = unit.forward(&x, mode)?.f_relu_()?;
                match stem {
                    Stem::Imagenet => x.f_max_pool2d([3, 3], [2, 2], [1, 1], [1, 1], false),
                    Stem::Cifar => Ok(x),
                }
            }
            Part::Block { first, second, downsample } => {
                let mut y = second.forward(&first.forward(x, mode)?.f_relu_()?, mode)?;
                let mut y = match downsample {
                    Some(unit) => y.f_add_(&unit.forward(x, mode)?)?,
                    None => y.f_add_(x)?,
                };
                y.f_relu_()
            }
            Part::Head(head) => head.forward(&x.f_adaptive_avg_pool2d([1, 1])?.f_flatten(1, -1)?),
        }
    }

    /// Whether one of its parameters wants a gradient.
    pub fn is_trainable(&self) -> bool {
        match &self.0 {
            Part::Head(head) => head.is_trainable(),
            part => part.units().into_iter().any(Unit::is_trainable),
        }
    }
}

#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // There are ten of them.
enum Part {
    Stem {
        unit: Unit,
        stem: Stem,
    },
    /// Two 3x3 convolutions and what they are added to.
    Block {
        first: Unit,
        second: Unit,
        /// Brings the input to the output's shape, where they differ.
        downsample: Option<Unit>,
    },
    Head(Linear),
}

impl Part {
    fn stem(path: &Path<'_>, stem: Stem) -> Result<Self> {
        let (kernel, stride) = if stem == Stem::Imagenet { (7, 2) } else { (3, 1) };
        let conv = Conv::new(&(path / "conv1"), 3, 64, kernel, stride)?;
        let norm = BatchNorm::new(&(path / "bn1"), 64)?;
        Ok(Part::Stem { unit: Unit { conv, norm }, stem })
    }

    fn block(path: &Path<'_>, from: i64, to: i64, stride: i64) -> Result<Self> {
        let unit = |conv: Path<'_>, norm: Path<'_>, from, kernel, stride| -> Result<Unit> {
            let conv = Conv::new(&conv, from, to, kernel, stride)?;
            Ok(Unit { conv, norm: BatchNorm::new(&norm, to)? })
        };
        let downsample = if stride != 1 || from != to {
            let path = path / "downsample";
            Some(unit(&path / 0, &path / 1, from, 1, stride)?)
        } else {
            None
        };
        Ok(Part::Block {
            first: unit(path / "conv1", path / "bn1", from, 3, stride)?,
            second: unit(path / "conv2", path / "bn2", to, 3, 1)?,
            downsample,
        })
    }

    /// In torchvision's order.
    fn units(&self) -> Vec<&Unit> {
        match self {
            Part::Stem { unit, .. } => vec![unit],
            Part::Block { first, second, downsample } => {
                [first, second].into_iter().chain(downsample).collect()
            }
            Part::Head(_) => Vec::new(),
        }
    }

    fn units_mut(&mut self) -> Vec<&mut Unit> {
        match self {
            Part::Stem { unit, .. } => vec![unit],
            Part::Block { first, second, downsample } => {
                [first, second].into_iter().chain(downsample).collect()
            }
            Part::Head(_) => Vec::new(),
        }
    }
}

/// A convolution and the batch norm behind it.
#[derive(Debug)]
struct Unit {
    conv: Conv,
    norm: BatchNorm,
}

impl Unit {
    fn forward(&self, x: &Tensor, mode: Mode) -> Result<Tensor> {
        self.norm.forward(&self.conv.forward(x)?, mode)
    }

    fn is_trainable(&self) -> bool {
        self.conv.is_trainable() || self.norm.is_trainable()
    }
}
