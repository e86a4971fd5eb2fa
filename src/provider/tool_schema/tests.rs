use super::*;

#[test]
fn a_schema_that_is_fit_is_passed_on() {
    let schema =
        json!({ "type": "object", "properties": { "a": { "anyOf": [{ "type": "string" }] } }, "required": ["a"] });
    assert!(matches!(fit(&schema, Rules::Common), Cow::Borrowed(_)));
}

#[test]
fn a_root_that_vendors_refuse_is_made_fit() {
    let none = json!({ "type": "object", "properties": {} });
    for schema in [json!({}), json!({ "type": "object" }), json!(true), json!({ "type": ["object", "null"] })] {
        assert_eq!(*fit(&schema, Rules::Common), none, "{schema}");
    }
    let choice = json!({
        "type": "object", "properties": { "a": { "type": "string" } }, "required": ["a"],
        "anyOf": [{ "required": ["a"] }, { "properties": { "a": {}, "b": { "type": "number" } }, "required": ["b"] }],
        "not": { "required": ["c"] },
    });
    let properties = json!({ "a": { "type": "string" }, "b": { "type": "number" } });
    assert_eq!(*fit(&choice, Rules::Common), json!({ "type": "object", "properties": properties, "required": ["a"] }));
}

/// A tool with one of these properties.
fn with(property: Value) -> Value {
    json!({ "type": "object", "properties": { "a": property }, "required": ["a"] })
}

#[test]
fn what_vendors_refuse_within_a_schema_is_adapted() {
    let table = [
        (json!({ "type": "array" }), json!({ "type": "array", "items": {} })),
        (json!({ "type": ["null", "array"] }), json!({ "type": ["null", "array"], "items": {} })),
        (json!({ "type": "array", "items": true }), json!({ "type": "array", "items": {} })),
        (json!({ "type": "array", "items": false }), json!({ "type": "array", "items": { "not": {} } })),
        (json!(true), json!({})),
        (
            json!({ "anyOf": [{ "type": "array" }, true, {}] }),
            json!({ "anyOf": [{ "type": "array", "items": {} }, {}, {}] }),
        ),
        (
            json!({ "additionalProperties": { "type": "array" } }),
            json!({ "additionalProperties": { "type": "array", "items": {} } }),
        ),
        (
            json!({ "properties": { "b": false, "c": true, "d": {} }, "required": ["b", "d"], "additionalProperties": false }),
            json!({ "properties": { "c": {}, "d": {} }, "required": ["d"], "additionalProperties": false }),
        ),
    ];
    for (property, adapted) in table {
        for rules in [Rules::Common, Rules::Anthropic] {
            assert_eq!(*fit(&with(property.clone()), rules), with(adapted.clone()), "{property}");
        }
    }
    let defined = json!({ "type": "object", "properties": {}, "$defs": { "list": { "type": "array" } } });
    assert_eq!(fit(&defined, Rules::Common)["$defs"]["list"], json!({ "type": "array", "items": {} }));
}

/// Names and values that only look like keywords, and what vendors accept.
#[test]
fn nothing_else_is_changed() {
    let items = json!({ "type": "array", "items": { "type": "string" } });
    let table = [
        json!({ "properties": { "type": { "type": "string" }, "items": items, "required": {} }, "additionalProperties": true }),
        json!({ "const": { "type": "array" }, "default": { "properties": { "b": true } }, "enum": [true] }),
        json!({ "required": ["unknown"], "minItems": 1, "exclusiveMinimum": 0 }),
    ];
    for property in table {
        for rules in [Rules::Common, Rules::Anthropic] {
            assert!(matches!(fit(&with(property.clone()), rules), Cow::Borrowed(_)), "{property}");
        }
    }
}

#[test]
fn anthropic_is_told_of_no_property_whose_name_it_refuses_and_of_no_older_keyword() {
    let (longest, longer) = ("x".repeat(64), "x".repeat(65));
    let schema = json!({
        "type": "object",
        "properties": {
            "a.b-c_1": { "type": "number", "exclusiveMinimum": true, "minimum": 0, "exclusiveMaximum": 5 },
            longest.as_str(): {}, longer.as_str(): {}, "a b": {}, "": {}, "é": {},
        },
        "required": ["a b", "a.b-c_1", longer],
    });
    assert!(matches!(fit(&schema, Rules::Common), Cow::Borrowed(_)), "others accept it");
    let adapted = json!({
        "type": "object",
        "properties": { "a.b-c_1": { "type": "number", "minimum": 0, "exclusiveMaximum": 5 }, longest: {} },
        "required": ["a.b-c_1"],
    });
    assert_eq!(*fit(&schema, Rules::Anthropic), adapted);
}

#[test]
fn a_schema_of_any_depth_is_read_to_a_bound() {
    let deep = (0..1_000).fold(json!({ "type": "array" }), |inner, _| json!({ "type": "array", "items": inner }));
    assert!(matches!(fit(&with(deep), Rules::Common), Cow::Borrowed(_)));
}
