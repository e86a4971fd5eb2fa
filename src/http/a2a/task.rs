//! A run as a task: everything that is shown is derived from what is stored.

use serde_json::{Value, json};

use super::QUESTIONS;
use super::message::{of_agent, shown};
use crate::a2a::types::{Artifact, Message, Metadata, Part, Task, TaskState, TaskStatus};
use crate::domain::hitl::Suspension;
use crate::domain::run::{Run, RunStatus, Standing};
use crate::runtime::Errand;

/// How much of a task is shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Show {
    /// At most that many of the latest messages; `None`: all.
    pub(super) history: Option<u32>,
    pub(super) artifacts: bool,
}

impl Show {
    pub(super) fn wants_messages(self) -> bool {
        self.artifacts || self.history != Some(0)
    }
}

pub(super) fn task(errand: Errand, show: Show) -> Task {
    let Errand { run, messages, open } = errand;
    let (id, context_id) = (run.run_id.to_string(), run.thread_id.to_string());
    let history: Vec<Message> = messages.iter().map(|message| shown(message, &id)).collect();
    let skipped = show.history.map_or(0, |most| history.len().saturating_sub(most as usize));
    let artifacts = if show.artifacts { artifacts(&run, &history) } else { Vec::new() };
    let state = state(&run, open.first());
    let mut message = match state {
        TaskState::InputRequired | TaskState::AuthRequired => open.first().map(question),
        TaskState::Failed | TaskState::Rejected => run.outcome.as_ref().and_then(|outcome| {
            let error = outcome.error.as_ref()?;
            Some(of_agent(outcome.message_id.as_str(), vec![Part::text(error.message.as_str())]))
        }),
        TaskState::Unspecified
        | TaskState::Submitted
        | TaskState::Working
        | TaskState::Completed
        | TaskState::Canceled => None,
    };
    if let Some(message) = &mut message {
        (message.context_id, message.task_id) = (Some(context_id.clone()), Some(id.clone()));
    }
    Task {
        status: TaskStatus { state, message, timestamp: Some(since(&run)) },
        id,
        context_id,
        artifacts,
        history: history.into_iter().skip(skipped).collect(),
        metadata: Metadata::new(),
    }
}

fn state(run: &Run, oldest: Option<&Suspension>) -> TaskState {
    let standing = match run.status.is_terminal() {
        true => Standing::at_end(run.status, run.outcome.as_ref()),
        false => Standing::of(run.status, oldest.map(|open| open.kind)),
    };
    match standing {
        Standing::Queued => TaskState::Submitted,
        Standing::Running | Standing::Waiting => TaskState::Working,
        Standing::NeedsAuth => TaskState::AuthRequired,
        Standing::Suspended => TaskState::InputRequired,
        Standing::Completed => TaskState::Completed,
        Standing::Failed => TaskState::Failed,
        Standing::Refused => TaskState::Rejected,
        Standing::Cancelled => TaskState::Canceled,
    }
}

/// The standings of runs whose tasks have that state.
pub(super) fn standings(state: TaskState) -> &'static [Standing] {
    match state {
        TaskState::Submitted => &[Standing::Queued],
        TaskState::Working => &[Standing::Running, Standing::Waiting],
        TaskState::InputRequired => &[Standing::Suspended],
        TaskState::AuthRequired => &[Standing::NeedsAuth],
        TaskState::Completed => &[Standing::Completed],
        TaskState::Failed => &[Standing::Failed],
        TaskState::Canceled => &[Standing::Cancelled],
        TaskState::Rejected => &[Standing::Refused],
        TaskState::Unspecified => &[],
    }
}

/// Of a core that does not say when it changed: its last known time.
fn since(run: &Run) -> i64 {
    match run.since {
        0 => run.finished_at.or(run.started_at).unwrap_or(run.created_at),
        since => since,
    }
}

/// The final response of a run that went well.
fn artifacts(run: &Run, history: &[Message]) -> Vec<Artifact> {
    let Some(outcome) = run.outcome.as_ref().filter(|_| run.status == RunStatus::Completed) else {
        return Vec::new();
    };
    let answer = history.iter().find(|message| message.message_id == outcome.message_id.as_str());
    let artifact = answer.map(|answer| Artifact {
        artifact_id: "answer".to_owned(),
        name: Some("Answer".to_owned()),
        description: None,
        parts: answer.parts.clone(),
        metadata: Metadata::new(),
        extensions: Vec::new(),
    });
    artifact.into_iter().collect()
}

/// A text for people, and the same as data for programs.
pub(super) fn question(open: &Suspension) -> Message {
    let mut message = of_agent(open.suspension_id.as_str(), vec![Part::text(&*open.message), Part::data(form(open))]);
    message.extensions.push(QUESTIONS.to_owned());
    message
}

fn form(open: &Suspension) -> Value {
    let mut form = json!({
        "suspensionId": open.suspension_id, "kind": open.kind, "schema": open.feedback_schema,
        "options": open.feedback_schema.options,
    });
    if let Some(tool) = &open.tool_name {
        form["toolCall"] = json!({ "callId": open.call_id, "toolName": tool, "arguments": open.tool_input });
    }
    if let Some(digest) = &open.digest {
        form["digest"] = digest.as_str().into();
    }
    if let Some(at) = open.expires_at {
        form["expiresAt"] = at.into();
    }
    form
}

/// The task whose question was not answered: the question again, after what was wrong.
pub(super) fn complain(mut task: Task, complaint: &str) -> Task {
    if let Some(message) = &mut task.status.message {
        message.parts.insert(0, Part::text(complaint));
    }
    task
}
