//! Adapts schemas of tools to what vendors accept: an object with properties at the root, without alternatives.
//! Arguments are checked against the whole schema anyway.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

/// Keywords that vendors reject at the root of a schema.
const REFUSED: [&str; 9] = ["anyOf", "oneOf", "allOf", "not", "enum", "const", "if", "then", "else"];
/// Those whose properties are offered as optional ones.
const FOLDED: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// The schema, adapted if necessary.
pub(super) fn fit(schema: &Value) -> Cow<'_, Value> {
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

#[cfg(test)]
mod tests;
