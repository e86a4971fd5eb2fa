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
