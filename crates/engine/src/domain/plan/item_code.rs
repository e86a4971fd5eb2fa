//! The error codes that only todo items have.

use crate::domain::words;

words! {
    /// Why a todo item failed, besides the codes of its calls and of its model; in the order of docs/ERRORS.md.
    pub enum ItemCode {
        EmptyReply = "empty_reply",
        MaxIterations = "max_iterations",
        ReplyCutOff = "reply_cut_off",
        RequiredTools = "required_tools",
        Aborted = "aborted",
        SuspensionTimedOut = "suspension_timed_out",
    }
}
