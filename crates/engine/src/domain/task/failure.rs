//! Why an action of a task failed: what is known of it decides what follows.

use crate::domain::Millis;
use crate::domain::policy::Ruling;

/// Why an action failed.
#[derive(Clone, Debug, PartialEq)]
pub struct PeerFailure {
    /// Decides what follows.
    pub kind: PeerFailureKind,
    /// A sentence for people and for the model.
    pub message: String,
    /// How long the agent asked to wait, in milliseconds.
    pub retry_after_ms: Option<Millis>,
    /// The decision of the policy, if the message was [`Denied`](PeerFailureKind::Denied).
    pub ruling: Option<Box<Ruling>>,
}

impl PeerFailure {
    /// Without a time to wait and without a ruling.
    pub fn new(kind: PeerFailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after_ms: None, ruling: None }
    }

    /// The policy decided so about the message.
    pub fn denied(message: impl Into<String>, ruling: Option<Box<Ruling>>) -> Self {
        Self { ruling, ..Self::new(PeerFailureKind::Denied, message) }
    }
}

/// Why an action failed, by what can be done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerFailureKind {
    /// It was not carried out: the agent did not respond, or was too busy. It may be tried again.
    Unreachable,
    /// It may have been carried out, and that cannot be found out.
    Unknown,
    /// It was carried out, and the agent's answer is too large to be read.
    TooLarge,
    /// It may have been carried out, and the agent's answer cannot be understood.
    Unreadable,
    /// The agent refused it, or cannot be talked to.
    Refused,
    /// The policy denied the message just before it was to be sent, so it was not.
    Denied,
    /// The arguments are not those that were approved, so the message was not sent.
    NotApproved,
    /// The agent does not do this, or not as the task is now: a task that asks nothing takes no answer.
    Unsupported,
    /// The agent knows no such task.
    NotFound,
    /// There is no such agent any more.
    Gone,
}
