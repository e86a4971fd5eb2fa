//! `pes run` and `pes watch`.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

use super::args::{RunArguments, WatchArguments};
use super::follow::{Ended, Watched, follow};
use super::input::{Input, all_of_stdin};
use super::plan_view::subject;
use super::show::{block, line};
use super::stop::{Stopped, unless_stopped};
use super::terminal::{is_output_shown, print, tell};
use crate::cli::Error;
use crate::cli::server::Server;
use crate::config::layers::did_you_mean;
use crate::domain::hitl::AskedQuestion;
use crate::domain::ids::ItemId;
use crate::domain::run::{ResultStatus, RunFailure, RunResource, RunStatus};
use crate::domain::thread::LastRun;
use crate::domain::tool::CallCode;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Receipt {
    pub run_id: String,
    status: RunStatus,
}

/// What is known of a thread before it is followed.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Thread {
    pub thread_id: String,
    pub last_seq: i64,
    /// Empty until the thread has one.
    pub title: String,
    pub last_run: Option<LastRun>,
}

/// The text of a query; `-` reads it from stdin.
pub(super) fn query(given: String) -> Result<String, Error> {
    let query = if given == "-" { all_of_stdin()? } else { given };
    if query.trim().is_empty() {
        return Err(Error::Usage("Nothing is asked: the query is empty.".to_owned()));
    }
    Ok(query)
}

/// The command that shows a run again, to precede its thread.
const WATCH: &str = "pes watch";

pub(super) async fn run(server: &Server, arguments: RunArguments, input: &mut Input) -> Result<(), Error> {
    let RunArguments { query, thread, review, timeout, no_input, detach, output } = arguments;
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    let mut interrupts = signal(SignalKind::interrupt())?;
    let found = match unless_stopped(thread_of(server, thread), &mut interrupts, deadline).await {
        Ok(found) => found?,
        Err(stopped) => {
            // Ctrl-C is shown where it was typed.
            tell(if stopped == Stopped::Interrupted { "\nNothing was asked." } else { "Nothing was asked." });
            return unanswered(stopped);
        }
    };
    let Thread { thread_id: thread, last_seq: after, title, .. } = found;
    let mut body = json!({ "query": query });
    if review {
        body["options"] = json!({ "executionConfig": { "planReview": "always" } });
    }
    let receipt = match process(server, &thread, &body, &mut interrupts, deadline).await {
        Ok(receipt) => receipt?,
        Err(stopped) => return unanswered(stopped),
    };
    if detach {
        let begins = if receipt.status == RunStatus::Queued {
            "It is queued behind another run, which may wait for a person (`pes questions`)."
        } else {
            "It runs."
        };
        tell(&format!("{begins} `pes watch {thread}` shows it."));
        return print(&thread);
    }
    let (run, may_ask) = (receipt.run_id, !no_input);
    let watched = Watched { thread: thread.clone(), title, run, after, output, may_ask, deadline, command: WATCH };
    let ended = follow(server, watched, input).await?;
    outcome(server, &thread, WATCH, ended, output.json)
}

/// Sends a query. If the wait for the answer ends first, says that the query may have been sent.
pub(super) async fn process(
    server: &Server,
    thread: &str,
    query: &Value,
    interrupts: &mut Signal,
    deadline: Option<Instant>,
) -> Result<Result<Receipt, Error>, Stopped> {
    let path = format!("/threads/{thread}/process");
    let sent = unless_stopped(server.post(&path, query), interrupts, deadline).await;
    sent.inspect_err(|_| tell(&format!("\nThe query may have been sent. `pes watch {thread}` shows it.")))
}

/// The result of a command that was stopped before the server answered.
fn unanswered(stopped: Stopped) -> Result<(), Error> {
    match stopped {
        Stopped::Interrupted => Ok(()),
        Stopped::TooLate => Err(Error::TimedOut("The server did not answer in time.".to_owned())),
    }
}

/// The thread for a query. A new one is made by the query itself, so a query that is refused leaves none.
pub(super) async fn thread_of(server: &Server, thread: Option<String>) -> Result<Thread, Error> {
    let new = |thread_id| Thread { thread_id, last_seq: 0, title: String::new(), last_run: None };
    let Some(thread) = thread else { return Ok(new(format!("thr_{}", uuid::Uuid::new_v4()))) };
    match server.get(&format!("/threads/{thread}")).await {
        Err(Error::NotFound(_)) => Ok(new(thread)),
        found => found,
    }
}

