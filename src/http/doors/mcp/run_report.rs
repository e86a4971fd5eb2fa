//! A report of a run as the result of a tool call: a text for models, and the same as data. Pure.

use serde_json::{Map, Value, json};

use crate::domain::hitl::AskedQuestion;
use crate::domain::ids::{RunId, ThreadId};
use crate::domain::plan::TodoItem;
use crate::domain::run::{RunResource, RunStatus};
use crate::http::doors::question;
use crate::service::runs::Waited;

/// The state of a run.
#[derive(Clone, Debug)]
pub(super) struct RunReport {
    pub(super) run: RunResource,
    /// The open questions, oldest first, as in `AGENT_SUSPENDED`, each with its URL.
    pub(super) questions: Vec<Value>,
    /// The run's own items, as far as they are known.
    pub(super) items: Vec<TodoItem>,
    /// Whether the caller may submit people's answers.
    pub(super) may_answer: bool,
    /// Whether the thread's active run waits for a person.
    pub(super) is_thread_suspended: bool,
}

impl RunReport {
    /// `items` are the items of the thread.
    pub(super) fn of(waited: Waited, items: Vec<TodoItem>, may_answer: bool, is_thread_suspended: bool) -> Self {
        let Waited { run, suspensions } = waited;
        let is_own = |item: &TodoItem| {
            let is_open = !run.status.is_terminal() && run.status != RunStatus::Queued && !item.status.is_settled();
            item.run_id.as_ref() == Some(&run.run_id) || is_open
        };
        let items = items.into_iter().filter(is_own).collect();
        Self { run, questions: suspensions, items, may_answer, is_thread_suspended }
    }

    /// The result of a tool call.
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
            RunStatus::Completed => data["answer"] = json!(self.answer_text()),
            RunStatus::Failed => {
                let error = run.result.as_ref().and_then(|result| result.metadata.error.as_ref());
                data["error"] = match error {
                    Some(error) => json!({ "code": error.code, "message": error.message }),
                    None => json!({ "code": "internal", "message": self.answer_text() }),
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
            RunStatus::Completed | RunStatus::Failed => self.answer_text(),
            RunStatus::Cancelled => format!("The run `{id}` was cancelled."),
            RunStatus::Queued => {
                let asks = if self.is_thread_suspended { ", which goes on when a person has answered it" } else { "" };
                format!("It waits for the end of another run of its thread `{}`{asks}. {later}", self.run.thread_id)
            }
            RunStatus::Running | RunStatus::Waiting | RunStatus::Suspended => {
                let asked =
                    self.questions.iter().map(|question| self.question_text(question) + "\n\n").collect::<String>();
                format!("{asked}{} {later}", self.progress())
            }
        }
    }

    /// A question as text.
    fn question_text(&self, question: &Value) -> String {
        let place = question.get("url").and_then(Value::as_str).map(str::to_owned);
        let Ok(asked) = serde_json::from_value::<AskedQuestion>(question.clone()) else {
            return "A person is asked something; it is answered in the page of this server, under Questions."
                .to_owned();
        };
        let id = &asked.suspension_id;
        let how =
            self.may_answer.then(|| format!("`answer` with the suspensionId `{id}` hands over what the person says."));
        format!("A person is asked: {}", question::text_with(&asked, how, place))
    }

    fn answer_text(&self) -> String {
        let content = self.run.result.as_ref().map(|result| result.response.content.clone());
        content.unwrap_or_else(|| "It failed, and nothing is known of why.".to_owned())
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

/// The result of a call when the server stops before the run has ended.
pub(super) fn stopping_result(run: &RunId, thread: &ThreadId, status: RunStatus) -> Value {
    let text = format!(
        "The server stops for a moment; the work goes on. `status` with the runId `{run}` tells how it stands."
    );
    json!({
        "content": [{ "type": "text", "text": text }],
        "structuredContent": { "runId": run, "threadId": thread, "status": status },
        "isError": false,
    })
}

/// The members of a question that programs may need.
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
