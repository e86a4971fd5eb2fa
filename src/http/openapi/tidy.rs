//! Corrections of the whole document that cannot be made route by route.

use serde_json::{Map, Value, json};

use crate::http::params::{DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE};

/// The operations whose pages are as large as they may be, if the request has no `limit`.
const LARGE_PAGES: [&str; 1] = ["listKeys"];

const SCHEMAS: &str = "#/components/schemas/";

/// A type alias of Rust that must not become a schema of its own.
const ALIAS: &str = "i64";

/// Corrects every operation and every schema of the document.
pub(super) fn tidy(document: &mut Value) {
    inline_alias(document);
    open_objects(document);
    let mut schemas = document["components"]["schemas"].take();
    for schema in members(&mut schemas) {
        not_null(schema);
    }
    extend_closed(&mut schemas);
    document["components"]["schemas"] = name_lists(schemas);
    rename_references(document);
    for operation in document["paths"].as_object_mut().into_iter().flatten().flat_map(|(_, path)| members(path)) {
        for (status, response) in operation["responses"].as_object_mut().into_iter().flatten() {
            describe(status, response);
        }
        let has_large_pages = LARGE_PAGES.iter().any(|large| operation["operationId"] == *large);
        for parameter in operation.get_mut("parameters").and_then(Value::as_array_mut).into_iter().flatten() {
            bound(parameter, if has_large_pages { MAX_PAGE_SIZE } else { DEFAULT_PAGE_SIZE });
            if parameter["required"] != true {
                strip_null(&mut parameter["schema"]);
            }
        }
        // A body that may be missing is still never `null`.
        if let Some(body) = operation.get_mut("requestBody") {
            members(&mut body["content"]).for_each(|content| strip_null(&mut content["schema"]));
        }
    }
}

fn members(value: &mut Value) -> impl Iterator<Item = &mut Value> {
    value.as_object_mut().into_iter().flatten().map(|(_, member)| member)
}

/// A response without a description gets the one of its status.
fn describe(status: &str, response: &mut Value) {
    let usual = match status {
        "101" => "The connection becomes a WebSocket",
        "201" => "Created",
        "202" => "Accepted: durable, and under way",
        "204" => "Done; there is nothing more to say",
        _ => "The answer",
    };
    if response["description"].as_str().is_none_or(str::is_empty) {
        response["description"] = usual.into();
    }
}

/// `limit` means the same everywhere.
fn bound(parameter: &mut Value, usual: u32) {
    if parameter["name"] == "limit" {
        let schema = &mut parameter["schema"];
        (schema["minimum"], schema["default"], schema["maximum"]) = (1.into(), usual.into(), MAX_PAGE_SIZE.into());
    }
}

/// A member that may be absent is absent rather than `null`.
fn not_null(schema: &mut Value) {
    let required = schema.get("required").cloned().unwrap_or_default();
    let is_required = |name: &str| required.as_array().is_some_and(|names| names.iter().any(|known| known == name));
    for (name, property) in schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
        if !is_required(name) {
            strip_null(property);
        }
    }
    for part in ["allOf", "oneOf"] {
        schema.get_mut(part).and_then(Value::as_array_mut).into_iter().flatten().for_each(not_null);
    }
}

fn strip_null(schema: &mut Value) {
    let Some(members) = schema.as_object_mut() else { return };
    if members.get("default").is_some_and(Value::is_null) {
        members.shift_remove("default");
    }
    if let Some(types) = members.get_mut("type").and_then(Value::as_array_mut) {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            members.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(choices)) = members.get_mut("oneOf") {
        choices.retain(|choice| choice["type"] != "null");
        if let [Value::Object(only)] = choices.as_slice() {
            let only = only.clone();
            members.shift_remove("oneOf");
            members.extend(only);
        }
    }
}

/// An object without declared members may contain anything. Some generators would take it for an empty one.
fn open_objects(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.values_mut().for_each(open_objects);
            let says_more =
                ["properties", "additionalProperties", "allOf", "oneOf"].iter().any(|it| map.contains_key(*it));
            if map.get("type").is_some_and(|name| name == "object") && !says_more {
                map.insert("additionalProperties".to_owned(), true.into());
            }
        }
        Value::Array(list) => list.iter_mut().for_each(open_objects),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn inline_alias(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.values_mut().for_each(inline_alias);
            map.shift_remove(ALIAS);
            if map.get("$ref").and_then(Value::as_str).and_then(|name| name.strip_prefix(SCHEMAS)) == Some(ALIAS) {
                map.shift_remove("$ref");
                map.insert("type".to_owned(), "integer".into());
                map.insert("format".to_owned(), "int64".into());
            }
        }
        Value::Array(list) => list.iter_mut().for_each(inline_alias),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A schema that extends a closed one, which allows no other members, extends an open copy of it instead.
fn extend_closed(schemas: &mut Value) {
    let all = schemas.clone();
    let closed = |part: &Value| {
        let name = part["$ref"].as_str()?.strip_prefix(SCHEMAS)?;
        Some(&all[name]).filter(|schema| schema["additionalProperties"] == false)
    };
    for schema in members(schemas) {
        for part in schema.get_mut("allOf").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(Value::Object(extended)) = closed(part) {
                let mut open = extended.clone();
                open.shift_remove("additionalProperties");
                open.shift_remove("description");
                *part = open.into();
            }
        }
    }
}

/// Renames the schema of a list after its items: `Listed_Thread` → `ThreadList`.
fn name_lists(schemas: Value) -> Value {
    let Value::Object(schemas) = schemas else { return schemas };
    let renamed = schemas.into_iter().map(|(name, mut schema)| match name.strip_prefix("Listed_") {
        Some(item) => {
            schema["properties"]["items"]["items"] = json!({ "$ref": format!("{SCHEMAS}{item}") });
            (list_of(item), schema)
        }
        None => (name, schema),
    });
    let mut renamed: Vec<(String, Value)> = renamed.collect();
    renamed.sort_by(|(a, _), (b, _)| a.cmp(b));
    renamed.into_iter().collect::<Map<_, _>>().into()
}

fn rename_references(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.values_mut().for_each(rename_references);
            let item = map.get("$ref").and_then(|name| name.as_str()?.strip_prefix(SCHEMAS)?.strip_prefix("Listed_"));
            if let Some(item) = item {
                let list = format!("{SCHEMAS}{}", list_of(item));
                map.insert("$ref".to_owned(), list.into());
            }
        }
        Value::Array(list) => list.iter_mut().for_each(rename_references),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn list_of(item: &str) -> String {
    format!("{item}List")
}