pub(super) async fn watch(server: &Server, arguments: WatchArguments, input: &mut Input) -> Result<(), Error> {
    let WatchArguments { thread, after, output } = arguments;
    let mut interrupts = signal(SignalKind::interrupt())?;
    let found = async {
        match server.get::<Thread>(&format!("/threads/{thread}")).await {
            Err(Error::NotFound(_)) => Err(no_such(server, &thread).await),
            found => found,
        }
    };
    let Ok(found) = unless_stopped(found, &mut interrupts, None).await else { return Ok(()) };
    let found = found?;
    // What comes after the end of the log is watched from its end.
    let (title, after) = (found.title, after.min(found.last_seq));
    let Some(run) = found.last_run else {
        return Err(Error::NotFound(format!(
            "Nothing was asked in {thread} yet. Try: pes run --thread {thread} \"…\""
        )));
    };
    let run = run.run_id.as_str().to_owned();
    let watched =
        Watched { thread: thread.clone(), title, run, after, output, may_ask: true, deadline: None, command: WATCH };
    let ended = follow(server, watched, input).await?;
    outcome(server, &thread, WATCH, ended, output.json)
}

/// The result of a request about a thread; if it failed because there is none, the error of [`no_such`].
pub(super) async fn unless_missing<T>(server: &Server, thread: &str, done: Result<T, Error>) -> Result<T, Error> {
    if !matches!(done, Err(Error::NotFound(_))) {
        return done;
    }
    // Something else may be missing, such as a part of its log.
    match server.get::<Thread>(&format!("/threads/{thread}")).await {
        Err(Error::NotFound(_)) => Err(no_such(server, thread).await),
        Ok(_) | Err(_) => done,
    }
}

/// Names the thread with the most similar id if this one does not exist.
pub(super) async fn no_such(server: &Server, thread: &str) -> Error {
    let (known, _) = super::lists::newest(server).await.unwrap_or_default();
    let hint = did_you_mean(thread, known.iter().map(|one| one.thread_id.as_str()));
    let hint = if hint.is_empty() { ".".to_owned() } else { line(&hint) };
    Error::NotFound(format!("No thread {thread}{hint} Try: pes threads"))
}

/// Prints the answer; the exit code says how the run ended. `command` shows a run that has not ended again.
pub(super) fn outcome(server: &Server, thread: &str, command: &str, ended: Ended, json: bool) -> Result<(), Error> {
    let run = match ended {
        Ended::Run(run) => run,
        Ended::Left => return Ok(()),
        Ended::Waits { open, is_queued } => {
            let waits = if is_queued {
                "The run is queued behind one that waits for a person"
            } else {
                "The run waits for a person"
            };
            return Err(Error::WaitsForPerson(format!(
                "{waits}: {}. Answer it (`pes questions`), then: {command} {thread}",
                named(&open)
            )));
        }
    };
    let shown = run.result.as_ref().filter(|_| !json && run.status == RunStatus::Completed);
    let printed = shown.map(|result| result.response.content.as_str());
    let printed = printed.map_or(Ok(()), |text| if is_output_shown() { print(&block(text)) } else { print(text) });
    // The exit code stays correct if stdout is closed.
    judged(&run, server.shown()).and(printed)
}

/// The open questions, as part of a sentence.
fn named(open: &[AskedQuestion]) -> String {
    let named: Vec<String> =
        open.iter().map(|asked| format!("{} ({})", subject(asked), asked.suspension_id.as_str())).collect();
    named.join(", ")
}

/// `base`: address of the server, which documents its codes.
fn judged(run: &RunResource, base: &str) -> Result<(), Error> {
    let metadata = run.result.as_ref().map(|result| &result.metadata);
    let why = metadata.and_then(|metadata| metadata.error.as_ref());
    match (run.status, metadata.map(|metadata| metadata.status)) {
        (RunStatus::Cancelled, _) => Err(Error::Cancelled("The run was cancelled.".to_owned())),
        (RunStatus::Failed, _) | (_, Some(ResultStatus::Error)) => {
            let Some(why) = why else { return Err(Error::Failed("The run failed; no reason is known.".to_owned())) };
            let (code, message) = (json!(why.code), line(&why.message));
            let code = code.as_str().unwrap_or("error");
            Err(Error::Failed(format!("The run failed. {code}: {message} {base}/docs#{code} says what it means.")))
        }
        (_, Some(ResultStatus::Partial)) => {
            let failures = metadata.map(|metadata| metadata.errors.as_slice()).unwrap_or_default();
            let said = why.map_or_else(|| missing(failures), |why| line(&why.message));
            Err(Error::Partial(format!("{said} Try: pes plan {}", run.thread_id)))
        }
        (_, Some(ResultStatus::Success) | None) => Ok(()),
    }
}

