//! One errand to another agent: send, find out whether what was sent arrived, ask, or tell it to stop.

use std::sync::Arc;

use serde_json::Value;

use super::peer_failed;
use crate::a2a::client::{Error, Line};
use crate::a2a::directory::Peer;
use crate::a2a::types::{
    self, AgentCard, Authentication, Configuration, ListQuery, Message, Metadata, Part, PushConfig, Role, SendRequest,
    Sent,
};
use crate::a2a::{callback, fault, seen};
use crate::domain::digest;
use crate::domain::ids::TenantPk;
use crate::domain::task::{self, PeerFailure, PeerFailureKind, Seen, Task, What};
use crate::engine::Mission;
use crate::engine::event::Event;
use crate::failpoint;
use crate::runtime::lease::Incarnation;
use crate::runtime::shared::Shared;

/// Of a task's history, when our own message is looked for.
const HISTORY: u32 = 50;
/// Of an agent's tasks, when ours is looked for.
const PAGE: u32 = 100;
const MOST_PAGES: usize = 10;
/// Clocks differ.
const SKEW_MS: i64 = 60_000;

pub(in crate::runtime) struct Errand {
    pub(in crate::runtime) shared: Arc<Shared>,
    pub(in crate::runtime) pk: crate::domain::ids::ThreadPk,
    pub(in crate::runtime) tenant: TenantPk,
    pub(in crate::runtime) mission: Mission,
    pub(in crate::runtime) hold: Incarnation,
}

/// An agent and how it is spoken to.
struct Reached {
    peer: Peer,
    card: Arc<AgentCard>,
    line: Line,
}

impl Errand {
    /// `None`: the right to speak was lost before anything was said.
    pub(in crate::runtime) async fn perform(self) -> Option<Event> {
        failpoint::reached("peer.before");
        let (id, attempt) = (self.mission.task.task_id.clone(), self.mission.task.attempt);
        let what = self.mission.task.errand?.what;
        let outcome = self.run(what).await?;
        failpoint::reached("peer.returned");
        Some(match outcome {
            Ok(seen) => Event::TaskSeen { task: id, attempt, seen: Box::new(seen) },
            Err(failure) if failure.message.is_empty() => {
                peer_failed(&id, attempt, failure.kind, "no reason was given")
            }
            Err(failure) => Event::PeerFailed { task: id, attempt, failure },
        })
    }

    async fn run(&self, what: What) -> Option<Result<Seen, PeerFailure>> {
        let reached = match self.reach().await {
            Ok(reached) => reached,
            Err(error) => return Some(Err(self.failed(error, what))),
        };
        if !self.hold.holds() {
            return None;
        }
        let done = match what {
            What::Send => self.send(&reached).await,
            What::Resend => self.resend(&reached).await,
            What::Ask => self.ask(&reached).await,
            What::Cancel => self.cancel(&reached).await,
        };
        Some(done.map_err(|error| self.failed(error, what)))
    }

    async fn reach(&self) -> Result<Reached, Error> {
        let (directory, id) = (&self.shared.agents, &self.mission.task.agent_id);
        let gone = || Error::Refused(format!("there is no agent `{id}` any more"));
        let peer = directory.one(self.tenant, id).ok_or_else(gone)?;
        let card = directory.card(&peer).await?;
        let line = directory.client.line(&card)?;
        Ok(Reached { peer, card, line })
    }

    async fn send(&self, to: &Reached) -> Result<Seen, Error> {
        let request = self.request(to).await?;
        failpoint::reached("peer.send");
        let sent = self.shared.agents.client.send(&to.peer, &to.line, &request).await;
        failpoint::reached("peer.sent");
        Ok(match sent? {
            Sent::Task(task) => self.seen(to, &task),
            Sent::Message(message) => seen::of_message(&message, self.bytes(), to.peer.timeout_ms),
        })
    }

    /// What went out may have arrived: the agent is asked, and is sent it again only if that can do no harm.
    async fn resend(&self, to: &Reached) -> Result<Seen, Error> {
        if to.peer.dedupes {
            return self.send(to).await;
        }
        let task = &self.mission.task;
        if let Some(id) = &task.remote_task_id {
            let theirs = self.shared.agents.client.task(&to.peer, &to.line, id, HISTORY).await?;
            let has_heard = self.is_in(&theirs);
            return match has_heard || !theirs.status.state.is_interrupted() {
                true => Ok(self.seen(to, &theirs)),
                false => self.send(to).await,
            };
        }
        let unknown = || Error::Unknown("the agent cannot tell whether it has it".to_owned());
        let theirs = self.find(to).await?.ok_or_else(unknown)?;
        Ok(self.seen(to, &theirs))
    }

    async fn ask(&self, to: &Reached) -> Result<Seen, Error> {
        let client = &self.shared.agents.client;
        let theirs = match &self.mission.task.remote_task_id {
            Some(id) => client.task(&to.peer, &to.line, id, 0).await?,
            None => self.find(to).await?.ok_or_else(|| Error::Said(fault::Fault::no_task()))?,
        };
        Ok(self.seen(to, &theirs))
    }

