//! `<think>…</think>` out of streamed text. Pure; never loses a byte: what is not a tag comes out, on one side or the other.
//!
//! A `<think>` right after a quote, a backtick or a backslash is quoted, not meant, and stays in its text. One that is
//! never closed leaves the rest thinking. Any other `<` is just a `<`.

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// A piece of text, and whether it is thinking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) thinking: bool,
    pub(crate) text: String,
}

#[derive(Debug, Default)]
pub(crate) struct Splitter {
    thinking: bool,
    /// The beginning of what may become a tag; shorter than a tag.
    held: String,
    /// What stands right before `held`.
    before: Option<char>,
}

impl Splitter {
    /// Takes the next piece and gives what is certain by now, in order.
    pub(crate) fn push(&mut self, text: &str, pieces: &mut Vec<Piece>) {
        let text = std::mem::take(&mut self.held) + text;
        let mut rest = text.as_str();
        while let Some(at) = rest.find('<') {
            self.say(&rest[..at], pieces);
            rest = &rest[at..];
            let tag = if self.thinking { CLOSE } else { OPEN };
            if !self.thinking && self.before.is_some_and(|before| "\"'`\\".contains(before)) {
                self.say("<", pieces);
                rest = &rest[1..];
            } else if let Some(after) = rest.strip_prefix(tag) {
                self.thinking = !self.thinking;
                self.before = None;
                rest = after;
            } else if tag.starts_with(rest) {
                rest.clone_into(&mut self.held);
                return;
            } else {
                self.say("<", pieces);
                rest = &rest[1..];
            }
        }
        self.say(rest, pieces);
    }

    /// What was held back: the text ended before it became a tag.
    pub(crate) fn finish(mut self, pieces: &mut Vec<Piece>) {
        let held = std::mem::take(&mut self.held);
        self.say(&held, pieces);
    }

    fn say(&mut self, text: &str, pieces: &mut Vec<Piece>) {
        self.before = text.chars().next_back().or(self.before);
        match pieces.last_mut() {
            _ if text.is_empty() => {}
            Some(last) if last.thinking == self.thinking => last.text.push_str(text),
            Some(_) | None => pieces.push(Piece { thinking: self.thinking, text: text.to_owned() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Text and thinking, each whole.
    fn split<'a>(parts: impl IntoIterator<Item = &'a str>) -> (String, String) {
        let (mut splitter, mut pieces) = (Splitter::default(), Vec::new());
        parts.into_iter().for_each(|part| splitter.push(part, &mut pieces));
        splitter.finish(&mut pieces);
        let all = |thinking| pieces.iter().filter(|p| p.thinking == thinking).map(|p| p.text.as_str()).collect();
        (all(false), all(true))
    }

    #[test]
    fn thinking_is_split_off_at_every_position_of_the_pieces() {
        let table = [
            ("<think>hm</think>yes", "yes", "hm"),
            ("a<think>b</think>c<think>d</think>e", "ace", "bd"),
            ("1 < 2 and <b>2</b> > 1 <", "1 < 2 and <b>2</b> > 1 <", ""),
            ("before <think>never closed <", "before ", "never closed <"),
            ("a</think>b", "a</think>b", ""),
            ("<<think>a<</think></th", "<</th", "a<"),
            ("say `<think>` or \"<think>\"", "say `<think>` or \"<think>\"", ""),
            ("<think>say \"hi\"</think>hi", "hi", "say \"hi\""),
            ("é<think>ü</think>ß<thin", "éß<thin", "ü"),
        ];
        for (whole, text, thinking) in table {
            let expected = (text.to_owned(), thinking.to_owned());
            for at in (0..=whole.len()).filter(|at| whole.is_char_boundary(*at)) {
                let (left, right) = whole.split_at(at);
                assert_eq!(split([left, right]), expected, "{whole} split at {at}");
            }
            assert_eq!(split(whole.split_inclusive(|_| true)), expected);
        }
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_splits_do_not_matter(
            parts in prop::collection::vec("(<think>|</think>|<|thi|nk>|/|[a\"`é ]){0,4}", 0..8),
        ) {
            let whole = parts.concat();
            let (text, thinking) = split(parts.iter().map(String::as_str));
            prop_assert_eq!((text.clone(), thinking.clone()), split([whole.as_str()]));
            let tags = (whole.len() - text.len() - thinking.len()) as i64;
            let opened = (0..=20).any(|open| (0..=open).any(|close| open - close <= 1 && open * 7 + close * 8 == tags));
            prop_assert!(opened, "{} bytes are missing from {:?}", tags, whole);
        }
    }
}
