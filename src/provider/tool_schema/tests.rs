use super::*;

#[test]
fn a_schema_that_is_fit_is_passed_on() {
    let schema =
        json!({ "type": "object", "properties": { "a": { "anyOf": [{ "type": "string" }] } }, "required": ["a"] });
    assert!(matches!(fit(&schema), Cow::Borrowed(_)));
}

#[test]
fn a_root_that_vendors_refuse_is_made_fit() {
    let none = json!({ "type": "object", "properties": {} });
    for schema in [json!({}), json!({ "type": "object" }), json!(true), json!({ "type": ["object", "null"] })] {
        assert_eq!(*fit(&schema), none, "{schema}");
    }
    let choice = json!({
        "type": "object", "properties": { "a": { "type": "string" } }, "required": ["a"],
        "anyOf": [{ "required": ["a"] }, { "properties": { "a": {}, "b": { "type": "number" } }, "required": ["b"] }],
        "not": { "required": ["c"] },
    });
    let properties = json!({ "a": { "type": "string" }, "b": { "type": "number" } });
    assert_eq!(*fit(&choice), json!({ "type": "object", "properties": properties, "required": ["a"] }));
}
