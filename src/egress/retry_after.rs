//! The `Retry-After` of an answer.

use http::HeaderMap;
use http::header::{DATE, RETRY_AFTER};

use crate::domain::Millis;

/// Nobody waits longer than this on somebody's word.
pub(crate) const LONGEST_WAIT: Millis = 24 * 3600 * 1000;

/// `retry-after-ms`, else `Retry-After` in seconds or as a date. A date is read against the answer's own `Date`, so no
/// clock is needed and none can be wrong.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Millis> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let millis = text("retry-after-ms").and_then(|ms| ms.parse::<f64>().ok());
    let said = text(RETRY_AFTER.as_str());
    let seconds = || said?.parse::<f64>().ok().map(|seconds| seconds * 1000.0);
    let date = || Some(moment(said?)? - moment(text(DATE.as_str())?)?);
    let wait = millis.or_else(seconds).or_else(date).filter(|wait| wait.is_finite())?;
    Some((wait.ceil() as Millis).clamp(0, LONGEST_WAIT))
}

fn moment(date: &str) -> Option<f64> {
    jiff::fmt::rfc2822::parse(date).ok().map(|at| at.timestamp().as_millisecond() as f64)
}
