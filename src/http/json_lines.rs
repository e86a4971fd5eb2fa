//! Responses of lines of JSON, which are sent while they are read.

use std::io;

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::{Stream, StreamExt, TryStreamExt, stream};

use crate::domain::fault::Fault;

pub(crate) const MEDIA_TYPE: &str = "application/x-ndjson";

/// An error before the first line is answered as an error, not as a broken response.
pub(crate) async fn response(
    lines: impl Stream<Item = Result<Bytes, Fault>> + Send + 'static,
) -> Result<Response, Fault> {
    let mut lines = Box::pin(lines);
    let first = lines.try_next().await?;
    let lines = stream::iter(first.map(Ok)).chain(lines);
    let headers = [(CONTENT_TYPE, MEDIA_TYPE), (CACHE_CONTROL, "no-store")];
    let body = Body::from_stream(lines.map_err(|fault: Fault| io::Error::other(fault.detail)));
    Ok((headers, body).into_response())
}
