//! Patterns and what they cover.

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
