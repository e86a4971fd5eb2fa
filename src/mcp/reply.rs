//! Converts the result of a call into a tool's output: structured content if there is any, else the text. Other content
//! is stored in the metadata and referenced; what a resource is called, and where it is, is said in the output, too.

use std::collections::HashMap;

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::{Value, json};

use super::call_errors::cut;
use crate::domain::tool::{CallCode, ToolError};
use crate::tool::ToolOutput;

/// How much binary content of one result is kept, measured in base64.
const MAX_BINARY_BYTES: usize = 256 << 10;

/// How many parts are kept or referenced.
const MAX_PARTS: usize = 1_000;

/// How much of the data of an error is told.
const MAX_DATA_CHARS: usize = 2_000;

/// An image, audio or resource, stored in the metadata and referenced from the output.
struct ContentPart {
    kind: &'static str,
    name: Option<String>,
    mime: Option<String>,
    uri: Option<String>,
    data: Option<String>,
}

impl ContentPart {
    fn of_kind(kind: &'static str) -> Self {
        Self { kind, name: None, mime: None, uri: None, data: None }
    }

    fn media(kind: &'static str, mime: String, data: String) -> Self {
        Self { mime: Some(mime), data: Some(data), ..Self::of_kind(kind) }
    }

    /// What the output says of a resource, with which a model can ask for it.
    fn details(&self) -> String {
        if self.uri.is_none() {
            return String::new();
        }
        let members = [("name", &self.name), ("uri", &self.uri), ("type", &self.mime)];
        let said = members.into_iter().filter_map(|(label, value)| Some(format!("; {label}: {}", value.as_ref()?)));
        said.collect()
    }
}

/// The parts that are stored in the metadata.
#[derive(Default)]
struct StoredParts {
    stored: Vec<Value>,
    /// The index of each stored part by its data.
    index_by_data: HashMap<String, usize>,
    /// The total size of the stored data.
    bytes: usize,
}

pub(super) fn output(result: CallToolResult) -> Result<ToolOutput, ToolError> {
    if result.is_error == Some(true) {
        return Err(failure(result));
    }
    let (mut texts, mut parts) = (Vec::new(), StoredParts::default());
    for block in result.content {
        match split(block) {
            Ok(text) => texts.push(text),
            Err(part) => texts.push(parts.store(part)),
        }
    }
    let output = match result.structured_content {
        Some(mut structured) => {
            parts.extract_from(&mut structured, false);
            structured
        }
        None => Value::String(texts.join("\n")),
    };
    let metadata = (!parts.stored.is_empty()).then(|| json!({ "content": parts.stored }));
    Ok(ToolOutput { output, metadata, state_patch: None })
}

/// The error of a call that failed. An error has no metadata, so its message says all that is known.
fn failure(result: CallToolResult) -> ToolError {
    let said = |block| match split(block) {
        Ok(text) => text,
        Err(part) => format!("[{}{}]", part.kind, part.details()),
    };
    let text = result.content.into_iter().map(said).collect::<Vec<_>>().join("\n");
    let is_said = |structured: &Value| serde_json::from_str::<Value>(&text).is_ok_and(|said| said == *structured);
    let structured = result.structured_content.filter(|structured| !structured.is_null() && !is_said(structured));
    let message = with_data(text, structured.as_ref());
    let message = if message.is_empty() { "The tool failed with no error message.".to_owned() } else { message };
    ToolError::new(CallCode::Failed, message)
}

/// The message of an error, and the data that were sent with it.
pub(super) fn with_data(message: String, data: Option<&Value>) -> String {
    let Some(data) = data else { return message };
    let data = cut(data.to_string(), MAX_DATA_CHARS);
    if message.is_empty() { data } else { format!("{message}\n{data}") }
}

