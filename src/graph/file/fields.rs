//! Typed access to the tables of a TOML document, with errors that name the line and the key.

use crate::error::{Error, Result};
use crate::graph::nearest;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A place in the document, for errors.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    text: &'a str,
    offset: usize,
}

impl<'a> Place<'a> {
    pub(super) fn new(text: &'a str, offset: usize) -> Self {
        Place { text, offset }
    }

    pub(super) fn line(self) -> u64 {
        let before = &self.text.as_bytes()[..self.offset.min(self.text.len())];
        1 + before.iter().filter(|&&b| b == b'\n').count() as u64
    }

    pub(super) fn error(self, message: impl Into<String>) -> Error {
        Error::spec(message).at_line(self.line())
    }
}

/// A table and what the file's author calls it: `[reader]`, `when`.
#[derive(Clone, Copy)]
pub(super) struct Section<'a> {
    pub(super) place: Place<'a>,
    pub(super) title: &'a str,
    table: &'a DeTable<'a>,
}

impl<'a> Section<'a> {
    pub(super) fn new(place: Place<'a>, title: &'a str, table: &'a DeTable<'a>) -> Self {
        Section { place, title, table }
    }

    /// The fields in the order of the file.
    pub(super) fn fields(self) -> impl Iterator<Item = Field<'a>> {
        self.table.iter().map(move |(key, value)| Field {
            place: Place { offset: key.span().start, ..self.place },
            key: key.get_ref(),
            value,
        })
    }

    pub(super) fn get(self, key: &str) -> Option<Field<'a>> {
        self.fields().find(|field| field.key == key)
    }

    pub(super) fn need(self, key: &str) -> Result<Field<'a>> {
        self.get(key).ok_or_else(|| self.place.error(format!("{} needs {key} = …", self.title)))
    }

    /// Refuses every key that is not in `known`.
    pub(super) fn only(self, known: &[&str]) -> Result<()> {
        match self.fields().find(|field| !known.contains(&field.key)) {
            None => Ok(()),
            Some(field) => {
                let what = nearest::unknown("key", field.key, known);
                Err(field.place.error(format!("{}: {what}", self.title)))
            }
        }
    }
}

/// A key and its value.
#[derive(Clone, Copy)]
pub(super) struct Field<'a> {
    pub(super) place: Place<'a>,
    pub(super) key: &'a str,
    value: &'a Spanned<DeValue<'a>>,
}

impl<'a> Field<'a> {
    pub(super) fn value(self) -> &'a DeValue<'a> {
        self.value.get_ref()
    }

    /// `key must be WHAT, not VALUE`.
    pub(super) fn must_be(self, what: &str) -> Error {
        let found = match self.value() {
            DeValue::String(text) => nearest::quote(text),
            DeValue::Integer(number) => number.to_string(),
            DeValue::Float(number) => number.to_string(),
            DeValue::Boolean(value) => value.to_string(),
            DeValue::Datetime(_) => "a date".into(),
            DeValue::Array(_) => "an array".into(),
            DeValue::Table(_) => "a table".into(),
        };
        self.place.error(format!("{} must be {what}, not {found}", self.key))
    }

    /// Gives an error about the value its line and key.
    pub(super) fn blame(self, error: Error) -> Error {
        self.place.error(format!("{}: {}", self.key, error.message()))
    }

    pub(super) fn bool(self) -> Result<bool> {
        self.value().as_bool().ok_or_else(|| self.must_be("true or false"))
    }

    /// A string as `what` ("the name of a step").
    pub(super) fn text(self, what: &str) -> Result<&'a str> {
        self.value().as_str().ok_or_else(|| self.must_be(what))
    }

    /// A whole number, 0 to 2^64 - 1.
    pub(super) fn whole(self) -> Result<u64> {
        let number = self.value().as_integer();
        number
            .and_then(|n| u64::from_str_radix(n.as_str(), n.radix()).ok())
            .ok_or_else(|| self.must_be("a whole number from 0 to 2^64 - 1"))
    }

    /// One of some words, each standing for a value.
    pub(super) fn choice<T: Copy>(self, choices: &[(&str, T)]) -> Result<T> {
        let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
        let text = self.text(&format!("one of {}", words.join(", ")))?;
        match choices.iter().find(|(word, _)| *word == text) {
            Some(&(_, value)) => Ok(value),
            None => {
                Err(self.place.error(nearest::unknown(&format!("{} =", self.key), text, &words)))
            }
        }
    }

    pub(super) fn number(self) -> Result<f64> {
        match number(self.value()) {
            Some(found) => found.map_err(|why| self.must_be(why)),
            None => Err(self.must_be("a number")),
        }
    }

    /// An array of numbers; `None` where it is none.
    pub(super) fn numbers(self) -> Result<Option<Vec<f64>>> {
        let Some(array) = self.value().as_array() else { return Ok(None) };
        let numbers = array.iter().map(|item| number(item.get_ref())).collect::<Option<Vec<_>>>();
        let Some(numbers) = numbers else { return Ok(None) };
        let numbers: Result<Vec<f64>, &str> = numbers.into_iter().collect();
        let whole = |why| self.place.error(format!("{}: every value must be {why}", self.key));
        numbers.map(Some).map_err(whole)
    }

    /// Two numbers as f32, for instance a range.
    pub(super) fn pair(self, what: &str) -> Result<[f32; 2]> {
        match self.numbers()?.as_deref() {
            Some(&[a, b]) => Ok([a as f32, b as f32]),
            _ => Err(self.must_be(what)),
        }
    }

    /// The value as a table called `title`.
    pub(super) fn section(self, title: &'a str, what: &str) -> Result<Section<'a>> {
        let table = self.value().as_table().ok_or_else(|| self.must_be(what))?;
        Ok(Section::new(self.place, title, table))
    }

    /// The value as an array of tables, each called `title`.
    pub(super) fn sections(self, title: &'a str, what: &str) -> Result<Vec<Section<'a>>> {
        let array = self.value().as_array().ok_or_else(|| self.must_be(what))?;
        array
            .iter()
            .map(|item| {
                let place = Place { offset: item.span().start, ..self.place };
                let table = item.get_ref().as_table();
                let table = table.ok_or_else(|| {
                    place.error(format!("{}: every item must be a table like {{ … }}", self.key))
                })?;
                Ok(Section::new(place, title, table))
            })
            .collect()
    }
}

/// The number that `value` is, or why it may not stand here; `None` where it is no number.
fn number(value: &DeValue<'_>) -> Option<Result<f64, &'static str>> {
    let number = match value {
        DeValue::Integer(n) => match i64::from_str_radix(n.as_str(), n.radix()) {
            Ok(whole) if whole.unsigned_abs() <= 1 << 53 => whole as f64,
            _ => return Some(Err("a number up to 2^53, or written with a point")),
        },
        DeValue::Float(n) => n.as_str().parse().unwrap_or(f64::NAN),
        _ => return None,
    };
    Some(if (number as f32).is_finite() { Ok(number) } else { Err("a finite number within f32") })
}
