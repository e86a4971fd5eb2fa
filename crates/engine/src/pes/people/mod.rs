//! People: calls wait for their answers, running calls ask them questions, and they pause runs.
//!
//! A question is stored with everything that is needed to answer it. What an answer means is determined here; `decide`
//! applies it.

pub(crate) mod opening;
pub(crate) mod pause;
pub(crate) mod question;
pub(crate) mod suspend;
pub(crate) mod verdict;
