//! Presents a run as an A2A task: its state, history, questions and artifacts. Pure.
//!
//! Everything is derived from stored data, so that responses, streams and pushes agree. A run with an open question is
//! in the state "input required" even if other items continue, because the question can be answered at once.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::types::{Artifact, Content, Message, Metadata, Part, Role, Task, TaskState, TaskStatus};
use super::wire::Version;
use crate::domain::console_urls::ConsoleUrls;
use crate::domain::fault::Code;
use crate::domain::hitl::{AskedQuestion, Suspension};
use crate::domain::message::{ConversationMessage, MessageRole};
use crate::domain::question_text;
use crate::domain::run::{CallerStatus, Run, RunStatus};

/// The id of the artifact with the final response.
pub const ANSWER: &str = "answer";

/// The extension that describes a question's data part; its text part needs none.
pub const QUESTIONS: &str = "urn:pes:a2a:questions:1";

/// `open` are the run's open suspensions, oldest first; `messages` its messages in order; `urls` the links to its
/// questions. An answer that is an artifact is no part of the history: clients join the two.
pub fn task(run: &Run, open: &[Suspension], messages: &[ConversationMessage], urls: Option<&ConsoleUrls>) -> Task {
    let answer = answer_of(run, messages);
    let delivered = answer.filter(|_| run.status == RunStatus::Completed);
    let is_delivered = |said: &&ConversationMessage| delivered.is_some_and(|it| it.message_id == said.message_id);
    Task {
        id: run.run_id.to_string(),
        context_id: run.thread_id.to_string(),
        status: status(run, open, answer, urls),
        artifacts: delivered.map(artifacts).unwrap_or_default(),
        history: messages.iter().filter(|said| !is_delivered(said)).map(message).collect(),
        metadata: Metadata::new(),
    }
}

/// The task right after its first message was accepted.
pub fn accepted(run: &Run, messages: &[ConversationMessage]) -> Task {
    let asked = messages.iter().filter(|message| message.message_id == run.message_id);
    Task {
        id: run.run_id.to_string(),
        context_id: run.thread_id.to_string(),
        status: TaskStatus { state: TaskState::Submitted, message: None, timestamp: Some(run.created_at) },
        artifacts: Vec::new(),
        history: asked.map(message).collect(),
        metadata: Metadata::new(),
    }
}

/// The message that ended the run, if it is among these.
pub fn answer_of<'a>(run: &Run, messages: &'a [ConversationMessage]) -> Option<&'a ConversationMessage> {
    let named = &run.outcome.as_ref()?.message_id;
    messages.iter().find(|message| message.message_id == *named)
}

/// Whether the answer is to be sent without other parts.
pub fn is_bare(answer: &ConversationMessage) -> bool {
    ui(answer).is_some_and(|ui| ui["a2a"]["reply"] == "message")
}

/// The artifacts: the deliverables first, the answer last.
pub fn artifacts(answer: &ConversationMessage) -> Vec<Artifact> {
    let mut artifacts = deliverables(answer);
    artifacts.push(answer_artifact(&answer.content));
    artifacts
}

/// The final response, or a piece of it.
pub fn answer_artifact(text: &str) -> Artifact {
    Artifact { name: Some("Answer".to_owned()), ..artifact(ANSWER.to_owned(), Part::text(text)) }
}

/// The deliverables beside the answer.
pub fn deliverables(answer: &ConversationMessage) -> Vec<Artifact> {
    let delivered = ui(answer).and_then(|ui| ui["artifacts"].as_array());
    delivered.into_iter().flatten().enumerate().filter_map(|(at, value)| deliverable(at, value.as_object()?)).collect()
}

fn ui(answer: &ConversationMessage) -> Option<&Value> {
    answer.metadata.as_ref()?.get(ConversationMessage::UI)
}

fn deliverable(at: usize, given: &Map<String, Value>) -> Option<Artifact> {
    let text = |name: &str| given.get(name).and_then(Value::as_str).map(str::to_owned);
    let raw = || Some(Content::Raw(STANDARD.decode(text("raw")?).ok()?.into()));
    let data = || given.get("data").cloned().map(Content::Data);
    let content = text("text").map(Content::Text).or_else(raw).or_else(|| text("url").map(Content::Url)).or_else(data);
    let part = Part { filename: text("filename"), media_type: text("mediaType"), ..Part::new(content?) };
    Some(Artifact { name: text("name"), ..artifact(format!("artifact-{}", at + 1), part) })
}

fn artifact(artifact_id: String, part: Part) -> Artifact {
    Artifact {
        artifact_id,
        name: None,
        description: None,
        parts: vec![part],
        metadata: Metadata::new(),
        extensions: Vec::new(),
    }
}

