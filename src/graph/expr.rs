//! The small expression grammar on images, draws and constants.

/// A parsed expression; `Display` prints text that parses back to the same tree.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    /// A number, computed with as the nearest f32.
    Number(f64),
    /// `x` (the step's input), an argument of the step, a shared draw, or another step's image.
    Name(String),
    /// `[a, b, c]`: one value a channel.
    Channels([Box<Expr>; 3]),
    /// `-a`, `not a`.
    Unary(Unary, Box<Expr>),
    /// `a + b`, `a < b`, `a and b`, `min(a, b)`, ….
    Binary(Binary, Box<Expr>, Box<Expr>),
    /// `clamp(a, lo, hi)` = `min(max(a, lo), hi)`.
    Clamp(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `cast(a, u8)`, `cast(a, f32)`.
    Cast(Box<Expr>, crate::tensor::DType),
}

/// Operators of one operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unary {
    /// `-a`
    Neg,
    /// `not a`: 1 where a is 0, else 0.
    Not,
}

/// Operators of two operands, all on f32; comparisons and logic yield 0 or 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Binary {
    /// `a + b`
    Add,
    /// `a - b`
    Sub,
    /// `a * b`
    Mul,
    /// `a / b`, IEEE division
    Div,
    /// `min(a, b)`
    Min,
    /// `max(a, b)`
    Max,
    /// `a < b`
    Lt,
    /// `a <= b`
    Le,
    /// `a > b`
    Gt,
    /// `a >= b`
    Ge,
    /// `a == b`
    Eq,
    /// `a != b`
    Ne,
    /// `a and b`
    And,
    /// `a or b`
    Or,
}
