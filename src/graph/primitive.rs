//! The graph of primitives that operators are built from: pointwise operations, affine gathers,
//! resamples, crops, flips and choices on images, and the scalars that they read.
//!
//! The planner knows these only, so that `normalize` and the same formula written out compile to
//! the same plan, and a new operator needs no planner code.

use super::program::{Border, MAX_PIXELS, Op};
use super::resample::Resample;
use crate::error::{Error, Result};
use crate::tensor::{DType, Layout};
use std::collections::HashMap;

/// A scalar of a sample: a constant, a draw, or arithmetic on scalars.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ScalarId(pub(super) u32);

/// One scalar a channel; three times the same where channels do not differ.
pub type Channels = [ScalarId; 3];

/// An image of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub(super) u32);

/// How a scalar is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Scalar {
    /// The float with these bits.
    Const(u32),
    /// Uniform in [0, 1).
    Unit { draw: u16, element: u32 },
    /// Standard normal deviate.
    Normal { draw: u16, element: u32 },
    /// `op(a, b)`; operations of one operand have `a == b`.
    Apply(Op, ScalarId, ScalarId),
}

/// A primitive on images.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    /// The decoded image.
    Decoded,
    /// `op(input, operand)` on each value.
    Point { input: NodeId, op: Op, operand: Operand },
    /// A gather through the inverse of an affine map.
    Affine(Affine),
    /// Another size, of all of the image or of a drawn window.
    Resample(Resample),
    /// A window of fixed size.
    Crop(Crop),
    /// Mirrored columns, rows, or both.
    Flip { input: NodeId, horizontal: bool, vertical: bool },
    /// `then` where the predicate is not 0, else `otherwise`.
    Select { predicate: ScalarId, then: NodeId, otherwise: NodeId },
    /// The same values under another type: cast to f32, transpose.
    Retype { input: NodeId },
}

/// The second operand of a pointwise operation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Operand {
    /// None: the operation has one operand.
    Nothing,
    /// A scalar a channel.
    Scalars(Channels),
    /// Another image of the same size.
    Image(NodeId),
}

/// Arguments of an affine gather; see `kernels/affine.cuh` for the formula.
#[derive(Debug, Clone, PartialEq)]
pub struct Affine {
    /// The image that is read.
    pub input: NodeId,
    /// Degrees, positive counter-clockwise.
    pub angle: ScalarId,
    /// Pixels to the right and down.
    pub translate: [ScalarId; 2],
    /// Enlargement; not 0.
    pub scale: ScalarId,
    /// Degrees along x and y.
    pub shear: [ScalarId; 2],
    /// Value beyond the edge under [`Border::Constant`].
    pub fill: ScalarId,
    /// Linear taps, else nearest.
    pub linear: bool,
    /// Whether the canvas grows to hold the turned image.
    pub grow: bool,
    /// What lies beyond the edge.
    pub border: Border,
}

/// Arguments of a crop.
#[derive(Debug, Clone, PartialEq)]
pub struct Crop {
    /// The image that is read.
    pub input: NodeId,
    /// Rows and columns of the result.
    pub size: (u32, u32),
    /// Pixels added on each side before.
    pub padding: u32,
    /// What the added pixels show.
    pub border: Border,
    /// Their value under [`Border::Constant`].
    pub fill: ScalarId,
    /// The draw of the window's place; `None`: centred.
    pub draw: Option<u16>,
}

/// Rows and columns of an image, as far as they are known before it is decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Extent {
    /// As decoded.
    Decoded,
    /// The same for all samples: rows, columns.
    Fixed(u32, u32),
    /// Grown by the step of this name.
    Grown(String),
    /// Resized by the step of this name, which keeps the aspect of what it gets.
    Resized(String),
}

impl std::fmt::Display for Extent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Extent::Decoded => f.write_str("as decoded"),
            Extent::Fixed(h, w) => write!(f, "{h}x{w}"),
            Extent::Grown(step) => write!(f, "as grown by step \"{step}\""),
            Extent::Resized(step) => write!(f, "as resized by step \"{step}\""),
        }
    }
}

/// What is known of an image when the plan is built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageType {
    /// Element type.
    pub dtype: DType,
    /// Order of axes a consumer would see.
    pub layout: Layout,
    /// Rows and columns.
    pub extent: Extent,
}

/// The graph of primitives under construction.
pub struct Build {
    pub(super) nodes: Vec<(Node, ImageType, u16)>,
    pub(super) scalars: Vec<Scalar>,
    known: HashMap<Scalar, ScalarId>,
    /// Names of steps; a node carries the index of its own.
    pub(super) names: Vec<String>,
    step: u16,
    /// Names of draws by number.
    draws: HashMap<u16, String>,
}

impl Build {
    pub(super) fn new() -> Self {
        let decoded = ImageType { dtype: DType::U8, layout: Layout::Hwc, extent: Extent::Decoded };
        Build {
            nodes: vec![(Node::Decoded, decoded, 0)],
            scalars: Vec::new(),
            known: HashMap::new(),
            names: vec!["decode".into()],
            step: 0,
            draws: HashMap::new(),
        }
    }

