//! The small expression grammar on images, draws and constants.
//!
//! ```text
//! expression = or                                  loosest first
//! or         = and { "or" and }
//! and        = not { "and" not }
//! not        = "not" not | comparison
//! comparison = sum [ ("<" | "<=" | ">" | ">=" | "==" | "!=") sum ]     they do not chain
//! sum        = product { ("+" | "-") product }
//! product    = sign { ("*" | "/") sign }
//! sign       = "-" sign | atom                     "-" right before a number belongs to it
//! atom       = number | name | "(" expression ")" | "[" expression "," expression "," expression "]"
//!            | ("min" | "max") "(" expression "," expression ")"
//!            | "clamp" "(" expression "," expression "," expression ")"
//!            | "cast" "(" expression "," ("u8" | "f32") ")"
//! ```

mod parse;

use super::number::Shortest;
use std::fmt;

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

/// How tightly an expression holds together; an operand looser than its place is put in parentheses.
mod level {
    pub(super) const OR: u8 = 1;
    pub(super) const AND: u8 = 2;
    pub(super) const NOT: u8 = 3;
    pub(super) const COMPARISON: u8 = 4;
    pub(super) const SUM: u8 = 5;
    pub(super) const PRODUCT: u8 = 6;
    pub(super) const SIGN: u8 = 7;
    pub(super) const ATOM: u8 = 8;
}

impl Unary {
    const fn level(self) -> u8 {
        match self {
            Unary::Neg => level::SIGN,
            Unary::Not => level::NOT,
        }
    }
}

impl Binary {
    /// The operator's sign or word: `+`, `<=`, `and`, `min`.
    pub const fn symbol(self) -> &'static str {
        match self {
            Binary::Add => "+",
            Binary::Sub => "-",
            Binary::Mul => "*",
            Binary::Div => "/",
            Binary::Min => "min",
            Binary::Max => "max",
            Binary::Lt => "<",
            Binary::Le => "<=",
            Binary::Gt => ">",
            Binary::Ge => ">=",
            Binary::Eq => "==",
            Binary::Ne => "!=",
            Binary::And => "and",
            Binary::Or => "or",
        }
    }

    const fn level(self) -> u8 {
        match self {
            Binary::Add | Binary::Sub => level::SUM,
            Binary::Mul | Binary::Div => level::PRODUCT,
            Binary::Min | Binary::Max => level::ATOM,
            Binary::Lt | Binary::Le | Binary::Gt | Binary::Ge | Binary::Eq | Binary::Ne => {
                level::COMPARISON
            }
            Binary::And => level::AND,
            Binary::Or => level::OR,
        }
    }
}

/// Whether expressions can refer to something called `text`: letters, digits and `_`, no digit
/// first, and no word of the grammar.
pub fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && !parse::is_reserved(text)
}

impl Expr {
    /// Reads an expression.
    ///
    /// # Errors
    /// Says the column, what was expected and what was found. Refused too: more than 1,024 words
    /// and signs, or parentheses more than 64 deep, so that nothing a file holds can exhaust the
    /// stack of those who walk the tree.
    pub fn parse(text: &str) -> crate::Result<Expr> {
        parse::parse(text)
    }

    /// The names referred to, in the order of the text, each as often as it stands there.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let mut pending = vec![self];
        std::iter::from_fn(move || {
            loop {
                match pending.pop()? {
                    Expr::Name(name) => return Some(name.as_str()),
                    Expr::Number(_) => {}
                    Expr::Channels(items) => pending.extend(items.iter().rev().map(|e| &**e)),
                    Expr::Unary(_, a) | Expr::Cast(a, _) => pending.push(a),
                    Expr::Binary(_, a, b) => pending.extend([&**b, &**a]),
                    Expr::Clamp(a, lo, hi) => pending.extend([&**hi, &**lo, &**a]),
                }
            }
        })
    }

    const fn level(&self) -> u8 {
        match self {
            Expr::Unary(op, _) => op.level(),
            Expr::Binary(op, ..) => op.level(),
            _ => level::ATOM,
        }
    }

    /// Prints the expression for a place that takes `least` or tighter.
    fn print(&self, f: &mut fmt::Formatter<'_>, least: u8) -> fmt::Result {
        if self.level() < least {
            f.write_str("(")?;
            self.print_bare(f)?;
            f.write_str(")")
        } else {
            self.print_bare(f)
        }
    }

    fn print_bare(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expr::Number(value) => write!(f, "{}", Shortest(*value)),
            Expr::Name(name) => f.write_str(name),
            Expr::Channels(items) => print_list(f, "[", &[&*items[0], &*items[1], &*items[2]], "]"),
            Expr::Unary(Unary::Neg, a) => {
                f.write_str("-")?;
                // `-2` is a number and `-(2)` the negative of one: the trees differ.
                let bare_number = matches!(**a, Expr::Number(value) if value.is_sign_positive());
                a.print(f, if bare_number { level::ATOM + 1 } else { level::SIGN })
            }
            Expr::Unary(Unary::Not, a) => {
                f.write_str("not ")?;
                a.print(f, level::NOT)
            }
            Expr::Binary(op @ (Binary::Min | Binary::Max), a, b) => {
                f.write_str(op.symbol())?;
                print_list(f, "(", &[&**a, &**b], ")")
            }
            Expr::Binary(op, a, b) => {
                let level = op.level();
                // Equal levels group from the left, but comparisons do not chain at all.
                a.print(f, if level == level::COMPARISON { level + 1 } else { level })?;
                write!(f, " {} ", op.symbol())?;
                b.print(f, level + 1)
            }
            Expr::Clamp(a, lo, hi) => print_list(f, "clamp(", &[&**a, &**lo, &**hi], ")"),
            Expr::Cast(a, dtype) => write!(f, "cast({a}, {dtype})"),
        }
    }
}

fn print_list(f: &mut fmt::Formatter<'_>, open: &str, items: &[&Expr], close: &str) -> fmt::Result {
    for (i, item) in items.iter().enumerate() {
        f.write_str(if i == 0 { open } else { ", " })?;
        item.print(f, 0)?;
    }
    f.write_str(close)
}

/// The expression with no more parentheses than its tree needs.
impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.print(f, 0)
    }
}
