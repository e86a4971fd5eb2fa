//! Patterns and what they match.

use super::*;

#[test]
fn globs_cover_what_they_say() {
    for (pattern, tool) in
        [("*", "a"), ("*", ""), ("mail__*", "mail__send"), ("*_time", "current_time"), ("a*b*c", "aXbYc"), ("**", "x")]
    {
        assert!(matches(pattern, tool), "{pattern} {tool}");
    }
    for (pattern, tool) in [("mail", "mail__send"), ("a*b*c", "acb"), ("ab*ba", "aba"), ("", "a"), ("a*b*b", "ab")] {
        assert!(!matches(pattern, tool), "{pattern} {tool}");
    }
}

#[test]
fn where_a_rule_allows_a_star_passes_nothing_that_begins_another_line_or_address() {
    for (pattern, text) in
        [("*@example.com", "a.b+c@example.com"), ("report *.txt", "report of 2026, final.txt"), ("a*\nb*", "a1\nb2")]
    {
        assert!(certainly(pattern, text), "{pattern} {text}");
    }
    for (pattern, text) in [
        ("*@example.com", "mallory@evil.test,a@example.com"),
        ("*@example.com", "mallory@evil.test\na@example.com"),
        ("*@example.com", "a@example.com\nmallory@evil.test"),
        ("a@*", "a@evil.test;b@example.com"),
        ("report *", "report\u{2028} x"),
        ("report *", "report x\u{85}"),
        ("*", "a\u{7}"),
    ] {
        assert!(!certainly(pattern, text), "{pattern} {text}");
    }
}

#[test]
fn where_a_rule_denies_one_line_or_address_of_several_is_enough() {
    for (pattern, text) in [
        ("*@evil.test", "a@example.com, mallory@evil.test; b@example.com"),
        ("*@evil.test", "Mallory <mallory@evil.test>"),
        ("rm *", "ls\r\nrm -rf /"),
        ("*.sh", "x.sh\ny"),
    ] {
        assert_eq!(possibly(pattern, text, &StepBudget::new()), Some(true), "{pattern} {text}");
    }
    assert_eq!(possibly("rm *", "ls rm -rf", &StepBudget::new()), Some(false));
    assert_eq!(possibly("*@*b", &"a@,".repeat(1_000_000), &StepBudget::new()), None, "it would take too long");
    assert_eq!(simplified("a**b***"), "a*b*");
}
