//! Classification of responses and errors, shared by all wires over HTTP.

use http::{HeaderMap, StatusCode};
use serde_json::Value;

use super::retry;
use crate::domain::model::{FailureKind, ModelFailure};
use crate::egress::{Error, IncomingResponse};

/// How much of an error's body is read.
const MAX_ERROR_BYTES: usize = 16 * 1024;

pub(crate) fn failure(kind: FailureKind, message: impl Into<String>) -> ModelFailure {
    ModelFailure::new(kind, message)
}

/// The failure for a broken call: no response, an incomplete one, or one of the wrong kind.
pub(crate) fn egress_failure(error: &Error) -> ModelFailure {
    let kind = match error {
        Error::Unreachable(place) => {
            return failure(FailureKind::Unreachable, format!("the provider cannot be reached at {place}"));
        }
        Error::NoHeaders(_) => FailureKind::Retry,
        Error::Cut(_) | Error::Stalled(_) | Error::Overdue(_) => FailureKind::Incomplete,
        Error::TooLarge(_) => FailureKind::TooLarge,
        Error::Refused(_) => FailureKind::Refused,
    };
    failure(kind, error.to_string())
}

/// Reads and classifies a response that is no success.
pub(crate) async fn response_failure(mut answer: IncomingResponse) -> ModelFailure {
    let (status, headers) = (answer.status(), answer.headers().clone());
    let body = answer.read_up_to(MAX_ERROR_BYTES).await;
    classify(status, &headers, &body)
}

fn classify(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> ModelFailure {
    let body: Value =
        serde_json::from_slice(body).unwrap_or_else(|_| Value::String(String::from_utf8_lossy(body).trim().to_owned()));
    let (message, code) = message_and_code(&body);
    let kind = match status.as_u16() {
        400 | 413 | 422 | 500 if is_too_long(&message, &code) => FailureKind::TooLong,
        400 if is_malformed_call(&code) => FailureKind::Broken,
        429 if is_quota_error(&code) => FailureKind::Refused,
        408 | 409 | 425 | 429 => FailureKind::Retry,
        501 | 505 => FailureKind::Refused,
        500..=599 => FailureKind::Retry,
        _ => FailureKind::Refused,
    };
    let message = if message.is_empty() { "no error message".to_owned() } else { message };
    let retry_after_ms = retry::after(headers).or_else(|| retry::retry_delay_in_body(&body));
    // Too long a wait ends the call, and its reader sees nothing but this message.
    let wait = retry_after_ms.filter(|ms| *ms > 0);
    let wait = wait.map(|ms| format!(" (it asks to wait for {} s)", (ms + 999) / 1_000));
    ModelFailure {
        http_status: Some(status.as_u16()),
        is_models_fault: kind == FailureKind::Broken,
        retry_after_ms,
        ..failure(kind, format!("the provider answered {}: {message}{}", words(status), wait.unwrap_or_default()))
    }
}

/// The status with its name, if it has one.
fn words(status: StatusCode) -> String {
    let code = status.as_u16();
    status.canonical_reason().map_or_else(|| code.to_string(), |reason| format!("{code} {reason}"))
}

/// An error inside a stream whose status was 200. One without a code is retried: the vendor accepted the request, so
/// something broke afterwards.
pub(crate) fn in_stream(error: &Value) -> ModelFailure {
    let (message, code) = message_and_code(error);
    let status = code.parse::<u16>().ok().filter(|status| (400..600).contains(status));
    let is_retry = match status {
        Some(status) => matches!(status, 408 | 409 | 425 | 429 | 500 | 502..=504 | 506..=599),
        None => {
            let text = code.to_lowercase();
            let words = ["rate_limit", "overload", "server_error", "api_error", "internal", "timeout", "unavailable"];
            text.is_empty() || words.iter().any(|word| text.contains(word))
        }
    };
    let kind = if is_too_long(&message, &code) {
        FailureKind::TooLong
    } else if is_malformed_call(&code) {
        FailureKind::Broken
    } else if is_retry {
        FailureKind::Retry
    } else {
        FailureKind::Refused
    };
    ModelFailure {
        http_status: status,
        is_models_fault: kind == FailureKind::Broken,
        retry_after_ms: retry::retry_delay_in_body(error),
        ..failure(kind, format!("the provider broke off: {message}"))
    }
}

/// The quota is used up: waiting does not help.
fn is_quota_error(code: &str) -> bool {
    ["insufficient_quota", "billing", "credit"].iter().any(|word| code.contains(word))
}

/// The model produced a call that the vendor could not parse: another attempt may be better.
fn is_malformed_call(code: &str) -> bool {
    code == "tool_use_failed"
}

/// The prompt does not fit into the model's context window, in the words of vendors and local servers.
fn is_too_long(message: &str, code: &str) -> bool {
    const CODES: [&str; 3] = ["context_length_exceeded", "exceed_context_size", "string_above_max_length"];
    const WORDS: [&str; 12] = [
        "prompt is too long",
        "maximum context length",
        "context window",
        "available context size",
        "input token count",
        "context length exceeded",
        "too many input tokens",
        // Anthropic, when prompt and output limit together are too large.
        "exceed context limit",
        "maximum prompt length",
        // LM Studio and llama.cpp, which otherwise would silently cut the prompt.
        "greater than the context length",
        "context the overflows",
        "n_keep",
    ];
    let message = message.to_lowercase();
    CODES.iter().any(|known| code.contains(known)) || WORDS.iter().any(|words| message.contains(words))
}

/// An error's message and code, in the shapes that vendors use.
fn message_and_code(body: &Value) -> (String, String) {
    // Gemini wraps an error that answers a stream in a list.
    let body = body.get(0).unwrap_or(body);
    let error = body.get("error").unwrap_or(body);
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => String::new(),
    };
    let message = match error {
        Value::Object(_) => text(&error["message"]),
        other => text(other),
    };
    let code = [&error["code"], &error["type"]].into_iter().map(text).find(|code| !code.is_empty());
    (message, code.unwrap_or_default())
}

#[cfg(test)]
mod tests;
