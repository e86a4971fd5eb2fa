//! One call to another agent: send a message, find out whether an earlier one arrived, poll a task, or cancel it.

use std::sync::Arc;

use super::connection::{HISTORY_LENGTH, PeerConnection, RemoteTaskRef};
use super::failure::{ActionError, failed, may_be_about_push, may_have_moved, removed, retryable, until_heard};
use crate::a2a::client::Error;
use crate::a2a::fault;
use crate::a2a::report::{self, Progress};
use crate::a2a::types::{self, SendResult, TaskState};
use crate::domain::ids::{TenantPk, ThreadPk};
use crate::domain::task::{PeerFailure, PeerReport, PeerState, TaskActionKind};
use crate::engine::PeerCallInput;
use crate::engine::event::{Event, PeerEvent};
use crate::failpoint;
use crate::runtime::lease::Lease;
use crate::runtime::listening::StreamedTask;
use crate::runtime::shared::Shared;

pub(in crate::runtime) struct PeerAttempt {
    pub(in crate::runtime) shared: Arc<Shared>,
    pub(in crate::runtime) pk: ThreadPk,
    pub(in crate::runtime) tenant: TenantPk,
    pub(in crate::runtime) input: PeerCallInput,
    pub(in crate::runtime) lease: Lease,
}

impl PeerAttempt {
    /// `None`: the lease ended before anything was sent.
    pub(in crate::runtime) async fn perform(self) -> Option<Event> {
        failpoint::reached("peer.before");
        let (id, attempt) = (self.input.task.task_id.clone(), self.input.task.attempt);
        let what = self.input.task.action?.what;
        let outcome = self.run(what).await?;
        failpoint::reached("peer.returned");
        Some(match outcome {
            Ok(report) => Event::Peer(PeerEvent::Reported { task: id, attempt, report: Box::new(report) }),
            Err(failure) => Event::Peer(PeerEvent::Failed { task: id, attempt, failure }),
        })
    }

    async fn run(&self, what: TaskActionKind) -> Option<Result<PeerReport, PeerFailure>> {
        let agent = &self.input.task.agent_id;
        let mut connection = match PeerConnection::open(&self.shared.agents, self.tenant, agent).await {
            Ok(Some(connection)) => connection,
            Ok(None) => return Some(Err(removed(agent))),
            Err(error) => return Some(Err(failed(self.of_opening(what, error).into()))),
        };
        if !self.lease.is_valid() {
            return None;
        }
        connection.peer.trace = self.input.trace.clone();
        let mut done = self.act(what, &connection).await;
        if done.as_ref().is_err_and(may_have_moved)
            && let Some(moved) = connection.moved().await
            && self.lease.is_valid()
        {
            connection = moved;
            done = self.act(what, &connection).await;
        }
        if what != TaskActionKind::Cancel
            && let Ok(report) = &done
        {
            self.stream_without_push(&connection, report);
        }
        if let Err(ActionError::Call(Error::Unreadable(why))) = &done {
            let task = &self.input.task;
            tracing::warn!(agentId = task.agent_id, taskId = task.task_id.as_str(), why, "an answer cannot be read");
        }
        Some(done.map_err(failed))
    }

    /// Nothing was sent to the agent. If its card is refused, so is a task that the agent certainly does not have; what concerns
    /// one that it may have is tried again.
    fn of_opening(&self, what: TaskActionKind, error: Error) -> Error {
        let task = &self.input.task;
        let is_new = what == TaskActionKind::Send && task.remote_task_id.is_none() && !task.earlier_may_have_arrived;
        if is_new { error } else { retryable(error) }
    }

    async fn act(&self, what: TaskActionKind, to: &PeerConnection<'_>) -> Result<PeerReport, ActionError> {
        match what {
            TaskActionKind::Send => self.send(to).await,
            TaskActionKind::Resend => self.resend(to).await,
            TaskActionKind::Ask => self.ask(to).await.map_err(|error| retryable(error).into()),
            TaskActionKind::Cancel => self.cancel(to).await.map_err(|error| until_heard(error).into()),
        }
    }

    /// Reads the stream of a task, if the agent cannot call back.
    fn stream_without_push(&self, to: &PeerConnection<'_>, report: &PeerReport) {
        let task = &self.input.task;
        if self.push(to, task).is_none() {
            self.stream(to, report);
        }
    }

    /// Reads the stream of a task that has not ended, if the agent supports streaming.
    fn stream(&self, to: &PeerConnection<'_>, report: &PeerReport) {
        let task = &self.input.task;
        if report.state.is_terminal() || !to.card.capabilities.streaming {
            return;
        }
        let Some(remote) = task.remote_task_id.clone().or_else(|| report.remote_task_id.clone()) else { return };
        let (pk, tenant, task, progress) = (self.pk, self.tenant, task.task_id.clone(), Progress::of_report(report));
        let (peer, interface) = (to.peer.clone(), to.interface.clone());
        self.shared.listen(StreamedTask { pk, tenant, task, remote, progress, peer, interface });
    }

