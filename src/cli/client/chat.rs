//! `pes chat`: one run after another in the same thread.

use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use super::args::Output;
use super::follow::{Ended, Watched, follow};
use super::input::Input;
use super::run::{Thread, outcome, process, thread_of};
use super::stop::unless_stopped;
use super::terminal::{ask, can_ask, tell};
use crate::cli::Error;
use crate::cli::server::Server;

/// The command that shows a run of the talk again, to precede its thread.
const CHAT: &str = "pes chat";

pub(super) async fn chat(server: &Server, thread: Option<String>, input: &mut Input) -> Result<(), Error> {
    // Ctrl-C no longer ends the process by default: the offer of a server has handled it.
    let mut interrupts = signal(SignalKind::interrupt())?;
    let Ok(begun) = unless_stopped(begin(server, thread), &mut interrupts, None).await else { return Ok(()) };
    let mut place = begun?;
    loop {
        if can_ask() {
            ask("> ");
        }
        let Ok(typed) = unless_stopped(input.line(), &mut interrupts, None).await else { return Ok(()) };
        let Some(query) = typed.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()) else {
            return Ok(());
        };
        let here = match place.take() {
            Some(here) => here,
            None => {
                let made = unless_stopped(thread_of(server, None), &mut interrupts, None);
                let Ok(made) = made.await else { return Ok(()) };
                let made = made?;
                tell(&format!("Thread {0}. `pes chat {0}` goes on with it.", made.thread_id));
                made
            }
        };
        let thread = here.thread_id;
        let sent = process(server, &thread, &json!({ "query": query }), &mut interrupts, None).await;
        let Ok(sent) = sent else { return Ok(()) };
        let receipt = sent?;
        let output = Output { json: false, tokens: false };
        let (run, after, title) = (receipt.run_id, here.last_seq, here.title);
        let watched =
            Watched { thread: thread.clone(), title, run, after, output, may_ask: true, deadline: None, command: CHAT };
        let ended = follow(server, watched, input).await?;
        let is_left = matches!(ended, Ended::Left);
        match outcome(server, &thread, CHAT, ended, false) {
            Ok(()) if is_left => return Ok(()),
            Ok(()) => {}
            // The chat continues after a failed run.
            Err(error @ (Error::Failed(_) | Error::Partial(_))) => tell(&error.to_string()),
            Err(error) => return Err(error),
        }
        let again = thread_of(server, Some(thread.clone()));
        let Ok(found) = unless_stopped(again, &mut interrupts, None).await else { return Ok(()) };
        place = Some(found?);
    }
}

/// The named thread; `None`: the first query creates it.
async fn begin(server: &Server, thread: Option<String>) -> Result<Option<Thread>, Error> {
    let Some(thread) = thread else {
        // A refused key is reported before a query is typed.
        server.get::<Value>("/threads?limit=1").await?;
        tell("An empty line, Ctrl-D or Ctrl-C ends the talk.");
        return Ok(None);
    };
    let place = thread_of(server, Some(thread)).await?;
    let thread = &place.thread_id;
    tell(&format!(
        "Thread {thread}. An empty line, Ctrl-D or Ctrl-C ends the talk; `pes chat {thread}` goes on with it."
    ));
    Ok(Some(place))
}
