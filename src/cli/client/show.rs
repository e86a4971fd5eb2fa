//! Untrusted text for a terminal: everything of a model, a tool or a person is shown, and no control sequence takes effect.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::joiners::is_needed;
use crate::domain::visible::is_unseen;

/// The most combining marks on one letter: more would cover other lines.
const MOST_STACKED: usize = 4;

/// Whether a character is replaced where no word or emoji needs it, as in `console/text.js`. U+FE0E and U+FE0F choose how an
/// emoji is drawn.
fn is_hidden(c: char) -> bool {
    is_unseen(c) && !matches!(c, '\u{FE0E}'..='\u{FE0F}')
}

/// Replaces each line break and each tab by these.
fn shown(text: &str, line_break: char, tab: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let (mut stacked, mut before) = (0, [None; 2]);
    let text = text.replace("\r\n", "\n");
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        // A character without width is drawn on the letter before it.
        stacked = if c.width() == Some(0) { stacked + 1 } else { 0 };
        let is_marked = |after| is_hidden(c) && !is_needed(before, c, after);
        match c {
            '\n' => shown.push(line_break),
            '\t' => shown.push_str(tab),
            c if is_marked(chars.peek().copied()) || stacked > MOST_STACKED => {
                shown.push_str(&format!("<U+{:04X}>", u32::from(c)));
            }
            c => shown.push(c),
        }
        before = [before[1], Some(c)];
    }
    shown
}

/// Line breaks and tabs stay: a file that is written from it may need them.
pub(super) fn block(text: &str) -> String {
    shown(text, '\n', "\t")
}

/// All in one line.
pub(in crate::cli) fn line(text: &str) -> String {
    shown(text.trim(), ' ', "    ")
}

/// The most columns that a terminal may take for it: many draw the parts of a joined emoji beside each other.
pub(super) fn width(shown: &str) -> usize {
    let parts = shown.chars().map(|c| c.width().unwrap_or(0)).sum();
    shown.width().max(parts)
}

/// At most this many columns; an ellipsis replaces the rest.
pub(super) fn cut(shown: &str, columns: usize) -> String {
    if width(shown) <= columns {
        return shown.to_owned();
    }
    let mut kept = String::new();
    let mut taken = 0;
    for c in shown.chars() {
        taken += c.width().unwrap_or(0);
        if taken + 1 > columns {
            break;
        }
        kept.push(c);
    }
    if columns > 0 {
        kept.push('…');
    }
    kept
}

/// The end of a text, at most this many columns.
pub(super) fn tail(shown: &str, columns: usize) -> String {
    let mut kept: Vec<char> = Vec::new();
    let mut taken = 1;
    for c in shown.chars().rev() {
        taken += c.width().unwrap_or(0);
        if taken > columns {
            kept.push('…');
            break;
        }
        kept.push(c);
    }
    kept.iter().rev().collect()
}

/// Cut, and padded with spaces.
pub(super) fn pad(shown: &str, columns: usize) -> String {
    fill(&cut(shown, columns), columns)
}

/// Padded with spaces, never cut.
pub(super) fn fill(shown: &str, columns: usize) -> String {
    let missing = columns.saturating_sub(width(shown));
    format!("{shown}{}", " ".repeat(missing))
}

const UNITS: [(i64, &str); 4] = [(86_400, "d"), (3600, "h"), (60, "m"), (1, "s")];

/// A duration in its two largest units: `7.3s`, `2m 21s`, `1h 2m`, `20d 23h`.
pub(super) fn span(ms: i64) -> String {
    in_units(ms, 2)
}

/// A duration in all its units.
pub(super) fn whole_span(ms: i64) -> String {
    in_units(ms, UNITS.len())
}

/// From its largest unit on in this many; units of which there are none are left out.
fn in_units(ms: i64, units: usize) -> String {
    let ms = ms.max(0);
    if ms < 60_000 {
        return format!("{}.{}s", ms / 1000, ms % 1000 / 100);
    }
    let (mut rest, mut parts) = (ms / 1000, Vec::new());
    for (length, unit) in UNITS.iter().skip_while(|(length, _)| ms / 1000 < *length).take(units) {
        if rest >= *length {
            parts.push(format!("{}{unit}", rest / length));
        }
        rest %= length;
    }
    parts.join(" ")
}

pub(super) fn count(number: u64) -> String {
    if number < 10_000 { number.to_string() } else { format!("{:.1}k", number as f64 / 1000.0) }
}

#[cfg(test)]
mod tests;
