//! JSON that is specific to 0.3 over HTTP+JSON: the JSON of its protobuf messages.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::super::types::{Configuration, Content, Message, Metadata, Part, PushConfig, TaskState};
use super::json::{Doc, Object, Read, base64, bytes, count, list, refuse, text};
use super::{v1, v03};

pub(super) fn state(state: TaskState) -> &'static str {
    match state {
        TaskState::Canceled => "TASK_STATE_CANCELLED",
        TaskState::Unspecified
        | TaskState::Submitted
        | TaskState::Working
        | TaskState::InputRequired
        | TaskState::AuthRequired
        | TaskState::Completed
        | TaskState::Failed
        | TaskState::Rejected => v1::state(state),
    }
}

/// Moved into the metadata, because readers of 0.3 reject unknown members.
const REFERRED: &str = "referenceTaskIds";

pub(super) fn with_metadata(message: &Message) -> Cow<'_, Message> {
    if message.reference_task_ids.is_empty() {
        return Cow::Borrowed(message);
    }
    let mut message = message.clone();
    let referred = std::mem::take(&mut message.reference_task_ids);
    message.metadata.insert(REFERRED.to_owned(), referred.into());
    Cow::Owned(message)
}

/// The inverse of [`with_metadata`].
pub(super) fn without_metadata(mut message: Message) -> Message {
    if let Some(referred) = message.metadata.get(REFERRED).and_then(|referred| list(referred, text).ok()) {
        message.metadata.shift_remove(REFERRED);
        message.reference_task_ids = referred;
    }
    message
}

pub(super) fn part(part: &Part) -> Value {
    let (name, content, metadata) = match &part.content {
        Content::Text(text) => ("text", text.as_str().into(), v03::with_metadata(part)),
        Content::Data(data) => {
            let (data, metadata) = v03::wrapped(data, v03::with_metadata(part));
            ("data", json!({ "data": data }), metadata)
        }
        // The member has the type bytes and contains the base64 text of JSON-RPC; protobuf's JSON encodes bytes as
        // base64 again.
        Content::Raw(raw) => {
            ("file", file(part, "fileWithBytes", &base64(base64(raw).as_bytes())), part.metadata.clone())
        }
        Content::Url(url) => ("file", file(part, "fileWithUri", url), part.metadata.clone()),
    };
    Doc::new().put(name, content).map("metadata", &metadata).done()
}

fn file(part: &Part, place: &str, content: &str) -> Value {
    Doc::new()
        .put(place, content)
        .maybe("mimeType", part.media_type.as_deref())
        .maybe("name", part.filename.as_deref())
        .done()
}

pub(super) fn read_part(value: &Value) -> Read<Part> {
    v03::read_part_with(value, read_file, |data| Ok(Object::of(data)?.get("data").cloned().unwrap_or_default()))
}

fn read_file(value: &Value) -> Read<Part> {
    let it = Object::of(value)?;
    let content = match (it.maybe("fileWithBytes", read_bytes)?, it.maybe("fileWithUri", text)?) {
        (Some(content), None) => content,
        (None, Some(uri)) => Content::Url(uri),
        (Some(_), Some(_)) | (None, None) => return refuse("must hold either `fileWithBytes` or `fileWithUri`"),
    };
    Ok(Part { content, filename: it.word("name")?, media_type: it.word("mimeType")?, metadata: Metadata::new() })
}

/// Encoded twice, or once by senders that use the bytes directly.
fn read_bytes(value: &Value) -> Read<Content> {
    let once = bytes(value)?;
    let twice = std::str::from_utf8(&once).ok().and_then(|text| bytes(&text.into()).ok());
    Ok(Content::Raw(twice.unwrap_or(once)))
}

pub(super) fn configuration(configuration: &Configuration) -> Value {
    Doc::new()
        .texts("acceptedOutputModes", &configuration.accepted_output_modes)
        .maybe("pushNotification", configuration.push.as_ref().map(v03::bare_push))
        .maybe("historyLength", configuration.history_length)
        .put("blocking", !configuration.return_immediately)
        .done()
}

/// Absent members are 0 or false, so the call does not wait.
pub(super) fn read_configuration(value: &Value) -> Read<Configuration> {
    let it = Object::of(value)?;
    Ok(Configuration {
        accepted_output_modes: it.texts("acceptedOutputModes")?,
        push: it.maybe("pushNotification", v03::read_bare_push)?,
        history_length: it.maybe("historyLength", count)?,
        return_immediately: !it.flag("blocking")?,
    })
}

pub(super) fn push(config: &PushConfig) -> Value {
    let (task, id) = (config.task_id.as_deref().unwrap_or_default(), config.id.as_deref().unwrap_or_default());
    Doc::new()
        .put("name", format!("tasks/{task}/pushNotificationConfigs/{id}"))
        .put("pushNotificationConfig", v03::bare_push(config))
        .done()
}

/// Either the form of responses, or, to create one, in `config` beside its future id.
pub(super) fn read_push(value: &Value) -> Read<PushConfig> {
    let it = Object::of(value)?;
    let read = |value: &Value| {
        let it = Object::of(value)?;
        let config = it.need("pushNotificationConfig", v03::read_bare_push)?;
        Ok((it.text("name")?, config))
    };
    let (name, config) = it.maybe("config", read)?.map_or_else(|| read(value), Ok)?;
    let named = name.strip_prefix("tasks/").and_then(|name| name.split_once("/pushNotificationConfigs/"));
    let named = named.map(|(task, _)| task.to_owned()).filter(|task| !task.is_empty());
    Ok(PushConfig { task_id: it.word("taskId")?.or(named), id: config.id.or(it.word("configId")?), ..config })
}
