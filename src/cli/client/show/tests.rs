use super::{block, cut, line, pad, span, tail, whole_span};

#[test]
fn what_is_not_seen_is_shown_as_its_code() {
    assert_eq!(block("a\u{1b}[31mb\r\nc\u{202e}\u{e0041}"), "a<U+001B>[31mb\nc<U+202E><U+E0041>");
    assert_eq!(line(" two\nlines\r "), "two lines");
    assert_eq!(line("a\rb"), "a<U+000D>b");
    for hidden in [
        0x34f, 0x115f, 0x1160, 0x17b4, 0x17b5, 0x180b, 0x180f, 0x2028, 0x2029, 0x3164, 0xfe00, 0xfe0d, 0xffa0, 0xfff0,
        0xfff9, 0xfffb, 0x1bca0, 0x1bca3, 0x1d173, 0x1d17a, 0xe0100, 0xe0fff,
    ] {
        let text = format!("a{}b", char::from_u32(hidden).unwrap());
        assert_eq!(line(&text), format!("a<U+{hidden:04X}>b"));
    }
    assert_eq!(line("❤\u{fe0f} ❤\u{fe0e}"), "❤\u{fe0f} ❤\u{fe0e}");
}

#[test]
fn what_a_word_or_an_emoji_needs_stays_and_is_marked_everywhere_else() {
    let needed = [
        "می\u{200c}خواهم",
        "مَ\u{200c}ی",
        "क्\u{200d}ष",
        "ന്\u{200d}റ",
        "👨\u{200d}💻",
        "👩🏽\u{200d}💻",
        "🏳\u{fe0f}\u{200d}🌈",
        "👨\u{200d}👩\u{200d}👧",
    ];
    needed.iter().for_each(|text| assert_eq!(line(text), *text));
    assert_eq!(block("👨\u{200d}\u{200d}💻"), "👨<U+200D><U+200D>💻");
    let hiding = [
        "a\u{200d}b",
        "\u{200c}م",
        "م\u{200c}",
        "م\u{200d}a",
        "я\u{200d}м",
        "α\u{200c}β",
        "1\u{200c}2",
        "👨\u{200c}💻",
        "👨\u{200d}a",
        "👨\u{fe0f}\u{fe0f}\u{200d}💻",
        "e\u{301}\u{200d}\u{301}",
        "\u{fe0f}\u{200d}\u{fe0f}",
        "co\u{ad}operate",
        "付\u{200c}款",
        "ש\u{200d}ל",
    ];
    hiding.iter().for_each(|text| assert_eq!(line(text).matches("<U+").count(), 1, "{text:?}"));
    assert_eq!(pad("👨\u{200d}💻", 6), "👨\u{200d}💻  ", "a terminal may draw it in four columns");
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
