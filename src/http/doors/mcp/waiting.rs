//! The answer to a call that waits: a stream of events, the first byte at once, the last event the result.
//!
//! It ends when what is waited for has come, when the time is up, and when the server stops: then the result says how the run
//! stands, and it goes on. A client of 2026-07-28 takes its request back by closing the stream.

use std::pin::Pin;

use axum::response::Response;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream;
use serde_json::Value;

use super::call::{Asker, Wait, failed, stands};
use super::envelope;
use super::told::{self, Standing};
use crate::domain::fault::Fault;
use crate::domain::ids::RunId;
use crate::http::doors::answer_headers::name_run;
use crate::http::doors::sse::data;
use crate::http::events::sse;
use crate::service::runs;

type Answer = Pin<Box<dyn Future<Output = Value> + Send>>;

pub(super) fn stream(asker: &Asker, id: Value, wait: Wait) -> Response {
    let (run, thread) = (wait.run.clone(), wait.thread.clone());
    let hello = stream::once(async { Bytes::from_static(b": it is being worked on\n") });
    let goodbye = asker.client.result(told::goodbye(&run, &thread, wait.status));
    let goodbye = data(&envelope::answer(&id, &goodbye));
    let answer = stream::once(answer(asker.clone(), id, wait)).map(|message| data(&message));
    let mut response = sse::written(&asker.app, asker.pass.clone(), Box::pin(hello.chain(answer)), Some(goodbye));
    name_run(response.headers_mut(), &thread, &run);
    response
}

/// The message with the result.
fn answer(asker: Asker, id: Value, wait: Wait) -> Answer {
    Box::pin(async move {
        let mut taken_back = TakenBack { asker: asker.clone(), run: wait.is_taken_back.then(|| wait.run.clone()) };
        let waited = waited(&asker, &wait).await;
        taken_back.run = None;
        match waited.map_or_else(failed, |standing| Ok(standing.result())) {
            Ok(result) => envelope::answer(&id, &asker.client.result(result)),
            Err(refusal) => refusal.body(&id),
        }
    })
}

async fn waited(asker: &Asker, wait: &Wait) -> Result<Standing, Fault> {
    let waited = asker.app.wait_run(&asker.caller, &wait.run, wait.until, wait.at_most).await?;
    stands(asker, waited).await
}

/// When this is dropped with a run in it, nobody waits for that run any more, and it is cancelled.
struct TakenBack {
    asker: Asker,
    run: Option<RunId>,
}

impl Drop for TakenBack {
    fn drop(&mut self) {
        let Some(run) = self.run.take() else { return };
        let Asker { app, caller, .. } = self.asker.clone();
        // A server that stops closes every stream.
        if app.stopping.is_cancelled() {
            return;
        }
        tokio::spawn(async move {
            if let Err(error) = runs::cancel(&app.service, &caller, &run, None).await {
                tracing::debug!(runId = %run, %error, "a run whose request was taken back is not cancelled");
            }
        });
    }
}
