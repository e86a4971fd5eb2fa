//! Converts another agent's task for the engine: its state, its question, its result.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::types::{Artifact, Content, Message, Part, Task, TaskState};
use crate::domain::Millis;
use crate::domain::hitl::FeedbackSchema;
use crate::domain::task::{PeerReport, PeerState};

/// How much of an agent's own text is stored beside the result.
const MAX_CHARS: usize = 4_000;

pub fn state(state: TaskState) -> PeerState {
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

/// `bytes` limits the artifacts that are stored.
pub fn of_task(task: &Task, bytes: usize, patience_ms: Option<Millis>) -> PeerReport {
    let said = task.status.message.as_ref();
    let state = state(task.status.state);
    let seen = PeerReport {
        state,
        remote_task_id: Some(task.id.clone()),
        remote_context_id: Some(task.context_id.clone()).filter(|id| !id.is_empty()),
        message: said.map(words).filter(|words| !words.is_empty()),
        form: said.and_then(form),
        output: Value::Null,
        patience_ms,
    };
    match state {
        PeerState::Completed => with_output(seen, output(&task.artifacts, said), bytes),
        PeerState::Working
        | PeerState::InputRequired
        | PeerState::AuthRequired
        | PeerState::Failed
        | PeerState::Rejected
        | PeerState::Canceled => seen,
    }
}

/// An agent that answers immediately returns a message instead of a task.
pub fn of_message(message: &Message, bytes: usize, patience_ms: Option<Millis>) -> PeerReport {
    let seen = PeerReport {
        state: PeerState::Completed,
        remote_task_id: message.task_id.clone(),
        remote_context_id: message.context_id.clone(),
        message: None,
        form: None,
        output: Value::Null,
        patience_ms,
    };
    with_output(seen, output(&[], Some(message)), bytes)
}

fn with_output(seen: PeerReport, output: Value, bytes: usize) -> PeerReport {
    let size = output.to_string().len();
    if size <= bytes {
        return PeerReport { output, ..seen };
    }
    let message = Some(format!("The agent's result has {size} bytes; at most {bytes} are kept."));
    PeerReport { state: PeerState::Failed, message, ..seen }
}

/// `{text?, artifacts?: [{artifactId, name?, description?, parts}], message?}`: `text` joins the texts of all
/// artifacts.
fn output(artifacts: &[Artifact], said: Option<&Message>) -> Value {
    let mut output = json!({});
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
            output["text"] = words(said).into();
        }
    }
    output
}

fn artifact(artifact: &Artifact) -> Value {
    let mut value =
        json!({ "artifactId": artifact.artifact_id, "parts": artifact.parts.iter().map(part).collect::<Value>() });
    for (key, text) in [("name", &artifact.name), ("description", &artifact.description)] {
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

fn words(message: &Message) -> String {
    let texts: Vec<&str> = message.parts.iter().filter_map(text).collect();
    texts.join("\n").chars().take(MAX_CHARS).collect()
}

/// The form of the expected answer, if a data part describes it like this server's own questions.
fn form(message: &Message) -> Option<FeedbackSchema> {
    message.parts.iter().find_map(|part| match &part.content {
        Content::Data(data) => {
            let schema = data.get("feedbackSchema").or_else(|| data.get("schema"))?;
            serde_json::from_value(schema.clone()).ok()
        }
        Content::Text(_) | Content::Raw(_) | Content::Url(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::types::{Metadata, Role, TaskStatus};

    fn task(state: TaskState, parts: Vec<Part>) -> Task {
        let artifact = Artifact {
            artifact_id: "a".into(),
            name: None,
            description: None,
            parts,
            metadata: Metadata::new(),
            extensions: Vec::new(),
        };
        let status = TaskStatus { state, message: None, timestamp: None };
        let (history, metadata) = (Vec::new(), Metadata::new());
        Task { id: "t".into(), context_id: "c".into(), status, artifacts: vec![artifact], history, metadata }
    }

    #[test]
    fn artifacts_are_kept_with_their_parts_and_their_text_stands_in_front() {
        let raw = Part::new(Content::Raw(vec![0, 1].into()));
        let parts =
            vec![Part::text("one"), Part::data(json!({ "n": 1 })), Part::new(Content::Url("https://x/y".into())), raw];
        let seen = of_task(&task(TaskState::Completed, parts), 1_000, None);
        assert_eq!(seen.output["text"], "one");
        assert_eq!(seen.output["artifacts"][0]["parts"][1], json!({ "data": { "n": 1 } }));
        assert_eq!(seen.output["artifacts"][0]["parts"][2], json!({ "url": "https://x/y" }));
        assert_eq!(seen.output["artifacts"][0]["parts"][3], json!({ "raw": "AAE=" }));
    }

    #[test]
    fn a_result_that_is_too_large_is_a_failure_with_its_size() {
        let seen = of_task(&task(TaskState::Completed, vec![Part::text("x".repeat(2_000))]), 1_000, None);
        assert_eq!(seen.state, PeerState::Failed);
        assert!(seen.message.unwrap().contains("1000"));
    }

    #[test]
    fn a_question_with_a_form_of_ours_is_asked_with_it() {
        let asks = json!({ "suspensionId": "sus_1", "feedbackSchema": { "inputType": "boolean", "prompt": "sure?" } });
        let said = Message {
            message_id: "m".into(),
            context_id: None,
            task_id: None,
            role: Role::Agent,
            parts: vec![Part::text("sure?"), Part::data(asks)],
            metadata: Metadata::new(),
            extensions: Vec::new(),
            reference_task_ids: Vec::new(),
        };
        let mut asking = task(TaskState::InputRequired, Vec::new());
        asking.status.message = Some(said);
        let seen = of_task(&asking, 1_000, None);
        assert_eq!(seen.message.as_deref(), Some("sure?"));
        assert_eq!(seen.form.unwrap().prompt, "sure?");
    }
}
