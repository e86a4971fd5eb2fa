//! A request's body: bounded in size and time, answered as soon as it is known to be too large.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::{fingerprint, parse, typed};
use crate::config::Limits;
use crate::domain::fault::{Code, Fault};
use crate::http::app_state::AppState;
use crate::http::problem::Problem;

/// A JSON body, and the fingerprint that idempotency compares.
pub(crate) struct JsonBody<T> {
    pub(crate) value: T,
    pub(crate) fingerprint: String,
}

impl<T: DeserializeOwned> FromRequest<AppState> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &AppState) -> Result<Self, Problem> {
        let value = read_value(request, &app.config.limits, &["application/json"]).await?.value;
        Ok(Self { fingerprint: fingerprint(&value), value: typed(value)? })
    }
}

/// The same, where nothing at all means `{}`.
pub(crate) struct OptionalJsonBody<T>(pub(crate) JsonBody<T>);

impl<T: DeserializeOwned> FromRequest<AppState> for OptionalJsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &AppState) -> Result<Self, Problem> {
        let value = read_any(request, &app.config.limits, &["application/json"]).await?;
        let value = value.unwrap_or_else(|| Value::Object(serde_json::Map::new()));
        Ok(Self(JsonBody { fingerprint: fingerprint(&value), value: typed(value)? }))
    }
}

/// A JSON body of one of several media types.
pub(crate) struct Read {
    pub(crate) value: Value,
    pub(crate) media_type: &'static str,
}

pub(crate) async fn read_value(request: Request, limits: &Limits, types: &[&'static str]) -> Result<Read, Fault> {
    let (parts, body) = request.into_parts();
    let media_type = accepted(&parts.headers, types)?;
    let bytes = read(&parts.headers, body, limits, limits.body_bytes).await?;
    Ok(Read { value: parsed(bytes, limits.json_depth).await?, media_type })
}

/// The same; `None` if nothing at all was sent.
pub(crate) async fn read_any(
    request: Request,
    limits: &Limits,
    types: &[&'static str],
) -> Result<Option<Value>, Fault> {
    let (parts, body) = request.into_parts();
    let bytes = read(&parts.headers, body, limits, limits.body_bytes).await?;
    if bytes.is_empty() {
        return Ok(None);
    }
    accepted(&parts.headers, types)?;
    parsed(bytes, limits.json_depth).await.map(Some)
}

/// What all requests together may have in the parser: values need many times the memory of their text.
const PARSED_KIB: u32 = 64 << 10;
static PARSER: Semaphore = Semaphore::const_new(PARSED_KIB as usize);
/// A longer text is parsed beside the threads that serve everybody.
const LONG_BYTES: usize = 128 << 10;

async fn parsed(bytes: Bytes, max_depth: usize) -> Result<Value, Fault> {
    if bytes.len() <= LONG_BYTES {
        return parse(&bytes, max_depth);
    }
    let _room = room_for(bytes.len()).await;
    let parsing = tokio::task::spawn_blocking(move || parse(&bytes, max_depth));
    parsing.await.unwrap_or_else(|error| Err(Fault::new(Code::Internal, format!("The body was not read: {error}."))))
}

/// Waits until a text of this length may be parsed beside those that are.
async fn room_for(length: usize) -> SemaphorePermit<'static> {
    let room = u32::try_from(length >> 10).unwrap_or(PARSED_KIB).clamp(1, PARSED_KIB);
    PARSER.acquire_many(room).await.expect("it is never closed")
}

/// Which of `types` the body says it is.
fn accepted(headers: &HeaderMap, types: &[&'static str]) -> Result<&'static str, Fault> {
    let refuse = || {
        let detail = format!("Send the body as {}, without a content encoding.", types.join(" or "));
        Fault::new(Code::UnsupportedMediaType, detail)
    };
    if headers.get(CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        return Err(refuse());
    }
    let told = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).ok_or_else(refuse)?;
    let mut parts = told.split(';').map(str::trim);
    let essence = parts.next().unwrap_or_default();
    let is_utf8 = parts.filter_map(|part| part.split_once('=')).all(|(name, value)| {
        !name.trim().eq_ignore_ascii_case("charset") || value.trim().trim_matches('"').eq_ignore_ascii_case("utf-8")
    });
    types.iter().copied().find(|known| is_utf8 && essence.eq_ignore_ascii_case(known)).ok_or_else(refuse)
}

/// A body that is no JSON, of this media type and so many bytes at most.
pub(crate) async fn read_text(
    request: Request,
    limits: &Limits,
    media_type: &'static str,
    most: usize,
) -> Result<Bytes, Fault> {
    let (parts, body) = request.into_parts();
    accepted(&parts.headers, &[media_type])?;
    read(&parts.headers, body, limits, most).await
}

async fn read(headers: &HeaderMap, body: Body, limits: &Limits, most: usize) -> Result<Bytes, Fault> {
    let announced = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    if announced.is_some_and(|length: u64| length > most as u64) {
        return Err(too_large(most));
    }
    let patience = Duration::from_millis(limits.body_timeout_ms);
    tokio::time::timeout(patience, collect(body, most)).await.unwrap_or_else(|_| {
        let detail = format!("The body did not arrive within {} ms.", limits.body_timeout_ms);
        Err(Fault::new(Code::RequestTimeout, detail))
    })
}

async fn collect(mut body: Body, most: usize) -> Result<Bytes, Fault> {
    let mut collected = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Fault::new(Code::Malformed, format!("The body broke off: {error}.")))?;
        let Some(data) = frame.data_ref() else { continue };
        if collected.len() + data.len() > most {
            return Err(too_large(most));
        }
        collected.extend_from_slice(data);
    }
    Ok(collected.freeze())
}

fn too_large(most: usize) -> Fault {
    let detail = format!("A body may have {most} bytes; send less.");
    Fault::new(Code::BodyTooLarge, detail).with("limit", most)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn long_bodies_wait_for_room_in_the_parser_and_short_ones_do_not() {
        let forty = room_for(40 << 20).await;
        assert!(room_for(40 << 20).now_or_never().is_none());
        assert!(room_for(20 << 20).now_or_never().is_some());
        drop(forty);
        let all = room_for(usize::MAX).await;
        assert_eq!(parsed(Bytes::from_static(b"[]"), 4).await.unwrap(), Value::Array(Vec::new()));
        let long = Bytes::from(format!("\"{}\"", "x".repeat(LONG_BYTES)));
        assert!(parsed(long.clone(), 4).now_or_never().is_none(), "it has no room yet");
        drop(all);
        assert!(parsed(long, 4).await.is_ok());
    }
}
