//! The error codes that only todo items have.

use crate::domain::words;

words! {
    /// Why a todo item failed, besides the codes of its calls and of its model; in the order of docs/ERRORS.md.
    pub enum ItemCode {
        /// The model's reply was empty, also after retries.
        EmptyReply = "empty_reply",
        /// It was not done after as many model calls as an item may have.
        MaxIterations = "max_iterations",
        /// The model's reply was cut off for its length, again and again.
        ReplyCutOff = "reply_cut_off",
        /// It ended without a call of each of its required tools.
        RequiredTools = "required_tools",
        /// A person ended it.
        Aborted = "aborted",
        /// A question of it was not answered in time, and its policy is `fail`.
        SuspensionTimedOut = "suspension_timed_out",
    }
}
