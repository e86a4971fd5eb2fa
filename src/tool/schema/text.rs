//! The cost of regular expressions, and the decoding of URI fragments.

use regex_syntax::hir::{Class, Hir, HirKind};

use crate::domain::hex;

/// Maximum number of character ranges in all expressions of one schema, which determines the cost of compilation.
pub(super) const MAX_RANGES: u64 = 20_000;
/// Maximum size of one compiled expression, in bytes.
pub(super) const COMPILED_BYTES: usize = 512 << 10;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PatternSize {
    /// The number of states that a search may be in at the same time: the most that a byte of text costs.
    pub(super) positions: u64,
    pub(super) ranges: u64,
}

/// Parses the pattern like the engine: no look-around or backreferences; `\w`, `\d` and `\s` as in ECMA 262.
pub(super) fn size(pattern: &str) -> Result<PatternSize, String> {
    let mut plain = pattern.to_owned();
    for (short, long) in [("\\w", "[A-Za-z0-9_]"), ("\\W", "[^A-Za-z0-9_]"), ("\\d", "[0-9]"), ("\\D", "[^0-9]")] {
        plain = plain.replace(short, long);
    }
    let parsed =
        regex_syntax::parse(&plain).map_err(Box::new).or_else(|_| regex_syntax::parse(pattern).map_err(Box::new));
    match parsed {
        Ok(hir) => Ok(of(&hir)),
        // Syntax that only ECMA 262 has; without counted repetitions the expression is no larger than its text.
        Err(_) if !pattern.contains('{') && !looks_around_or_back(pattern) => {
            let length = pattern.len() as u64;
            Ok(PatternSize { positions: length, ranges: length.saturating_mul(16) })
        }
        Err(error) => Err(format!("is no regular expression that can be used: {error}")),
    }
}

fn looks_around_or_back(pattern: &str) -> bool {
    let refers_back = pattern.as_bytes().windows(2).any(|pair| pair[0] == b'\\' && (b'1'..=b'9').contains(&pair[1]));
    refers_back || pattern.contains("(?")
}

fn of(hir: &Hir) -> PatternSize {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => PatternSize::default(),
        HirKind::Literal(literal) => PatternSize { positions: literal.0.len() as u64, ranges: literal.0.len() as u64 },
        HirKind::Class(Class::Unicode(class)) => PatternSize { positions: 1, ranges: class.ranges().len() as u64 },
        HirKind::Class(Class::Bytes(class)) => PatternSize { positions: 1, ranges: class.ranges().len() as u64 },
        HirKind::Repetition(repetition) => {
            let times = u64::from(repetition.max.unwrap_or(repetition.min).max(1));
            let once = of(&repetition.sub);
            PatternSize { positions: once.positions.saturating_mul(times), ranges: once.ranges.saturating_mul(times) }
        }
        HirKind::Capture(capture) => of(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().map(of).fold(PatternSize::default(), |sum, part| PatternSize {
                positions: sum.positions.saturating_add(part.positions),
                ranges: sum.ranges.saturating_add(part.ranges),
            })
        }
    }
}

/// Percent-decodes the fragment.
pub(super) fn unescaped(fragment: &str) -> String {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let escaped = (*first == b'%').then(|| tail.get(..2)).flatten();
        let byte = escaped.and_then(|digits| hex::read(std::str::from_utf8(digits).ok()?)?.first().copied());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
