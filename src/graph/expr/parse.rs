//! Recursive descent over the grammar at the head of [`super`].

use super::{Binary, Expr, Unary, level};
use crate::error::{Error, Result};
use crate::graph::nearest;
use crate::tensor::DType;

/// Bounds the depth of every tree, since a chain such as `a + a + …` is as deep as it is long.
const MAX_TOKENS: usize = 1024;
/// Bounds the recursion of the parser itself.
const MAX_NESTING: usize = 64;

const FUNCTIONS: [&str; 4] = ["min", "max", "clamp", "cast"];

pub(super) fn is_reserved(word: &str) -> bool {
    matches!(word, "and" | "or" | "not") || FUNCTIONS.contains(&word)
}

pub(super) fn parse(text: &str) -> Result<Expr> {
    let mut parser = Parser { tokens: tokens(text)?, next: 0, nesting: 0 };
    let expr = parser.expr(0)?;
    match parser.peek() {
        Token::End => Ok(expr),
        _ => Err(parser.expected("an operator or the end")),
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Token<'a> {
    Number(f64),
    /// A name or a word of the grammar.
    Word(&'a str),
    /// One of the grammar's signs.
    Sign(&'a str),
    End,
}

fn at_column(column: usize, message: impl std::fmt::Display) -> Error {
    Error::spec(format!("expression, column {column}: {message}"))
}

/// The tokens of `text`, each with its column from 1, an [`Token::End`] last.
fn tokens(text: &str) -> Result<Vec<(usize, Token<'_>)>> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    let mut column = 1 + text[..text.len() - rest.len()].chars().count();
    while let Some(first) = rest.chars().next() {
        if tokens.len() == MAX_TOKENS {
            let limit = format!("an expression holds at most {MAX_TOKENS} words and signs");
            return Err(at_column(column, limit + "; split it into several steps"));
        }
        let (token, len) = match first {
            '0'..='9' | '.' => number(rest).map_err(|message| at_column(column, message))?,
            'A'..='Z' | 'a'..='z' | '_' => {
                let len = prefix(rest, |b| b.is_ascii_alphanumeric() || b == b'_');
                (Token::Word(&rest[..len]), len)
            }
            _ => {
                let sign =
                    ["<=", ">=", "==", "!=", "<", ">", "+", "-", "*", "/", "(", ")", "[", "]", ","]
                        .into_iter()
                        .find(|sign| rest.starts_with(sign));
                let sign = sign.ok_or_else(|| at_column(column, stray(first)))?;
                (Token::Sign(sign), sign.len())
            }
        };
        tokens.push((column, token));
        let after = rest[len..].trim_start();
        column += rest[..rest.len() - after.len()].chars().count();
        rest = after;
    }
    tokens.push((column, Token::End));
    Ok(tokens)
}

/// How many of the first bytes of `text` are as `wanted`.
fn prefix(text: &str, wanted: impl Fn(u8) -> bool) -> usize {
    text.bytes().take_while(|&b| wanted(b)).count()
}

fn stray(found: char) -> String {
    let hint = match found {
        '&' => ", write \"and\"",
        '|' => ", write \"or\"",
        '!' | '~' => ", write \"not\"",
        '=' => ", equality is \"==\"",
        '\'' | '"' => ", names stand without quotes",
        _ => "",
    };
    format!("{found:?} is no part of an expression{hint}")
}

/// The number at the head of `text` and its length: `15`, `0.3`, `.5`, `1e-3`.
fn number(text: &str) -> Result<(Token<'_>, usize), String> {
    let mut len = prefix(text, |b| b.is_ascii_digit() || b == b'.');
    if text[len..].starts_with(['e', 'E']) {
        let sign = usize::from(text[len + 1..].starts_with(['+', '-']));
        let digits = prefix(&text[len + 1 + sign..], |b| b.is_ascii_digit());
        if digits > 0 {
            len += 1 + sign + digits;
        }
    }
    let literal = &text[..len];
    let value: f64 =
        literal.parse().map_err(|_| format!("{} is no number", nearest::quote(literal)))?;
    if (value as f32).is_infinite() {
        return Err(format!("{} is too large for f32", nearest::quote(literal)));
    }
    Ok((Token::Number(value), len))
}

struct Parser<'a> {
    tokens: Vec<(usize, Token<'a>)>,
    next: usize,
    nesting: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Token<'a> {
        self.tokens[self.next].1
    }

    fn advance(&mut self) {
        // The end is never passed.
        self.next = (self.next + 1).min(self.tokens.len() - 1);
    }

    fn take(&mut self, token: Token<'_>) -> bool {
        let found = self.peek() == token;
        if found {
            self.advance();
        }
        found
    }

    fn need(&mut self, sign: &'static str) -> Result<()> {
        if self.take(Token::Sign(sign)) { Ok(()) } else { Err(self.expected(&format!("{sign:?}"))) }
    }

    fn error(&self, message: impl std::fmt::Display) -> Error {
        at_column(self.tokens[self.next].0, message)
    }

    fn expected(&self, what: &str) -> Error {
        let found = match self.peek() {
            Token::Number(value) => value.to_string(),
            Token::Word(word) | Token::Sign(word) => nearest::quote(word),
            Token::End => "the end".into(),
        };
        self.error(format!("expected {what}, found {found}"))
    }

    /// An expression of operators at `least` or tighter.
    fn expr(&mut self, least: u8) -> Result<Expr> {
        let mut left = self.operand(least)?;
        let mut compared = false;
        while let Some(op) = self.operator() {
            let level = op.level();
            if level < least {
                break;
            }
            if level == level::COMPARISON && std::mem::replace(&mut compared, true) {
                return Err(self.error("comparisons do not chain, write a < b and b < c"));
            }
            self.advance();
            let right = self.expr(level + 1)?;
            left = Expr::Binary(op, left.into(), right.into());
        }
        Ok(left)
    }

    fn operator(&self) -> Option<Binary> {
        Some(match self.peek() {
            Token::Word("or") => Binary::Or,
            Token::Word("and") => Binary::And,
            Token::Sign("<") => Binary::Lt,
            Token::Sign("<=") => Binary::Le,
            Token::Sign(">") => Binary::Gt,
            Token::Sign(">=") => Binary::Ge,
            Token::Sign("==") => Binary::Eq,
            Token::Sign("!=") => Binary::Ne,
            Token::Sign("+") => Binary::Add,
            Token::Sign("-") => Binary::Sub,
            Token::Sign("*") => Binary::Mul,
            Token::Sign("/") => Binary::Div,
            _ => return None,
        })
    }

    /// An operand with the signs and `not`s before it.
    fn operand(&mut self, least: u8) -> Result<Expr> {
        if self.peek() == Token::Word("not") {
            if least > level::NOT {
                return Err(self.error("\"not\" needs parentheses here: (not …)"));
            }
            self.advance();
            let operand = self.nested(|parser| parser.expr(level::NOT))?;
            return Ok(Expr::Unary(Unary::Not, operand.into()));
        }
        if self.take(Token::Sign("-")) {
            if let Token::Number(value) = self.peek() {
                self.advance();
                return Ok(Expr::Number(-value));
            }
            let operand = self.nested(|parser| parser.expr(level::SIGN))?;
            return Ok(Expr::Unary(Unary::Neg, operand.into()));
        }
        self.atom()
    }

    fn atom(&mut self) -> Result<Expr> {
        match self.peek() {
            Token::Number(value) => {
                self.advance();
                Ok(Expr::Number(value))
            }
            Token::Word(word) => self.word(word),
            Token::Sign("(") => {
                self.advance();
                let inner = self.inner()?;
                self.need(")")?;
                Ok(inner)
            }
            Token::Sign("[") => {
                self.advance();
                let r = self.inner()?;
                self.need(",")?;
                let g = self.inner()?;
                self.need(",")?;
                let b = self.inner()?;
                self.need("]")?;
                Ok(Expr::Channels([r.into(), g.into(), b.into()]))
            }
            _ => Err(self.expected("a number, a name or \"(\"")),
        }
    }

    fn word(&mut self, word: &'a str) -> Result<Expr> {
        let called = self.tokens.get(self.next + 1).is_some_and(|t| t.1 == Token::Sign("("));
        if !is_reserved(word) && !called {
            self.advance();
            return Ok(Expr::Name(word.into()));
        }
        if !FUNCTIONS.contains(&word) {
            return Err(if is_reserved(word) {
                self.expected("a number, a name or \"(\"")
            } else {
                self.error(nearest::unknown("function", word, &FUNCTIONS))
            });
        }
        self.advance();
        self.need("(")?;
        let a = Box::new(self.inner()?);
        self.need(",")?;
        let expr = match word {
            "cast" => {
                let dtype = match self.peek() {
                    Token::Word("u8") => DType::U8,
                    Token::Word("f32") => DType::F32,
                    _ => return Err(self.expected("u8 or f32")),
                };
                self.advance();
                Expr::Cast(a, dtype)
            }
            "clamp" => {
                let lo = Box::new(self.inner()?);
                self.need(",")?;
                Expr::Clamp(a, lo, self.inner()?.into())
            }
            _ => {
                let op = if word == "min" { Binary::Min } else { Binary::Max };
                Expr::Binary(op, a, self.inner()?.into())
            }
        };
        self.need(")")?;
        Ok(expr)
    }

    /// A whole expression between signs that enclose it.
    fn inner(&mut self) -> Result<Expr> {
        self.nested(|parser| parser.expr(0))
    }

    fn nested(&mut self, read: impl FnOnce(&mut Self) -> Result<Expr>) -> Result<Expr> {
        if self.nesting == MAX_NESTING {
            return Err(self.error(format!("nested more than {MAX_NESTING} deep")));
        }
        self.nesting += 1;
        let expr = read(self);
        self.nesting -= 1;
        expr
    }
}

#[cfg(test)]
mod tests {
    use super::super::is_name;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn precedence_and_minimal_parentheses() {
        for (text, printed) in [
            ("(x/255-mean)/std", "(x / 255 - mean) / std"),
            ("((x * u) + (v))", "x * u + v"),
            ("a - (b - c) - d", "a - (b - c) - d"),
            ("a / (b * c)", "a / (b * c)"),
            ("not (a < b) and not b or (c and d)", "not a < b and not b or c and d"),
            ("(a or b) and c", "(a or b) and c"),
            ("(a < b) == (not c)", "(a < b) == (not c)"),
            ("1 + (not a)", "1 + (not a)"),
            ("-(a + b) * -c - -1", "-(a + b) * -c - -1"),
            ("-(2) + --2", "-(2) + --2"),
            ("clamp(x + [1, u, -3.5], (0), 255.0)", "clamp(x + [1, u, -3.5], 0, 255)"),
            ("cast(min(a or b, max(c, .5e1)), u8)", "cast(min(a or b, max(c, 5)), u8)"),
            (" u\n <\t0.3 ", "u < 0.3"),
        ] {
            assert_eq!(parse(text).unwrap().to_string(), printed);
        }
    }

    #[test]
    fn negative_numbers_are_numbers() {
        assert_eq!(parse("-1").unwrap(), Expr::Number(-1.0));
        assert_eq!(parse("-(1)").unwrap(), Expr::Unary(Unary::Neg, Expr::Number(1.0).into()));
    }

    #[test]
    fn names_come_in_order() {
        let expr = parse("clamp(x * [a, b, 2], lo, min(hi, -x)) < cast(y, f32)").unwrap();
        assert_eq!(expr.names().collect::<Vec<_>>(), ["x", "a", "b", "lo", "hi", "x", "y"]);
        assert!(is_name("keep_2") && is_name("_u") && is_name("nota"));
        assert!(!is_name("not") && !is_name("min") && !is_name("2a") && !is_name("a-b"));
        assert!(!is_name("") && !is_name("é"));
    }

    #[test]
    fn errors_say_column_and_what_was_expected() {
        for (text, message) in [
            ("", r#"column 1: expected a number, a name or "(", found the end"#),
            ("(x + 1", r#"column 7: expected ")", found the end"#),
            ("x + * 2", r#"column 5: expected a number, a name or "(", found "*""#),
            ("x y", r#"column 3: expected an operator or the end, found "y""#),
            ("a < b < c", "column 7: comparisons do not chain, write a < b and b < c"),
            ("1 + not a", r#"column 5: "not" needs parentheses here: (not …)"#),
            ("a && b", r#"column 3: '&' is no part of an expression, write "and""#),
            ("é", "column 1: 'é' is no part of an expression"),
            ("clmap(x, 0, 1)", r#"column 1: unknown function "clmap", did you mean "clamp"?"#),
            ("min(x)", r#"column 6: expected ",", found ")""#),
            ("min", r#"column 4: expected "(", found the end"#),
            ("cast(x, i64)", r#"column 9: expected u8 or f32, found "i64""#),
            ("[1, 2]", r#"column 6: expected ",", found "]""#),
            ("1.2.3", r#"column 1: "1.2.3" is no number"#),
            ("1e39", r#"column 1: "1e39" is too large for f32"#),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert_eq!(error, format!("expression, {message}"), "{text}");
        }
    }

    #[test]
    fn size_and_depth_are_bounded() {
        for text in ["(".repeat(100_000), "-".repeat(1000), "not ".repeat(1000), "a+".repeat(5000)]
        {
            let error = parse(&text).unwrap_err().to_string();
            assert!(error.contains("deep") || error.contains("at most"), "{error}");
        }
        let longest = "a+".repeat(MAX_TOKENS / 2 - 1) + "a";
        assert_eq!(parse(&longest).unwrap().names().count(), MAX_TOKENS / 2);
    }

    fn trees() -> impl Strategy<Value = Expr> {
        let number = any::<f32>().prop_filter("finite", |v| v.is_finite());
        let leaf = prop_oneof![
            number.prop_map(|v| Expr::Number(f64::from(v))),
            (-300i32..300).prop_map(|v| Expr::Number(f64::from(v) / 4.0)),
            "[a-z_][a-z0-9_]{0,6}".prop_filter("a name", |n| is_name(n)).prop_map(Expr::Name),
        ];
        leaf.prop_recursive(6, 48, 3, |inner| {
            let boxed = inner.prop_map(Box::new);
            let [a, b, c] = [boxed.clone(), boxed.clone(), boxed];
            let one = (a.clone(), prop_oneof![Just(Unary::Neg), Just(Unary::Not)]);
            let two = (a.clone(), b.clone(), prop::sample::select(BINARY.as_slice()));
            let dtype = prop_oneof![Just(DType::U8), Just(DType::F32)];
            prop_oneof![
                1 => one.prop_map(|(a, op)| Expr::Unary(op, a)),
                4 => two.prop_map(|(a, b, op)| Expr::Binary(op, a, b)),
                1 => (a.clone(), b.clone(), c.clone()).prop_map(|(r, g, b)| Expr::Channels([r, g, b])),
                1 => (a.clone(), b, c).prop_map(|(a, lo, hi)| Expr::Clamp(a, lo, hi)),
                1 => (a, dtype).prop_map(|(a, dtype)| Expr::Cast(a, dtype)),
            ]
        })
    }

    const BINARY: [Binary; 14] = {
        use Binary::*;
        [Add, Sub, Mul, Div, Min, Max, Lt, Le, Gt, Ge, Eq, Ne, And, Or]
    };

    proptest! {
        #[test]
        fn what_is_printed_reads_back(expr in trees()) {
            prop_assert_eq!(parse(&expr.to_string()).unwrap(), expr);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[-a-c0-9.e+*/<>=!()\\[\\], é]{0,40}") {
            if let Ok(expr) = parse(&text) {
                prop_assert_eq!(parse(&expr.to_string()).unwrap(), expr);
            }
        }
    }
}