impl StoredParts {
    /// Stores a part. Returns the text that replaces it in the output.
    fn store(&mut self, part: ContentPart) -> String {
        let details = part.details();
        let ContentPart { kind, name, mime, uri, data } = part;
        let index = self.stored.len();
        if index == MAX_PARTS {
            return format!("[{kind}: left out, as it has more than {MAX_PARTS} parts{details}]");
        }
        let size = data.as_ref().map_or(0, String::len);
        let fits = self.bytes + size <= MAX_BINARY_BYTES;
        let mut stored = json!({ "type": kind });
        let members = [
            ("name", name.map(Value::from)),
            ("mimeType", mime.map(Value::from)),
            ("uri", uri.map(Value::from)),
            ("omittedBytes", (!fits).then(|| size.into())),
            ("data", data.as_deref().filter(|_| fits).map(Value::from)),
        ];
        for (name, value) in members {
            if let Some(value) = value {
                stored[name] = value;
            }
        }
        self.stored.push(stored);
        if let Some(data) = data.filter(|_| fits) {
            self.bytes += size;
            self.index_by_data.entry(data).or_insert(index);
        }
        reference(kind, index, &details)
    }

    /// Replaces images, audio and binary resources in the structured content, where servers often repeat them, by references
    /// to parts: their data is stored only once. An object with a `uri` and a `blob` may mean anything; it is a resource if
    /// it stands as one (`is_resource`), or if its data are those of a part. (The recursion is bounded, because the
    /// connection rejects values that are nested too deeply.)
    fn extract_from(&mut self, value: &mut Value, is_resource: bool) {
        match value {
            Value::Object(members) => {
                let (kind, has_resource) = match members.get("type").and_then(Value::as_str) {
                    Some("image") => (Some("image"), false),
                    Some("audio") => (Some("audio"), false),
                    Some("resource") => (None, true),
                    Some(_) | None => (None, false),
                };
                let text = |name: &str| members.get(name).and_then(Value::as_str).map(str::to_owned);
                let part = match (kind, text("data"), text("mimeType"), text("uri"), text("blob")) {
                    (Some(kind), Some(data), Some(mime), _, _) => Some(("data", ContentPart::media(kind, mime, data))),
                    (None, _, mime, Some(uri), Some(blob)) if is_resource || self.index_by_data.contains_key(&blob) => {
                        let (uri, data) = (Some(uri), Some(blob));
                        Some(("blob", ContentPart { uri, mime, data, ..ContentPart::of_kind("resource") }))
                    }
                    _ => None,
                };
                if let Some((member, part)) = part {
                    let known = part.data.as_ref().and_then(|data| self.index_by_data.get(data));
                    let said = match known {
                        Some(index) => reference(part.kind, *index, ""),
                        None => self.store(part),
                    };
                    members.insert(member.to_owned(), said.into());
                    return;
                }
                for (name, member) in members {
                    self.extract_from(member, has_resource && name == "resource");
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.extract_from(item, false)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

fn reference(kind: &str, index: usize, details: &str) -> String {
    format!("[{kind}: metadata.content.{index}{details}]")
}

fn split(block: ContentBlock) -> Result<String, ContentPart> {
    match block {
        ContentBlock::Text(text) => Ok(text.text),
        ContentBlock::Image(image) => Err(ContentPart::media("image", image.mime_type, image.data)),
        ContentBlock::Audio(audio) => Err(ContentPart::media("audio", audio.mime_type, audio.data)),
        ContentBlock::ResourceLink(link) => {
            let (name, uri) = (Some(link.name), Some(link.uri));
            Err(ContentPart { name, uri, mime: link.mime_type, ..ContentPart::of_kind("resource") })
        }
        ContentBlock::Resource(embedded) => match embedded.resource {
            ResourceContents::TextResourceContents { text, .. } => Ok(text),
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                let (uri, data) = (Some(uri), Some(blob));
                Err(ContentPart { uri, mime: mime_type, data, ..ContentPart::of_kind("resource") })
            }
            _ => Err(ContentPart::of_kind("resource")),
        },
        _ => Err(ContentPart::of_kind("content of an unknown kind")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_image_is_kept_once_and_very_many_are_left_out() {
        let image = |at: usize| json!({ "type": "image", "mimeType": "image/png", "data": at.to_string() });
        let images: Vec<Value> = (0..MAX_PARTS + 1).map(image).collect();
        let said = json!({ "content": images[..2], "structuredContent": { "all": images, "again": images[1] } });
        let ToolOutput { output, metadata, .. } = output(serde_json::from_value(said).unwrap()).unwrap();
        assert_eq!(output["all"][1]["data"], "[image: metadata.content.1]");
        assert_eq!(output["again"], output["all"][1]);
        assert_eq!(output["all"][MAX_PARTS]["data"], "[image: left out, as it has more than 1000 parts]");
        let kept = metadata.unwrap()["content"].as_array().unwrap().clone();
        assert_eq!((kept.len(), &kept[999]["data"]), (MAX_PARTS, &json!("999")));
    }

    #[test]
    fn a_binary_resource_in_the_structured_content_is_kept_once_and_referred_to() {
        let resource =
            json!({ "type": "resource", "resource": { "uri": "shop:///8", "mimeType": "a/b", "blob": "AA==" } });
        let other = json!({ "type": "resource", "resource": { "uri": "shop:///9", "blob": "BB==" } });
        let file = json!({ "uri": "git:///1", "blob": "8ab686ea" });
        let structured = json!({ "all": [resource, other], "bare": resource["resource"], "file": file });
        let said = json!({ "content": [resource], "structuredContent": structured });
        let ToolOutput { output, metadata, .. } = output(serde_json::from_value(said).unwrap()).unwrap();
        assert_eq!(output["all"][0]["resource"]["blob"], "[resource: metadata.content.0]");
        assert_eq!(output["all"][1]["resource"]["blob"], "[resource: metadata.content.1; uri: shop:///9]");
        assert_eq!(output["bare"]["blob"], "[resource: metadata.content.0]");
        assert_eq!(output["file"], file, "that is no resource");
        let kept = json!([
            { "type": "resource", "mimeType": "a/b", "uri": "shop:///8", "data": "AA==" },
            { "type": "resource", "uri": "shop:///9", "data": "BB==" },
        ]);
        assert_eq!(metadata.unwrap()["content"], kept);
    }

    #[test]
    fn the_message_of_an_error_says_all_that_the_server_said() {
        let message = |content: Value, structured: Value| {
            let said = json!({ "isError": true, "content": content, "structuredContent": structured });
            output(serde_json::from_value(said).unwrap()).unwrap_err().message
        };
        let why = json!({ "why": "no money" });
        let text = |text: &str| json!([{ "type": "text", "text": text }]);
        assert_eq!(message(json!([]), why.clone()), r#"{"why":"no money"}"#);
        assert_eq!(message(text("Not now."), why.clone()), "Not now.\n{\"why\":\"no money\"}");
        assert_eq!(message(text(r#"{ "why": "no money" }"#), why), r#"{ "why": "no money" }"#);
        let image = json!([{ "type": "image", "mimeType": "image/png", "data": "AA==" }]);
        assert_eq!(message(image, Value::Null), "[image]", "there is no metadata to refer to");
        assert_eq!(message(json!([]), Value::Null), "The tool failed with no error message.");
        assert_eq!(with_data("no".to_owned(), Some(&json!("x".repeat(3_000)))).chars().count(), 2_004);
    }

    #[test]
    fn the_output_says_how_a_resource_is_called_and_where_it_is() {
        let link = json!({ "type": "resource_link", "name": "Report", "uri": "shop:///7", "mimeType": "text/csv" });
        let bytes = json!({ "type": "resource", "resource": { "uri": "shop:///8", "blob": "AA==" } });
        let said = json!({ "content": [link, bytes] });
        let ToolOutput { output, metadata, .. } = output(serde_json::from_value(said).unwrap()).unwrap();
        let expected = "[resource: metadata.content.0; name: Report; uri: shop:///7; type: text/csv]\n\
                        [resource: metadata.content.1; uri: shop:///8]";
        assert_eq!(output, expected);
        let kept = json!({ "type": "resource", "name": "Report", "mimeType": "text/csv", "uri": "shop:///7" });
        assert_eq!(metadata.unwrap()["content"][0], kept);
    }

    #[test]
    fn of_data_that_does_not_fit_only_the_size_is_kept() {
        let image = |data: &str| json!({ "type": "image", "mimeType": "image/png", "data": data });
        let most = "x".repeat((256 << 10) - 1);
        let said = json!({ "content": [image(&most), image("ab"), image("c"), image("d")] });
        let ToolOutput { output, metadata, .. } = output(serde_json::from_value(said).unwrap()).unwrap();
        assert_eq!(output.as_str().unwrap().lines().nth(1), Some("[image: metadata.content.1]"));
        let left_out = |bytes: usize| json!({ "type": "image", "mimeType": "image/png", "omittedBytes": bytes });
        assert_eq!(metadata.unwrap()["content"], json!([image(&most), left_out(2), image("c"), left_out(1)]));
    }
}
