//! Why a call to an agent failed, and what follows from it: call it elsewhere, try again, or tell the engine.

use super::connection::is_about_key;
use crate::a2a::client::Error;
use crate::a2a::fault;
use crate::domain::task::{PeerFailure, PeerFailureKind};

/// Whether the refusal may be about the push address: many agents refuse addresses that are not public.
pub(super) fn may_be_about_push(error: &Error) -> bool {
    let Error::Fault(fault) = error else { return false };
    // Over HTTP+JSON, 0.3 does not tell the first from the last.
    matches!(
        fault.error,
        fault::Error::PushNotificationNotSupported | fault::Error::InvalidParams | fault::Error::UnsupportedOperation
    )
}

/// Whether the call was not carried out, perhaps because the agent can be called elsewhere or otherwise by now.
pub(super) fn may_have_moved(error: &Error) -> bool {
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
pub(super) fn retryable(error: Error) -> Error {
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
pub(super) fn until_heard(error: Error) -> Error {
    let may_pass = is_about_key(&error) || matches!(error, Error::NotCarriedOut(_));
    if may_pass { Error::unreachable(error.to_string()) } else { error }
}

pub(super) fn failed(error: Error) -> PeerFailure {
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

pub(super) fn removed(agent: &str) -> PeerFailure {
    let message = format!("the agent `{agent}` was removed");
    PeerFailure { kind: PeerFailureKind::Gone, message, retry_after_ms: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_without_a_reason_keeps_when_to_try_again() {
        let failure = failed(Error::Unreachable { why: String::new(), retry_after_ms: Some(5_000) });
        let message = "no reason was given".to_owned();
        let kind = PeerFailureKind::Unreachable;
        assert_eq!(failure, PeerFailure { kind, message, retry_after_ms: Some(5_000) });
    }
}
