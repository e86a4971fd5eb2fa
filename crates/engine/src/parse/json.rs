//! Reads one JSON value as models write it: trailing commas, comments, single quotes, bare keys, Python literals, raw
//! line breaks in strings and a cut tail are accepted; anything else is a [`ReadFailure`] that says where and why.

use serde_json::{Map, Number, Value};

use super::text::unescape;
use crate::domain::depth::MOST_DEPTH;

/// A longer number is rejected: converting one takes time quadratic in its length.
const MAX_NUMBER_BYTES: usize = 128;

/// Whether the text ended before the value did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tail {
    Whole,
    /// Only this many closing brackets are missing.
    Unclosed(usize),
    /// It ends inside a value, or where one was required.
    Torn,
}

/// Where reading failed, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReadFailure {
    pub at: usize,
    pub what: &'static str,
}

/// Reads the value that starts at `at`. `nodes` limits the number of values; each one decrements it.
pub(super) fn read(text: &str, at: usize, nodes: &mut usize) -> Result<(Value, usize, Tail), ReadFailure> {
    let mut reader = Reader { text, bytes: text.as_bytes(), at, open: 0, tail: Tail::Whole, nodes };
    let value = reader.value()?;
    Ok((value, reader.at, reader.tail))
}

struct Reader<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    open: usize,
    tail: Tail,
    nodes: &'a mut usize,
}

impl<'a> Reader<'a> {
    fn fail<T>(&self, what: &'static str) -> Result<T, ReadFailure> {
        Err(ReadFailure { at: self.at, what })
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn is_cut(&self) -> bool {
        self.tail != Tail::Whole
    }

    fn value(&mut self) -> Result<Value, ReadFailure> {
        if *self.nodes == 0 {
            return self.fail("there are too many values");
        }
        *self.nodes -= 1;
        match self.peek() {
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(quote @ (b'"' | b'\'')) => self.string(quote).map(Value::String),
            Some(b'-' | b'+' | b'.' | b'0'..=b'9') => self.number(),
            Some(_) => self.literal(),
            None => self.fail("a value is missing"),
        }
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<Value, ReadFailure>) -> Result<Value, ReadFailure> {
        if self.open == MOST_DEPTH {
            return self.fail("it is nested too deeply");
        }
        self.open += 1;
        self.at += 1;
        let value = read(self)?;
        self.open -= 1;
        Ok(value)
    }

    fn object(&mut self) -> Result<Value, ReadFailure> {
        let mut map = Map::new();
        while self.skip_to_next(b'}')? {
            let Some(key) = self.key()? else { break };
            let value = self.value()?;
            // Of two equal keys the last one counts, and is moved to the end, so that a cut value is always the last
            // one.
            map.swap_remove(&key);
            map.insert(key, value);
            if self.is_cut() {
                break;
            }
        }
        Ok(Value::Object(map))
    }

    fn array(&mut self) -> Result<Value, ReadFailure> {
        let mut values = Vec::new();
        while self.skip_to_next(b']')? {
            values.push(self.value()?);
            if self.is_cut() {
                break;
            }
        }
        Ok(Value::Array(values))
    }

    /// Skips to the next member; `false`: the container is closed, or the text has ended.
    fn skip_to_next(&mut self, close: u8) -> Result<bool, ReadFailure> {
        let mut comma = false;
        loop {
            self.skip_blank();
            match self.peek() {
                Some(b',') => {
                    comma = true;
                    self.at += 1;
                }
                Some(byte) if byte == close => {
                    self.at += 1;
                    return Ok(false);
                }
                // A missing bracket: this one closes the enclosing container.
                Some(b'}' | b']') if self.open > 1 => return Ok(false),
                Some(b'}' | b']') => return self.fail("this bracket closes nothing"),
                Some(_) => return Ok(true),
                None => {
                    self.tail = if comma { Tail::Torn } else { Tail::Unclosed(self.open) };
                    return Ok(false);
                }
            }
        }
    }

    /// A key and its colon; `None`: the text ends before the value.
    fn key(&mut self) -> Result<Option<String>, ReadFailure> {
        let start = self.at;
        let key = match self.peek() {
            Some(quote @ (b'"' | b'\'')) => self.string(quote)?,
            Some(_) | None => self.word().to_owned(),
        };
        let is_there = self.at > start;
        self.skip_blank();
        match self.peek() {
            Some(b':') if is_there => {
                self.at += 1;
                self.skip_blank();
            }
            None => {}
            Some(_) => return self.fail("a key and a colon are expected here"),
        }
        if self.peek().is_none() {
            self.tail = Tail::Torn;
            return Ok(None);
        }
        Ok(Some(key))
    }

    fn string(&mut self, quote: u8) -> Result<String, ReadFailure> {
        self.at += 1;
        let start = self.at;
        let mut is_escaped = false;
        while let Some(byte) = self.peek() {
            if byte == quote {
                let raw = &self.text[start..self.at];
                self.at += 1;
                return Ok(if is_escaped { unescape(raw) } else { raw.to_owned() });
            }
            is_escaped |= byte == b'\\';
            self.at += if byte == b'\\' { 2 } else { 1 };
        }
        self.at = self.bytes.len();
        self.tail = Tail::Torn;
        Ok(unescape(&self.text[start..]))
    }

    fn number(&mut self) -> Result<Value, ReadFailure> {
        let start = self.at;
        while let Some(b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        if self.peek().is_none() {
            self.tail = Tail::Torn;
        }
        let digits = &self.text[start..self.at];
        if digits.len() > MAX_NUMBER_BYTES {
            return self.fail("this number is too long");
        }
        let exact = serde_json::from_str::<Number>(digits).ok();
        match exact.or_else(|| digits.parse().ok().and_then(Number::from_f64)) {
            Some(number) => Ok(Value::Number(number)),
            None if self.is_cut() => Ok(Value::Null),
            None => self.fail("this is no number"),
        }
    }

    fn literal(&mut self) -> Result<Value, ReadFailure> {
        let start = self.at;
        let word = self.word();
        let value = match word {
            "true" | "True" => Value::Bool(true),
            "false" | "False" => Value::Bool(false),
            "null" | "None" | "undefined" | "NaN" => Value::Null,
            _ if self.at == self.bytes.len() && !word.is_empty() && is_cut_literal(word) => {
                self.tail = Tail::Torn;
                Value::Null
            }
            _ => {
                self.at = start;
                return self.fail("a value is expected here; strings stand in double quotes");
            }
        };
        Ok(value)
    }

    /// The identifier at this position, perhaps empty.
    fn word(&mut self) -> &'a str {
        let start = self.at;
        while let Some(b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'$' | b'-') = self.peek() {
            self.at += 1;
        }
        &self.text[start..self.at]
    }

    /// Skips white space and comments.
    fn skip_blank(&mut self) {
        loop {
            match self.peek() {
                Some(byte) if byte.is_ascii_whitespace() => self.at += 1,
                Some(b'/') => match self.bytes.get(self.at + 1) {
                    Some(b'/') => self.skip_past("\n"),
                    Some(b'*') => self.skip_past("*/"),
                    Some(_) | None => return,
                },
                Some(0xC2) if self.text[self.at..].starts_with('\u{a0}') => self.at += 2,
                Some(_) | None => return,
            }
        }
    }

    fn skip_past(&mut self, end: &str) {
        let rest = &self.text[self.at + 2..];
        self.at = rest.find(end).map_or(self.bytes.len(), |found| self.at + 2 + found + end.len());
    }
}

fn is_cut_literal(word: &str) -> bool {
    ["true", "false", "null", "True", "False", "None"].iter().any(|literal| literal.starts_with(word))
}
