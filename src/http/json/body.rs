//! Reads a request's body within limits of size and time. A body that is too large is refused as soon as that is known.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::request::Parts;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::{Instant, timeout_at};

use super::budget::{ARRIVING, MemoryBudget, PARSING, TenantBudget, TenantReservation};
use super::{fingerprint, parse, typed};
use crate::config::Limits;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::TenantPk;
use crate::http::app_state::AppState;
use crate::http::caller::pass;
use crate::http::problem::Problem;
use crate::http::rates::RateNotice;

/// The limits of a body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyLimits {
    /// The maximum length in bytes.
    most: usize,
    /// The setting of that length. `None`: it is fixed.
    setting: Option<&'static str>,
    within_ms: u64,
    json_depth: usize,
}

impl From<&Limits> for BodyLimits {
    fn from(limits: &Limits) -> Self {
        let (within_ms, json_depth) = (limits.body_timeout_ms, limits.json_depth);
        Self { most: limits.body_bytes, setting: Some("limits.body_bytes"), within_ms, json_depth }
    }
}

impl BodyLimits {
    /// The same with another maximum length.
    pub(crate) fn with_length(self, most: usize, setting: Option<&'static str>) -> Self {
        Self { most, setting, ..self }
    }
}

/// A JSON body.
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned + Send + 'static> FromRequest<AppState> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &AppState) -> Result<Self, Problem> {
        Ok(Self(read_json(request, app, typed).await?))
    }
}

/// The same, but an empty body means `{}`.
pub(crate) struct OptionalJsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned + Send + 'static> FromRequest<AppState> for OptionalJsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &AppState) -> Result<Self, Problem> {
        Ok(Self(read_optional_json(request, app, typed).await?))
    }
}

/// A JSON body and its fingerprint, by which a request that is sent again is recognised.
pub(crate) struct KeyedBody<T> {
    pub(crate) value: T,
    pub(crate) fingerprint: String,
}

impl<T: DeserializeOwned> KeyedBody<T> {
    pub(crate) fn of(value: Value) -> Result<Self, Fault> {
        Ok(Self { fingerprint: fingerprint(&value), value: typed(value)? })
    }
}

impl<T: DeserializeOwned + Send + 'static> FromRequest<AppState> for KeyedBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &AppState) -> Result<Self, Problem> {
        Ok(read_json(request, app, Self::of).await?)
    }
}

/// The same, but an empty body means `{}`.
pub(crate) struct OptionalKeyedBody<T>(pub(crate) KeyedBody<T>);

impl<T: DeserializeOwned + Send + 'static> FromRequest<AppState> for OptionalKeyedBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &AppState) -> Result<Self, Problem> {
        Ok(Self(read_optional_json(request, app, KeyedBody::of).await?))
    }
}

async fn read_json<T: Send + 'static>(
    request: Request,
    app: &AppState,
    convert: impl FnOnce(Value) -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    let (limits, (parts, body)) = (BodyLimits::from(&app.config.limits), request.into_parts());
    check_media_type(&parts.headers, &["application/json"])?;
    parsed(read(app, &parts, body, limits).await?, limits.json_depth, convert).await
}

async fn read_optional_json<T: Send + 'static>(
    request: Request,
    app: &AppState,
    convert: impl FnOnce(Value) -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    let (limits, (parts, body)) = (BodyLimits::from(&app.config.limits), request.into_parts());
    let arrived = read(app, &parts, body, limits).await?;
    if arrived.bytes.is_empty() {
        return convert(Value::Object(Map::new()));
    }
    check_media_type(&parts.headers, &["application/json"])?;
    parsed(arrived, limits.json_depth, convert).await
}

/// A JSON body of one of several media types.
pub(crate) struct JsonValue {
    pub(crate) value: Value,
    pub(crate) media_type: &'static str,
}

pub(crate) async fn read_value(
    app: &AppState,
    request: Request,
    limits: impl Into<BodyLimits>,
    types: &[&'static str],
) -> Result<JsonValue, Fault> {
    let (limits, (parts, body)) = (limits.into(), request.into_parts());
    let media_type = check_media_type(&parts.headers, types)?;
    let arrived = read(app, &parts, body, limits).await?;
    Ok(JsonValue { value: parsed(arrived, limits.json_depth, Ok).await?, media_type })
}

/// The same, but `None` if the body is empty.
pub(crate) async fn read_any(
    app: &AppState,
    request: Request,
    limits: impl Into<BodyLimits>,
    types: &[&'static str],
) -> Result<Option<Value>, Fault> {
    let (limits, (parts, body)) = (limits.into(), request.into_parts());
    let arrived = read(app, &parts, body, limits).await?;
    if arrived.bytes.is_empty() {
        return Ok(None);
    }
    check_media_type(&parts.headers, types)?;
    parsed(arrived, limits.json_depth, Ok).await.map(Some)
}

/// A longer body is parsed and converted on a blocking thread.
const LONG_BYTES: usize = 128 << 10;

async fn parsed<T: Send + 'static>(
    arrived: ReceivedBody,
    max_depth: usize,
    convert: impl FnOnce(Value) -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    let length = arrived.bytes.len();
    if length <= LONG_BYTES {
        return parse(&arrived.bytes, max_depth).and_then(convert);
    }
    let parsing = parse_blocking(&PARSING, length, move || {
        let ReceivedBody { bytes, reservation } = arrived;
        let parsed = parse(&bytes, max_depth);
        drop((bytes, reservation));
        parsed.and_then(convert)
    });
    parsing.await.unwrap_or_else(|error| Err(Fault::new(Code::Internal, format!("The body was not read: {error}."))))
}

/// Runs `work` on a blocking thread. It holds the memory reservation until it is done, even if the client disconnects.
async fn parse_blocking<T: Send + 'static>(
    budget: &'static MemoryBudget,
    length: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    let reservation = budget.reserve(length).await;
    let working = move || {
        let done = work();
        drop(reservation);
        done
    };
    spawn_blocking(working).await
}