/// What a partial answer lacks. Items that were cancelled because others failed are not counted.
fn missing(failures: &[RunFailure]) -> String {
    let failed = failures.iter().filter(|failure| failure.code != CallCode::Cancelled.as_str());
    let items: BTreeSet<&str> = failed.filter_map(|failure| failure.item_id.as_ref()).map(ItemId::as_str).collect();
    match (items.len(), failures.last()) {
        (0, Some(last)) => format!("The answer is partial: {}", line(&last.message)),
        (0, None) => "The answer is partial.".to_owned(),
        (1, _) => "The answer is partial: 1 item failed.".to_owned(),
        (several, _) => format!("The answer is partial: {several} items failed."),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::judged;
    use crate::cli::Error;

    fn run(status: &str, result: &str) -> Value {
        let message = json!({ "messageId": "m", "threadId": "t", "role": "AI", "content": "Half.", "timestamp": 1 });
        let usage = json!({ "inputTokens": 0, "outputTokens": 0, "thinkingTokens": 0, "cachedInputTokens": 0 });
        let metadata = json!({
            "threadId": "t", "runId": "run_1", "traceId": "x", "status": result, "totalDurationMs": 1, "llmCalls": 1,
            "toolCalls": 0, "toolErrors": 0, "llmMetadata": {
                "inputTokens": 0, "outputTokens": 0, "thinkingTokens": 0, "cachedInputTokens": 0, "totalGenerationTimeMs": 0
            }
        });
        json!({
            "runId": "run_1", "threadId": "t", "status": status, "query": "?", "traceId": "x", "model": "m", "provider": "p",
            "createdAt": 1, "llmCalls": 1, "toolCalls": 0, "usage": usage,
            "result": { "response": message, "metadata": metadata }
        })
    }

    #[test]
    fn the_exit_code_says_what_an_answer_is_worth() {
        let judged = |status, result| judged(&serde_json::from_value(run(status, result)).unwrap(), "http://here");
        assert!(matches!(judged("completed", "success"), Ok(())));
        assert!(matches!(judged("completed", "partial"), Err(Error::Partial(_))));
        assert!(matches!(judged("failed", "error"), Err(Error::Failed(_))));
        assert!(matches!(judged("cancelled", "error"), Err(Error::Cancelled(_))));
    }

    #[test]
    fn a_partial_answer_says_what_failed_and_not_what_was_cancelled() {
        let of = |item: &str, code: &str, call: Option<&str>| {
            let mut failure = json!({ "phase": "execution", "code": code, "message": "It is down.", "itemId": item });
            if let Some(call) = call {
                failure["callId"] = json!(call);
            }
            failure
        };
        let said = |error: Value, errors: &[Value]| {
            let mut run = run("completed", "partial");
            run["result"]["metadata"]["errors"] = json!(errors);
            if !error.is_null() {
                run["result"]["metadata"]["error"] = error;
            }
            judged(&serde_json::from_value(run).unwrap(), "http://here").unwrap_err().to_string()
        };
        let (cancelled, failed) = (of("a", "cancelled", None), of("b", "failed", None));
        let no = json!({ "code": "plan_rejected", "message": "The plan was rejected: a person said no.", "phase": "planning" });
        assert_eq!(
            said(no, std::slice::from_ref(&cancelled)),
            "The plan was rejected: a person said no. Try: pes plan t"
        );
        let call = of("b", "failed", Some("call_1"));
        let one = said(Value::Null, &[cancelled.clone(), call.clone(), failed.clone()]);
        assert_eq!(one, "The answer is partial: 1 item failed. Try: pes plan t");
        let two = said(Value::Null, &[call, failed, of("c", "failed", None)]);
        assert_eq!(two, "The answer is partial: 2 items failed. Try: pes plan t");
        assert_eq!(said(Value::Null, &[cancelled]), "The answer is partial: It is down. Try: pes plan t");
    }
}
