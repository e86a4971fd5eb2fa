//! Parsing of small texts: escapes, words, ids.

/// The content of a string with its escapes resolved. A lone surrogate becomes U+FFFD; an unknown escape is left
/// unchanged.
pub(super) fn unescape(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let Some(escape) = rest.chars().next() else { return out };
        rest = &rest[escape.len_utf8()..];
        match escape {
            'n' => out.push('\n'),
            't' => out.push('\t'),
            'r' => out.push('\r'),
            'b' => out.push('\u{8}'),
            'f' => out.push('\u{c}'),
            '"' | '\'' | '\\' | '/' => out.push(escape),
            // An escaped line break continues the line.
            '\n' => {}
            'u' => rest = unicode(rest, &mut out),
            other => {
                out.push('\\');
                out.push(other);
            }
        }
    }
    out.push_str(rest);
    out
}

/// Resolves what follows `\u`; returns the rest after it.
fn unicode<'a>(rest: &'a str, out: &mut String) -> &'a str {
    let Some(high) = unit(rest) else {
        out.push('\u{FFFD}');
        return rest;
    };
    let after = &rest[4..];
    if let Some(plain) = char::from_u32(high) {
        out.push(plain);
        return after;
    }
    let low = after.strip_prefix("\\u").and_then(unit).filter(|low| (0xDC00..0xE000).contains(low));
    match low {
        Some(low) if high < 0xDC00 => {
            let pair = 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
            out.push(char::from_u32(pair).expect("a surrogate pair is a scalar value"));
            &after[6..]
        }
        Some(_) | None => {
            out.push('\u{FFFD}');
            after
        }
    }
}

fn unit(text: &str) -> Option<u32> {
    let digits = text.get(..4).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    u32::from_str_radix(digits, 16).ok()
}

/// The first `bytes` of `text` at most, cut between characters.
pub(super) fn head(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// One lower-case word for the spellings that models use: `In Progress`, `IN-PROGRESS` → `in_progress`.
pub(super) fn keyword(text: &str) -> String {
    text.trim().replace([' ', '-'], "_").to_lowercase()
}