    /// The decoded image.
    pub fn decoded(&self) -> NodeId {
        NodeId(0)
    }

    /// Nodes added from here on belong to the step called `name`.
    pub(super) fn enter(&mut self, name: &str) {
        self.names.push(name.into());
        self.step = (self.names.len() - 1) as u16;
    }

    /// Name of the step that nodes are added for.
    pub fn step(&self) -> &str {
        &self.names[usize::from(self.step)]
    }

    /// What is known of `node`.
    pub fn image_type(&self, node: NodeId) -> &ImageType {
        &self.nodes[node.0 as usize].1
    }

    pub(super) fn push(&mut self, node: Node, image_type: ImageType) -> NodeId {
        self.nodes.push((node, image_type, self.step));
        NodeId((self.nodes.len() - 1) as u32)
    }

    fn intern(&mut self, scalar: Scalar) -> ScalarId {
        *self.known.entry(scalar).or_insert_with(|| {
            self.scalars.push(scalar);
            ScalarId((self.scalars.len() - 1) as u32)
        })
    }

    /// The constant `value`.
    pub fn constant(&mut self, value: f32) -> ScalarId {
        self.intern(Scalar::Const(value.to_bits()))
    }

    /// The value of `scalar` where it is a constant.
    pub fn constant_value(&self, scalar: ScalarId) -> Option<f32> {
        match self.scalars[scalar.0 as usize] {
            Scalar::Const(bits) => Some(f32::from_bits(bits)),
            _ => None,
        }
    }

    /// Whether `scalar` is 0 or 1 by how it is computed: a Bernoulli draw, a comparison, logic.
    pub fn is_truth(&self, scalar: ScalarId) -> bool {
        matches!(
            self.scalars[scalar.0 as usize],
            Scalar::Apply(
                Op::Lt | Op::Le | Op::Gt | Op::Ge | Op::Eq | Op::Ne | Op::And | Op::Or | Op::Not,
                ..
            )
        )
    }

    /// The number of the draw called `name`. Asking twice for one name is one draw.
    ///
    /// # Errors
    /// When another name has the same number.
    pub fn draw(&mut self, name: &str) -> Result<u16> {
        let number = crate::rng::draw_number(name);
        let other = self.draws.entry(number).or_insert_with(|| name.to_string());
        if other != name {
            return Err(Error::spec(format!(
                "draws \"{other}\" and \"{name}\" get the same number {number}; \
                 give one of their steps another name = \"…\""
            )));
        }
        Ok(number)
    }

    /// Names of the draws asked for, with their numbers, by name.
    pub(super) fn draw_names(&self) -> Vec<(String, u16)> {
        let mut draws: Vec<_> = self.draws.iter().map(|(&n, name)| (name.clone(), n)).collect();
        draws.sort();
        draws
    }

    /// Element `element` of a draw, uniform in [0, 1).
    pub fn unit(&mut self, draw: u16, element: u32) -> ScalarId {
        self.intern(Scalar::Unit { draw, element })
    }

    /// Element `element` of a draw, a standard normal deviate.
    pub fn normal(&mut self, draw: u16, element: u32) -> ScalarId {
        self.intern(Scalar::Normal { draw, element })
    }

    /// `op(a, b)`; for [`Op::Neg`], [`Op::Not`] and [`Op::Round`] give `a` twice.
    pub fn apply(&mut self, op: Op, a: ScalarId, b: ScalarId) -> ScalarId {
        self.intern(Scalar::Apply(op, a, b))
    }

    /// The same a channel.
    pub fn apply_channels(&mut self, op: Op, a: Channels, b: Channels) -> Channels {
        std::array::from_fn(|k| self.apply(op, a[k], b[k]))
    }

    /// `op(input, operand)` on each value; the result is f32, and u8 after [`Op::Round`],
    /// comparisons and logic.
    ///
    /// # Errors
    /// When a second image is known to have another size.
    pub fn point(&mut self, input: NodeId, op: Op, operand: Operand) -> Result<NodeId> {
        let mut image_type = self.image_type(input).clone();
        if let Operand::Image(other) = operand {
            let extent = &self.image_type(other).extent;
            if *extent != image_type.extent {
                return Err(Error::spec(format!(
                    "the two images have different sizes: {} and {extent}",
                    image_type.extent
                )));
            }
        }
        image_type.dtype = match op {
            Op::Round | Op::Lt | Op::Le | Op::Gt | Op::Ge | Op::Eq | Op::Ne => DType::U8,
            Op::And | Op::Or | Op::Not => DType::U8,
            _ => DType::F32,
        };
        Ok(self.push(Node::Point { input, op, operand }, image_type))
    }

