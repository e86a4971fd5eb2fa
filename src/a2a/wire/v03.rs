//! JSON that is specific to 0.3.

use serde_json::{Value, json};

use super::super::types::{Authentication, Configuration, Content, Metadata, Part, PushConfig, Role, TaskState};
use super::json::{Doc, Object, Read, base64, bytes, count, flag, refuse, text};

/// In a part's metadata, marks data that is no object: it is in `value`, because 0.3 accepts only objects.
const IS_WRAPPED: &str = "data_part_compat";

pub(super) fn state(state: TaskState) -> &'static str {
    match state {
        TaskState::Unspecified => "unknown",
        TaskState::Submitted => "submitted",
        TaskState::Working => "working",
        TaskState::InputRequired => "input-required",
        TaskState::AuthRequired => "auth-required",
        TaskState::Completed => "completed",
        TaskState::Failed => "failed",
        TaskState::Canceled => "canceled",
        TaskState::Rejected => "rejected",
    }
}

pub(super) fn role(role: Role) -> &'static str {
    match role {
        Role::User => "user",
        Role::Agent => "agent",
    }
}

pub(super) fn kind(value: &Value) -> Read<&str> {
    Object::of(value)?.need("kind", |kind| kind.as_str().map_or_else(|| refuse("is no text"), Ok))
}

pub(super) fn part(part: &Part) -> Value {
    let (kind, content, metadata) = match &part.content {
        Content::Text(text) => ("text", text.as_str().into(), with_metadata(part)),
        Content::Data(data) => {
            let (data, metadata) = wrapped(data, with_metadata(part));
            ("data", data, metadata)
        }
        Content::Raw(raw) => ("file", file(part, "bytes", &base64(raw)), part.metadata.clone()),
        Content::Url(url) => ("file", file(part, "uri", url), part.metadata.clone()),
    };
    Doc::new().put("kind", kind).put(kind, content).map("metadata", &metadata).done()
}

/// A part's metadata, with the values that 0.3 has no member for.
pub(super) fn with_metadata(part: &Part) -> Metadata {
    let mut metadata = part.metadata.clone();
    for (name, text) in [("filename", &part.filename), ("mediaType", &part.media_type)] {
        metadata.extend(text.as_ref().map(|text| (name.to_owned(), text.as_str().into())));
    }
    metadata
}

/// Wraps data that is no object.
pub(super) fn wrapped(data: &Value, mut metadata: Metadata) -> (Value, Metadata) {
    if data.is_object() {
        return (data.clone(), metadata);
    }
    metadata.insert(IS_WRAPPED.to_owned(), true.into());
    (json!({ "value": data }), metadata)
}

pub(super) fn file(part: &Part, place: &str, content: &str) -> Value {
    Doc::new()
        .put(place, content)
        .maybe("name", part.filename.as_deref())
        .maybe("mimeType", part.media_type.as_deref())
        .done()
}

pub(super) fn read_part(value: &Value) -> Read<Part> {
    read_part_with(value, read_file, |data| Ok(data.clone()))
}

/// Reads a part; file and data are read by these functions.
pub(super) fn read_part_with(
    value: &Value,
    file: impl FnOnce(&Value) -> Read<Part>,
    data: impl FnOnce(&Value) -> Read<Value>,
) -> Read<Part> {
    let it = Object::of(value)?;
    let mut metadata = it.map("metadata")?;
    if it.has("file") {
        let mut part = it.need("file", file)?;
        part.metadata = metadata;
        return Ok(part);
    }
    let content = if it.has("data") {
        let wrapped = metadata.shift_remove(IS_WRAPPED).is_some_and(|it| it == true);
        let data = it.need("data", |value| match data(value)? {
            data @ Value::Object(_) => Ok(data),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                refuse("is no object")
            }
        })?;
        Content::Data(if wrapped { data["value"].clone() } else { data })
    } else if it.has("text") {
        Content::Text(it.need("text", text)?)
    } else {
        return refuse("must hold one of `text`, `file` and `data`");
    };
    let mut with_metadata = |name: &str| match metadata.get(name) {
        Some(Value::String(_)) => metadata.shift_remove(name).and_then(|it| it.as_str().map(str::to_owned)),
        Some(_) | None => None,
    };
    Ok(Part { content, filename: with_metadata("filename"), media_type: with_metadata("mediaType"), metadata })
}

fn read_file(value: &Value) -> Read<Part> {
    let it = Object::of(value)?;
    let content = match (it.maybe("bytes", bytes)?, it.maybe("uri", text)?) {
        (Some(raw), None) => Content::Raw(raw),
        (None, Some(uri)) => Content::Url(uri),
        (Some(_), Some(_)) | (None, None) => return refuse("must hold either `bytes` or `uri`"),
    };
    Ok(Part { content, filename: it.word("name")?, media_type: it.word("mimeType")?, metadata: Metadata::new() })
}

/// Versions before 0.3 require the list, and agents of their time (`fasta2a` before 1.0) refuse a message without it.
pub(super) fn configuration(configuration: &Configuration) -> Value {
    Doc::new()
        .put("acceptedOutputModes", configuration.accepted_output_modes.clone())
        .put("blocking", !configuration.return_immediately)
        .maybe("historyLength", configuration.history_length)
        .maybe("pushNotificationConfig", configuration.push.as_ref().map(bare_push))
        .done()
}

pub(super) fn read_configuration(value: &Value) -> Read<Configuration> {
    let it = Object::of(value)?;
    Ok(Configuration {
        accepted_output_modes: it.texts("acceptedOutputModes")?,
        push: it.maybe("pushNotificationConfig", read_bare_push)?,
        history_length: it.maybe("historyLength", count)?,
        return_immediately: it.maybe("blocking", flag)? == Some(false),
    })
}

pub(super) fn bare_push(config: &PushConfig) -> Value {
    let authentication = config.authentication.as_ref().map(|it| {
        Doc::new().put("schemes", vec![it.scheme.as_str()]).maybe("credentials", it.credentials.as_deref()).done()
    });
    Doc::new()
        .maybe("id", config.id.as_deref())
        .put("url", config.url.as_str())
        .maybe("token", config.token.as_deref())
        .maybe("authentication", authentication)
        .done()
}

pub(super) fn read_bare_push(value: &Value) -> Read<PushConfig> {
    let it = Object::of(value)?;
    let authentication = it.maybe("authentication", |value| {
        let it = Object::of(value)?;
        let Some(scheme) = it.texts("schemes")?.into_iter().next() else {
            return Ok(None);
        };
        Ok(Some(Authentication { scheme, credentials: it.word("credentials")? }))
    })?;
    Ok(PushConfig {
        tenant: None,
        id: it.word("id")?,
        task_id: None,
        url: it.name("url")?,
        token: it.word("token")?,
        authentication: authentication.flatten(),
    })
}

pub(super) fn push(config: &PushConfig) -> Value {
    Doc::new().maybe("taskId", config.task_id.as_deref()).put("pushNotificationConfig", bare_push(config)).done()
}

pub(super) fn read_push(value: &Value) -> Read<PushConfig> {
    let it = Object::of(value)?;
    let config = it.need("pushNotificationConfig", read_bare_push)?;
    Ok(PushConfig { task_id: it.word("taskId")?, ..config })
}
