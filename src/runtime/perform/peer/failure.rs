//! Why a call to an agent failed, and what follows from it: call it elsewhere, try again, or tell the engine.

use super::connection::is_about_key;
use crate::a2a::client::Error;
use crate::a2a::fault;
use crate::domain::task::{PeerFailure, PeerFailureKind};
use crate::domain::tool::ToolError;
use crate::store;

/// Why an action came to nothing.
pub(super) enum ActionError {
    /// The call to the agent failed.
    Call(Error),
    /// The policy denies the message by now, so it was not sent.
    Denied(Box<ToolError>),
    /// What was approved is something else, so the message was not sent.
    NotApproved {
        /// An earlier message may have arrived.
        is_repeated: bool,
    },
}

impl ActionError {
    pub(super) fn map_call(self, change: impl FnOnce(Error) -> Error) -> Self {
        match self {
            ActionError::Call(error) => ActionError::Call(change(error)),
            unsent @ (ActionError::Denied(_) | ActionError::NotApproved { .. }) => unsent,
        }
    }
}

impl From<Error> for ActionError {
    fn from(error: Error) -> Self {
        ActionError::Call(error)
    }
}

impl From<store::Error> for ActionError {
    fn from(error: store::Error) -> Self {
        ActionError::Call(error.into())
    }
}

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
pub(super) fn may_have_moved(error: &ActionError) -> bool {
    let ActionError::Call(error) = error else { return false };
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

pub(super) fn failed(error: ActionError) -> PeerFailure {
    let error = match error {
        ActionError::Call(error) => error,
        ActionError::Denied(error) => return PeerFailure::denied(error.message, error.ruling),
        ActionError::NotApproved { is_repeated } => {
            let sent = if is_repeated { "it was not sent again" } else { "nothing was sent" };
            let why = format!("The arguments are not those that were approved; {sent}.");
            return PeerFailure::new(PeerFailureKind::NotApproved, why);
        }
    };
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
    PeerFailure { retry_after_ms, ..PeerFailure::new(kind, message) }
}

pub(super) fn removed(agent: &str) -> PeerFailure {
    PeerFailure::new(PeerFailureKind::Gone, format!("the agent `{agent}` was removed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_without_a_reason_keeps_when_to_try_again() {
        let failure = failed(Error::Unreachable { why: String::new(), retry_after_ms: Some(5_000) }.into());
        let told = PeerFailure::new(PeerFailureKind::Unreachable, "no reason was given");
        assert_eq!(failure, PeerFailure { retry_after_ms: Some(5_000), ..told });
    }
}
