//! Questions in the middle of a call: its slot stays `Running`, and the reply is stored with the call until the running
//! code has received it. The engine never waits for them: when a call ends, its question is withdrawn.

use crate::domain::hitl::{Question, Reply, Suspension, SuspensionKind};
use crate::domain::ids::CallId;
use crate::domain::tool::PendingQuestion;
use crate::pes::people::suspend::{self, NewQuestion};
use crate::pes::settle::suspension;
use crate::pes::tx::{EventOutcome, HandlerResult, Tx};

/// A question that arrives twice under one number is one question.
pub(crate) fn tool_asked(tx: &mut Tx<'_>, id: &CallId, attempt: u32, number: u32, question: Question) -> HandlerResult {
    let is_known = |asked: &PendingQuestion| asked.number >= number;
    let known = tx.state.calls.get(id).and_then(|call| call.record.asked.as_ref()).is_some_and(is_known);
    if known || !tx.state.is_running_as(id, attempt) || tx.state.is_cancelling() {
        return Ok(EventOutcome::Ignored);
    }
    suspension::withdraw_question_of_call(tx, id, "the call asks something else");
    let Question { message, form } = question;
    let message = format!("{} asks: {message}", tx.state.tool_of(id));
    let asked = NewQuestion { kind: SuspensionKind::Input, message, form, risk: None };
    let opened = suspend::question_about(tx, id, asked);
    let Some(suspension) = opened.map(|opened| Suspension { while_running: true, ..opened }) else {
        return Ok(EventOutcome::Ignored);
    };
    let suspension_id = suspension.suspension_id.clone();
    tx.change_call(id, |call| {
        call.record.asked = Some(PendingQuestion { number, suspension_id, reply: None, is_told: false })
    });
    suspend::open(tx, suspension);
    Ok(EventOutcome::Applied)
}

/// Closes the question that the call has withdrawn, so that nobody answers it in vain.
pub(crate) fn tool_withdrew(tx: &mut Tx<'_>, id: &CallId, attempt: u32, number: u32) -> EventOutcome {
    let asked = tx.state.calls.get(id).and_then(|call| call.record.asked.as_ref());
    let is_open = asked.is_some_and(|asked| asked.number == number && asked.reply.is_none());
    if !is_open || !tx.state.is_running_as(id, attempt) {
        return EventOutcome::Ignored;
    }
    suspension::withdraw_question_of_call(tx, id, "the tool no longer waits for the answer");
    EventOutcome::Applied
}

/// The question is closed; its reply is stored with the call.
pub(crate) fn store_reply(tx: &mut Tx<'_>, id: &CallId, reply: Reply) {
    let Some(asked) = tx.state.calls.get(id).and_then(|call| call.record.asked.clone()) else { return };
    let reply = match reply {
        Reply::Accepted { value } => {
            Reply::Accepted { value: tx.store(format!("{}.reply", asked.suspension_id), value) }
        }
        Reply::Declined | Reply::Cancelled => reply,
    };
    tx.change_call(id, |call| call.record.asked = Some(PendingQuestion { reply: Some(reply), ..asked }));
}

/// Marks the replies that this commit delivers to running calls. Only the lease holder can deliver them; a reply that
/// another process commits wakes the holder.
pub(crate) fn deliver_replies(tx: &mut Tx<'_>) {
    if tx.stamp.holder.is_none() {
        return;
    }
    for id in tx.state.calls_with_new_reply().cloned().collect::<Vec<_>>() {
        tx.change_call(&id, |call| call.record.asked.as_mut().map(|asked| asked.is_told = true));
    }
}
