//! Images and scalars of a graph, and the arithmetic on them.

use super::{Form, Given, Graph, Id, Kind, Term};
use crate::graph::expr::{Binary, Unary};
use crate::graph::number::widen;
use crate::graph::spec::Arg;
use crate::tensor::DType;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// A value drawn for each sample, or computed from such values: one number, or one a channel.
#[derive(Clone)]
pub struct Scalar {
    pub(super) graph: Graph,
    pub(super) id: Id,
}

/// An image of each sample.
#[derive(Clone)]
pub struct Image {
    pub(super) graph: Graph,
    pub(super) id: Id,
}

/// What arithmetic on images takes.
#[derive(Clone)]
pub enum Operand {
    /// The same number for every value.
    Number(f64),
    /// A number for each of red, green and blue.
    Channels([f64; 3]),
    /// A number or three, drawn per sample.
    Scalar(Scalar),
    /// An image of the same shape.
    Image(Image),
}

/// What arithmetic on scalars takes: an [`Operand`] that is no image.
pub trait ScalarOperand: Into<Operand> {}

/// What an argument of an operator takes.
#[derive(Clone)]
pub enum Argument {
    /// A value known now.
    Plain(Arg),
    /// A value of each sample.
    Scalar(Scalar),
}

/// Makes `Operand` from a number or handle, and a `ScalarOperand` where it says so.
macro_rules! operand {
    ($($From:ty: |$value:ident| $operand:expr $(, $Scalar:ident)?;)+) => {$(
        impl From<$From> for Operand {
            fn from($value: $From) -> Self {
                $operand
            }
        }
        $(impl $Scalar for $From {})?
    )+};
}

operand! {
    f32: |value| Operand::Number(widen(value)), ScalarOperand;
    f64: |value| Operand::Number(value), ScalarOperand;
    i32: |value| Operand::Number(f64::from(value)), ScalarOperand;
    [f32; 3]: |values| Operand::Channels(values.map(widen)), ScalarOperand;
    [f64; 3]: |values| Operand::Channels(values), ScalarOperand;
    Scalar: |scalar| Operand::Scalar(scalar), ScalarOperand;
    &Scalar: |scalar| Operand::Scalar(scalar.clone()), ScalarOperand;
    Image: |image| Operand::Image(image);
    &Image: |image| Operand::Image(image.clone());
}

impl From<&Scalar> for Scalar {
    fn from(scalar: &Scalar) -> Self {
        scalar.clone()
    }
}

macro_rules! argument {
    ($($Number:ty: $widen:expr;)+) => {$(
        impl From<$Number> for Argument {
            fn from(value: $Number) -> Self {
                Argument::Plain(Arg::Number($widen(value)))
            }
        }
        impl<const N: usize> From<[$Number; N]> for Argument {
            fn from(values: [$Number; N]) -> Self {
                Argument::Plain(Arg::Numbers(values.map($widen).into()))
            }
        }
    )+};
}

argument! {
    f32: widen;
    f64: f64::from;
    i32: f64::from;
}

impl From<bool> for Argument {
    fn from(value: bool) -> Self {
        Argument::Plain(Arg::Bool(value))
    }
}

impl From<&str> for Argument {
    fn from(text: &str) -> Self {
        Argument::Plain(Arg::Text(text.to_owned()))
    }
}

impl From<Scalar> for Argument {
    fn from(scalar: Scalar) -> Self {
        Argument::Scalar(scalar)
    }
}

impl From<&Scalar> for Argument {
    fn from(scalar: &Scalar) -> Self {
        Argument::Scalar(scalar.clone())
    }
}

impl Graph {
    /// The operand as a node of this graph, and whether it is an image.
    fn term(&self, operand: Operand) -> (Term, bool) {
        let finite = |values: &[f64]| {
            if let Some(bad) = values.iter().find(|v| !(**v as f32).is_finite()) {
                self.fail(format!("numbers must be finite f32, and {bad} is not"));
            }
        };
        match operand {
            Operand::Number(value) => {
                finite(&[value]);
                (Term::Number(value), false)
            }
            Operand::Channels(values) => {
                finite(&values);
                (Term::Channels(values), false)
            }
            Operand::Scalar(scalar) => (Term::Node(self.id_of(&scalar.graph, scalar.id)), false),
            Operand::Image(image) => (Term::Node(self.image_id(&image)), true),
        }
    }

    fn math<const N: usize>(&self, form: Form, operands: [Operand; N]) -> Id {
        let terms = operands.map(|operand| self.term(operand));
        let image = terms.iter().any(|&(_, image)| image);
        self.add(Kind::Math { form, terms: terms.map(|(term, _)| term).into(), image })
    }

    /// An operator's argument as kept in a node.
    pub(super) fn given(&self, argument: Argument) -> Given {
        match argument {
            Argument::Scalar(scalar) => Given::Scalar(self.id_of(&scalar.graph, scalar.id)),
            Argument::Plain(arg) => {
                let numbers = match &arg {
                    Arg::Number(value) => std::slice::from_ref(value),
                    Arg::Numbers(values) => values,
                    _ => &[],
                };
                numbers.iter().for_each(|value| {
                    self.term(Operand::Number(*value));
                });
                Given::Plain(arg)
            }
        }
    }
}