    /// The same with a scalar a channel, which cannot fail.
    pub fn point_scalars(&mut self, input: NodeId, op: Op, operand: Channels) -> NodeId {
        self.point(input, op, Operand::Scalars(operand)).expect("a scalar has every size")
    }

    /// The cast to u8: half away from zero, saturating, NaN to 0. On a u8 image it is nothing.
    pub fn round(&mut self, input: NodeId) -> NodeId {
        if self.image_type(input).dtype == DType::U8 {
            return input;
        }
        self.point(input, Op::Round, Operand::Nothing).expect("there is one image")
    }

    /// The value-preserving cast to f32.
    pub fn float(&mut self, input: NodeId) -> NodeId {
        // Values are floats inside a pass; only the type changes.
        let image_type = ImageType { dtype: DType::F32, ..self.image_type(input).clone() };
        self.retype(input, image_type)
    }

    /// An affine gather. A u8 image stays u8.
    pub fn affine(&mut self, mut affine: Affine) -> NodeId {
        let mut image_type = self.image_type(affine.input).clone();
        affine.fill = self.fill(affine.fill, image_type.dtype);
        if affine.grow {
            image_type.extent = Extent::Grown(self.step().to_string());
        }
        self.push(Node::Affine(affine), image_type)
    }

    /// A crop.
    ///
    /// # Errors
    /// When it is larger than any image may be, or known to be larger than the padded one.
    pub fn crop(&mut self, mut crop: Crop) -> Result<NodeId> {
        let mut image_type = self.image_type(crop.input).clone();
        crop.fill = self.fill(crop.fill, image_type.dtype);
        if u64::from(crop.size.0) * u64::from(crop.size.1) > MAX_PIXELS {
            return Err(Error::spec(format!(
                "size = [{}, {}] is beyond the limit of {MAX_PIXELS} pixels",
                crop.size.0, crop.size.1
            )));
        }
        if let Extent::Fixed(h, w) = image_type.extent
            && (h + 2 * crop.padding < crop.size.0 || w + 2 * crop.padding < crop.size.1)
        {
            return Err(Error::spec(format!(
                "size = [{}, {}] is larger than the {h}x{w} image with padding {}",
                crop.size.0, crop.size.1, crop.padding
            )));
        }
        image_type.extent = Extent::Fixed(crop.size.0, crop.size.1);
        Ok(self.push(Node::Crop(crop), image_type))
    }

    /// The value that shows beyond the edge of an image of type `dtype`: of that type itself, so
    /// that it is the same whether the image is stored or read on in the same pass.
    fn fill(&mut self, fill: ScalarId, dtype: DType) -> ScalarId {
        if dtype == DType::U8 { self.apply(Op::Round, fill, fill) } else { fill }
    }

    /// Mirrors columns, rows, or both.
    pub fn flip(&mut self, input: NodeId, horizontal: bool, vertical: bool) -> NodeId {
        let image_type = self.image_type(input).clone();
        self.push(Node::Flip { input, horizontal, vertical }, image_type)
    }

    /// Changes the order of axes that a consumer sees.
    pub fn transpose(&mut self, input: NodeId, layout: Layout) -> NodeId {
        let image_type = ImageType { layout, ..self.image_type(input).clone() };
        self.retype(input, image_type)
    }

    fn retype(&mut self, input: NodeId, image_type: ImageType) -> NodeId {
        if *self.image_type(input) == image_type {
            return input;
        }
        self.push(Node::Retype { input }, image_type)
    }

    /// `then` where `predicate` is not 0, else `otherwise`.
    ///
    /// # Errors
    /// When the two differ in type, layout or size.
    pub fn select(
        &mut self,
        predicate: ScalarId,
        then: NodeId,
        otherwise: NodeId,
    ) -> Result<NodeId> {
        let (a, b) = (self.image_type(then).clone(), self.image_type(otherwise).clone());
        let last = |node: NodeId| &self.names[usize::from(self.nodes[node.0 as usize].2)];
        let differ = |what: &str, a: String, b: String, mend: &str| {
            Err(Error::spec(format!(
                "branches disagree in {what}: {a} where the predicate is true (step \"{}\"), {b} \
                 where it is false (step \"{}\"); {mend}",
                last(then),
                last(otherwise)
            )))
        };
        if a.dtype != b.dtype {
            let mend = "end both with the same type, for example with a cast step";
            return differ("type", a.dtype.to_string(), b.dtype.to_string(), mend);
        }
        if a.layout != b.layout {
            let mend = "transpose behind the branches";
            return differ("layout", a.layout.name().into(), b.layout.name().into(), mend);
        }
        if a.extent != b.extent {
            let mend = "keep the size (rotate has keep_size = true), end both branches with a crop or a \
                        resize to one size, or put the step behind, without when";
            return differ("size", a.extent.to_string(), b.extent.to_string(), mend);
        }
        if then == otherwise {
            return Ok(then);
        }
        Ok(self.push(Node::Select { predicate, then, otherwise }, a))
    }
}