/// Which of `types` the body declares to be.
fn check_media_type(headers: &HeaderMap, types: &[&'static str]) -> Result<&'static str, Fault> {
    let refuse = || {
        let detail = format!("Send the body as {}, without a content encoding.", types.join(" or "));
        Fault::new(Code::UnsupportedMediaType, detail)
    };
    if headers.get(CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        return Err(refuse());
    }
    let declared = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).ok_or_else(refuse)?;
    let mut parts = declared.split(';').map(str::trim);
    let essence = parts.next().unwrap_or_default();
    let is_utf8 = parts.filter_map(|part| part.split_once('=')).all(|(name, value)| {
        !name.trim().eq_ignore_ascii_case("charset") || value.trim().trim_matches('"').eq_ignore_ascii_case("utf-8")
    });
    types.iter().copied().find(|known| is_utf8 && essence.eq_ignore_ascii_case(known)).ok_or_else(refuse)
}

/// Reads a body that is not JSON, of this media type and at most `most` bytes.
pub(crate) async fn read_text(
    app: &AppState,
    request: Request,
    media_type: &'static str,
    most: usize,
) -> Result<Bytes, Fault> {
    let (parts, body) = request.into_parts();
    check_media_type(&parts.headers, &[media_type])?;
    let limits = BodyLimits::from(&app.config.limits).with_length(most, None);
    Ok(read(app, &parts, body, limits).await?.bytes)
}

/// A body that arrives as late as this after its caller was admitted is read only for a caller that is still admitted: a
/// key that was revoked meanwhile does nothing any more, however slowly its requests are sent.
const LATE: Duration = Duration::from_secs(1);

async fn read(app: &AppState, parts: &Parts, body: Body, limits: BodyLimits) -> Result<ReceivedBody, Fault> {
    let arrived = receive(parts, body, limits).await?;
    let admitted = parts.extensions.get().and_then(RateNotice::admitted);
    if admitted.is_some_and(|(_, at)| at.elapsed() >= LATE) {
        // Boxed, because it is rare, and every request that has a body would have room for it.
        Box::pin(app.check_still_admitted(&pass(app, parts)?)).await?;
    }
    Ok(arrived)
}

/// Waits for the whole body. One that is declared to be too long is refused at once.
async fn receive(parts: &Parts, body: Body, limits: BodyLimits) -> Result<ReceivedBody, Fault> {
    let announced = parts.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    if announced.is_some_and(|length| length > limits.most) {
        return Err(too_large(limits));
    }
    let admitted = parts.extensions.get().and_then(RateNotice::admitted);
    let expected = ExpectedBody { limits, announced, tenant: admitted.map(|(tenant, _)| tenant) };
    collect(body, expected, &ARRIVING).await
}

/// The limits of a body, its declared length, and its tenant.
struct ExpectedBody {
    limits: BodyLimits,
    announced: Option<usize>,
    /// `None` if the caller is not known yet.
    tenant: Option<TenantPk>,
}

/// A complete body, with its memory reservation if it is long.
struct ReceivedBody {
    bytes: Bytes,
    reservation: Option<TenantReservation>,
}

/// Reads a body. A long body needs a memory reservation before more than its beginning is read from the connection.
async fn collect(mut body: Body, expected: ExpectedBody, budget: &'static TenantBudget) -> Result<ReceivedBody, Fault> {
    let ExpectedBody { limits, announced, tenant } = expected;
    let BodyLimits { most, within_ms, .. } = limits;
    let until = Instant::now() + Duration::from_millis(within_ms);
    let (mut collected, mut reservation) = (BytesMut::new(), None);
    while let Some(frame) = timeout_at(until, body.frame()).await.map_err(|_| late(within_ms))? {
        let frame = frame.map_err(|error| {
            Fault::new(Code::Malformed, format!("The connection failed before the whole body had arrived: {error}."))
        })?;
        let Some(data) = frame.data_ref() else { continue };
        let length = collected.len() + data.len();
        if length > most {
            return Err(too_large(limits));
        }
        if length > LONG_BYTES && reservation.is_none() {
            let taken = timeout_at(until, budget.reserve(tenant, announced.unwrap_or(most))).await;
            reservation = Some(taken.map_err(|_| no_room())?);
        }
        collected.extend_from_slice(data);
    }
    Ok(ReceivedBody { bytes: collected.freeze(), reservation })
}

fn late(within_ms: u64) -> Fault {
    Fault::new(Code::RequestTimeout, format!("The body did not arrive within {within_ms} ms."))
}

fn no_room() -> Fault {
    let detail = "The memory for large bodies is in use; send the request again.";
    Fault::new(Code::TooManyConnections, detail)
}

fn too_large(limits: BodyLimits) -> Fault {
    let BodyLimits { most, setting, .. } = limits;
    let by = setting.map(|name| format!(", the limit that `{name}` sets")).unwrap_or_default();
    Fault::new(Code::BodyTooLarge, format!("The body is longer than {most} bytes{by}.")).with("limit", most)
}

#[cfg(test)]
mod tests;
