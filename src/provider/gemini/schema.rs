//! Reduces a JSON Schema to the subset that Gemini supports. Other keywords are dropped: the reply is checked against
//! the whole schema anyway.

use serde_json::{Map, Value, json};

/// Keywords that are copied.
const KNOWN: &[&str] = &[
    "$ref",
    "description",
    "enum",
    "format",
    "maxItems",
    "maximum",
    "minItems",
    "minimum",
    "required",
    "title",
    "type",
];
/// Keywords whose value is a schema.
const NESTED: &[&str] = &["additionalProperties", "items"];
/// Keywords whose value is a list of schemas.
const LISTS: &[&str] = &["anyOf", "prefixItems"];
/// Keywords whose value maps names to schemas.
const TABLES: &[&str] = &["$defs", "properties"];
/// Deeper than any useful schema; below this depth any value is allowed.
const DEEPEST: usize = 32;

pub(super) fn cleaned(schema: &Value) -> Value {
    clean(schema, 0)
}

fn clean(schema: &Value, depth: usize) -> Value {
    let Value::Object(keywords) = schema else { return schema.clone() };
    if depth == DEEPEST {
        return json!({});
    }
    let mut out = Map::new();
    for (keyword, value) in keywords {
        match (keyword.as_str(), value) {
            ("const", value) => drop(out.insert("enum".to_owned(), json!([value]))),
            ("oneOf", Value::Array(forms)) => drop(out.insert("anyOf".to_owned(), list(forms, depth))),
            ("allOf", Value::Array(forms)) => {
                for form in forms {
                    let Value::Object(more) = clean(form, depth + 1) else { continue };
                    more.into_iter().for_each(|(keyword, value)| merge(&mut out, keyword, value));
                }
            }
            // The older name of `$defs`, which references may use.
            ("definitions", Value::Object(table)) => drop(out.insert(keyword.clone(), by_name(table, depth))),
            (name, Value::Array(forms)) if LISTS.contains(&name) => {
                drop(out.insert(keyword.clone(), list(forms, depth)))
            }
            (name, Value::Object(table)) if TABLES.contains(&name) => {
                merge(&mut out, keyword.clone(), by_name(table, depth))
            }
            (name, value) if NESTED.contains(&name) => drop(out.insert(keyword.clone(), clean(value, depth + 1))),
            (name, value) if KNOWN.contains(&name) => merge(&mut out, keyword.clone(), value.clone()),
            _ => {}
        }
    }
    Value::Object(out)
}

fn list(forms: &[Value], depth: usize) -> Value {
    forms.iter().map(|form| clean(form, depth + 1)).collect()
}

fn by_name(table: &Map<String, Value>, depth: usize) -> Value {
    Value::Object(table.iter().map(|(name, form)| (name.clone(), clean(form, depth + 1))).collect())
}

/// Properties and required names of several alternatives are merged; for other keywords the first value is used.
fn merge(out: &mut Map<String, Value>, keyword: String, value: Value) {
    match (out.get_mut(&keyword), value) {
        (Some(Value::Object(known)), Value::Object(more)) => known.extend(more),
        (Some(Value::Array(known)), Value::Array(more)) if keyword == "required" => known.extend(more),
        (Some(_), _) => {}
        (None, value) => drop(out.insert(keyword, value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_understood_is_left() {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {
                "pattern": { "type": "string", "pattern": "^a", "default": "a", "minLength": 1 },
                "kind": { "const": "x" },
                "either": { "oneOf": [{ "type": "string" }, { "type": "null", "examples": [null] }] },
            },
            "allOf": [{ "properties": { "more": { "not": {} } }, "required": ["more"] }],
            "required": ["kind"],
            "additionalProperties": false,
            "if": {},
        });
        let expected = json!({
            "type": "object",
            "properties": {
                "pattern": { "type": "string" },
                "kind": { "enum": ["x"] },
                "either": { "anyOf": [{ "type": "string" }, { "type": "null" }] },
                "more": {},
            },
            "required": ["more", "kind"],
            "additionalProperties": false,
        });
        assert_eq!(cleaned(&schema), expected);
        let deep = (0..100).fold(json!({}), |inner, _| json!({ "items": inner }));
        assert!(cleaned(&deep).to_string().len() < 32 * 12);
    }
}
