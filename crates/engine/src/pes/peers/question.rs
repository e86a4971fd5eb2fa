//! What agents ask about their tasks is asked here: one question of a task is open at a time, the agent's latest.

use crate::domain::Millis;
use crate::domain::hitl::{FeedbackSchema, InputType, Suspension, SuspensionKind};
use crate::domain::task::{AuthAnswer, PeerReport, RemoteQuestion, RemoteSubject, Task};
use crate::domain::tool::CallCode;
use crate::pes::peers::{TaskOutcome, countdown, send};
use crate::pes::people::suspend::{self, NewQuestion};
use crate::pes::settle::{suspension, task};
use crate::pes::tx::Tx;

/// How many questions to people one task may cause: an agent that asks again and again would cost without end.
const MAX_QUESTIONS: u32 = 50;

/// What an agent asks.
pub(super) struct PeerQuestion {
    kind: SuspensionKind,
    message: String,
    form: FeedbackSchema,
    remote: Option<RemoteQuestion>,
    /// What a person is to decide about, if it is a call or a plan of the agent's own.
    subject: Option<RemoteSubject>,
}

impl PeerQuestion {
    /// A question that is answered by a value. `input_type` is that of the value unless the agent gives a form.
    pub(super) fn of(task: &Task, kind: SuspensionKind, report: PeerReport, input_type: InputType) -> Self {
        let message = report.message.unwrap_or_else(|| needs_more(task));
        let form = report.form.unwrap_or_else(|| FeedbackSchema::new(input_type, message.clone()));
        // The arguments that are shown with it are those of the delegated call, which runs already.
        let form = FeedbackSchema { allow_modify_args: false, ..form };
        Self { kind, message, form, remote: report.question, subject: None }
    }

    /// What an agent asks that waits for an answer. A question of a server of this kind whether its call or its plan may
    /// run is the same question here: it needs the same scope, and takes the same answers.
    pub(super) fn of_waiting(task: &Task, report: PeerReport) -> Self {
        let kind = report.question.as_ref().map(|question| question.kind);
        match kind.filter(|kind| kind.may_let_run()) {
            Some(kind) => Self::about_subject(task, kind, report),
            None => Self::of(task, SuspensionKind::PeerInput, report, InputType::Text),
        }
    }

    fn about_subject(task: &Task, kind: SuspensionKind, report: PeerReport) -> Self {
        let subject = report.subject.unwrap_or_default();
        let mut message = match &report.message {
            Some(message) => format!("{} asks: {message}", task.agent_id),
            None => needs_more(task),
        };
        if !subject.can_be_shown() {
            message.push_str(" It does not say what it is about in a form that can be shown here.");
        }
        let form = if kind == SuspensionKind::InDoubt {
            suspend::doubt_form()
        } else {
            approval_form(report.form, report.message.as_deref(), &message, subject.can_be_shown())
        };
        Self { kind, message, form, remote: report.question, subject: Some(subject) }
    }

    /// The question once more, with the reason for which the agent refused the last answer.
    pub(super) fn after_refusal(self, task: &Task, why: Option<String>) -> Self {
        let Some(why) = why else { return self };
        let message = format!("{}\n{} refused the last answer: {why}", self.message, task.agent_id);
        let is_same = self.form.prompt == self.message;
        let prompt = if is_same { message.clone() } else { self.form.prompt };
        Self { message, form: FeedbackSchema { prompt, ..self.form }, ..self }
    }

    /// Whether a person answered this already: a demand without an id, which the agent repeats.
    pub(super) fn is_answered_by(&self, answer: &AuthAnswer, now: Millis) -> bool {
        self.remote.is_none() && countdown::is_same(&answer.question, &self.message, now - answer.asked_at)
    }

