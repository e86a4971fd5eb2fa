//! The JSON reader: how it treats quotes, and its limits of depth, length and size.

use rstest::rstest;

use super::plan;

#[rstest]
#[case::an_escaped_quote(r#"{'answer': 'it\'s "fine"', 'todoList': []}"#, r#"it's "fine""#)]
#[case::a_quote_of_the_other_kind(r#"{'answer': "it's fine", 'todoList': []}"#, "it's fine")]
#[case::keys_of_all_kinds(r#"{'todoList': [], "title": 't', answer: 'fine'}"#, "fine")]
#[case::what_python_prints(r"{'answer': 'fine', 'refuse': None, 'ok': True, 'todoList': []}", "fine")]
#[case::escapes(r"{'answer': 'a\nb\u00e9\/\\', 'todoList': []}", "a\nbé/\\")]
#[case::brackets_in_a_text(r#"{'answer': 'a } and a ] and {', 'todoList': []}"#, "a } and a ] and {")]
fn texts_may_stand_in_single_quotes(#[case] text: &str, #[case] answer: &str) {
    assert_eq!(plan(text, &[]).unwrap().answer.as_deref(), Some(answer));
}

fn with_extra(extra: &str) -> String {
    format!(r#"{{"answer": "x", "extra": {extra}, "todoList": []}}"#)
}

#[test]
fn sixty_four_brackets_may_stand_inside_each_other_and_no_more() {
    let nested = |depth: usize| with_extra(&format!("{}{}", "[".repeat(depth), "]".repeat(depth)));
    assert_eq!(plan(&nested(63), &[]).unwrap().answer.as_deref(), Some("x"));
    assert!(plan(&nested(64), &[]).is_err());
}

#[test]
fn a_reply_of_more_than_eight_mebibytes_is_not_read() {
    let of = |bytes: usize| with_extra(&format!("\"{}\"", "a".repeat(bytes)));
    assert!(plan(&of(7 << 20), &[]).is_ok());
    let fault = plan(&of(8 << 20), &[]).unwrap_err().0;
    assert!(fault.contains("too long"), "{fault}");
}

#[test]
fn a_reply_of_more_than_two_hundred_thousand_values_is_not_read() {
    let of = |values: usize| with_extra(&format!("[{}0]", "0,".repeat(values)));
    assert!(plan(&of(190_000), &[]).is_ok());
    let fault = plan(&of(200_000), &[]).unwrap_err().0;
    assert!(fault.contains("too many values"), "{fault}");
}

#[test]
fn a_number_that_would_take_long_is_not_read() {
    assert!(plan(&with_extra(&"7".repeat(128)), &[]).is_ok());
    assert!(plan(&with_extra(&"7".repeat(129)), &[]).is_err());
}
