//! Parses the reply of a synthesis: the final answer.

use serde_json::{Map, Value, json};

use super::SynthesisDraft;
use super::artifacts::artifacts;
use super::field::{self, Object};
use super::find::find;
use super::tags;

/// Parses the answer; never fails. Metadata that cannot be read is dropped, and the answer is kept.
pub fn synthesis(text: &str) -> SynthesisDraft {
    let (shown, metadata) = tags::split(text);
    let tagged = metadata.iter().rev().find_map(|body| object(body));
    if let Some(object) = tagged {
        return SynthesisDraft { content: shown.trim().to_owned(), ui_metadata: ui_metadata(object) };
    }
    match last_block(&shown) {
        Some((content, object)) => SynthesisDraft { content: content.to_owned(), ui_metadata: ui_metadata(object) },
        None => SynthesisDraft { content: shown.trim().to_owned(), ui_metadata: None },
    }
}

fn object(text: &str) -> Option<Object> {
    find(text).found.into_iter().find_map(|found| match found.value {
        Value::Object(object) => Some(object),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => None,
    })
}

/// A final ```json block that is metadata, and the text before it. Any other block is part of the answer.
fn last_block(shown: &str) -> Option<(&str, Object)> {
    let body = shown.trim_end().strip_suffix("```")?;
    let start = body.rfind("```json")?;
    let content = body[..start].trim();
    let object = object(&body[start..])?;
    let is_metadata =
        ["sources", "suggestions", "artifacts", "uiMetadata"].iter().any(|name| object.contains_key(*name));
    (is_metadata && !content.is_empty()).then_some((content, object))
}

/// Brings sources, suggestions and artifacts into the contract's shape; other members are kept unchanged.
fn ui_metadata(object: Object) -> Option<Value> {
    let mut object = match object.get("uiMetadata") {
        Some(Value::Object(inner)) => inner.clone(),
        Some(_) | None => object,
    };
    reshape(&mut object, "sources", source);
    reshape(&mut object, "suggestions", suggestion);
    if let Some(value) = object.shift_remove("artifacts") {
        let (delivered, notes) = artifacts(&value);
        let lists = [("artifacts", delivered), ("artifactNotes", notes)];
        object.extend(
            lists.into_iter().filter(|(_, list)| !list.is_empty()).map(|(name, list)| (name.into(), list.into())),
        );
    }
    (!object.is_empty()).then_some(Value::Object(object))
}

fn reshape(object: &mut Object, name: &str, read: fn(&Value) -> Option<Value>) {
    let Some(value) = object.shift_remove(name) else { return };
    let list: Vec<Value> = match &value {
        Value::Array(values) => values.iter().filter_map(read).collect(),
        single => read(single).into_iter().collect(),
    };
    if !list.is_empty() {
        object.insert(name.to_owned(), Value::Array(list));
    }
}

fn source(value: &Value) -> Option<Value> {
    let object = match value {
        Value::String(name) if is_link(name) => return Some(json!({"sourceName": name, "url": name})),
        Value::String(name) if !name.trim().is_empty() => return Some(json!({"sourceName": name})),
        Value::Object(object) => object,
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => return None,
    };
    let url = field::text(object, &["url", "link", "href"]).filter(|url| is_link(url));
    let name = field::text(object, &["sourceName", "source_name", "name", "title"]).or_else(|| url.clone())?;
    let mut source = Map::from_iter([("sourceName".to_owned(), Value::String(name))]);
    source.extend(url.map(|url| ("url".to_owned(), Value::String(url))));
    Some(Value::Object(source))
}

/// Pages open these links, so only web addresses are accepted.
fn is_link(url: &str) -> bool {
    url.starts_with("https://") || url.starts_with("http://")
}

fn suggestion(value: &Value) -> Option<Value> {
    match value {
        Value::String(text) if !text.trim().is_empty() => Some(value.clone()),
        Value::Object(object) => field::text(object, &["text", "suggestion", "title"]).map(Value::String),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
    }
}
