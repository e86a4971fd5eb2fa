//! Lines of JSON that carry sums: each of itself and of all before it.

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::End;
use crate::domain::hex;

/// How many characters of a sum a line carries.
const LINK: usize = 32;

/// What a line ends with: `,"sum":"…"}`.
const SUFFIX: usize = r#","sum":"""#.len() + LINK + 1;

/// What was written or read so far.
#[derive(Default)]
struct Chain {
    lines: u64,
    last: String,
    whole: Sha256,
}

impl Chain {
    /// What a line ends with that begins so.
    fn suffix(&self, begun: &[u8]) -> String {
        let sum = hex::of(&Sha256::new().chain_update(&self.last).chain_update(begun).finalize());
        format!(r#","sum":"{}"}}"#, &sum[..LINK])
    }

    fn add(&mut self, begun: &[u8], suffix: &str) {
        self.lines += 1;
        suffix.clone_into(&mut self.last);
        for part in [begun, suffix.as_bytes(), b"\n"] {
            self.whole.update(part);
        }
    }

    fn end(&self) -> End {
        End { lines: self.lines, sha256: hex::of(&self.whole.clone().finalize()) }
    }
}

/// Makes lines of objects.
#[derive(Default)]
pub(super) struct Writer(Chain);

impl Writer {
    /// Appends an object, which has a member at least, as the next line.
    pub fn write(&mut self, object: &Value, text: &mut Vec<u8>) {
        let line = object.to_string();
        let begun = line.strip_suffix('}').expect("an object ends with a brace").as_bytes();
        let suffix = self.0.suffix(begun);
        text.extend_from_slice(begun);
        text.extend_from_slice(suffix.as_bytes());
        text.push(b'\n');
        self.0.add(begun, &suffix);
    }

    /// The end of what was written so far.
    pub fn end(&self) -> End {
        self.0.end()
    }
}

/// Which line cannot be read, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Invalid {
    pub line: u64,
    pub why: String,
}

/// Reads lines, one after the other, up to the first that is not as it was written.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    chain: Chain,
}

impl<'a> Reader<'a> {
    pub fn new(text: &'a [u8]) -> Self {
        Self { rest: text, chain: Chain::default() }
    }

    /// The next line as an object without its sum, and what it must say if it is the end; `None`: there is none.
    pub fn next(&mut self) -> Result<Option<(Value, Option<End>)>, Invalid> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let line = self.chain.lines + 1;
        let invalid = |why: &str| Invalid { line, why: why.to_owned() };
        let end = self.rest.iter().position(|byte| *byte == b'\n');
        let (text, rest) = self.rest.split_at(end.ok_or_else(|| invalid("the file ends in the middle of it"))?);
        let begun = text.len().checked_sub(SUFFIX).map(|length| &text[..length]);
        let begun = begun.ok_or_else(|| invalid("it is no line of an export"))?;
        let suffix = self.chain.suffix(begun);
        if text[begun.len()..] != *suffix.as_bytes() {
            return Err(invalid("it is not as it was written: its sum is another one"));
        }
        let end = begun.starts_with(br#"{"end":"#).then(|| self.chain.end());
        self.chain.add(begun, &suffix);
        self.rest = &rest[1..];
        let object = serde_json::from_slice([begun, b"}"].concat().as_slice());
        object.map(|object| Some((object, end))).map_err(|error| invalid(&format!("it is no JSON object: {error}")))
    }

    /// How many lines were read.
    pub fn lines(&self) -> u64 {
        self.chain.lines
    }

    /// Whether nothing follows.
    pub fn is_over(&self) -> bool {
        self.rest.is_empty()
    }
}