/// The methods that scalars and images share; `$Other` is what they compute with.
macro_rules! methods {
    ($Type:ident, $Other:path; $($(#[$doc:meta])* $method:ident: $Binary:ident;)+) => {
        impl $Type {
            $(
                $(#[$doc])*
                #[must_use]
                pub fn $method(&self, other: impl $Other) -> $Type {
                    self.with_other(Binary::$Binary, other.into())
                }
            )+

            /// 1 where this is 0, else 0.
            #[must_use]
            pub fn not(&self) -> $Type {
                self.math(Form::Unary(Unary::Not), [self.into()])
            }

            /// `min(max(self, lo), hi)`.
            #[must_use]
            pub fn clamp(&self, lo: impl $Other, hi: impl $Other) -> $Type {
                self.math(Form::Clamp, [self.into(), lo.into(), hi.into()])
            }

            fn with_other(&self, op: Binary, other: Operand) -> $Type {
                self.math(Form::Binary(op), [self.into(), other])
            }

            fn math<const N: usize>(&self, form: Form, operands: [Operand; N]) -> $Type {
                $Type { graph: self.graph.clone(), id: self.graph.math(form, operands) }
            }
        }

        impl Neg for $Type {
            type Output = $Type;
            fn neg(self) -> $Type {
                -&self
            }
        }

        impl Neg for &$Type {
            type Output = $Type;
            fn neg(self) -> $Type {
                self.math(Form::Unary(Unary::Neg), [self.into()])
            }
        }
    };
}

macro_rules! shared_methods {
    ($($Type:ident, $Other:path;)+) => {$(
        methods! {
            $Type, $Other;
            /// 1 where this is less than `other`, else 0.
            lt: Lt;
            /// 1 where this is at most `other`, else 0.
            le: Le;
            /// 1 where this is greater than `other`, else 0.
            gt: Gt;
            /// 1 where this is at least `other`, else 0.
            ge: Ge;
            /// 1 where this equals `other`, else 0.
            eq: Eq;
            /// 1 where this differs from `other`, else 0.
            ne: Ne;
            /// 1 where neither is 0, else 0.
            and: And;
            /// 1 where one is not 0, else 0.
            or: Or;
            /// The lesser of the two.
            min: Min;
            /// The greater of the two.
            max: Max;
        }
    )+};
}

shared_methods! {
    Scalar, ScalarOperand;
    Image, Into<Operand>;
}

impl Scalar {
    /// The draw with three independent values, for red, green and blue, instead of one: a draw
    /// other than this one.
    #[must_use]
    pub fn per_channel(&self) -> Scalar {
        let (kind, name) = {
            let node = &self.graph.0.borrow().nodes[self.id];
            (node.kind.clone(), node.name.clone())
        };
        let Kind::Draw { dist, .. } = kind else {
            self.graph.fail("per_channel belongs to a draw; what is computed from one follows it");
            return self.clone();
        };
        let id = self.graph.add(Kind::Draw { dist, per_channel: true });
        self.graph.0.borrow_mut().nodes[id].name = name;
        Scalar { graph: self.graph.clone(), id }
    }

    /// Gives the draw a name of its own, a `[[draw]]` of the pipeline file. Its values then
    /// depend on the name and not on the step that uses it.
    #[must_use]
    pub fn named(self, name: &str) -> Scalar {
        if matches!(self.graph.0.borrow().nodes[self.id].kind, Kind::Draw { .. }) {
            self.graph.name(self.id, name);
        } else {
            self.graph.fail("named belongs to a draw, not to what is computed from draws");
        }
        self
    }
}

impl Image {
    /// Converts the values: to u8 rounding half away from zero and saturating, to f32 exactly.
    #[must_use]
    pub fn cast(&self, dtype: DType) -> Image {
        if dtype == DType::I64 {
            self.graph.fail("an image casts to u8 or f32, not to i64");
        }
        self.math(Form::Cast(dtype), [self.into()])
    }
}

/// `$Left op $Right` for each pair. Numbers on the left are f32 alone: with f64 beside it the type
/// of the literal in `1.0 - image` would be ambiguous.
macro_rules! pairs {
    ($Op:ident $method:ident $Out:ident: $($Left:ty),+; $Right:ty) => {$(
        impl $Op<$Right> for $Left {
            type Output = $Out;
            fn $method(self, right: $Right) -> $Out {
                right.math(Form::Binary(Binary::$Op), [self.into(), right.clone().into()])
            }
        }
    )+};
}

macro_rules! arithmetic {
    ($($Op:ident $method:ident),+) => {$(
        impl<R: Into<Operand>> $Op<R> for &Image {
            type Output = Image;
            fn $method(self, right: R) -> Image {
                self.with_other(Binary::$Op, right.into())
            }
        }
        impl<R: Into<Operand>> $Op<R> for Image {
            type Output = Image;
            fn $method(self, right: R) -> Image {
                self.with_other(Binary::$Op, right.into())
            }
        }
        impl<R: ScalarOperand> $Op<R> for &Scalar {
            type Output = Scalar;
            fn $method(self, right: R) -> Scalar {
                self.with_other(Binary::$Op, right.into())
            }
        }
        impl<R: ScalarOperand> $Op<R> for Scalar {
            type Output = Scalar;
            fn $method(self, right: R) -> Scalar {
                self.with_other(Binary::$Op, right.into())
            }
        }
        pairs! { $Op $method Image: f32, [f32; 3], Scalar, &Scalar; Image }
        pairs! { $Op $method Image: f32, [f32; 3], Scalar, &Scalar; &Image }
        pairs! { $Op $method Scalar: f32, [f32; 3]; Scalar }
        pairs! { $Op $method Scalar: f32, [f32; 3]; &Scalar }
    )+};
}

arithmetic! { Add add, Sub sub, Mul mul, Div div }
