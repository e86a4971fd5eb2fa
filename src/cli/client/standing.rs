//! The current status of a run. The stream of its thread has only the changes, not what was true before its first observation.

use serde::Deserialize;

use super::lists::open_questions_of;
use crate::cli::Error;
use crate::cli::server::Server;
use crate::domain::hitl::{AskedQuestion, Suspension};
use crate::domain::ids::RunId;
use crate::domain::run::{RunResource, RunStatus};
use crate::domain::thread::ThreadStatus;

pub(super) struct Standing {
    pub status: RunStatus,
    /// The run of the thread that waits for a person while this one is queued behind it.
    pub ahead: Option<RunId>,
    /// The open questions of the thread.
    pub open: Vec<Suspension>,
}

impl Standing {
    pub async fn of(server: &Server, thread: &str, run: &str) -> Result<Self, Error> {
        #[derive(Deserialize)]
        struct Thread {
            status: ThreadStatus,
        }
        let run: RunResource = server.get(&format!("/runs/{run}")).await?;
        let is_blocked = run.status == RunStatus::Queued
            && server.get::<Thread>(&format!("/threads/{thread}")).await?.status == ThreadStatus::Suspended;
        let open = open_questions_of(server, thread).await?;
        // Only the active run of a thread can ask.
        let ahead = open.first().filter(|_| is_blocked).map(|asked| asked.run_id.clone());
        Ok(Self { status: run.status, ahead, open })
    }
}

/// Whether a run with this status waits for an answer to one of these questions. `is_behind`: it is queued behind a run that
/// waits for a person.
pub(super) fn waits_for_answer(status: RunStatus, is_behind: bool, open: &[AskedQuestion]) -> bool {
    // A call that asks keeps its run running until it is answered.
    let call_asks = open.iter().any(|asked| asked.while_running);
    let waits = match status {
        RunStatus::Suspended => true,
        RunStatus::Queued => is_behind || call_asks,
        RunStatus::Running | RunStatus::Waiting => call_asks,
        RunStatus::Completed | RunStatus::Failed | RunStatus::Cancelled => false,
    };
    waits && !open.is_empty()
}
