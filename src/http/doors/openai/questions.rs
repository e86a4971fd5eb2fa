//! Questions that a client names by their ids: they say which thread a request is about. Whatever it sends, few are looked for.

use uuid::Uuid;

use super::asking::Asker;
use super::refusal::Refusal;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::ThreadId;
use crate::service::suspensions;

/// Questions that one request may answer.
const MOST_ANSWERED: usize = 1_000;

/// Questions that are looked for in one request: of more, the newest.
pub(super) const MOST_SOUGHT: usize = 64;

/// Refuses a request that answers more; `param` is where.
pub(super) fn check_count(answered: usize, param: &str) -> Result<(), Refusal> {
    if answered <= MOST_ANSWERED {
        return Ok(());
    }
    let message = format!("It answers {answered} calls and questions; one request answers {MOST_ANSWERED} at most.");
    Err(Refusal::wrong("invalid", param, message))
}

/// Whether a question can have this id: clients send ids of other makers, too.
pub(super) fn may_be_one(id: &str) -> bool {
    id.strip_prefix("sus_").is_some_and(|rest| Uuid::try_parse(rest).is_ok())
}

/// The thread of the newest of these that there is.
pub(super) async fn thread_of<'a>(
    asker: &Asker,
    ids: impl Iterator<Item = &'a str>,
) -> Result<Option<ThreadId>, Fault> {
    let mut ids: Vec<&str> = ids.filter(|id| may_be_one(id)).collect();
    // Ids are in the order in which the questions were asked.
    ids.sort_unstable_by(|one, other| other.cmp(one));
    for id in ids.into_iter().take(MOST_SOUGHT) {
        match suspensions::get(&asker.app.service, &asker.caller, &id.into()).await {
            Err(fault) if fault.code == Code::NotFound => {}
            found => return Ok(Some(found?.thread_id)),
        }
    }
    Ok(None)
}
