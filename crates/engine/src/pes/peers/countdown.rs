//! Tells a question that an agent repeats with less time left for its answer from another question.

use crate::domain::Millis;

/// By how much two times that an agent says may be apart, beside the time between them: what its answers needed.
const MAX_LATENCY_MS: Millis = 2_000;

/// Whether `later`, which was said `elapsed` after `earlier`, is the same text with as much less time left: it differs
/// only in minutes, seconds or milliseconds that have become fewer as the clock went on. Other numbers, such as amounts,
/// make it another text.
pub(super) fn is_same(earlier: &str, later: &str, elapsed: Millis) -> bool {
    if earlier == later {
        return true;
    }
    let (earlier, later) = (pieces(earlier), pieces(later));
    if earlier.len() != later.len() {
        return false;
    }
    // The unit of the smallest step is how far the agent may have rounded.
    let (mut less, mut rounding) = (0, Millis::MAX);
    for (at, (was, is)) in earlier.iter().zip(&later).enumerate().filter(|(_, (was, is))| was != is) {
        let unit = earlier.get(at + 1).and_then(|words| unit(words));
        let (Some(was), Some(is), Some(unit)) = (number(was), number(is), unit) else { return false };
        less += (was - is) * unit;
        rounding = rounding.min(unit);
    }
    less > 0 && (less - elapsed).abs() <= rounding + MAX_LATENCY_MS
}

/// The text as its numbers and what stands between them.
fn pieces(text: &str) -> Vec<&[u8]> {
    text.as_bytes().chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit()).collect()
}

fn number(piece: &[u8]) -> Option<Millis> {
    str::from_utf8(piece).ok()?.parse::<u32>().ok().map(Millis::from)
}

/// The unit of a number that these words follow.
fn unit(words: &[u8]) -> Option<Millis> {
    let words = str::from_utf8(words).ok()?.trim_start();
    match words.split(|c: char| !c.is_alphabetic()).next()? {
        "ms" | "millisecond" | "milliseconds" => Some(1),
        "s" | "sec" | "secs" | "second" | "seconds" => Some(1_000),
        "min" | "mins" | "minute" | "minutes" => Some(60_000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_time_that_is_left_may_differ_and_only_as_the_clock_goes_on() {
        let same = |earlier: &str, later: &str| is_same(earlier, later, 5_000);
        assert!(same("Go on? 59 s are left.", "Go on? 54 s are left."));
        assert!(same("1 min 2 s", "0 min 57 s") && same("9000 ms", "4000 ms"));
        assert!(!same("59 s", "30 s") && !same("54 s", "59 s"), "that is no time that is left");
        assert!(!same("Pay 59 EUR?", "Pay 54 EUR?") && !same("Call 59", "Call 54"));
        assert!(!same("Pay 59 EUR within 9 s?", "Pay 54 EUR within 4 s?"));
        assert!(!same("59 s", "54 s ") && !same("59 s", "54 seconds"));
    }
}
