//! Which texts are equal after normalisation, and the size of values.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn fold(text: &str) -> String {
    super::fold(text, &StepBudget::new()).unwrap()
}

#[test]
fn what_people_read_as_one_text_is_one() {
    for (text, same) in [
        ("Straße", "STRASSE"),
        ("ΣΊΣΥΦΟΣ", "σίσυφος"),
        ("ｒｏｏｔ", "root"),
        ("ﬁle", "file"),
        ("r\u{ad}o\u{feff}o\u{e0041}t", "root"),
        ("e\u{200d}\u{301}", "é"),
        ("\u{3000} a \r\n\t b\u{2028}", "a b"),
        ("nul\0l", "null"),
    ] {
        assert_eq!(fold(text), fold(same), "{text:?} {same:?}");
    }
    // Similar letters of other scripts remain different.
    assert_ne!(fold("р\u{430}ypal"), fold("paypal"));
}

#[test]
fn a_text_that_grows_is_not_folded_to_its_end() {
    let steps = StepBudget::new();
    assert_eq!(super::fold(&"\u{fdfa}".repeat(20_000), &steps), None);
    assert_eq!(super::fold("a", &steps), None, "nothing is left");
}

#[test]
fn a_value_has_a_size() {
    let value = json!({ "ab": ["cde", 1] });
    assert_eq!(size(&value, 100), Some(4 * 16 + 2 + 3));
    assert_eq!(size(&value, 68), None);
}

proptest! {
    #![proptest_config(proptest::test_runner::Config { failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_folded_text_has_no_invisible_character_and_no_blank_but_single_spaces(text in any::<String>()) {
        let folded = fold(&text);
        prop_assert!(!folded.contains(is_invisible) && !folded.contains("  ") && folded.trim() == folded);
        prop_assert!(folded.chars().all(|c| !c.is_whitespace() || c == ' '), "{folded:?}");
    }
}
