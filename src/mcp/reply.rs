//! What a call brought back, as a tool's output: structured content first, else the text; what is neither is referred to.

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::{Value, json};

use crate::domain::tool::ToolError;
use crate::tool::ToolOutput;

/// How much of the binary parts of one result is kept, in the base64 that they came in.
const BINARY_BYTES: usize = 256 << 10;

/// An image, a sound, a resource: kept beside the output, which only says where.
struct Part {
    kind: &'static str,
    mime: Option<String>,
    uri: Option<String>,
    data: Option<String>,
}

pub(super) fn output(result: CallToolResult) -> Result<ToolOutput, ToolError> {
    let (mut texts, mut parts, mut kept) = (Vec::new(), Vec::new(), 0);
    for block in result.content {
        match split(block) {
            Ok(text) => texts.push(text),
            Err(part) => {
                texts.push(keep(part, &mut parts, &mut kept));
            }
        }
    }
    let text = texts.join("\n");
    if result.is_error == Some(true) {
        let message = if text.is_empty() { "The tool failed without a word.".to_owned() } else { text };
        return Err(ToolError { code: "failed".to_owned(), message, pointer: None, retry_after_ms: None });
    }
    let output = match result.structured_content {
        Some(mut structured) => {
            replace_binary(&mut structured, &mut parts, &mut kept);
            structured
        }
        None => Value::String(text),
    };
    let metadata = (!parts.is_empty()).then(|| json!({ "content": parts }));
    Ok(ToolOutput { output, metadata, state_patch: None })
}

/// Keeps a part; what stands in its place.
fn keep(part: Part, parts: &mut Vec<Value>, kept: &mut usize) -> String {
    let place = place(part.kind, parts.len());
    parts.push(part.stored(kept));
    place
}

fn place(kind: &str, index: usize) -> String {
    format!("[{kind}: metadata.content.{index}]")
}

/// Servers repeat images and sounds in the structured content, as blocks: the bytes are kept once, outside the output.
/// (The depth is bounded: what nests deeper is not taken from the connection.)
fn replace_binary(value: &mut Value, parts: &mut Vec<Value>, kept: &mut usize) {
    match value {
        Value::Object(members) => {
            let kind = match members.get("type").and_then(Value::as_str) {
                Some("image") => Some("image"),
                Some("audio") => Some("audio"),
                Some(_) | None => None,
            };
            let text = |name: &str| members.get(name).and_then(Value::as_str).map(str::to_owned);
            if let (Some(kind), Some(data), Some(mime)) = (kind, text("data"), text("mimeType")) {
                let known = parts.iter().position(|part| part.get("data").and_then(Value::as_str) == Some(&data));
                let said = match known {
                    Some(index) => place(kind, index),
                    None => keep(Part { kind, mime: Some(mime), uri: None, data: Some(data) }, parts, kept),
                };
                members.insert("data".to_owned(), said.into());
                return;
            }
            members.values_mut().for_each(|member| replace_binary(member, parts, kept));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| replace_binary(item, parts, kept)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
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

impl Part {
    fn stored(self, kept: &mut usize) -> Value {
        let size = self.data.as_ref().map_or(0, String::len);
        let fits = *kept + size <= BINARY_BYTES;
        if fits {
            *kept += size;
        }
        let mut stored = json!({ "type": self.kind });
        let members = [
            ("mimeType", self.mime.map(Value::from)),
            ("uri", self.uri.map(Value::from)),
            ("omittedBytes", (!fits).then(|| size.into())),
            ("data", self.data.filter(|_| fits).map(Value::from)),
        ];
        for (name, value) in members {
            if let Some(value) = value {
                stored[name] = value;
            }
        }
        stored
    }
}
