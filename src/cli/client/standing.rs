//! How a run stands now. The stream of its thread tells what changes, and not what was before its first observation.

use serde::Deserialize;

use super::lists::open_questions_of;
use crate::cli::Error;
use crate::cli::server::Server;
use crate::domain::hitl::Suspension;
use crate::domain::ids::RunId;
use crate::domain::run::{RunResource, RunStatus};
use crate::domain::thread::ThreadStatus;

pub(super) struct Standing {
    pub status: RunStatus,
    /// The run of the thread that waits for a person, if this one is queued behind it.
    pub ahead: Option<RunId>,
    /// What people are asked on the thread.
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
        // Only the active run of a thread asks.
        let ahead = open.first().filter(|_| is_blocked).map(|asked| asked.run_id.clone());
        Ok(Self { status: run.status, ahead, open })
    }
}
