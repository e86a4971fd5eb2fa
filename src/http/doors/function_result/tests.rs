use serde_json::json;

use super::*;

#[test]
fn json_is_read_and_other_text_stays_as_it_is() {
    for value in
        [json!({ "street": "Hill", "of": [1, -2, 0.5, null, true] }), json!("Rome"), json!(u64::MAX), json!([])]
    {
        assert_eq!(read(&value.to_string()), value);
    }
    for text in ["Rome", "", "{", "1 2", "01"] {
        assert_eq!(read(text), text);
    }
}

#[test]
fn a_number_that_would_change_keeps_its_text() {
    for text in ["9400111899223344556677", "1.10", "-0", "1e3", r#"{"price":1.10}"#, r#"["a\"",1.10]"#] {
        assert_eq!(read(text), text);
    }
    // Digits in a string are no number.
    let value = json!({ "1.10": "it is \"1.10\", \\", "n": 1 });
    assert_eq!(read(&value.to_string()), value);
}

#[test]
fn a_value_that_nests_too_deeply_keeps_its_text() {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let most = depth::MOST_DEPTH;
    assert!(read(&nested(most)).is_array());
    assert_eq!(read(&nested(most + 1)), nested(most + 1));
}