    /// Whether this is what is asked here already. Questions without an id are compared by what a person sees: agents
    /// give the message of an unchanged question new ids. The time that is left for the answer may be in its words.
    fn is_asked_by(&self, open: &Suspension, known: Option<&RemoteQuestion>, now: Millis) -> bool {
        match (known, &self.remote) {
            // The kind differs if an earlier release asked.
            (Some(known), Some(remote)) => known == remote && open.kind == self.kind,
            (Some(_) | None, _) => {
                let (asked, elapsed) = (&open.feedback_schema, now - open.created_at);
                let form = FeedbackSchema { prompt: asked.prompt.clone(), ..self.form.clone() };
                open.kind == self.kind
                    && *asked == form
                    && countdown::is_same(&open.message, &self.message, elapsed)
                    && countdown::is_same(&asked.prompt, &self.form.prompt, elapsed)
            }
        }
    }
}

/// The message of a question without words.
fn needs_more(task: &Task) -> String {
    format!("{} needs more to go on.", task.agent_id)
}

/// The form of a yes or a no. `said` is the agent's message, `message` the one that is shown here. What cannot be shown
/// cannot be edited.
fn approval_form(given: Option<FeedbackSchema>, said: Option<&str>, message: &str, is_shown: bool) -> FeedbackSchema {
    let (prompt, may_edit) = given.map_or((None, false), |form| (Some(form.prompt), form.allow_modify_args));
    let prompt = prompt.filter(|prompt| said != Some(prompt.as_str())).unwrap_or_else(|| message.to_owned());
    FeedbackSchema { allow_modify_args: may_edit && is_shown, ..FeedbackSchema::new(InputType::Confirm, prompt) }
}

/// Whether the agent still asks what our message was to answer, by the id of the question: it refused the answer, and its
/// message says why.
pub(super) fn is_asked_again(task: &Task, report: &PeerReport) -> bool {
    task.remote_question.is_some() && task.remote_question == report.question
}

/// Asks a person what the agent asks, once, unless it asked too often. `task` is as it was before the report. An answer to
/// an earlier question would be taken for one to this, so that question is withdrawn. After too many, the last one stays:
/// without ids they may be one question that the agent words differently each time, as with the time of day.
pub(super) fn ask_a_person(tx: &mut Tx<'_>, task: &Task, asked: PeerQuestion) -> TaskOutcome {
    let open = tx.state.suspension_of(&task.call_id).and_then(|id| tx.state.suspension(&id));
    if open.is_some_and(|open| asked.is_asked_by(open, task.remote_question.as_ref(), tx.stamp.now)) {
        return TaskOutcome::Continues;
    }
    if task.questions >= MAX_QUESTIONS {
        if open.is_some() && task.remote_question.is_none() && asked.remote.is_none() {
            return TaskOutcome::Continues;
        }
        let why = format!("{} asks again and again", task.agent_id);
        return send::give_up(tx, &task.call_id, CallCode::PeerFailed, why);
    }
    if open.is_some() {
        suspension::withdraw_question_about_delegation(tx, &task.call_id, "the agent asks something else");
        tx.change_task(&task.task_id, |task| task.message = Some(asked.message.clone()));
        task::record(tx, &task.task_id);
    }
    tx.change_task(&task.task_id, |task| task.questions += 1);
    let question = NewQuestion { kind: asked.kind, message: asked.message, form: asked.form, risk: None };
    match asked.subject {
        Some(subject) => suspend::park_for_agent(tx, task, question, subject),
        None => suspend::park(tx, &task.call_id, question),
    }
    TaskOutcome::Continues
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_question_that_an_earlier_release_asked_as_an_input_is_asked_again() {
        let open = |kind: &str| -> Suspension {
            let open = json!({
                "suspensionId": "sus_9", "threadId": "t", "runId": "run_1", "kind": kind, "status": "pending",
                "message": "May it?", "feedbackSchema": { "inputType": "confirm", "prompt": "May it?" }, "createdAt": 1,
            });
            serde_json::from_value(open).unwrap()
        };
        let remote = RemoteQuestion { suspension_id: "sus_1".into(), kind: SuspensionKind::Approval };
        let form = FeedbackSchema::new(InputType::Confirm, "May it?");
        let (kind, message, subject) = (SuspensionKind::Approval, "May it?".to_owned(), None);
        let asked = PeerQuestion { kind, message, form, remote: Some(remote.clone()), subject };
        assert!(!asked.is_asked_by(&open("peer_input"), Some(&remote), 2));
        assert!(asked.is_asked_by(&open("approval"), Some(&remote), 2));
    }
}