/// A message of the conversation: a client's as it was sent, all others as text.
pub fn message(said: &ConversationMessage) -> Message {
    let (task_id, context_id) = (said.run_id.as_ref().map(ToString::to_string), Some(said.thread_id.to_string()));
    let sent = said.metadata.as_ref().and_then(|metadata| metadata.get("a2a"));
    if let Some(sent) = sent.and_then(|sent| Version::V1.read_message(sent).ok()) {
        return Message { task_id, context_id, ..sent };
    }
    Message {
        message_id: said.message_id.to_string(),
        context_id,
        task_id,
        role: match said.role {
            MessageRole::User => Role::User,
            MessageRole::Ai | MessageRole::System | MessageRole::Tool => Role::Agent,
        },
        parts: vec![Part::text(&said.content)],
        metadata: Metadata::new(),
        extensions: Vec::new(),
        reference_task_ids: Vec::new(),
    }
}

fn status(
    run: &Run,
    open: &[Suspension],
    answer: Option<&ConversationMessage>,
    urls: Option<&ConsoleUrls>,
) -> TaskStatus {
    let oldest = open.first().filter(|_| !run.status.is_terminal());
    let state = if run.status.is_terminal() {
        task_state(CallerStatus::at_end(run.status, run.outcome.as_ref()))
    } else {
        task_state(CallerStatus::of(run.status, oldest.map(|oldest| oldest.kind)))
    };
    let asked = oldest.map(|oldest| question(run.run_id.as_str(), run.thread_id.as_str(), &oldest.asked(), urls));
    let why = answer.filter(|_| run.status == RunStatus::Failed).map(message);
    // For cores that do not record the time of the last change: the last known time.
    let known = run.finished_at.or(run.started_at).unwrap_or(run.created_at);
    let since = if run.since == 0 { known } else { run.since };
    TaskStatus { state, message: asked.or(why), timestamp: Some(since) }
}

fn task_state(status: CallerStatus) -> TaskState {
    match status {
        CallerStatus::Queued => TaskState::Submitted,
        CallerStatus::Running | CallerStatus::Waiting => TaskState::Working,
        CallerStatus::NeedsAuth => TaskState::AuthRequired,
        CallerStatus::Suspended => TaskState::InputRequired,
        CallerStatus::Completed => TaskState::Completed,
        CallerStatus::Failed => TaskState::Failed,
        CallerStatus::Refused => TaskState::Rejected,
        CallerStatus::Cancelled => TaskState::Canceled,
    }
}

/// The state of a failed run.
pub fn state_of_failure(code: Option<Code>) -> TaskState {
    if code == Some(Code::TaskRefused) { TaskState::Rejected } else { TaskState::Failed }
}

/// The state of a run in progress, by its open questions, oldest first.
pub fn state_of_questions(open: &[AskedQuestion]) -> TaskState {
    task_state(CallerStatus::of(RunStatus::Running, open.first().map(|oldest| oldest.kind)))
}

/// The content of `AGENT_SUSPENDED` as a message: a text for people, and the same as data for programs, with a link.
pub fn question(task_id: &str, context_id: &str, asked: &AskedQuestion, urls: Option<&ConsoleUrls>) -> Message {
    let schema = &asked.feedback_schema;
    let mut form = json!({
        "suspensionId": asked.suspension_id, "kind": asked.kind, "message": asked.message, "schema": schema,
    });
    form["options"] = json!(schema.options);
    if let Some(tool) = &asked.tool_name {
        form["toolCall"] = json!({ "callId": asked.call_id, "toolName": tool, "arguments": asked.tool_input });
    }
    let beside = [
        ("class", asked.class.map(|class| json!(class))),
        ("idempotent", asked.idempotent.map(|idempotent| json!(idempotent))),
        ("riskLevel", asked.risk_level.map(|risk| json!(risk))),
        ("digest", asked.digest.as_ref().map(|digest| json!(digest))),
        ("plan", asked.plan.clone()),
        ("expiresAt", asked.expires_at.map(|at| json!(at))),
        ("url", urls.map(|urls| json!(urls.question(&asked.suspension_id)))),
    ];
    for (name, value) in beside {
        if let Some(value) = value {
            form[name] = value;
        }
    }
    Message {
        message_id: asked.suspension_id.to_string(),
        context_id: Some(context_id.to_owned()),
        task_id: Some(task_id.to_owned()),
        role: Role::Agent,
        parts: vec![Part::text(text(asked)), Part::data(form)],
        metadata: Metadata::new(),
        extensions: vec![QUESTIONS.to_owned()],
        reference_task_ids: Vec::new(),
    }
}

/// The message of the question. Where an answer may let a call run, the call or the plan follows in full: an agent may
/// show its user nothing but the text.
fn text(asked: &AskedQuestion) -> String {
    let mut parts = vec![asked.message.clone()];
    if asked.kind.may_let_run() {
        let (subject, _) = question_text::subject_block(asked, usize::MAX);
        parts.extend(asked.tool_name.as_ref().map(|tool| format!("Tool `{tool}`:")));
        parts.extend(Some(subject).filter(|subject| !subject.is_empty()));
    }
    parts.join("\n\n")
}
