//! The `Retry-After` of an answer.

use http::HeaderMap;
use http::header::{DATE, RETRY_AFTER};

use crate::domain::Millis;

/// Longer delays from a server are cut to this.
pub(crate) const MAX_RETRY_AFTER: Millis = 24 * 3600 * 1000;

/// `retry-after-ms`, else `Retry-After` in seconds or as a date. A date is compared with the response's own `Date`
/// header, so the local clock does not matter.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Millis> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let millis = text("retry-after-ms").and_then(|ms| ms.parse::<f64>().ok());
    let header = text(RETRY_AFTER.as_str());
    let seconds = || header?.parse::<f64>().ok().map(|seconds| seconds * 1000.0);
    let date = || Some(parse_date(header?)? - parse_date(text(DATE.as_str())?)?);
    let wait = millis.or_else(seconds).or_else(date).filter(|wait| wait.is_finite())?;
    Some((wait.ceil() as Millis).clamp(0, MAX_RETRY_AFTER))
}

fn parse_date(date: &str) -> Option<f64> {
    jiff::fmt::rfc2822::parse(date).ok().map(|at| at.timestamp().as_millisecond() as f64)
}
