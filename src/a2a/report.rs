//! Converts another agent's task for the engine: its state, its question, its result.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::types::{Artifact, Content, Message, Part, Role, Task, TaskState, TaskStatus};
use crate::domain::Millis;
use crate::domain::forecast::PlanForecast;
use crate::domain::hitl::{FeedbackSchema, InputType};
use crate::domain::task::{PeerReport, PeerState, RemoteQuestion, RemoteSubject};
use crate::tool::answer;

/// How much of an agent's own text is stored beside the result.
const MAX_CHARS: usize = 4_000;
/// A question with a longer id counts as one without; a longer name of a tool or a longer digest as none.
const MAX_ID_BYTES: usize = 200;

fn state(state: TaskState) -> PeerState {
    match state {
        TaskState::Unspecified | TaskState::Submitted | TaskState::Working => PeerState::Working,
        TaskState::InputRequired => PeerState::InputRequired,
        TaskState::AuthRequired => PeerState::AuthRequired,
        TaskState::Completed => PeerState::Completed,
        TaskState::Failed => PeerState::Failed,
        TaskState::Canceled => PeerState::Canceled,
        TaskState::Rejected => PeerState::Rejected,
    }
}

/// A task's state, and what it asks if it waits for an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    pub state: PeerState,
    asks: Option<(Option<String>, Option<RemoteQuestion>)>,
}

impl Progress {
    /// `message` and `question` count only if the task waits for an answer.
    pub fn new(state: PeerState, message: Option<String>, question: Option<RemoteQuestion>) -> Self {
        let asks = match state {
            PeerState::InputRequired | PeerState::AuthRequired => Some((message, question)),
            PeerState::Working
            | PeerState::Completed
            | PeerState::Failed
            | PeerState::Rejected
            | PeerState::Canceled => None,
        };
        Self { state, asks }
    }

    pub fn of_report(report: &PeerReport) -> Self {
        Self::new(report.state, report.message.clone(), report.question.clone())
    }

    pub fn of_status(status: &TaskStatus) -> Self {
        let said = status.message.as_ref();
        Self::new(state(status.state), said.and_then(asked_text), said.and_then(question))
    }
}

/// `bytes` limits the artifacts that are stored, and what a question is about.
pub fn of_task(task: &Task, bytes: usize, patience_ms: Option<Millis>) -> PeerReport {
    let said = task.status.message.as_ref();
    let state = state(task.status.state);
    let is_waiting = matches!(state, PeerState::InputRequired | PeerState::AuthRequired);
    let report = PeerReport {
        state,
        remote_task_id: Some(task.id.clone()),
        remote_context_id: Some(task.context_id.clone()).filter(|id| !id.is_empty()),
        message: said.and_then(if is_waiting { asked_text } else { message }),
        form: said.and_then(form),
        question: said.and_then(question),
        subject: said.and_then(|said| subject(said, bytes)),
        output: Value::Null,
        patience_ms,
    };
    match state {
        PeerState::Completed => {
            let answer = if has_output(task) { said.cloned() } else { answer_in_history(task) };
            with_output(report, output(&task.artifacts, answer.as_ref()), bytes)
        }
        PeerState::Working
        | PeerState::InputRequired
        | PeerState::AuthRequired
        | PeerState::Failed
        | PeerState::Rejected
        | PeerState::Canceled => report,
    }
}

/// Whether it has ended with a result that only its history can have, and came without that.
pub fn is_answer_elsewhere(task: &Task) -> bool {
    state(task.status.state) == PeerState::Completed && !has_output(task) && task.history.is_empty()
}

/// Whether a result is where the protocol wants it: in artifacts, or in the message of the status.
fn has_output(task: &Task) -> bool {
    let said = task.status.message.as_ref();
    !task.artifacts.is_empty() || said.is_some_and(|said| !said.parts.is_empty())
}

/// What the agent said after our last message, as one message. Some agents say their answer while they work, and then end
/// the task without another word.
fn answer_in_history(task: &Task) -> Option<Message> {
    let said = task.history.iter().rev().take_while(|message| message.role == Role::Agent).cloned();
    said.reduce(|later, mut earlier| {
        earlier.parts.extend(later.parts);
        earlier
    })
}

/// An agent that answers immediately returns a message instead of a task.
pub fn of_message(message: &Message, bytes: usize, patience_ms: Option<Millis>) -> PeerReport {
    let report = PeerReport {
        state: PeerState::Completed,
        remote_task_id: message.task_id.clone(),
        remote_context_id: message.context_id.clone(),
        message: None,
        form: None,
        question: None,
        subject: None,
        output: Value::Null,
        patience_ms,
    };
    with_output(report, output(&[], Some(message)), bytes)
}

