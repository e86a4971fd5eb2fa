//! Leaves a run that goes on: by Ctrl-C, whose second press cancels it, or at a deadline.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::signal::unix::Signal;
use tokio::time::timeout;

use super::follow::{Ended, Watched};
use super::show::line;
use super::stop::{Stopped, unless_stopped};
use super::terminal::tell;
use crate::cli::Error;
use crate::cli::server::Server;

/// A second Ctrl-C within this time cancels the run.
const SECOND_PRESS: Duration = Duration::from_secs(2);

/// `asks`: the run waits for an answer.
pub(super) async fn leave(
    server: &Server,
    watched: &Watched,
    asks: bool,
    stopped: Stopped,
    interrupts: &mut Signal,
) -> Result<Ended, Error> {
    let (command, thread) = (watched.command, line(&watched.thread));
    if stopped == Stopped::TooLate {
        return Err(Error::TimedOut(format!("The run is not over in time; it goes on. Try: {command} {thread}")));
    }
    let (state, seconds) = (if asks { "waits for an answer" } else { "goes on" }, SECOND_PRESS.as_secs());
    tell(&format!("\nYou left; the run {state}. See it: {command} {thread}. Ctrl-C within {seconds} s cancels it."));
    if timeout(SECOND_PRESS, interrupts.recv()).await.is_err() {
        return Ok(Ended::Left);
    }
    let (path, nothing) = (format!("/runs/{}/cancel", watched.run), json!({}));
    let cancelling = server.post::<Value>(&path, &nothing);
    // A further Ctrl-C also stops waiting for the server.
    match unless_stopped(cancelling, interrupts, None).await {
        Ok(Ok(_)) => Err(Error::Cancelled("The run is being cancelled: nothing new starts.".to_owned())),
        Ok(Err(why)) => Err(why),
        Err(_) => Err(Error::Failed(format!("The server may not have heard of the cancel. Try: pes cancel {thread}"))),
    }
}
