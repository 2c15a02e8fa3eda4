//! The nearest known name to one that is not known, for error messages.

/// Words longer than this are compared and quoted by their beginning only, so that a message stays
/// one readable line whatever a file holds.
const MAX_WORD: usize = 40;

/// The name in `known` most like `word`; `None` when nothing is close enough to be what was meant.
///
/// Case counts for nothing, and so does the difference between `-` and `_`.
fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let fold = |text: &str| -> String {
        text.chars()
            .take(MAX_WORD)
            .map(|c| if c == '-' { '_' } else { c.to_ascii_lowercase() })
            .collect()
    };
    let word = fold(word);
    let allowed = 1 + word.chars().count() / 4;
    known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&word, &fold(name)), name))
        .filter(|&(distance, name)| {
            // One letter's change of a one-letter name is any other letter.
            distance <= allowed && distance < name.chars().count()
        })
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, name)| name)
}

/// `unknown key "keepsize", did you mean "keep_size"?`, or, with nothing near, what is known.
///
/// `what` is the kind of name: "key", "operator", "draw".
pub fn unknown(what: &str, word: &str, known: &[&str]) -> String {
    let word_quoted = quote(word);
    match nearest(word, known.iter().copied()) {
        Some(name) => format!("unknown {what} {word_quoted}, did you mean \"{name}\"?"),
        None if known.is_empty() => format!("unknown {what} {word_quoted}: there is none here"),
        None => format!("unknown {what} {word_quoted}, known are {}", known.join(", ")),
    }
}

/// `word` in quotes on one line, cut when it is long.
pub(super) fn quote(word: &str) -> String {
    match word.char_indices().nth(MAX_WORD) {
        Some((end, _)) => format!("{:?}…", &word[..end]),
        None => format!("{word:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_meant() {
        let known = ["keep_size", "angle", "interp", "border", "fill", "lo", "x"];
        for (word, expected) in [
            ("keepsize", Some("keep_size")),
            ("keep-size", Some("keep_size")),
            ("Angle", Some("angle")),
            ("anlge", Some("angle")),
            ("brder", Some("border")),
            ("low", Some("lo")),
            ("probability", None),
            ("y", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), expected, "{word}");
        }
    }

    #[test]
    fn messages_stay_one_line() {
        let long = "a\nb".repeat(10_000);
        let message = unknown("key", &long, &["op", "name"]);
        assert!(message.len() < 200 && !message.contains('\n'), "{message}");
        assert_eq!(
            unknown("key", "nmae", &["op", "name"]),
            r#"unknown key "nmae", did you mean "name"?"#
        );
    }
}
