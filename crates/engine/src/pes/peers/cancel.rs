//! Cancels that agents are sent: how long a failing one is repeated, and when it is settled.

use crate::domain::Millis;
use crate::domain::ids::TaskId;
use crate::domain::task::{PeerFailure, PeerFailureKind, Task, TaskActionKind};
use crate::pes::peers::{count_reply, send};
use crate::pes::tx::Tx;

/// How long after its end a task is cancelled at an agent that cannot be reached.
const MAX_CANCEL_TIME: Millis = 24 * 3_600_000;
/// After this many replies that the agent knows no such task, or refuses, a cancel is given up whose task the agent had
/// not named when it was sent.
const MAX_NEGATIVE_REPLIES: u32 = 6;
/// After this many replies that cannot be read, every cancel is given up.
const MAX_UNREADABLE_REPLIES: u32 = 6;

/// The cancel failed: it is sent again, unless that is useless.
pub(super) fn failed(tx: &mut Tx<'_>, task: &Task, failure: PeerFailure) {
    let id = &task.task_id;
    let is_overdue = tx.stamp.now - task.finished_at.unwrap_or(task.created_at) >= MAX_CANCEL_TIME;
    // If the agent called back meanwhile, perhaps it named the task only then: the cancel was a search for it.
    let was_named = task.remote_task_id.is_some() && !task.called;
    let settled = match failure.kind {
        PeerFailureKind::Gone => Some(false),
        PeerFailureKind::TooLarge => Some(true),
        // Nothing is left to cancel.
        PeerFailureKind::NotFound if was_named => Some(true),
        PeerFailureKind::Refused | PeerFailureKind::Unsupported if was_named => Some(false),
        // A task whose remote id is unknown may still be named by a callback.
        PeerFailureKind::NotFound
        | PeerFailureKind::Refused
        | PeerFailureKind::Denied
        | PeerFailureKind::NotApproved
        | PeerFailureKind::Unsupported => {
            let replies = count_reply(tx, id, |task| &mut task.negative_replies);
            (is_overdue || replies >= MAX_NEGATIVE_REPLIES).then_some(false)
        }
        PeerFailureKind::Unreadable => {
            let replies = count_reply(tx, id, |task| &mut task.unreadable_replies);
            (is_overdue || replies >= MAX_UNREADABLE_REPLIES).then_some(false)
        }
        PeerFailureKind::Unreachable | PeerFailureKind::Unknown => is_overdue.then_some(false),
    };
    match settled {
        Some(is_accepted) => settle(tx, id, is_accepted),
        None => send::schedule_action(tx, id, TaskActionKind::Cancel, failure.retry_after_ms),
    }
}

/// Nothing is left to do about the task.
pub(super) fn settle(tx: &mut Tx<'_>, id: &TaskId, is_accepted: bool) {
    tx.change_task(id, |task| {
        task.action = None;
        task.cancel_heard = Some(is_accepted);
    });
}
