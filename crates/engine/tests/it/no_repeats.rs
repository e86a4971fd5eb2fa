//! Nothing is done twice, here or at an agent, unless it was declared idempotent or a person decided so.

use pes_engine::domain::hitl::{Decision, Suspension};
use pes_engine::domain::ids::CallId;
use pes_engine::domain::task::Task;
use pes_engine::domain::tool::CallRecord;
use pes_engine::step::{Keep, RowKind};

use super::sim::Sim;

impl Sim {
    /// Tasks that still need an action.
    pub fn tasks(&self) -> Vec<Task> {
        let open = self.rows.values().filter(|row| row.kind == RowKind::Task && row.keep == Keep::Always);
        open.map(|row| serde_json::from_str(&row.body).unwrap()).collect()
    }

    /// A call is made again only if its tool is declared idempotent or a person decided so.
    pub fn check_starts(&self) {
        for (call, started) in &self.started {
            let row = &self.rows[&(RowKind::Call, call.to_string())];
            let record: CallRecord = serde_json::from_str(&row.body).unwrap();
            assert!(
                record.idempotent || *started <= 1 + self.retries(call),
                "{} was started {started} times",
                record.tool_name
            );
        }
        for remote in self.peers.tasks.values() {
            let begun = self.peers.begun(&remote.call);
            assert!(begun <= 1 + self.retries(&remote.call) as usize, "a task was begun {begun} times");
        }
    }

    /// How often a person decided to make this call in doubt again.
    fn retries(&self, call: &CallId) -> u32 {
        let closed = self.rows.values().filter(|row| row.kind == RowKind::Suspension);
        let closed = closed.map(|row| serde_json::from_str::<Suspension>(&row.body).unwrap());
        let retried = closed.filter(|suspension| {
            let decision = suspension.resolution.as_ref().map(|resolution| resolution.decision);
            suspension.call_id.as_ref() == Some(call) && decision == Some(Decision::Retry)
        });
        retried.count() as u32
    }
}
