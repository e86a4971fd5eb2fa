//! Responses of lines of JSON, which are sent while they are read.

use std::io;

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use tokio::time::Instant;

use super::app_state::AppState;
use crate::auth::{Pass, RECHECK_INTERVAL};
use crate::domain::fault::Fault;

pub(crate) const MEDIA_TYPE: &str = "application/x-ndjson";

/// An error before the first line is answered as an error, not as a broken response. The response breaks off when the
/// caller's credentials are no longer valid: a client that reads slowly may take hours.
pub(crate) async fn response(
    app: &AppState,
    pass: Pass,
    lines: impl Stream<Item = Result<Bytes, Fault>> + Send + 'static,
) -> Result<Response, Fault> {
    let app = app.clone();
    let check = move || {
        let (app, pass) = (app.clone(), pass.clone());
        async move { app.check_stream(&pass).await }
    };
    let mut lines = Box::pin(checked(lines, check));
    let first = lines.try_next().await?;
    let lines = stream::iter(first.map(Ok)).chain(lines);
    let headers = [(CONTENT_TYPE, MEDIA_TYPE), (CACHE_CONTROL, "no-store")];
    let body = Body::from_stream(lines.map_err(|fault: Fault| io::Error::other(fault.detail)));
    Ok((headers, body).into_response())
}

/// Checks the caller, as often as that of an event stream, before lines are sent.
fn checked<C: Future<Output = Result<(), Fault>>>(
    lines: impl Stream<Item = Result<Bytes, Fault>>,
    check: impl Fn() -> C,
) -> impl Stream<Item = Result<Bytes, Fault>> {
    let mut checked_at = Instant::now();
    lines.and_then(move |piece| {
        let due = (checked_at.elapsed() >= RECHECK_INTERVAL).then(&check);
        if due.is_some() {
            checked_at = Instant::now();
        }
        async {
            match due {
                Some(check) => check.await.map(|()| piece),
                None => Ok(piece),
            }
        }
    })
}

#[cfg(test)]
mod tests;