fn with_output(report: PeerReport, output: Value, bytes: usize) -> PeerReport {
    let size = output.to_string().len();
    if size <= bytes {
        return PeerReport { output, ..report };
    }
    let message = Some(format!("The agent's result has {size} bytes; at most {bytes} are kept."));
    PeerReport { state: PeerState::Failed, message, ..report }
}

/// `{text?, artifacts?: [{artifactId?, name?, description?, parts}], message?}`: `text` joins the texts of all
/// artifacts.
fn output(artifacts: &[Artifact], said: Option<&Message>) -> Value {
    let mut output = json!({});
    let whole = |artifact: &Artifact| Artifact { parts: merged(&artifact.parts), ..artifact.clone() };
    let artifacts: Vec<Artifact> = artifacts.iter().map(whole).collect();
    let texts: Vec<&str> = artifacts.iter().flat_map(|artifact| &artifact.parts).filter_map(text).collect();
    if !texts.is_empty() {
        output["text"] = texts.join("\n\n").into();
    }
    if !artifacts.is_empty() {
        output["artifacts"] = artifacts.iter().map(artifact).collect();
    }
    if let Some(said) = said.filter(|said| !said.parts.is_empty()) {
        output["message"] = said.parts.iter().map(part).collect();
        if texts.is_empty() {
            output["text"] = texts_of(said).into();
        }
    }
    output
}

/// The parts, with neighbouring texts as one: agents that stream a text store each piece as a part of its own.
fn merged(parts: &[Part]) -> Vec<Part> {
    let mut merged: Vec<Part> = Vec::new();
    for part in parts {
        if let Some(last) = merged.last_mut()
            && let (Content::Text(text), Content::Text(more)) = (&mut last.content, &part.content)
            && (&last.filename, &last.media_type, &last.metadata) == (&part.filename, &part.media_type, &part.metadata)
        {
            text.push_str(more);
        } else {
            merged.push(part.clone());
        }
    }
    merged
}

fn artifact(artifact: &Artifact) -> Value {
    let mut value = json!({ "parts": artifact.parts.iter().map(part).collect::<Value>() });
    let id = Some(&artifact.artifact_id).filter(|id| !id.is_empty());
    let texts = [("artifactId", id), ("name", artifact.name.as_ref()), ("description", artifact.description.as_ref())];
    for (key, text) in texts {
        if let Some(text) = text {
            value[key] = text.as_str().into();
        }
    }
    value
}

fn part(part: &Part) -> Value {
    let mut value = match &part.content {
        Content::Text(text) => json!({ "text": text }),
        Content::Raw(raw) => json!({ "raw": BASE64_STANDARD.encode(raw) }),
        Content::Url(url) => json!({ "url": url }),
        Content::Data(data) => json!({ "data": data }),
    };
    for (key, text) in [("filename", &part.filename), ("mediaType", &part.media_type)] {
        if let Some(text) = text {
            value[key] = text.as_str().into();
        }
    }
    value
}

fn text(part: &Part) -> Option<&str> {
    match &part.content {
        Content::Text(text) => Some(text),
        Content::Raw(_) | Content::Url(_) | Content::Data(_) => None,
    }
}

fn message(said: &Message) -> Option<String> {
    Some(words(said)).filter(|words| !words.is_empty())
}

/// What a message says: its texts, or its data if it has no text.
fn words(message: &Message) -> String {
    let texts = texts_of(message);
    if !texts.trim().is_empty() {
        return texts;
    }
    let data = message.parts.iter().filter_map(|part| match &part.content {
        Content::Data(data) => Some(data.to_string()),
        Content::Text(_) | Content::Raw(_) | Content::Url(_) => None,
    });
    data.collect::<Vec<_>>().join("\n").chars().take(MAX_CHARS).collect()
}

/// What a question says: its texts, and the data beside them, which may be what it is about.
fn asked_text(said: &Message) -> Option<String> {
    let texts = texts_of(said);
    let data: Vec<String> = other_data(said).iter().map(ToString::to_string).collect();
    if texts.trim().is_empty() || data.is_empty() {
        return message(said);
    }
    Some(format!("{texts}\n{}", data.join("\n")).chars().take(MAX_CHARS).collect())
}

