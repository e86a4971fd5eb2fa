//! Lines of JSON with checksums. Each line has the sum of itself and of all lines before it.

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::EndLine;
use crate::domain::hex;

/// How many characters of the sum a line has.
const SUM_LENGTH: usize = 32;

/// The length of a line's end: `,"sum":"…"}`.
const SUFFIX_LENGTH: usize = r#","sum":"""#.len() + SUM_LENGTH + 1;

/// The sums of what was written or read so far.
#[derive(Default)]
struct SumChain {
    lines: u64,
    last: String,
    whole: Sha256,
}

impl SumChain {
    /// The end of the line that begins with `begun`.
    fn suffix(&self, begun: &[u8]) -> String {
        let sum = hex::of(&Sha256::new().chain_update(&self.last).chain_update(begun).finalize());
        format!(r#","sum":"{}"}}"#, &sum[..SUM_LENGTH])
    }

    fn add(&mut self, begun: &[u8], suffix: &str) {
        self.lines += 1;
        suffix.clone_into(&mut self.last);
        for part in [begun, suffix.as_bytes(), b"\n"] {
            self.whole.update(part);
        }
    }

    fn end(&self) -> EndLine {
        EndLine { lines: self.lines, sha256: hex::of(&self.whole.clone().finalize()) }
    }
}

/// Writes objects as lines.
#[derive(Default)]
pub(super) struct Writer(SumChain);

impl Writer {
    /// Appends an object as the next line. It must have at least one member.
    pub fn write(&mut self, object: &Value, text: &mut Vec<u8>) {
        let line = object.to_string();
        let begun = line.strip_suffix('}').expect("an object ends with a brace").as_bytes();
        let suffix = self.0.suffix(begun);
        text.extend_from_slice(begun);
        text.extend_from_slice(suffix.as_bytes());
        text.push(b'\n');
        self.0.add(begun, &suffix);
    }

    /// The last line for what was written so far.
    pub fn end(&self) -> EndLine {
        self.0.end()
    }
}

/// Which line cannot be read, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Invalid {
    pub line: u64,
    pub why: String,
}

/// Reads lines, up to the first whose sum does not match.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    chain: SumChain,
}

impl<'a> Reader<'a> {
    pub fn new(text: &'a [u8]) -> Self {
        Self { rest: text, chain: SumChain::default() }
    }

    /// The next line as an object without its sum, and, if it is the last line, the contents that it must have. `None`: no
    /// line is left.
    pub fn next(&mut self) -> Result<Option<(Value, Option<EndLine>)>, Invalid> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let line = self.chain.lines + 1;
        let invalid = |why: &str| Invalid { line, why: why.to_owned() };
        let end = self.rest.iter().position(|byte| *byte == b'\n');
        let (text, rest) = self.rest.split_at(end.ok_or_else(|| invalid("the file ends in the middle of it"))?);
        let begun = text.len().checked_sub(SUFFIX_LENGTH).map(|length| &text[..length]);
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
