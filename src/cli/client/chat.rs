//! `pes chat`: one run after another in the same thread.

use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use super::args::Output;
use super::follow::{Ended, Watched, follow};
use super::input::Input;
use super::leave::unless_left;
use super::run::{Receipt, outcome, thread_of};
use super::terminal::{ask, can_ask, tell};
use crate::cli::Error;
use crate::cli::server::Server;

pub(super) async fn chat(server: &Server, thread: Option<String>, input: &mut Input) -> Result<(), Error> {
    let mut place = thread_of(server, thread).await?;
    let thread = place.thread_id.clone();
    tell(&format!(
        "Thread {thread}. An empty line, Ctrl-D or Ctrl-C ends the talk; `pes chat {thread}` goes on with it."
    ));
    // Once a run was followed, the process no longer ends of itself.
    let mut interrupts = signal(SignalKind::interrupt())?;
    loop {
        if can_ask() {
            ask("> ");
        }
        let Ok(typed) = unless_left(input.line(), &mut interrupts, None).await else { return Ok(()) };
        let Some(query) = typed.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()) else {
            return Ok(());
        };
        let (path, query) = (format!("/threads/{thread}/process"), json!({ "query": query }));
        let Ok(sent) = unless_left(server.post::<Receipt>(&path, &query), &mut interrupts, None).await else {
            tell(&format!("\nThe query may have been sent. `pes watch {thread}` shows it."));
            return Ok(());
        };
        let receipt = sent?;
        let output = Output { json: false, tokens: false };
        let (run, after, title) = (receipt.run_id, place.last_seq, place.title);
        let watched = Watched { thread: thread.clone(), title, run, after, output, may_ask: true, timeout: None };
        let ended = follow(server, watched, input).await?;
        let is_left = matches!(ended, Ended::Detached);
        match outcome(&thread, ended, false) {
            Ok(()) if is_left => return Ok(()),
            Ok(()) => {}
            // The talk goes on after what did not work.
            Err(error @ (Error::Failed(_) | Error::Partial(_))) => tell(&error.to_string()),
            Err(error) => return Err(error),
        }
        let again = thread_of(server, Some(thread.clone()));
        let Ok(found) = unless_left(again, &mut interrupts, None).await else { return Ok(()) };
        place = found?;
    }
}
