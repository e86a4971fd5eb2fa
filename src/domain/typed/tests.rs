use serde_json::json;

use super::*;
use crate::domain::settings::CallOptions;

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[expect(dead_code, reason = "only its form is of interest")]
struct Body {
    the_query: String,
    #[serde(default)]
    options: CallOptions,
}

fn at(value: Value) -> String {
    let fault = typed::<Body>(value).unwrap_err();
    assert_eq!(fault.code, Code::Invalid);
    fault.errors[0].pointer.clone()
}

#[test]
fn the_pointer_names_what_does_not_fit() {
    assert_eq!(at(json!({"theQuery": 1})), "/theQuery");
    assert_eq!(at(json!({})), "/theQuery");
    assert_eq!(at(json!({"theQuery": "q", "nope": 1})), "/nope");
    assert_eq!(at(json!({"theQuery": "q", "options": {"budget": {"maxTokens": -1}}})), "/options/budget/maxTokens");
    assert_eq!(at(json!({"theQuery": "q", "options": {"budget": {"max": 1}}})), "/options/budget/max");
    assert_eq!(at(json!([])), "");
    assert_eq!(at(json!(["q", {}])), "");
    assert_eq!(at(json!({"theQuery": "q", "options": []})), "/options");
    assert_eq!(at(json!({"theQuery": "q", "options": {"budget": [null]}})), "/options/budget");
}

#[test]
fn mistakes_are_told_in_the_words_of_json() {
    let how = |value: Value| typed::<Body>(value).unwrap_err().errors.remove(0).detail;
    let options = |options: Value| how(json!({ "theQuery": "q", "options": options }));
    assert_eq!(options(Value::Null), "invalid type: null, expected an object");
    assert_eq!(options(json!([])), "invalid type: sequence, expected an object");
    let tokens = |tokens: Value| options(json!({ "budget": { "maxTokens": tokens } }));
    assert_eq!(tokens(json!(-1)), "invalid value: integer `-1`, expected a whole number of at least 0");
    assert_eq!(tokens(json!(1.5)), "invalid type: floating point `1.5`, expected a whole number of at least 0");
    let calls = json!({ "budget": { "maxLlmCalls": 5_000_000_000_i64 } });
    let expected = "invalid value: integer `5000000000`, expected a whole number from 0 to 4294967295";
    assert_eq!(options(calls), expected);
    assert_eq!(
        how(json!({ "theQuery": "q", "a, expected u32": 1 })),
        "unknown field `a, expected u32`, expected `theQuery` or `options`"
    );
}
