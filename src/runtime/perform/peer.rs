//! One call to another agent: send a message, find out whether an earlier one arrived, poll a task, or cancel it.

use std::sync::Arc;

use serde_json::{Value, json};

use super::peer_connection::{HISTORY_LENGTH, PeerConnection, RemoteTaskRef, is_about_key};
use crate::a2a::client::Error;
use crate::a2a::report::{self, Progress};
use crate::a2a::types::{
    self, Authentication, Configuration, Message, Metadata, Part, PushConfig, Role, SendRequest, SendResult, TaskState,
};
use crate::a2a::{callback, fault};
use crate::domain::digest;
use crate::domain::hitl::SuspensionKind;
use crate::domain::ids::{TenantPk, ThreadPk};
use crate::domain::task::{
    self, PeerFailure, PeerFailureKind, PeerReport, PeerState, RemoteQuestion, Task, TaskActionKind,
};
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
            Err(error) => return Some(Err(failed(error))),
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
        if let Err(Error::Unreadable(why)) = &done {
            let task = &self.input.task;
            tracing::warn!(agentId = task.agent_id, taskId = task.task_id.as_str(), why, "an answer cannot be read");
        }
        Some(done.map_err(failed))
    }

    async fn act(&self, what: TaskActionKind, to: &PeerConnection<'_>) -> Result<PeerReport, Error> {
        match what {
            TaskActionKind::Send => self.send(to).await,
            TaskActionKind::Resend => self.resend(to).await,
            TaskActionKind::Ask => self.ask(to).await.map_err(retryable),
            TaskActionKind::Cancel => self.cancel(to).await.map_err(until_heard),
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

    async fn send(&self, to: &PeerConnection<'_>) -> Result<PeerReport, Error> {
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
    async fn resend(&self, to: &PeerConnection<'_>) -> Result<PeerReport, Error> {
        if to.peer.dedupes {
            return self.send(to).await.map_err(retryable);
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

    async fn request(&self, to: &PeerConnection<'_>) -> Result<SendRequest, Error> {
        let task = &self.input.task;
        let parts = self.parts(task).await?;
        let is_reply = task.reply.is_some();
        let message = Message {
            message_id: task.message_id.to_string(),
            context_id: task.remote_context_id.clone().filter(|_| is_reply),
            task_id: task.remote_task_id.clone().filter(|_| is_reply),
            role: Role::User,
            parts,
            metadata: Metadata::new(),
            extensions: Vec::new(),
            reference_task_ids: Vec::new(),
        };
        let push = if is_reply { None } else { self.push(to, task) };
        // The history would only be our own message, which may be too large for an answer.
        let configuration =
            Configuration { push, return_immediately: true, history_length: Some(0), ..Configuration::default() };
        Ok(SendRequest { tenant: None, message, configuration, metadata: Metadata::new() })
    }

    /// The parts of the message: the person's answer, or the instructions and their input.
    async fn parts(&self, task: &Task) -> Result<Vec<Part>, Error> {
        if let Some(reply) = &task.reply {
            let reply = self.shared.inlined(self.pk, reply.clone()).await?;
            return Ok(vec![reply_part(task.remote_question.as_ref(), reply)]);
        }
        let arguments = self.shared.inlined(self.pk, self.input.arguments.clone()).await?;
        let is_approved = |digest: &String| *digest == digest::of_call(task::TOOL, &arguments);
        if !self.input.digest.as_ref().is_none_or(is_approved) {
            return Err(Error::Refused("the arguments are not those that were approved; nothing was sent".to_owned()));
        }
        let settings = self.input.judged_before.as_deref();
        if let Some(error) =
            self.shared.denial_by_now(self.tenant, &task.thread_id, settings, task::TOOL, &arguments).await
        {
            let sent = if task.earlier_may_have_arrived { "It was not sent again." } else { "Nothing was sent." };
            return Err(Error::Refused(format!("{} {sent}", error.message)));
        }
        let instructions = arguments["instructions"].as_str().unwrap_or_default();
        let input = arguments.get("input").filter(|input| !input.is_null()).cloned();
        Ok(std::iter::once(Part::text(instructions)).chain(input.map(part)).collect())
    }

    /// The push address for the agent; `None`: it has no push support, or cannot reach this server.
    fn push(&self, to: &PeerConnection<'_>, task: &Task) -> Option<PushConfig> {
        if !to.card.capabilities.push_notifications {
            return None;
        }
        let base = self.shared.own_address.base_for(to.interface.is_loopback())?;
        let token = match callback::token(&self.shared.sealer, self.tenant, &task.task_id) {
            Ok(token) => token,
            Err(fault) => {
                tracing::warn!(why = fault.detail, "agents cannot report here; they are asked");
                return None;
            }
        };
        let credentials = Some(token.clone());
        Some(PushConfig {
            url: format!("{base}/a2a/callbacks/{}", task.task_id),
            token: Some(token),
            authentication: Some(Authentication { scheme: "Bearer".to_owned(), credentials }),
            ..PushConfig::default()
        })
    }

    fn report(&self, to: &PeerConnection<'_>, theirs: &types::Task) -> PeerReport {
        report::of_task(theirs, self.max_output_bytes(), to.peer.timeout_ms)
    }

    fn max_output_bytes(&self) -> usize {
        self.shared.config.limits.tool_output_bytes
    }
}

/// Whether the refusal may be about the push address: many agents refuse addresses that are not public.
fn may_be_about_push(error: &Error) -> bool {
    let Error::Fault(fault) = error else { return false };
    // Over HTTP+JSON, 0.3 does not tell the first from the last.
    matches!(
        fault.error,
        fault::Error::PushNotificationNotSupported | fault::Error::InvalidParams | fault::Error::UnsupportedOperation
    )
}

/// Whether the call was not carried out, perhaps because the agent can be called elsewhere or otherwise by now.
fn may_have_moved(error: &Error) -> bool {
    match error {
        // An agent that says when to come back is there.
        Error::Unreachable { retry_after_ms, .. } => retry_after_ms.is_none(),
        Error::NotCarriedOut(_) => true,
        Error::Fault(fault) => {
            matches!(fault.error, fault::Error::VersionNotSupported | fault::Error::MethodNotFound)
        }
        Error::Unknown(_) | Error::TooLarge(_) | Error::Unreadable(_) | Error::Refused(_) => false,
    }
}

/// Makes an unknown outcome retryable, for calls that do no harm when repeated, and so the answer of something that stands
/// in front of the agent.
fn retryable(error: Error) -> Error {
    match error {
        Error::Unknown(why) | Error::NotCarriedOut(why) => Error::unreachable(why),
        other @ (Error::Unreachable { .. }
        | Error::TooLarge(_)
        | Error::Unreadable(_)
        | Error::Fault(_)
        | Error::Refused(_)) => other,
    }
}

/// Makes a refusal of our key retryable, and one without an error of the protocol, for what must reach the agent in the
/// end.
fn until_heard(error: Error) -> Error {
    let may_pass = is_about_key(&error) || matches!(error, Error::NotCarriedOut(_));
    if may_pass { Error::unreachable(error.to_string()) } else { error }
}

fn failed(error: Error) -> PeerFailure {
    let given = Some(error.to_string()).filter(|message| !message.is_empty());
    let message = given.unwrap_or_else(|| "no reason was given".to_owned());
    let (kind, retry_after_ms) = match error {
        Error::Unreachable { retry_after_ms, .. } => (PeerFailureKind::Unreachable, retry_after_ms),
        Error::Unknown(_) => (PeerFailureKind::Unknown, None),
        Error::TooLarge(_) => (PeerFailureKind::TooLarge, None),
        Error::Unreadable(_) => (PeerFailureKind::Unreadable, None),
        Error::Fault(fault) if fault.error == fault::Error::TaskNotFound => (PeerFailureKind::NotFound, None),
        // The task has ended: there is nothing to cancel.
        Error::Fault(fault) if fault.error == fault::Error::TaskNotCancelable => (PeerFailureKind::NotFound, None),
        Error::Fault(fault) if fault.error == fault::Error::UnsupportedOperation => {
            (PeerFailureKind::Unsupported, None)
        }
        Error::NotCarriedOut(_) | Error::Fault(_) | Error::Refused(_) => (PeerFailureKind::Refused, None),
    };
    PeerFailure { kind, message, retry_after_ms }
}

fn removed(agent: &str) -> PeerFailure {
    let message = format!("the agent `{agent}` was removed");
    PeerFailure { kind: PeerFailureKind::Gone, message, retry_after_ms: None }
}

/// A person's answer. It names the question if that has an id: the agent may ask something else by now, and takes the value
/// as it is instead of reading it as text.
fn reply_part(question: Option<&RemoteQuestion>, mut reply: Value) -> Part {
    let Some(question) = question else { return part(reply) };
    // A decision about a call or a plan of the agent's own is a whole answer, to its question instead of ours.
    if question.kind.may_let_run() && reply.is_object() {
        reply["suspensionId"] = json!(question.suspension_id);
        return Part::data(reply);
    }
    let member = if question.kind.asks_for_a_value() {
        "value"
    } else if reply.is_boolean() {
        "approved"
    } else if question.kind == SuspensionKind::InDoubt {
        "action"
    } else {
        return part(reply);
    };
    Part::data(json!({ "suspensionId": question.suspension_id, member: reply }))
}

fn part(value: Value) -> Part {
    match value {
        Value::String(text) => Part::text(text),
        data @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            Part::data(data)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::types::Content;

    #[test]
    fn a_decision_names_the_agents_question() {
        let question = |kind| RemoteQuestion { suspension_id: "sus_theirs".into(), kind };
        let approval = question(SuspensionKind::Approval);
        let reply = json!({ "suspensionId": "sus_ours", "approved": false, "reason": "not today" });
        let sent = json!({ "suspensionId": "sus_theirs", "approved": false, "reason": "not today" });
        assert_eq!(reply_part(Some(&approval), reply).content, Content::Data(sent));
        // A reply that an earlier release stored.
        let sent = json!({ "suspensionId": "sus_theirs", "approved": true });
        assert_eq!(reply_part(Some(&approval), json!(true)).content, Content::Data(sent));
        // An object is the whole value of an input.
        let value = json!({ "suspensionId": "sus_theirs", "value": { "approved": 7 } });
        let given = reply_part(Some(&question(SuspensionKind::Input)), json!({ "approved": 7 }));
        assert_eq!(given.content, Content::Data(value));
        // So is one to a question without an id.
        assert_eq!(reply_part(None, json!({ "approved": 7 })).content, Content::Data(json!({ "approved": 7 })));
    }

    #[test]
    fn a_failure_without_a_reason_keeps_when_to_try_again() {
        let failure = failed(Error::Unreachable { why: String::new(), retry_after_ms: Some(5_000) });
        let message = "no reason was given".to_owned();
        let kind = PeerFailureKind::Unreachable;
        assert_eq!(failure, PeerFailure { kind, message, retry_after_ms: Some(5_000) });
    }
}