/// The data of a message of a server that is not of this kind. The text of such a server says what its data does.
fn other_data(message: &Message) -> Vec<&Value> {
    let is_form = |form: Option<&Value>| form.is_some_and(|form| form.get("inputType").is_some());
    let is_ours = |data: &Value| {
        data.get("suspensionId").is_some() || is_form(data.get("feedbackSchema")) || is_form(data.get("schema"))
    };
    let data = message.parts.iter().filter_map(|part| match &part.content {
        Content::Data(data) => Some(data),
        Content::Text(_) | Content::Raw(_) | Content::Url(_) => None,
    });
    let data: Vec<&Value> = data.collect();
    if data.iter().any(|data| is_ours(data)) { Vec::new() } else { data }
}

/// The texts of a message. A question of a server of this kind about its own call or plan repeats these in its text;
/// they are shown apart.
fn texts_of(message: &Message) -> String {
    let bare = deciding(message).and_then(|data| data.get("message")?.as_str()).filter(|bare| !bare.is_empty());
    let without_subject = |text| bare.filter(|bare| str::starts_with(text, bare)).unwrap_or(text);
    let texts: Vec<&str> = message.parts.iter().filter_map(text).map(without_subject).collect();
    texts.join("\n").chars().take(MAX_CHARS).collect()
}

/// The id of the question, if a data part has it like this server's own questions.
fn question(message: &Message) -> Option<RemoteQuestion> {
    named(message).map(|(question, _)| question)
}

/// The question, and the data part that gives it an id.
fn named(message: &Message) -> Option<(RemoteQuestion, &Value)> {
    let named = message.parts.iter().find_map(|part| match &part.content {
        Content::Data(data) => Some((serde_json::from_value::<RemoteQuestion>(data.clone()).ok()?, data)),
        Content::Text(_) | Content::Raw(_) | Content::Url(_) => None,
    });
    named.filter(|(question, _)| question.suspension_id.as_str().len() <= MAX_ID_BYTES)
}

/// The data part of a question whether a call or a plan of the agent's own may run.
fn deciding(message: &Message) -> Option<&Value> {
    named(message).filter(|(question, _)| question.kind.may_let_run()).map(|(_, data)| data)
}

/// What a person is to decide about. Members that cannot be read, and arguments and plans of more than `bytes`, are left
/// out: then what is decided cannot be shown.
fn subject(message: &Message, bytes: usize) -> Option<RemoteSubject> {
    let data = deciding(message)?;
    let call = &data["toolCall"];
    let is_short = |text: &&str| !text.is_empty() && text.len() <= MAX_ID_BYTES && !text.contains(char::is_control);
    let short = |text: &Value| text.as_str().filter(is_short).map(str::to_owned);
    let fits = |value: &&Value| !value.is_null() && value.to_string().len() <= bytes;
    let tool = short(&call["toolName"]);
    let arguments = call.get("arguments").filter(|_| tool.is_some()).filter(fits).cloned();
    let plan = data.get("plan").filter(fits).filter(|plan| member::<PlanForecast>(plan).is_some()).cloned();
    Some(RemoteSubject {
        tool_name: tool.filter(|_| arguments.is_some()),
        arguments,
        class: member(&data["class"]),
        idempotent: member(&data["idempotent"]),
        plan,
        digest: short(&data["digest"]),
        risk_level: member(&data["riskLevel"]),
        expires_at: member(&data["expiresAt"]),
    })
}

/// A member of a data part. `None` if it is absent or cannot be read.
fn member<T: DeserializeOwned>(value: &Value) -> Option<T> {
    T::deserialize(value).ok()
}

/// The form of the expected answer, if a data part describes it like this server's own questions. Nobody could answer a
/// question whose form cannot be used, so it is asked as text. Other data is answered by a text or an object.
fn form(message: &Message) -> Option<FeedbackSchema> {
    let given = message.parts.iter().find_map(|part| match &part.content {
        Content::Data(data) => {
            let schema = data.get("feedbackSchema").or_else(|| data.get("schema"))?;
            serde_json::from_value(schema.clone()).ok().filter(|form| answer::check_form(form).is_ok())
        }
        Content::Text(_) | Content::Raw(_) | Content::Url(_) => None,
    });
    given.or_else(|| text_or_object(message))
}

/// The answer to a question with data: agents that ask so may take only data. It may not name a question: behind the agent
/// may be a server of this kind, where it would answer another question than a person was shown.
fn text_or_object(message: &Message) -> Option<FeedbackSchema> {
    let prompt = asked_text(message).filter(|_| !other_data(message).is_empty())?;
    let object = json!({ "type": "object", "properties": { "suspensionId": false } });
    Some(FeedbackSchema { custom_schema: Some(object), ..FeedbackSchema::new(InputType::Text, prompt) })
}

#[cfg(test)]
mod tests;
