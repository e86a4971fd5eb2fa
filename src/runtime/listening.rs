//! Event streams of agents that cannot call back. An event makes this server ask the agent for its task; the event itself is
//! not stored. Tasks are also polled without events.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, timeout_at};

use super::actor::CommitExtras;
use super::rows::read;
use super::shared::Shared;
use crate::a2a::client::{ChosenInterface, Events};
use crate::a2a::directory::Peer;
use crate::a2a::report::Progress;
use crate::domain::ids::{TaskId, TenantPk, ThreadPk};
use crate::domain::task::Task;
use crate::engine::event::{Event, PeerEvent};
use crate::engine::step::RowKind;

/// How often the listener checks whether the task is still awaited.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// The tasks whose streams are read.
#[derive(Default)]
pub(super) struct ListenedTasks(Mutex<HashSet<TaskId>>);

/// A task at another agent, and the connection to that agent.
pub(super) struct StreamedTask {
    pub(super) pk: ThreadPk,
    pub(super) tenant: TenantPk,
    pub(super) task: TaskId,
    pub(super) remote: String,
    /// The last known state, and what the task asks in it.
    pub(super) progress: Progress,
    pub(super) peer: Peer,
    pub(super) interface: ChosenInterface,
}

/// Reads the stream of a task; frees its place when dropped.
struct TaskListener {
    shared: Arc<Shared>,
    streamed: StreamedTask,
}

impl Drop for TaskListener {
    fn drop(&mut self) {
        self.shared.listening.0.lock().remove(&self.streamed.task);
    }
}

impl Shared {
    /// Reads the task's stream until the task or the stream ends. Does nothing if it is read already, or too many are.
    pub(super) fn listen(self: &Arc<Self>, streamed: StreamedTask) {
        let mut all = self.listening.0.lock();
        if all.len() >= self.config.delegation.streams || !all.insert(streamed.task.clone()) {
            return;
        }
        let (listener, draining) = (TaskListener { shared: self.clone(), streamed }, self.stop.draining.clone());
        self.stop.tasks.spawn(async move { draining.run_until_cancelled(listener.run()).await });
    }
}

/// When the next check is due.
struct Checks(Instant);

impl Checks {
    fn new() -> Self {
        Self(Instant::now() + CHECK_INTERVAL)
    }

    /// The event; `None`: a check is due first. However many events come, that is once in each interval.
    async fn next_before<T>(&mut self, event: impl Future<Output = T>) -> Option<T> {
        let is_due = self.0 <= Instant::now();
        let next = if is_due { None } else { timeout_at(self.0, event).await.ok() };
        if next.is_none() {
            *self = Self::new();
        }
        next
    }
}

impl TaskListener {
    async fn run(mut self) {
        let StreamedTask { peer, interface, remote, task, .. } = &self.streamed;
        match self.shared.agents.client.subscribe(peer, interface, remote).await {
            Ok(events) => self.read_events(events).await,
            Err(error) => tracing::debug!(taskId = %task, %error, "an agent's stream cannot be had; it is asked"),
        }
    }

    async fn read_events(&mut self, mut events: Events) {
        let since = Instant::now();
        let mut checks = Checks::new();
        loop {
            match checks.next_before(events.next()).await {
                Some(Some(progress)) if progress == self.streamed.progress => {}
                Some(Some(progress)) => {
                    self.streamed.progress = progress;
                    self.trigger_poll().await;
                    if self.streamed.progress.state.is_terminal() {
                        return;
                    }
                }
                Some(None) => {
                    // An agent that closes the stream at once must not be asked again and again.
                    if since.elapsed() >= CHECK_INTERVAL {
                        self.trigger_poll().await;
                    }
                    return;
                }
                None if self.is_awaited().await => {}
                None => return,
            }
        }
    }

    async fn trigger_poll(&self) {
        let StreamedTask { pk, task, remote, .. } = &self.streamed;
        let event = Event::Peer(PeerEvent::CalledBack { task: task.clone(), remote_task_id: Some(remote.clone()) });
        if let Err(refusal) = self.shared.decide(*pk, event, CommitExtras::default()).await {
            tracing::debug!(taskId = %task, ?refusal, "a report of an agent was refused; the task is polled when it is due");
        }
    }

    async fn is_awaited(&self) -> bool {
        let StreamedTask { tenant, task, .. } = &self.streamed;
        let stored = self.shared.store.find_row(*tenant, RowKind::Task, task.as_str()).await;
        let stored = stored.ok().flatten().and_then(|found| read::<Task>(&found.row).ok());
        stored.is_some_and(|task| !task.status.is_terminal())
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use tokio::time::{advance, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_check_is_due_once_in_each_interval_however_many_events_come() {
        let (mut checks, start) = (Checks::new(), Instant::now());
        assert_eq!(checks.next_before(pending::<()>()).await, None);
        assert_eq!(start.elapsed().as_secs(), 60);
        for _ in 0..5 {
            assert_eq!(checks.next_before(sleep(Duration::from_secs(11))).await, Some(()));
        }
        assert_eq!(checks.next_before(sleep(Duration::from_secs(11))).await, None);
        assert_eq!(start.elapsed().as_secs(), 120);
        advance(CHECK_INTERVAL).await;
        assert_eq!([checks.next_before(ready(())).await, checks.next_before(ready(())).await], [None, Some(())]);
    }
}
