use super::*;

#[test]
fn blocks_are_for_those_who_gave_them() {
    let replay = sealed("anthropic", "a", json!([1]));
    assert_eq!(opened("anthropic", "a", Some(&replay)), Some(&json!([1])));
    for (wire, model) in [("anthropic", "b"), ("gemini", "a")] {
        assert_eq!(opened(wire, model, Some(&replay)), None);
    }
    assert_eq!(opened("anthropic", "a", None), None);
}
