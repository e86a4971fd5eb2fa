//! Adapts schemas of tools to what vendors accept, because one that a vendor rejects makes every request with its tool
//! fail: an object with properties at the root, without alternatives; everywhere arrays with items, and no schema that
//! is just `true` or `false`. Arguments are checked against the whole schema anyway.
//!
//! A schema that needs no change is only read, which takes less time than writing it into the request.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

/// Keywords that vendors reject at the root of a schema.
const REFUSED: [&str; 9] = ["anyOf", "oneOf", "allOf", "not", "enum", "const", "if", "then", "else"];
/// Those whose properties are offered as optional ones.
const FOLDED: [&str; 3] = ["allOf", "anyOf", "oneOf"];
/// Deeper than any useful schema; below this depth nothing is adapted.
const MAX_DEPTH: usize = 32;
/// The longest name of a property that Anthropic accepts.
const MAX_NAME_BYTES: usize = 64;

/// Whose rules a schema must keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rules {
    /// Those of all vendors.
    Common,
    /// Those, and Anthropic's: JSON Schema 2020-12, and plain names of properties.
    Anthropic,
}

/// The schema, adapted if necessary.
pub(super) fn fit(schema: &Value, rules: Rules) -> Cow<'_, Value> {
    let root = fit_root(schema);
    let adapted = adapted(&root, rules, 0);
    adapted.map_or(root, Cow::Owned)
}

fn fit_root(schema: &Value) -> Cow<'_, Value> {
    let Value::Object(root) = schema else { return Cow::Owned(json!({ "type": "object", "properties": {} })) };
    let is_fit = root.get("type").is_some_and(|kind| kind == "object")
        && root.get("properties").is_some_and(Value::is_object)
        && !REFUSED.iter().any(|name| root.contains_key(*name));
    if is_fit { Cow::Borrowed(schema) } else { Cow::Owned(fitted(root)) }
}

fn fitted(root: &Map<String, Value>) -> Value {
    let mut fit: Map<String, Value> = root
        .iter()
        .filter(|(name, _)| !REFUSED.contains(&name.as_str()))
        .map(|(n, v)| (n.clone(), v.clone()))
        .collect();
    let mut properties = root.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    let branches = FOLDED.iter().filter_map(|name| root.get(*name)?.as_array()).flatten();
    for (name, property) in branches.filter_map(|branch| branch.get("properties")?.as_object()).flatten() {
        properties.entry(name.clone()).or_insert_with(|| property.clone());
    }
    fit.insert("type".to_owned(), json!("object"));
    fit.insert("properties".to_owned(), Value::Object(properties));
    Value::Object(fit)
}

/// What replaces a schema. `None`: it stays as it is.
fn adapted(schema: &Value, rules: Rules, depth: usize) -> Option<Value> {
    match schema {
        Value::Bool(true) => Some(json!({})),
        Value::Bool(false) => Some(json!({ "not": {} })),
        Value::Object(keywords) if depth < MAX_DEPTH => adapted_object(keywords, rules, depth + 1).map(Value::Object),
        Value::Object(_) | Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) => None,
    }
}

fn adapted_object(keywords: &Map<String, Value>, rules: Rules, depth: usize) -> Option<Map<String, Value>> {
    let is_lost =
        |name: &String| rules == Rules::Anthropic && name.starts_with("exclusiveM") && keywords[name].is_boolean();
    let is_without_items = is_array(keywords) && !keywords.contains_key("items");
    let changes: Vec<(&String, Value)> = keywords
        .iter()
        .filter_map(|(keyword, value)| Some((keyword, adapted_keyword(keywords, keyword, value, rules, depth)?)))
        .collect();
    if changes.is_empty() && !is_without_items && !keywords.keys().any(is_lost) {
        return None;
    }
    let mut adapted = keywords.clone();
    adapted.retain(|keyword, _| !is_lost(keyword));
    adapted.extend(changes.into_iter().map(|(keyword, value)| (keyword.clone(), value)));
    if is_without_items {
        adapted.insert("items".to_owned(), json!({}));
    }
    Some(adapted)
}

fn is_array(keywords: &Map<String, Value>) -> bool {
    match keywords.get("type") {
        Some(Value::String(kind)) => kind == "array",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "array"),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => false,
    }
}

/// What replaces the value of a keyword; the schemas in it are adapted.
fn adapted_keyword(
    keywords: &Map<String, Value>,
    keyword: &str,
    value: &Value,
    rules: Rules,
    depth: usize,
) -> Option<Value> {
    match (keyword, value) {
        ("properties", Value::Object(table)) => properties(table, rules, depth),
        ("required", Value::Array(names)) => required(names, keywords.get("properties")?.as_object()?, rules),
        ("$defs" | "definitions" | "patternProperties" | "dependentSchemas", Value::Object(named)) => {
            table(named, rules, depth)
        }
        ("anyOf" | "oneOf" | "allOf" | "prefixItems" | "items", Value::Array(forms)) => {
            let adapted: Vec<_> = forms.iter().map(|form| adapted(form, rules, depth)).collect();
            let is_changed = adapted.iter().any(Option::is_some);
            let forms = forms.iter().zip(adapted).map(|(form, adapted)| adapted.unwrap_or_else(|| form.clone()));
            is_changed.then(|| forms.collect())
        }
        ("items" | "not" | "contains" | "if" | "then" | "else", schema) => adapted(schema, rules, depth),
        // Here vendors accept `true` and `false`.
        ("additionalProperties", schema @ Value::Object(_)) => adapted(schema, rules, depth),
        _ => None,
    }
}

fn table(named: &Map<String, Value>, rules: Rules, depth: usize) -> Option<Value> {
    let changes: Vec<(&String, Value)> =
        named.iter().filter_map(|(name, schema)| Some((name, adapted(schema, rules, depth)?))).collect();
    if changes.is_empty() {
        return None;
    }
    let mut adapted = named.clone();
    adapted.extend(changes.into_iter().map(|(name, schema)| (name.clone(), schema)));
    Some(Value::Object(adapted))
}

fn properties(named: &Map<String, Value>, rules: Rules, depth: usize) -> Option<Value> {
    if named.iter().all(|(name, schema)| is_offered(name, schema, rules)) {
        return table(named, rules, depth);
    }
    let mut offered = named.clone();
    offered.retain(|name, schema| is_offered(name, schema, rules));
    Some(table(&offered, rules, depth).unwrap_or(Value::Object(offered)))
}

fn required(names: &[Value], properties: &Map<String, Value>, rules: Rules) -> Option<Value> {
    let is_offered = |name: &&Value| {
        let property = name.as_str().and_then(|name| properties.get_key_value(name));
        property.is_none_or(|(name, schema)| is_offered(name, schema, rules))
    };
    let offered = || names.iter().filter(is_offered);
    (offered().count() < names.len()).then(|| offered().cloned().collect())
}

/// Whether the model is told of a property: not of one that must not be given, or whose name the vendor rejects.
fn is_offered(name: &str, schema: &Value, rules: Rules) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    let is_named = || (1..=MAX_NAME_BYTES).contains(&name.len()) && name.bytes().all(is_plain);
    *schema != Value::Bool(false) && (rules == Rules::Common || is_named())
}

#[cfg(test)]
mod tests;
