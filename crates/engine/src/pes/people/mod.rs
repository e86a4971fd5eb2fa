//! People: calls wait for them, they are asked in the middle of a call, they hold a run back.
//!
//! A question is stored with everything that an answer to it needs; what an answer means is said here, and takes effect
//! above.

pub(crate) mod opening;
pub(crate) mod pause;
pub(crate) mod question;
pub(crate) mod resume;
pub(crate) mod suspend;
