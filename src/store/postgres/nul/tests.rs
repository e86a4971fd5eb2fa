use super::*;

#[test]
fn every_text_comes_back_and_none_holds_a_nul() {
    for text in ["", "plain", "\0", "\u{1}", "\u{1}0", "\0\u{1}\u{1}0", "a\0b\u{1}1"] {
        let stored = escaped(text).into_owned();
        assert!(!stored.contains('\0'));
        assert_eq!(unescaped(stored), text, "{text:?}");
    }
}
