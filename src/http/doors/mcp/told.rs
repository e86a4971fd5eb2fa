//! A run as the result of a tool: a text for models, and the same as data. Pure.

use serde_json::{Map, Value, json};

use crate::domain::hitl::AskedQuestion;
use crate::domain::ids::{RunId, ThreadId};
use crate::domain::plan::TodoItem;
use crate::domain::run::{RunResource, RunStatus};
use crate::http::doors::question;
use crate::service::runs::Waited;

/// How a run stands.
#[derive(Clone, Debug)]
pub(super) struct Standing {
    pub(super) run: RunResource,
    /// The open questions, oldest first, as `AGENT_SUSPENDED` told them, each with its address.
    pub(super) questions: Vec<Value>,
    /// The run's own items, as far as they are known.
    pub(super) items: Vec<TodoItem>,
    /// Whether whoever is told may hand over people's answers.
    pub(super) may_answer: bool,
}

impl Standing {
    /// `items` are those of the thread.
    pub(super) fn of(waited: Waited, items: Vec<TodoItem>, may_answer: bool) -> Self {
        let Waited { run, suspensions } = waited;
        let is_own = |item: &TodoItem| {
            let is_open = !run.status.is_terminal() && run.status != RunStatus::Queued && !item.status.is_settled();
            item.run_id.as_ref() == Some(&run.run_id) || is_open
        };
        let items = items.into_iter().filter(is_own).collect();
        Self { run, questions: suspensions, items, may_answer }
    }

    /// The result of the call of a tool.
    pub(super) fn result(&self) -> Value {
        json!({
            "content": [{ "type": "text", "text": self.text() }],
            "structuredContent": self.data(),
            "isError": self.run.status == RunStatus::Failed,
        })
    }

    fn data(&self) -> Value {
        let run = &self.run;
        let mut data = json!({ "runId": run.run_id, "threadId": run.thread_id, "status": run.status });
        match run.status {
            RunStatus::Completed => data["answer"] = json!(self.said()),
            RunStatus::Failed => {
                let error = run.result.as_ref().and_then(|result| result.metadata.error.as_ref());
                data["error"] = match error {
                    Some(error) => json!({ "code": error.code, "message": error.message }),
                    None => json!({ "code": "internal", "message": self.said() }),
                };
            }
            RunStatus::Queued
            | RunStatus::Running
            | RunStatus::Suspended
            | RunStatus::Waiting
            | RunStatus::Cancelled => {}
        }
        if !self.items.is_empty() {
            let item =
                |item: &TodoItem| json!({ "id": item.id, "description": item.description, "status": item.status });
            data["plan"] = self.items.iter().map(item).collect();
        }
        if !self.questions.is_empty() {
            data["suspensions"] = self.questions.iter().map(shown).collect();
        }
        data
    }

    pub(super) fn text(&self) -> String {
        let id = &self.run.run_id;
        let later = format!("`status` with the runId `{id}` tells how it stands.");
        match self.run.status {
            RunStatus::Completed | RunStatus::Failed => self.said(),
            RunStatus::Cancelled => format!("The run `{id}` was cancelled."),
            RunStatus::Queued => {
                format!("It waits for another run of its thread `{}` to be over. {later}", self.run.thread_id)
            }
            RunStatus::Running | RunStatus::Waiting | RunStatus::Suspended => {
                let asked = self.questions.iter().map(|question| self.asked(question) + "\n\n").collect::<String>();
                format!("{asked}{} {later}", self.progress())
            }
        }
    }

    /// A question as text.
    fn asked(&self, question: &Value) -> String {
        let place = question.get("url").and_then(Value::as_str).map(str::to_owned);
        let Ok(asked) = serde_json::from_value::<AskedQuestion>(question.clone()) else {
            return "A person is asked something; it is answered in the page of this server, under Questions."
                .to_owned();
        };
        let id = &asked.suspension_id;
        let how =
            self.may_answer.then(|| format!("`answer` with the suspensionId `{id}` hands over what the person says."));
        format!("A person is asked: {}", question::told(&asked, how, place))
    }

    fn said(&self) -> String {
        let said = self.run.result.as_ref().map(|result| result.response.content.clone());
        said.unwrap_or_else(|| "It failed, and nothing is known of why.".to_owned())
    }

    fn progress(&self) -> String {
        if self.run.status == RunStatus::Suspended {
            return "It goes on when a person has answered.".to_owned();
        }
        let done = self.items.iter().filter(|item| item.status.is_settled()).count();
        match self.items.len() {
            0 => "It is being worked on.".to_owned(),
            all => format!("It is being worked on: {done} of {all} items are over."),
        }
    }
}

/// The result of a call that the server waits no longer for, as it stops.
pub(super) fn goodbye(run: &RunId, thread: &ThreadId, status: RunStatus) -> Value {
    let text = format!(
        "The server stops for a moment; the work goes on. `status` with the runId `{run}` tells how it stands."
    );
    json!({
        "content": [{ "type": "text", "text": text }],
        "structuredContent": { "runId": run, "threadId": thread, "status": status },
        "isError": false,
    })
}

/// What a program may want to know of a question.
fn shown(question: &Value) -> Value {
    const SHOWN: [&str; 12] = [
        "suspensionId",
        "kind",
        "message",
        "feedbackSchema",
        "whileRunning",
        "toolName",
        "toolInput",
        "plan",
        "digest",
        "riskLevel",
        "expiresAt",
        "url",
    ];
    let member = |name: &str| Some((name.to_owned(), question.get(name)?.clone()));
    Value::Object(SHOWN.into_iter().filter_map(member).collect::<Map<_, _>>())
}
