//! An agent that is spoken to, and our task among those that it has.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::a2a::client::{Client, Error, Line};
use crate::a2a::directory::{Directory, Peer};
use crate::a2a::fault::Fault;
use crate::a2a::types::{self, AgentCard, ListQuery};
use crate::domain::Millis;
use crate::domain::ids::{MessageId, TenantPk};
use crate::domain::task::Task;

/// Of a task's history, when our own message is looked for.
pub(super) const HISTORY: u32 = 50;
/// Of an agent's tasks, when ours is looked for.
const PAGE: u32 = 100;
const MOST_PAGES: usize = 10;
/// Clocks differ.
const SKEW_MS: Millis = 60_000;

/// An agent and how it is spoken to.
pub(in crate::runtime) struct Reached<'d> {
    directory: &'d Directory,
    pub(super) peer: Peer,
    pub(super) card: Arc<AgentCard>,
    pub(super) line: Line,
}

/// A task of ours at its agent: by the agent's own id, or by the message that began it.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::runtime) struct Sought {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::runtime) remote_task_id: Option<String>,
    message_id: MessageId,
    since: Millis,
}

impl Sought {
    pub(in crate::runtime) fn of(task: &Task) -> Self {
        let remote_task_id = task.remote_task_id.clone();
        Self { remote_task_id, message_id: task.message_id.clone(), since: task.created_at }
    }

    pub(super) fn is_in(&self, theirs: &types::Task) -> bool {
        theirs.history.iter().any(|message| message.message_id == self.message_id.as_str())
    }
}

impl<'d> Reached<'d> {
    /// `None`: there is no such agent any more.
    pub(in crate::runtime) async fn one(
        directory: &'d Directory,
        tenant: TenantPk,
        id: &str,
    ) -> Result<Option<Self>, Error> {
        let unread = |error: crate::store::Error| Error::Unreachable { why: error.to_string(), retry_after_ms: None };
        let Some(peer) = directory.find(tenant, id).await.map_err(unread)? else { return Ok(None) };
        let card = directory.card(&peer).await?;
        let line = directory.client.line(&card)?;
        Ok(Some(Self { directory, peer, card, line }))
    }

    pub(super) fn client(&self) -> &Client {
        &self.directory.client
    }

    /// Tells the agent to stop.
    pub(in crate::runtime) async fn cancel(&self, sought: &Sought) -> Result<types::Task, Error> {
        let id = match &sought.remote_task_id {
            Some(id) => id.clone(),
            None => self.find(sought).await?.ok_or_else(|| Error::Said(Fault::no_task()))?.id,
        };
        self.client().cancel(&self.peer, &self.line, &id).await
    }

    /// The task that our message began, if the agent lists it.
    pub(super) async fn find(&self, sought: &Sought) -> Result<Option<types::Task>, Error> {
        let mut query = ListQuery {
            page_size: Some(PAGE),
            history_length: Some(HISTORY),
            status_timestamp_after: Some(sought.since - SKEW_MS),
            include_artifacts: true,
            ..ListQuery::default()
        };
        for _ in 0..MOST_PAGES {
            let page = match self.client().tasks(&self.peer, &self.line, &query).await {
                Ok(page) => page,
                // It does not list tasks, so it cannot tell.
                Err(Error::Said(_) | Error::Refused(_)) => return Ok(None),
                Err(error @ (Error::Unreachable { .. } | Error::Unknown(_))) => return Err(error),
            };
            if let Some(found) = page.tasks.into_iter().find(|theirs| sought.is_in(theirs)) {
                return Ok(Some(found));
            }
            if page.next_page_token.is_empty() {
                break;
            }
            query.page_token = Some(page.next_page_token);
        }
        Ok(None)
    }
}
