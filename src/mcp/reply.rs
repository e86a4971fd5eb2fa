//! What a call brought back, as a tool's output: structured content first, else the text; what is neither is referred to.

use std::collections::HashMap;

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::{Value, json};

use crate::domain::tool::ToolError;
use crate::tool::ToolOutput;

/// How much of the binary parts of one result is kept, in the base64 that they came in.
const BINARY_BYTES: usize = 256 << 10;

/// How many of them are referred to.
const MOST_PARTS: usize = 1_000;

/// An image, a sound, a resource: kept beside the output, which only says where.
struct Part {
    kind: &'static str,
    mime: Option<String>,
    uri: Option<String>,
    data: Option<String>,
}

/// What is kept beside the output.
#[derive(Default)]
struct Parts {
    stored: Vec<Value>,
    /// Where the bytes of each stand that are kept.
    known: HashMap<String, usize>,
    /// How many bytes those are.
    bytes: usize,
}

pub(super) fn output(result: CallToolResult) -> Result<ToolOutput, ToolError> {
    let (mut texts, mut parts) = (Vec::new(), Parts::default());
    for block in result.content {
        match split(block) {
            Ok(text) => texts.push(text),
            Err(part) => texts.push(parts.keep(part)),
        }
    }
    let text = texts.join("\n");
    if result.is_error == Some(true) {
        let message = if text.is_empty() { "The tool failed with no error message.".to_owned() } else { text };
        return Err(ToolError::new("failed", message));
    }
    let output = match result.structured_content {
        Some(mut structured) => {
            parts.take_out_of(&mut structured);
            structured
        }
        None => Value::String(text),
    };
    let metadata = (!parts.stored.is_empty()).then(|| json!({ "content": parts.stored }));
    Ok(ToolOutput { output, metadata, state_patch: None })
}

impl Parts {
    /// Keeps a part; what stands in its place.
    fn keep(&mut self, part: Part) -> String {
        let Part { kind, mime, uri, data } = part;
        let index = self.stored.len();
        if index == MOST_PARTS {
            return format!("[{kind}: left out, as it has more than {MOST_PARTS} parts]");
        }
        let size = data.as_ref().map_or(0, String::len);
        let fits = self.bytes + size <= BINARY_BYTES;
        let mut stored = json!({ "type": kind });
        let members = [
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
            self.known.entry(data).or_insert(index);
        }
        place(kind, index)
    }

    /// Servers repeat images and sounds in the structured content, as blocks: the bytes are kept once, outside the output.
    /// (The depth is bounded: what nests deeper is not taken from the connection.)
    fn take_out_of(&mut self, value: &mut Value) {
        match value {
            Value::Object(members) => {
                let kind = match members.get("type").and_then(Value::as_str) {
                    Some("image") => Some("image"),
                    Some("audio") => Some("audio"),
                    Some(_) | None => None,
                };
                let text = |name: &str| members.get(name).and_then(Value::as_str).map(str::to_owned);
                if let (Some(kind), Some(data), Some(mime)) = (kind, text("data"), text("mimeType")) {
                    let said = match self.known.get(&data) {
                        Some(index) => place(kind, *index),
                        None => self.keep(Part { kind, mime: Some(mime), uri: None, data: Some(data) }),
                    };
                    members.insert("data".to_owned(), said.into());
                    return;
                }
                members.values_mut().for_each(|member| self.take_out_of(member));
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.take_out_of(item)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

fn place(kind: &str, index: usize) -> String {
    format!("[{kind}: metadata.content.{index}]")
}

fn split(block: ContentBlock) -> Result<String, Part> {
    match block {
        ContentBlock::Text(text) => Ok(text.text),
        ContentBlock::Image(image) => {
            Err(Part { kind: "image", mime: Some(image.mime_type), uri: None, data: Some(image.data) })
        }
        ContentBlock::Audio(audio) => {
            Err(Part { kind: "audio", mime: Some(audio.mime_type), uri: None, data: Some(audio.data) })
        }
        ContentBlock::ResourceLink(link) => {
            Err(Part { kind: "resource", mime: link.mime_type, uri: Some(link.uri), data: None })
        }
        ContentBlock::Resource(embedded) => match embedded.resource {
            ResourceContents::TextResourceContents { text, .. } => Ok(text),
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                Err(Part { kind: "resource", mime: mime_type, uri: Some(uri), data: Some(blob) })
            }
            _ => Err(Part { kind: "resource", mime: None, uri: None, data: None }),
        },
        _ => Err(Part { kind: "content of an unknown kind", mime: None, uri: None, data: None }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_image_is_kept_once_and_very_many_are_left_out() {
        let image = |at: usize| json!({ "type": "image", "mimeType": "image/png", "data": at.to_string() });
        let images: Vec<Value> = (0..MOST_PARTS + 1).map(image).collect();
        let said = json!({ "content": images[..2], "structuredContent": { "all": images, "again": images[1] } });
        let ToolOutput { output, metadata, .. } = output(serde_json::from_value(said).unwrap()).unwrap();
        assert_eq!(output["all"][1]["data"], "[image: metadata.content.1]");
        assert_eq!(output["again"], output["all"][1]);
        assert_eq!(output["all"][MOST_PARTS]["data"], "[image: left out, as it has more than 1000 parts]");
        let kept = metadata.unwrap()["content"].as_array().unwrap().clone();
        assert_eq!((kept.len(), &kept[999]["data"]), (MOST_PARTS, &json!("999")));
    }
}
