//! Waits that Ctrl-C or a deadline can end.

use std::future::pending;

use tokio::signal::unix::Signal;
use tokio::time::{Instant, sleep_until};

/// Why the wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stopped {
    Interrupted,
    TooLate,
}

/// The result of `waiting`, unless the wait ends first. Then the future is dropped; the server may have got its request.
pub(super) async fn unless_stopped<T>(
    waiting: impl Future<Output = T>,
    interrupts: &mut Signal,
    deadline: Option<Instant>,
) -> Result<T, Stopped> {
    tokio::select! {
        // A finished result wins.
        biased;
        done = waiting => Ok(done),
        _ = interrupts.recv() => Err(Stopped::Interrupted),
        () = passed(deadline) => Err(Stopped::TooLate),
    }
}

/// Never completes without a deadline.
pub(super) async fn passed(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => pending().await,
    }
}
