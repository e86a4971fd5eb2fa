//! Untrusted text for a terminal: everything of a model, a tool or a person is shown, and no control sequence takes effect.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::domain::visible::is_unseen;

/// The most combining marks on one letter: more would cover other lines.
const MOST_STACKED: usize = 4;

/// Whether a character is replaced, as in `console/text.js`. U+FE0E and U+FE0F choose how an emoji is drawn.
fn is_hidden(c: char) -> bool {
    is_unseen(c) && !matches!(c, '\u{FE0E}'..='\u{FE0F}')
}

/// Replaces each line break and each tab by these.
fn shown(text: &str, line_break: char, tab: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut stacked = 0;
    for c in text.replace("\r\n", "\n").chars() {
        // A character without width is drawn on the letter before it.
        stacked = if c.width() == Some(0) { stacked + 1 } else { 0 };
        match c {
            '\n' => shown.push(line_break),
            '\t' => shown.push_str(tab),
            c if is_hidden(c) || stacked > MOST_STACKED => shown.push_str(&format!("<U+{:04X}>", u32::from(c))),
            c => shown.push(c),
        }
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

pub(super) fn width(shown: &str) -> usize {
    shown.width()
}

/// At most this many columns; an ellipsis replaces the rest.
pub(super) fn cut(shown: &str, columns: usize) -> String {
    if shown.width() <= columns {
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
    let missing = columns.saturating_sub(shown.width());
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
mod tests {
    use super::{block, cut, line, pad, span, tail, whole_span};

    #[test]
    fn what_is_not_seen_is_shown_as_its_code() {
        assert_eq!(block("a\u{1b}[31mb\r\nc\u{202e}\u{e0041}"), "a<U+001B>[31mb\nc<U+202E><U+E0041>");
        assert_eq!(line(" two\nlines\r "), "two lines");
        assert_eq!(line("a\rb"), "a<U+000D>b");
        for hidden in [
            0x34f, 0x115f, 0x1160, 0x17b4, 0x17b5, 0x180b, 0x180f, 0x2028, 0x2029, 0x3164, 0xfe00, 0xfe0d, 0xffa0,
            0xfff0, 0xfff9, 0xfffb, 0x1bca0, 0x1bca3, 0x1d173, 0x1d17a, 0xe0100, 0xe0fff,
        ] {
            let text = format!("a{}b", char::from_u32(hidden).unwrap());
            assert_eq!(line(&text), format!("a<U+{hidden:04X}>b"));
        }
        assert_eq!(line("❤\u{fe0f} ❤\u{fe0e}"), "❤\u{fe0f} ❤\u{fe0e}");
    }

    #[test]
    fn tabs_stay_where_line_breaks_do() {
        assert_eq!(block("all:\n\tcc main.c\n"), "all:\n\tcc main.c\n");
        assert_eq!(line("a\tb"), "a    b");
    }

    #[test]
    fn marks_that_would_cover_other_lines_are_shown_as_their_codes() {
        let stacked = |count| format!("e{}x", "\u{301}".repeat(count));
        assert_eq!(line(&stacked(4)), stacked(4));
        assert_eq!(block(&stacked(6)), format!("e{}<U+0301><U+0301>x", "\u{301}".repeat(4)));
        assert_eq!(line("क्षि \u{1112}\u{1161}\u{11ab} 👍🏽"), "क्षि \u{1112}\u{1161}\u{11ab} 👍🏽");
    }

    #[test]
    fn columns_are_counted_as_they_are_drawn() {
        assert_eq!((cut("日本語", 4).as_str(), cut("abc", 3).as_str(), cut("abcd", 3).as_str()), ("日…", "abc", "ab…"));
        assert_eq!((pad("日", 4).as_str(), tail("abcdef", 4).as_str()), ("日  ", "…def"));
    }

    #[test]
    fn a_span_of_time_is_short() {
        assert_eq!([7_350, 141_000, 3_723_000, -1].map(span), ["7.3s", "2m 21s", "1h 2m", "0.0s"]);
        let weeks = 21 * 86_400_000;
        assert_eq!([weeks - 1, weeks, 3_600_000, 60_000].map(span), ["20d 23h", "21d", "1h", "1m"]);
        assert_eq!([91_800_000, 3_601_000, 500].map(whole_span), ["1d 1h 30m", "1h 1s", "0.5s"]);
    }
}
