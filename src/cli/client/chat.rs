//! `pes chat`: one run after another in the same thread.

use serde_json::{Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::args::Output;
use super::follow::{Ended, Watched, follow};
use super::input::Input;
use super::lists::open_questions_of;
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
    let mut asks = match &place {
        Some(here) => {
            let asks = unless_stopped(run_that_asks(server, here), &mut interrupts, None);
            let Ok(asks) = asks.await else { return Ok(()) };
            asks?
        }
        None => None,
    };
    loop {
        let (here, run, after) = match (place.take(), asks.take()) {
            // Its question comes before the next query, which would wait behind it.
            (Some(here), Some(run)) => (here, run, 0),
            (here, _) => match send_next(server, here, &mut interrupts, input).await? {
                Some(sent) => sent,
                None => return Ok(()),
            },
        };
        let thread = here.thread_id.clone();
        if !watch(server, here, run, after, input).await? {
            return Ok(());
        }
        let again = thread_of(server, Some(thread));
        let Ok(found) = unless_stopped(again, &mut interrupts, None).await else { return Ok(()) };
        place = Some(found?);
    }
}

/// The newest run of a thread in which a question is open that can be answered here.
async fn run_that_asks(server: &Server, here: &Thread) -> Result<Option<String>, Error> {
    let Some(run) = here.last_run.as_ref().filter(|_| can_ask()) else { return Ok(None) };
    let open = open_questions_of(server, &here.thread_id).await?;
    Ok((!open.is_empty()).then(|| run.run_id.as_str().to_owned()))
}

/// Sends what is typed next: the thread, the run, and the last observation before it. `None`: the person left.
async fn send_next(
    server: &Server,
    here: Option<Thread>,
    interrupts: &mut Signal,
    input: &mut Input,
) -> Result<Option<(Thread, String, i64)>, Error> {
    if can_ask() {
        ask("> ");
    }
    let Ok(typed) = unless_stopped(input.line(), interrupts, None).await else { return Ok(None) };
    let Some(query) = typed?.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let here = match here {
        Some(here) => here,
        None => {
            let made = unless_stopped(thread_of(server, None), interrupts, None);
            let Ok(made) = made.await else { return Ok(None) };
            let made = made?;
            tell(&format!("Thread {0}. `{CHAT} {0}` goes on with it.", made.thread_id));
            made
        }
    };
    let sent = process(server, &here.thread_id, &json!({ "query": query }), interrupts, None).await;
    let Ok(sent) = sent else { return Ok(None) };
    let (run, after) = (sent?.run_id, here.last_seq);
    Ok(Some((here, run, after)))
}

/// Shows a run to its end; `false`: the person left.
async fn watch(server: &Server, here: Thread, run: String, after: i64, input: &mut Input) -> Result<bool, Error> {
    let Thread { thread_id: thread, title, .. } = here;
    let output = Output { json: false, tokens: false };
    let watched =
        Watched { thread: thread.clone(), title, run, after, output, may_ask: true, deadline: None, command: CHAT };
    let ended = follow(server, watched, input).await?;
    if matches!(ended, Ended::Left) {
        return Ok(false);
    }
    match outcome(server, &thread, CHAT, ended, false) {
        // The chat continues after a failed run.
        Err(error @ (Error::Failed(_) | Error::Partial(_))) => tell(&error.to_string()),
        done => done?,
    }
    Ok(true)
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
        "Thread {thread}. An empty line, Ctrl-D or Ctrl-C ends the talk; `{CHAT} {thread}` goes on with it."
    ));
    Ok(Some(place))
}
