//! A question to a person is closed, once: answered or withdrawn.

use crate::domain::actor::ServerActor;
use crate::domain::hitl::{Decision, Resolution, SuspensionStatus};
use crate::domain::ids::{CallId, SuspensionId};
use crate::pes::tx::Tx;
use crate::step::Keep;

/// Who resolved a question.
#[derive(Clone, Copy)]
pub(crate) enum DecidedBy<'a> {
    /// The name of a key or of an issuer's person.
    Person(&'a str),
    Server(ServerActor),
}

impl<'a> DecidedBy<'a> {
    fn as_str(self) -> &'a str {
        match self {
            Self::Person(name) => name,
            Self::Server(actor) => actor.as_str(),
        }
    }
}

/// Withdraws the open question about a delegated call, if there is one: the agent's, or whether the task arrived. It is closed in
/// the name of the agent.
pub(crate) fn withdraw_question_about_delegation(tx: &mut Tx<'_>, call: &CallId, why: &str) {
    if let Some(open) = tx.state.suspension_of(call) {
        close(tx, &open, Decision::Cancelled, ServerActor::Peer, Some(why.to_owned()));
    }
}

/// Withdraws the question that a running call asked, if there is one: nobody waits for the answer any more.
pub(crate) fn withdraw_question_of_call(tx: &mut Tx<'_>, id: &CallId, why: &str) {
    let asked = tx.change_call(id, |call| call.record.asked.take()).flatten();
    if let Some(asked) = asked {
        close(tx, &asked.suspension_id, Decision::Cancelled, ServerActor::Engine, Some(why.to_owned()));
    }
}

/// Resolves the question on behalf of the server, once; the caller decides what follows.
pub(crate) fn close(tx: &mut Tx<'_>, id: &SuspensionId, decision: Decision, by: ServerActor, reason: Option<String>) {
    let digest = tx.state.suspension(id).and_then(|open| open.digest.clone());
    resolve(tx, id, Closing { decision, by: DecidedBy::Server(by), reason, digest });
}

/// How a question is resolved.
pub(crate) struct Closing<'a> {
    pub decision: Decision,
    pub by: DecidedBy<'a>,
    pub reason: Option<String>,
    /// The digest of what runs now.
    pub digest: Option<String>,
}

/// Resolves the question on behalf of anybody, once; the caller decides what follows.
pub(crate) fn resolve(tx: &mut Tx<'_>, id: &SuspensionId, closing: Closing<'_>) {
    let Closing { decision, by, reason, digest } = closing;
    let Some(ord) = tx.state.ord_of_suspension(id) else { return };
    let Some(mut suspension) = tx.state.suspensions.remove(&ord) else { return };
    suspension.status = match decision {
        Decision::Expired => SuspensionStatus::Expired,
        Decision::Cancelled => SuspensionStatus::Cancelled,
        Decision::Approved
        | Decision::Modified
        | Decision::Rejected
        | Decision::Answered
        | Decision::Retry
        | Decision::Done
        | Decision::Skip
        | Decision::Abort
        | Decision::Resumed => SuspensionStatus::Resolved,
    };
    suspension.resolution =
        Some(Resolution { decision, decided_by: by.as_str().to_owned(), decided_at: tx.stamp.now, reason, digest });
    if decision != Decision::Expired {
        tx.record_resumed(&suspension, decision, by.as_str());
    }
    tx.write_suspension(ord, &suspension, Keep::Never);
}
