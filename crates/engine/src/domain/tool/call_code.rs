//! The error codes that the server itself gives to tool calls. A tool may use others.

use crate::domain::words;

words! {
    /// Why a tool call failed or was not made, in the order of docs/ERRORS.md.
    pub enum CallCode {
        UnknownTool = "unknown_tool",
        DisabledTool = "disabled_tool",
        InvalidArguments = "invalid_arguments",
        Denied = "denied",
        ApprovalMismatch = "approval_mismatch",
        Rejected = "rejected",
        Timeout = "timeout",
        Panicked = "panicked",
        EgressRefused = "egress_refused",
        SecretUnreadable = "secret_unreadable",
        InvalidOutput = "invalid_output",
        OutputTooLarge = "output_too_large",
        OutputTooDeep = "output_too_deep",
        Unknown = "unknown",
        Unavailable = "unavailable",
        Skipped = "skipped",
        Cancelled = "cancelled",
        PeerFailed = "peer_failed",
        PeerRejected = "peer_rejected",
        PeerCanceled = "peer_canceled",
        PeerRefused = "peer_refused",
        PeerUnreachable = "peer_unreachable",
        PeerLost = "peer_lost",
        PeerRemoved = "peer_removed",
        Failed = "failed",
    }
}

impl CallCode {
    /// `None`: a tool chose this code.
    pub fn parse(code: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|own| own.as_str() == code)
    }

    /// A person or a policy refused the call: the model sees it, and is not told to make the call again.
    pub fn is_refusal(self) -> bool {
        matches!(self, CallCode::Rejected | CallCode::Denied)
    }

    /// The call may have had its effect if it was started: its end was not observed, its result could not be stored, or
    /// its agent was no longer waited for.
    pub fn is_open_ended(self) -> bool {
        match self {
            CallCode::Skipped
            | CallCode::Unknown
            | CallCode::Cancelled
            | CallCode::Panicked
            | CallCode::Timeout
            | CallCode::InvalidOutput
            | CallCode::OutputTooDeep
            | CallCode::OutputTooLarge
            | CallCode::PeerLost
            | CallCode::PeerRemoved => true,
            CallCode::UnknownTool
            | CallCode::DisabledTool
            | CallCode::InvalidArguments
            | CallCode::Denied
            | CallCode::ApprovalMismatch
            | CallCode::Rejected
            | CallCode::EgressRefused
            | CallCode::SecretUnreadable
            | CallCode::Unavailable
            | CallCode::PeerFailed
            | CallCode::PeerRejected
            | CallCode::PeerCanceled
            | CallCode::PeerRefused
            | CallCode::PeerUnreachable
            | CallCode::Failed => false,
        }
    }
}

impl From<CallCode> for String {
    fn from(code: CallCode) -> Self {
        code.as_str().to_owned()
    }
}
