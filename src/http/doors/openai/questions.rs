//! Questions that a client names by their ids. They identify the thread of a request. The number of lookups is limited,
//! whatever a client sends.

use super::error::OpenAiError;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::ThreadId;
use crate::http::doors::{DoorRequest, is_suspension_id};
use crate::service::suspensions;

/// The maximum number of calls and questions that one request may answer.
const MAX_ANSWERS: usize = 1_000;

/// The maximum number of questions that are looked up for one request, the newest first.
pub(super) const MAX_LOOKUPS: usize = 64;

/// Refuses a request that answers too many. `param` is the member to name in the error.
pub(super) fn check_count(answered: usize, param: &str) -> Result<(), OpenAiError> {
    if answered <= MAX_ANSWERS {
        return Ok(());
    }
    let message = format!("It answers {answered} calls and questions; one request answers {MAX_ANSWERS} at most.");
    Err(OpenAiError::bad_request("invalid", param, message))
}

/// The thread of the newest of these questions that exists.
pub(super) async fn thread_of<'a>(
    ctx: &DoorRequest,
    ids: impl Iterator<Item = &'a str>,
) -> Result<Option<ThreadId>, Fault> {
    let mut ids: Vec<&str> = ids.filter(|id| is_suspension_id(id)).collect();
    // The ids sort by the time at which the questions were asked.
    ids.sort_unstable_by(|one, other| other.cmp(one));
    for id in ids.into_iter().take(MAX_LOOKUPS) {
        match suspensions::get(&ctx.app.service, &ctx.caller, &id.into()).await {
            Err(fault) if fault.code == Code::NotFound => {}
            found => return Ok(Some(found?.thread_id)),
        }
    }
    Ok(None)
}
