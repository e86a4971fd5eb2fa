//! A connection to another agent, and the search for our task among those of the agent.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::a2a::client::{ChosenInterface, Client, Error};
use crate::a2a::directory::{Directory, Peer};
use crate::a2a::fault::{self, Fault};
use crate::a2a::types::{self, AgentCard, ListQuery};
use crate::domain::Millis;
use crate::domain::ids::{MessageId, TenantPk};
use crate::domain::task::Task;
use crate::runtime::clock::Clock;

/// The length of a task's history in which our message is searched.
pub(super) const HISTORY_LENGTH: u32 = 50;
/// Bounds the search among an agent's tasks.
const PAGE_SIZE: u32 = 100;
const MAX_PAGES: usize = 10;
/// The clock of the agent may be behind ours by this much.
const CLOCK_SKEW_MS: Millis = 60_000;

/// An agent, its card, and the interface over which it is called.
pub(in crate::runtime) struct PeerConnection<'d> {
    directory: &'d Directory,
    pub(super) peer: Peer,
    pub(super) card: Arc<AgentCard>,
    pub(super) interface: ChosenInterface,
}

/// Identifies our task at another agent: by the agent's id, or by the message that began the task.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::runtime) struct RemoteTaskRef {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::runtime) remote_task_id: Option<String>,
    message_id: MessageId,
    /// The task is not older, by the clock of the machine.
    since: Millis,
}

impl RemoteTaskRef {
    pub(in crate::runtime) fn of(task: &Task, clock: &dyn Clock) -> Self {
        let (remote_task_id, message_id) = (task.remote_task_id.clone(), task.message_id.clone());
        Self { remote_task_id, message_id, since: since(task.created_at, clock) }
    }

    pub(super) fn is_in(&self, theirs: &types::Task) -> bool {
        theirs.history.iter().any(|message| message.message_id == self.message_id.as_str())
    }
}

/// `created_at`, or a time that is earlier by as much as our time, which follows the database's clock, is ahead of the clock of
/// the machine. Agents do not go by the database's.
fn since(created_at: Millis, clock: &dyn Clock) -> Millis {
    created_at - (clock.now() - clock.wall()).max(0)
}

impl<'d> PeerConnection<'d> {
    /// `None`: the agent was removed.
    pub(in crate::runtime) async fn open(
        directory: &'d Directory,
        tenant: TenantPk,
        id: &str,
    ) -> Result<Option<Self>, Error> {
        let Some(peer) = directory.find(tenant, id).await? else { return Ok(None) };
        let card = directory.card(&peer).await?;
        let interface = ChosenInterface::of(&card)?;
        Ok(Some(Self { directory, peer, card, interface }))
    }

    /// The connection over the interface that the agent's card names now, if that is another one.
    pub(super) async fn moved(&self) -> Option<Self> {
        let card = self.directory.reread_card(&self.peer).await.ok()?;
        let interface = ChosenInterface::of(&card).ok().filter(|interface| *interface != self.interface)?;
        Some(Self { directory: self.directory, peer: self.peer.clone(), card, interface })
    }

    pub(super) fn client(&self) -> &Client {
        &self.directory.client
    }

    /// Has the agent cancel the task.
    pub(in crate::runtime) async fn cancel(&self, task: &RemoteTaskRef) -> Result<types::Task, Error> {
        let id = match &task.remote_task_id {
            Some(id) => id.clone(),
            None => self.find(task).await?.ok_or_else(|| Error::Fault(Fault::no_task()))?.id,
        };
        self.client().cancel(&self.peer, &self.interface, &id).await
    }

    /// The task that our message began, if the agent lists it; without its artifacts, as those of all others on the page
    /// would be read, too.
    pub(super) async fn find(&self, task: &RemoteTaskRef) -> Result<Option<types::Task>, Error> {
        let mut query = ListQuery {
            page_size: Some(PAGE_SIZE),
            history_length: Some(HISTORY_LENGTH),
            status_timestamp_after: Some(task.since - CLOCK_SKEW_MS),
            ..ListQuery::default()
        };
        for _ in 0..MAX_PAGES {
            let page = match self.client().tasks(&self.peer, &self.interface, &query).await {
                Ok(page) => page,
                Err(error) if is_about_key(&error) => return Err(error),
                // The agent does not list tasks.
                Err(Error::Fault(_) | Error::Refused(_)) => return Ok(None),
                // The page is too large or cannot be read, not the task.
                Err(Error::TooLarge(why) | Error::Unreadable(why)) => return Err(Error::Unknown(why)),
                Err(error @ (Error::Unreachable { .. } | Error::Unknown(_) | Error::NotCarriedOut(_))) => {
                    return Err(error);
                }
            };
            if let Some(found) = page.tasks.into_iter().find(|theirs| task.is_in(theirs)) {
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

/// Whether the agent did not accept our key. It may accept it later: keys are replaced on one side first.
pub(super) fn is_about_key(error: &Error) -> bool {
    let Error::Fault(fault) = error else { return false };
    matches!(fault.error, fault::Error::Unauthenticated | fault::Error::PermissionDenied)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::clock::Manual;

    #[test]
    fn a_task_is_searched_from_an_earlier_time_on_while_our_time_is_ahead() {
        let clock = Manual::at(1_000_000);
        assert_eq!(since(900_000, &clock), 900_000);
        clock.put_forward(-600_000);
        assert_eq!(since(900_000, &clock), 300_000);
        clock.put_forward(1_200_000);
        assert_eq!(since(900_000, &clock), 900_000, "the clock of the machine is ahead");
    }
}