    async fn cancel(&self, to: &Reached) -> Result<Seen, Error> {
        let client = &self.shared.agents.client;
        let id = match &self.mission.task.remote_task_id {
            Some(id) => id.clone(),
            None => self.find(to).await?.ok_or_else(|| Error::Said(fault::Fault::no_task()))?.id,
        };
        let theirs = client.cancel(&to.peer, &to.line, &id).await?;
        Ok(self.seen(to, &theirs))
    }

    /// The task that our message began, if the agent lists it.
    async fn find(&self, to: &Reached) -> Result<Option<types::Task>, Error> {
        let mut query = ListQuery {
            page_size: Some(PAGE),
            history_length: Some(HISTORY),
            status_timestamp_after: Some(self.mission.task.created_at - SKEW_MS),
            include_artifacts: true,
            ..ListQuery::default()
        };
        for _ in 0..MOST_PAGES {
            let page = match self.shared.agents.client.tasks(&to.peer, &to.line, &query).await {
                Ok(page) => page,
                // It does not list tasks, so it cannot tell.
                Err(Error::Said(_) | Error::Refused(_)) => return Ok(None),
                Err(error @ (Error::Unreachable { .. } | Error::Unknown(_))) => return Err(error),
            };
            if let Some(found) = page.tasks.into_iter().find(|theirs| self.is_in(theirs)) {
                return Ok(Some(found));
            }
            if page.next_page_token.is_empty() {
                break;
            }
            query.page_token = Some(page.next_page_token);
        }
        Ok(None)
    }

    fn is_in(&self, theirs: &types::Task) -> bool {
        theirs.history.iter().any(|message| message.message_id == self.mission.task.message_id.as_str())
    }

    async fn request(&self, to: &Reached) -> Result<SendRequest, Error> {
        let task = &self.mission.task;
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
        let configuration = Configuration { push, return_immediately: true, ..Configuration::default() };
        Ok(SendRequest { tenant: to.line.tenant.clone(), message, configuration, metadata: Metadata::new() })
    }

    /// What the agent is told: the person's answer, or the instructions with what they are about.
    async fn parts(&self, task: &Task) -> Result<Vec<Part>, Error> {
        let unread = |error: crate::store::Error| Error::Unreachable { why: error.to_string(), retry_after_ms: None };
        if let Some(reply) = &task.reply {
            let reply = self.shared.inlined(self.pk, reply.clone()).await.map_err(unread)?;
            return Ok(vec![part(reply)]);
        }
        let arguments = self.shared.inlined(self.pk, self.mission.arguments.clone()).await.map_err(unread)?;
        let is_approved = |digest: &String| *digest == digest::of_call(task::TOOL, &arguments);
        if !self.mission.digest.as_ref().is_none_or(is_approved) {
            return Err(Error::Refused("the arguments are not those that were approved; nothing was sent".to_owned()));
        }
        let instructions = arguments["instructions"].as_str().unwrap_or_default();
        let input = arguments.get("input").filter(|input| !input.is_null()).cloned();
        Ok(std::iter::once(Part::text(instructions)).chain(input.map(part)).collect())
    }

    /// Where the agent is to report: only if it can, and can reach us.
    fn push(&self, to: &Reached, task: &Task) -> Option<PushConfig> {
        if !to.card.capabilities.push_notifications {
            return None;
        }
        let base = self.shared.base_for(to.line.is_loopback())?;
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

    fn seen(&self, to: &Reached, theirs: &types::Task) -> Seen {
        seen::of_task(theirs, self.bytes(), to.peer.timeout_ms)
    }

    fn bytes(&self) -> usize {
        self.shared.config.limits.tool_output_bytes
    }

    fn failed(&self, error: Error, what: What) -> PeerFailure {
        let message = error.to_string();
        let (kind, retry_after_ms) = match error {
            Error::Unreachable { retry_after_ms, .. } => (PeerFailureKind::Unreachable, retry_after_ms),
            // Asking does nothing, so it is only asked again.
            Error::Unknown(_) if what == What::Ask => (PeerFailureKind::Unreachable, None),
            Error::Unknown(_) => (PeerFailureKind::Unknown, None),
            Error::Said(fault) if fault.error == fault::Error::TaskNotFound => (PeerFailureKind::NotFound, None),
            // It is over: there is nothing to stop.
            Error::Said(fault) if fault.error == fault::Error::TaskNotCancelable => (PeerFailureKind::NotFound, None),
            Error::Said(_) | Error::Refused(_) => (PeerFailureKind::Refused, None),
        };
        PeerFailure { kind, message, retry_after_ms }
    }
}

fn part(value: Value) -> Part {
    match value {
        Value::String(text) => Part::text(text),
        data @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            Part::data(data)
        }
    }
}
