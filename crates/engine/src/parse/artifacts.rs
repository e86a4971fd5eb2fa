//! The artifacts that an answer delivers besides its text: `uiMetadata.artifacts`, validated and bounded.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::field::{self, Object};

const MAX_ARTIFACTS: usize = 16;
const MAX_CONTENT_BYTES: usize = 1024 * 1024;
const MAX_NAME_CHARS: usize = 200;
const MAX_URL_BYTES: usize = 2_048;

/// The artifacts that can be delivered, each `{name?, mediaType?, filename?}` with one of `text`, `raw` (base64), `url`
/// and `data`; and a sentence for each artifact that cannot.
pub(super) fn artifacts(value: &Value) -> (Vec<Value>, Vec<Value>) {
    let given = match value {
        Value::Array(values) => values.as_slice(),
        single => std::slice::from_ref(single),
    };
    let (mut delivered, mut notes) = (Vec::new(), Vec::new());
    for (at, value) in given.iter().enumerate() {
        let read = if delivered.len() < MAX_ARTIFACTS { artifact(value) } else { Err("one too many") };
        match read {
            Ok(artifact) => delivered.push(Value::Object(artifact)),
            Err(why) => notes.push(format!("Artifact {} is left out: {why}.", at + 1).into()),
        }
        if notes.len() == MAX_ARTIFACTS {
            break;
        }
    }
    (delivered, notes)
}

fn artifact(value: &Value) -> Result<Object, &'static str> {
    let given = value.as_object().ok_or("it is no object")?;
    let mut contents = ["text", "raw", "url", "data"].into_iter().filter(|name| given.contains_key(*name));
    let (Some(kind), None) = (contents.next(), contents.next()) else {
        return Err("it has not exactly one of text, raw, url and data");
    };
    let content = &given[kind];
    check_content(kind, content)?;
    let mut artifact = Map::from_iter([(kind.to_owned(), content.clone())]);
    for name in ["name", "filename"] {
        let Some(word) = field::text(given, &[name]) else { continue };
        if word.chars().count() > MAX_NAME_CHARS || word.contains(char::is_control) {
            return Err("its name is too long or no name");
        }
        artifact.insert(name.to_owned(), word.into());
    }
    if let Some(media) = field::text(given, &["mediaType", "media_type", "mimeType"]) {
        if !is_media_type(&media) {
            return Err("its mediaType is none");
        }
        artifact.insert("mediaType".to_owned(), media.into());
    }
    Ok(artifact)
}

fn check_content(kind: &str, content: &Value) -> Result<(), &'static str> {
    let fits = |size: usize, most: usize| if size <= most { Ok(()) } else { Err("it is too large") };
    if kind == "data" {
        return fits(content.to_string().len(), MAX_CONTENT_BYTES);
    }
    let text = content.as_str().ok_or("its content is no text")?;
    match kind {
        "url" if !text.starts_with("https://") && !text.starts_with("http://") => Err("its url is no web address"),
        "url" => fits(text.len(), MAX_URL_BYTES),
        "raw" if STANDARD.decode(text).is_err() => Err("raw is not base64"),
        _ => fits(text.len(), MAX_CONTENT_BYTES),
    }
}

fn is_media_type(media: &str) -> bool {
    let is_token = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&byte))
    };
    let essence = media.split(';').next().unwrap_or_default().trim();
    media.len() <= MAX_NAME_CHARS
        && media.bytes().all(|byte| (b' '..=b'~').contains(&byte))
        && essence.split_once('/').is_some_and(|(kind, sub)| is_token(kind) && is_token(sub))
}
