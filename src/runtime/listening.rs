//! Event streams of other agents that cannot call back. Each event is a reason to ask the agent for its task; the event
//! itself is not stored, and tasks are polled without events, too.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

use super::Runtime;
use super::command::CommitExtras;
use super::rows::read;
use super::shared::Shared;
use crate::a2a::client::{Events, Line};
use crate::a2a::directory::Peer;
use crate::domain::ids::{TaskId, TenantPk, ThreadPk};
use crate::domain::task::{PeerState, Task};
use crate::engine::event::{Event, PeerEvent};
use crate::engine::step::RowKind;

/// After so long without an event it is seen whether anybody still waits for the task.
const GLANCE: Duration = Duration::from_secs(60);

/// The tasks that are listened to.
#[derive(Default)]
pub(super) struct Listening(Mutex<HashSet<TaskId>>);

/// A task and the agent that has it.
pub(super) struct StreamedTask {
    pub(super) pk: ThreadPk,
    pub(super) tenant: TenantPk,
    pub(super) task: TaskId,
    pub(super) remote: String,
    /// As it is known to stand.
    pub(super) state: PeerState,
    pub(super) peer: Peer,
    pub(super) line: Line,
}

/// One that is listened to; dropping it makes room.
struct ListenedTask {
    shared: Arc<Shared>,
    heard: StreamedTask,
}

impl Drop for ListenedTask {
    fn drop(&mut self) {
        self.shared.listening.0.lock().remove(&self.heard.task);
    }
}

impl Shared {
    /// Listens until the task is over or the stream ends, unless that is done already or too many are listened to.
    pub(super) fn listen(self: &Arc<Self>, heard: StreamedTask) {
        let mut all = self.listening.0.lock();
        if all.len() >= self.config.delegation.streams || !all.insert(heard.task.clone()) {
            return;
        }
        let (place, draining) = (ListenedTask { shared: self.clone(), heard }, self.draining.clone());
        self.tasks.spawn(async move { draining.run_until_cancelled(place.hear()).await });
    }
}

impl ListenedTask {
    async fn hear(mut self) {
        let StreamedTask { peer, line, remote, task, .. } = &self.heard;
        match self.shared.agents.client.subscribe(peer, line, remote).await {
            Ok(events) => self.follow(events).await,
            Err(error) => tracing::debug!(taskId = %task, %error, "an agent's stream cannot be had; it is asked"),
        }
    }

    async fn follow(&mut self, mut events: Events) {
        let since = Instant::now();
        loop {
            match timeout(GLANCE, events.next()).await {
                Ok(Some(state)) if state == self.heard.state => {}
                Ok(Some(state)) => {
                    self.heard.state = state;
                    self.report_call_back().await;
                    if state.is_terminal() {
                        return;
                    }
                }
                Ok(None) => {
                    // So that whoever hangs up at once is not asked again and again.
                    if since.elapsed() >= GLANCE {
                        self.report_call_back().await;
                    }
                    return;
                }
                Err(_) if self.is_waited_for().await => {}
                Err(_) => return,
            }
        }
    }

    async fn report_call_back(&self) {
        let StreamedTask { pk, task, remote, .. } = &self.heard;
        let event = Event::Peer(PeerEvent::CalledBack { task: task.clone(), remote_task_id: Some(remote.clone()) });
        if let Err(refusal) = Runtime(self.shared.clone()).decide(*pk, event, CommitExtras::default()).await {
            tracing::debug!(taskId = %task, ?refusal, "a report of an agent was refused; the task is polled when it is due");
        }
    }

    async fn is_waited_for(&self) -> bool {
        let StreamedTask { tenant, task, .. } = &self.heard;
        let stored = self.shared.store.find_row(*tenant, RowKind::Task, task.as_str()).await;
        let stored = stored.ok().flatten().and_then(|found| read::<Task>(&found.row).ok());
        stored.is_some_and(|task| !task.status.is_terminal())
    }
}
