//! JSON that is specific to 1.0.

use serde_json::Value;

use super::super::types::{Authentication, Configuration, Content, Part, PushConfig, Role, TaskState};
use super::json::{Doc, Object, Read, base64, bytes, count, refuse, text};

pub(super) fn state(state: TaskState) -> &'static str {
    match state {
        TaskState::Unspecified => "TASK_STATE_UNSPECIFIED",
        TaskState::Submitted => "TASK_STATE_SUBMITTED",
        TaskState::Working => "TASK_STATE_WORKING",
        TaskState::InputRequired => "TASK_STATE_INPUT_REQUIRED",
        TaskState::AuthRequired => "TASK_STATE_AUTH_REQUIRED",
        TaskState::Completed => "TASK_STATE_COMPLETED",
        TaskState::Failed => "TASK_STATE_FAILED",
        TaskState::Canceled => "TASK_STATE_CANCELED",
        TaskState::Rejected => "TASK_STATE_REJECTED",
    }
}

pub(super) fn role(role: Role) -> &'static str {
    match role {
        Role::User => "ROLE_USER",
        Role::Agent => "ROLE_AGENT",
    }
}

pub(super) fn part(part: &Part) -> Value {
    let (name, content) = match &part.content {
        Content::Text(text) => ("text", text.as_str().into()),
        Content::Raw(raw) => ("raw", base64(raw).into()),
        Content::Url(url) => ("url", url.as_str().into()),
        Content::Data(data) => ("data", data.clone()),
    };
    Doc::new()
        .put(name, content)
        .maybe("filename", part.filename.as_deref())
        .maybe("mediaType", part.media_type.as_deref())
        .map("metadata", &part.metadata)
        .done()
}

pub(super) fn read_part(value: &Value) -> Read<Part> {
    let it = Object::of(value)?;
    // `data` may be `null`; then the other members are absent.
    let data = it.has("data").then(|| Content::Data(value["data"].clone()));
    let contents = [
        it.maybe("text", text)?.map(Content::Text),
        it.maybe("raw", bytes)?.map(Content::Raw),
        it.maybe("url", text)?.map(Content::Url),
        data,
    ];
    let mut contents = contents.into_iter().flatten();
    let (Some(content), None) = (contents.next(), contents.next()) else {
        return refuse("must hold exactly one of `text`, `raw`, `url` and `data`");
    };
    Ok(Part {
        content,
        filename: it.word("filename")?,
        media_type: it.word("mediaType")?,
        metadata: it.map("metadata")?,
    })
}

/// The only member of a `StreamResponse` or `SendMessageResponse`.
pub(super) fn event(value: &Value) -> Read<(&'static str, &Value)> {
    let it = Object::of(value)?;
    let known = ["task", "message", "statusUpdate", "artifactUpdate"];
    match known.into_iter().find_map(|name| Some((name, it.get(name)?))) {
        Some(found) => Ok(found),
        None => refuse("holds neither a task nor a message nor an update"),
    }
}

pub(super) fn configuration(configuration: &Configuration) -> Value {
    Doc::new()
        .texts("acceptedOutputModes", &configuration.accepted_output_modes)
        .maybe("taskPushNotificationConfig", configuration.push.as_ref().map(push))
        .maybe("historyLength", configuration.history_length)
        .flag("returnImmediately", configuration.return_immediately)
        .done()
}

pub(super) fn read_configuration(value: &Value) -> Read<Configuration> {
    let it = Object::of(value)?;
    Ok(Configuration {
        accepted_output_modes: it.texts("acceptedOutputModes")?,
        push: it.maybe("taskPushNotificationConfig", read_push)?,
        history_length: it.maybe("historyLength", count)?,
        return_immediately: it.flag("returnImmediately")?,
    })
}

pub(super) fn push(config: &PushConfig) -> Value {
    let authentication = config
        .authentication
        .as_ref()
        .map(|it| Doc::new().put("scheme", it.scheme.as_str()).maybe("credentials", it.credentials.as_deref()).done());
    Doc::new()
        .maybe("tenant", config.tenant.as_deref())
        .maybe("id", config.id.as_deref())
        .maybe("taskId", config.task_id.as_deref())
        .put("url", config.url.as_str())
        .maybe("token", config.token.as_deref())
        .maybe("authentication", authentication)
        .done()
}

pub(super) fn read_push(value: &Value) -> Read<PushConfig> {
    let it = Object::of(value)?;
    Ok(PushConfig {
        tenant: it.word("tenant")?,
        id: it.word("id")?,
        task_id: it.word("taskId")?,
        url: it.name("url")?,
        token: it.word("token")?,
        authentication: it.maybe("authentication", |value| {
            let it = Object::of(value)?;
            Ok(Authentication { scheme: it.name("scheme")?, credentials: it.word("credentials")? })
        })?,
    })
}
