//! The error codes that the server itself gives to tool calls. A tool may use others.

use crate::domain::words;

words! {
    /// Why a tool call failed or was not made, in the order of docs/ERRORS.md.
    pub enum CallCode {
        /// There is no tool of this name, or it is off on this server.
        UnknownTool = "unknown_tool",
        /// The settings of the run leave the tool out.
        DisabledTool = "disabled_tool",
        /// The arguments do not fit the tool's schema: nothing was done.
        InvalidArguments = "invalid_arguments",
        /// A policy denies the call: nothing was done.
        Denied = "denied",
        /// The stored arguments are not those that were approved: nothing was done.
        ApprovalMismatch = "approval_mismatch",
        /// A person said no: nothing was done.
        Rejected = "rejected",
        /// It did not end in time, and only reads.
        Timeout = "timeout",
        /// The tool panicked.
        Panicked = "panicked",
        /// The address may not be called: nothing was sent.
        EgressRefused = "egress_refused",
        /// The secret that signs the call cannot be decrypted: nothing was sent.
        SecretUnreadable = "secret_unreadable",
        /// The output does not fit the tool's schema, or cannot be stored.
        InvalidOutput = "invalid_output",
        /// The output has more bytes than
        /// [`Limits::tool_output_bytes`](crate::domain::thread::Limits::tool_output_bytes).
        OutputTooLarge = "output_too_large",
        /// The output nests deeper than [`MOST_DEPTH`](crate::domain::depth::MOST_DEPTH).
        OutputTooDeep = "output_too_deep",
        /// The call may have had its effect; its result is not known.
        Unknown = "unknown",
        /// What it needs is not available: nothing was sent.
        Unavailable = "unavailable",
        /// It was not made, because its item or run ended first.
        Skipped = "skipped",
        /// Its run was cancelled.
        Cancelled = "cancelled",
        /// The agent failed the delegated task.
        PeerFailed = "peer_failed",
        /// The agent would not take the delegated task.
        PeerRejected = "peer_rejected",
        /// The agent ended the delegated task by a cancel.
        PeerCanceled = "peer_canceled",
        /// The agent refused the request about the task.
        PeerRefused = "peer_refused",
        /// The agent could not be reached for as long as the task may take.
        PeerUnreachable = "peer_unreachable",
        /// The agent does not know the task any more.
        PeerLost = "peer_lost",
        /// The agent is no longer registered here.
        PeerRemoved = "peer_removed",
        /// The tool reports a failure without a code of its own.
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
