//! Questions that a client names by their ids. They identify the thread of a request. The number of lookups is limited,
//! whatever a client sends.

use uuid::Uuid;

use super::error::OpenAiError;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::{SuspensionId, ThreadId};
use crate::http::doors::{DoorRequest, is_suspension_id};
use crate::service::suspensions;

const SUSPENSION_PREFIX: &str = "sus_";

/// The number of digits of a UUID without hyphens.
const SIMPLE_UUID_LENGTH: usize = 32;

/// The maximum number of calls and questions that one request may answer.
const MAX_ANSWERS: usize = 1_000;

/// The maximum number of questions that are looked up for one request, the newest first.
pub(super) const MAX_LOOKUPS: usize = 64;

/// How the ids of calls begin at OpenAI. Some clients give a call whose id begins otherwise another id.
const CALL_PREFIX: &str = "call_";

/// The id under which a client is shown a call of its function: the digits of the suspension id, which is enough to find
/// the thread again.
pub(super) fn call_id(id: &SuspensionId) -> String {
    match id.as_str().strip_prefix(SUSPENSION_PREFIX) {
        Some(digits) if is_suspension_id(id.as_str()) => format!("{CALL_PREFIX}{}", digits.replace('-', "")),
        Some(_) | None => id.to_string(),
    }
}

/// The suspension id of a call that a client names by either id. Any other id stays as it is.
pub(super) fn suspension_id(call: &str) -> String {
    let digits = call.strip_prefix(CALL_PREFIX).filter(|digits| digits.len() == SIMPLE_UUID_LENGTH);
    match digits.map(Uuid::try_parse) {
        Some(Ok(uuid)) => format!("{SUSPENSION_PREFIX}{}", uuid.hyphenated()),
        Some(Err(_)) | None => call.to_owned(),
    }
}

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
