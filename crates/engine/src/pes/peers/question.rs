//! What agents ask about their tasks is asked here: one question of a task is open at a time, the agent's latest.

use crate::domain::hitl::{FeedbackSchema, InputType, Suspension, SuspensionKind};
use crate::domain::task::{PeerReport, RemoteQuestion, Task};
use crate::domain::tool::CallCode;
use crate::pes::peers::{TaskOutcome, send};
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
}

impl PeerQuestion {
    /// `input_type` is that of an answer unless the agent gives a form.
    pub(super) fn of(task: &Task, kind: SuspensionKind, report: PeerReport, input_type: InputType) -> Self {
        let message = report.message.unwrap_or_else(|| format!("{} needs more to go on.", task.agent_id));
        let form = report.form.unwrap_or_else(|| FeedbackSchema::new(input_type, message.clone()));
        Self { kind, message, form, remote: report.question }
    }

    /// Whether this is what is asked here already. Questions without an id are compared by what a person sees: agents
    /// give the message of an unchanged question new ids.
    fn is_asked_by(&self, open: &Suspension, known: Option<&RemoteQuestion>) -> bool {
        match (known, &self.remote) {
            (Some(known), Some(remote)) => known == remote,
            (Some(_) | None, _) => {
                open.kind == self.kind && open.message == self.message && open.feedback_schema == self.form
            }
        }
    }
}

/// Whether the agent still asks what our message was to answer, by the id of the question: it refused the answer, and its
/// message says why.
pub(super) fn is_asked_again(task: &Task, report: &PeerReport) -> bool {
    task.remote_question.is_some() && task.remote_question == report.question
}

/// Asks a person what the agent asks, once, unless it asked too often. `task` is as it was before the report. An answer to
/// an earlier question would be taken for one to this, so that question is withdrawn. After too many, the last one stays:
/// without ids they may be one question that the agent words differently each time, as with the time that is left.
pub(super) fn ask_a_person(tx: &mut Tx<'_>, task: &Task, asked: PeerQuestion) -> TaskOutcome {
    let open = tx.state.suspension_of(&task.call_id).and_then(|id| tx.state.suspension(&id));
    if open.is_some_and(|open| asked.is_asked_by(open, task.remote_question.as_ref())) {
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
    suspend::park(tx, &task.call_id, question);
    TaskOutcome::Continues
}