    async fn send(&self, to: &PeerConnection<'_>) -> Result<PeerReport, ActionError> {
        let mut request = self.request(to).await?;
        failpoint::reached("peer.send");
        let mut sent = to.client().send(&to.peer, &to.interface, &request).await;
        let accepts_push = !sent.as_ref().is_err_and(may_be_about_push);
        if !accepts_push && request.configuration.push.take().is_some() {
            // The agent refused, so it began nothing: it gets the message without a push address, and is streamed or polled.
            sent = to.client().send(&to.peer, &to.interface, &request).await;
        }
        failpoint::reached("peer.sent");
        let report = match sent? {
            SendResult::Task(task) => {
                // An answer that cannot be read now is read by a poll.
                let later = PeerReport { state: PeerState::Working, ..self.report(to, &task) };
                self.with_answer(to, task).await.map_or(later, |task| self.report(to, &task))
            }
            SendResult::Message(message) => report::of_message(&message, self.max_output_bytes(), to.peer.timeout_ms),
        };
        if !accepts_push {
            self.stream(to, &report);
        }
        Ok(report)
    }

    /// The message may have arrived. Asks the agent, and sends the message again only if that can do no harm.
    async fn resend(&self, to: &PeerConnection<'_>) -> Result<PeerReport, ActionError> {
        if to.peer.dedupes {
            return self.send(to).await.map_err(|error| error.map_call(retryable));
        }
        let task = &self.input.task;
        if let Some(id) = &task.remote_task_id {
            let theirs = to.client().task(&to.peer, &to.interface, id, HISTORY_LENGTH).await.map_err(retryable)?;
            let has_arrived = self.task_ref().is_in(&theirs);
            // The protocol lets an agent leave the history out. Then it may have our message, and ask something else by
            // now: its question is put to a person.
            let is_unknown = theirs.history.is_empty();
            return if has_arrived || is_unknown || !theirs.status.state.is_interrupted() {
                Ok(self.report(to, &theirs))
            } else {
                self.send(to).await
            };
        }
        let unknown = || Error::Unknown("the agent cannot tell whether it has it".to_owned());
        let theirs = self.find(to).await.map_err(retryable)?.ok_or_else(unknown)?;
        let theirs = self.with_answer(to, theirs).await.map_err(retryable)?;
        Ok(self.report(to, &theirs))
    }

    /// The task with its history, if its answer can only be there.
    async fn with_answer(&self, to: &PeerConnection<'_>, theirs: types::Task) -> Result<types::Task, Error> {
        if !report::is_answer_elsewhere(&theirs) {
            return Ok(theirs);
        }
        let read = to.client().task(&to.peer, &to.interface, &theirs.id, HISTORY_LENGTH).await;
        // The task itself was read before.
        let is_nowhere =
            matches!(read, Err(Error::TooLarge(_) | Error::Fault(_) | Error::NotCarriedOut(_) | Error::Unreadable(_)));
        if is_nowhere { Ok(theirs) } else { read }
    }

    /// The task that our message began, if the agent lists it.
    async fn find(&self, to: &PeerConnection<'_>) -> Result<Option<types::Task>, Error> {
        let found = to.find(&self.task_ref()).await?;
        match found {
            // Its output is not in the list.
            Some(task) if task.status.state == TaskState::Completed => {
                to.client().task(&to.peer, &to.interface, &task.id, 0).await.map(Some)
            }
            found => Ok(found),
        }
    }

    async fn ask(&self, to: &PeerConnection<'_>) -> Result<PeerReport, Error> {
        let theirs = match &self.input.task.remote_task_id {
            Some(id) => to.client().task(&to.peer, &to.interface, id, 0).await?,
            None => self.find(to).await?.ok_or_else(|| Error::Fault(fault::Fault::no_task()))?,
        };
        let theirs = self.with_answer(to, theirs).await?;
        Ok(self.report(to, &theirs))
    }

    async fn cancel(&self, to: &PeerConnection<'_>) -> Result<PeerReport, Error> {
        Ok(self.report(to, &to.cancel(&self.task_ref()).await?))
    }

    fn task_ref(&self) -> RemoteTaskRef {
        RemoteTaskRef::of(&self.input.task, &*self.shared.clock)
    }

    fn report(&self, to: &PeerConnection<'_>, theirs: &types::Task) -> PeerReport {
        report::of_task(theirs, self.max_output_bytes(), to.peer.timeout_ms)
    }

    fn max_output_bytes(&self) -> usize {
        self.shared.config.limits.tool_output_bytes
    }
}
