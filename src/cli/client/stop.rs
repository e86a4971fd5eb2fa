//! Waits that Ctrl-C or a deadline can end.

use std::future::pending;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep_until};

use super::terminal::tell;
use crate::cli::Error;

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

/// The result of a request that changes something. If Ctrl-C ends the wait for it, the error says that it may have been sent, and
/// names the command that shows whether it was.
pub(in crate::cli) async fn unless_interrupted<T>(
    changing: impl Future<Output = Result<T, Error>>,
    shown_by: &str,
) -> Result<T, Error> {
    let mut interrupts = signal(SignalKind::interrupt())?;
    match unless_stopped(changing, &mut interrupts, None).await {
        Ok(done) => done,
        Err(_) => {
            // Ctrl-C is shown where it was typed.
            tell("");
            Err(Error::Interrupted(format!("The request may have been sent. Try: {shown_by}")))
        }
    }
}

/// Never completes without a deadline.
pub(super) async fn passed(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => pending().await,
    }
}
