//! Waiting that whoever sits here may leave: by Ctrl-C, or as the time that was given is up.

use std::future::pending;

use tokio::signal::unix::Signal;
use tokio::time::{Instant, sleep_until};

/// Why nobody waits any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    Interrupted,
    TooLate,
}

/// What comes of it, unless it is left before: then it is dropped, and what was sent may have reached the server.
pub(super) async fn unless_left<T>(
    waiting: impl Future<Output = T>,
    interrupts: &mut Signal,
    deadline: Option<Instant>,
) -> Result<T, Left> {
    tokio::select! {
        // What is there counts.
        biased;
        done = waiting => Ok(done),
        _ = interrupts.recv() => Err(Left::Interrupted),
        () = passed(deadline) => Err(Left::TooLate),
    }
}

/// Without one it never passes.
pub(super) async fn passed(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => pending().await,
    }
}
