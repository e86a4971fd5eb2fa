//! The answer to a call that waits: a stream of events, the first byte at once, the last event the result.
//!
//! It ends when what is waited for has come, when the time is up, and when the server stops: then the result says how the run
//! stands, and it goes on. A client of 2026-07-28 takes its request back by closing the stream.

use std::pin::Pin;

use axum::response::Response;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use serde_json::Value;
use tokio::time::Instant;

use super::call::{Asker, Wait, failed, stands};
use super::envelope;
use super::progress::Telling;
use super::refusal::Refusal;
use super::told;
use crate::domain::fault::Fault;
use crate::domain::ids::RunId;
use crate::http::doors::answer_headers::name_run;
use crate::http::doors::sse::{data, revoked};
use crate::http::events::sse::{self, LastWords};
use crate::http::listeners::cancel_until_done;
use crate::service::runs::{Waited, WaitsFor};

type Answer = Pin<Box<dyn Future<Output = Value> + Send>>;

pub(super) async fn stream(asker: &Asker, id: Value, wait: Wait) -> Response {
    let (run, thread) = (wait.run.clone(), wait.thread.clone());
    let stopping = asker.client.result(told::goodbye(&run, &thread, wait.status));
    let last_words = LastWords {
        stopping: data(&envelope::answer(&id, &stopping)),
        revoked: data(&Refusal::from(revoked()).body(&id)),
    };
    let taken_back = TakenBack { asker: asker.clone(), run: wait.is_taken_back.then(|| wait.run.clone()) };
    let telling = match &asker.client.progress_token {
        Some(token) => Telling::begin(asker, token, &run, &thread).await,
        None => None,
    };
    let speaking = Speaking { answer: Some(answer(asker.clone(), id, wait, taken_back)), telling };
    let hello = stream::once(async { Bytes::from_static(b": it is being worked on\n") });
    let messages = stream::unfold(speaking, |mut speaking| async move { Some((speaking.next().await?, speaking)) });
    let events = Box::pin(hello.chain(messages.map(|message| data(&message))));
    let mut response = sse::written(&asker.app, asker.pass.clone(), events, last_words);
    name_run(response.headers_mut(), &thread, &run);
    response
}

/// What is still to be said.
struct Speaking {
    /// `None`: it was said.
    answer: Option<Answer>,
    telling: Option<Telling>,
}

impl Speaking {
    async fn next(&mut self) -> Option<Value> {
        let answer = self.answer.as_mut()?;
        let told = async {
            match &mut self.telling {
                Some(telling) => telling.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            told = told => Some(told),
            message = answer => {
                self.answer = None;
                Some(message)
            }
        }
    }
}

/// The message with the result.
fn answer(asker: Asker, id: Value, wait: Wait, taken_back: TakenBack) -> Answer {
    Box::pin(async move {
        let told = result(&asker, wait).await;
        taken_back.not();
        match told.or_else(failed) {
            Ok(result) => envelope::answer(&id, &asker.client.result(result)),
            Err(refusal) => refusal.body(&id),
        }
    })
}

async fn result(asker: &Asker, mut wait: Wait) -> Result<Value, Fault> {
    let waited = waited(asker, &wait).await?;
    if let Some(asks) = wait.round.take().and_then(|round| round.ask(asker, &waited)) {
        return Ok(asks);
    }
    Ok(stands(asker, waited).await?.result())
}

/// Who can be asked is asked at once, whatever else goes on; who cannot waits until nothing goes on without an answer.
async fn waited(asker: &Asker, wait: &Wait) -> Result<Waited, Fault> {
    let until = Instant::now() + wait.at_most;
    let what = if wait.round.is_some() { WaitsFor::Question } else { WaitsFor::CallQuestion };
    let waited = asker.app.wait_run(&asker.caller, &wait.run, what, wait.at_most).await?;
    match &wait.round {
        Some(round) if round.has_left(&waited) => {
            let rest = until.saturating_duration_since(Instant::now());
            asker.app.wait_run(&asker.caller, &wait.run, WaitsFor::Suspension, rest).await
        }
        Some(_) | None => Ok(waited),
    }
}

/// When this is dropped with a run in it, nobody waits for that run any more, and it is cancelled.
struct TakenBack {
    asker: Asker,
    run: Option<RunId>,
}

impl TakenBack {
    /// The client waited for its answer.
    fn not(mut self) {
        self.run = None;
    }
}

impl Drop for TakenBack {
    fn drop(&mut self) {
        let Some(run) = self.run.take() else { return };
        let Asker { app, caller, pass, .. } = self.asker.clone();
        // A server that stops closes every stream.
        if app.stopping.is_cancelled() {
            return;
        }
        tokio::spawn(async move {
            // The server closed it, and not the client: what was asked for while the pass counted goes on.
            if app.keys.ended(&pass).await.is_some() {
                return;
            }
            cancel_until_done(&app, &caller, &run).await;
        });
    }
}
