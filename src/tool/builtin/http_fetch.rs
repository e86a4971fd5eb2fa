//! `http_fetch`: one request to the public internet. Text is returned; other content is only described.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::{Map, Value, json};
use url::Url;

use crate::domain::tool::{CallCode, ToolClass, ToolError, ToolSpec};
use crate::egress::{Bounds, Destination, Egress, Error, IncomingResponse, OutgoingRequest};
use crate::tool::http_errors::{call_error, lost_error};
use crate::tool::{Nature, Tool, ToolContext, ToolOutput};

/// How much of a body is read and returned.
const MAX_BODY: usize = 512 * 1024;
const TOTAL_TIMEOUT: Duration = Duration::from_secs(30);
const STALL_TIMEOUT: Duration = Duration::from_secs(10);
/// The response headers that are useful to the model.
const SHOWN_HEADERS: [&str; 9] = [
    "cache-control",
    "content-language",
    "content-length",
    "date",
    "etag",
    "last-modified",
    "link",
    "location",
    "retry-after",
];
/// The characters of Windows-1252 from 0x80 on, where Latin-1 has controls.
const WINDOWS_1252: [char; 32] = [
    '\u{20AC}', '\u{81}', '\u{201A}', '\u{192}', '\u{201E}', '\u{2026}', '\u{2020}', '\u{2021}', '\u{2C6}', '\u{2030}',
    '\u{160}', '\u{2039}', '\u{152}', '\u{8D}', '\u{17D}', '\u{8F}', '\u{90}', '\u{2018}', '\u{2019}', '\u{201C}',
    '\u{201D}', '\u{2022}', '\u{2013}', '\u{2014}', '\u{2DC}', '\u{2122}', '\u{161}', '\u{203A}', '\u{153}', '\u{9D}',
    '\u{17E}', '\u{178}',
];

pub(super) struct HttpFetch {
    spec: Arc<ToolSpec>,
    egress: Arc<Egress>,
}

impl HttpFetch {
    pub(super) fn new(egress: Arc<Egress>) -> Self {
        let spec = ToolSpec {
            name: "http_fetch".to_owned(),
            description:
                "Sends one HTTP request to a public address and returns status, a few headers and the body as \
                          text. Redirects are followed. Binary content is only described."
                    .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "url": { "type": "string", "minLength": 1, "maxLength": 8_192 },
                    "method": { "enum": ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] },
                    "headers": {
                        "type": "object",
                        "maxProperties": 32,
                        "additionalProperties": { "type": "string", "maxLength": 4_096 }
                    },
                    "body": { "type": "string", "maxLength": 262_144 }
                },
                "required": ["url"],
                "additionalProperties": false
            }),
            output_schema: None,
            class: ToolClass::External,
            idempotent: false,
            timeout_ms: 35_000,
            risk_level: None,
        };
        Self { spec: Arc::new(spec), egress }
    }
}

#[async_trait]
impl Tool for HttpFetch {
    fn spec(&self) -> Arc<ToolSpec> {
        self.spec.clone()
    }

    /// External for every method, because a URL can carry data to its owner. GET and HEAD may be repeated.
    fn nature(&self, arguments: &Value) -> Nature {
        Nature { class: ToolClass::External, idempotent: is_read_only(arguments) }
    }

    async fn call(&self, arguments: Value, context: ToolContext) -> Result<ToolOutput, ToolError> {
        // If a GET or HEAD fails, neither this attempt nor a lost one before it is in doubt: none had an effect.
        if is_read_only(&arguments) {
            self.fetch(arguments, context, ToolClass::Read).await.map_err(ToolError::without_effect)
        } else {
            self.fetch(arguments, context, ToolClass::External).await
        }
    }
}

impl HttpFetch {
    /// `class` is that of the request's effect.
    async fn fetch(&self, arguments: Value, context: ToolContext, class: ToolClass) -> Result<ToolOutput, ToolError> {
        let url = arguments.get("url").and_then(Value::as_str).unwrap_or_default();
        let url: Url = url.parse().map_err(|error| invalid("/url", format!("This is no URL: {error}.")))?;
        let request = OutgoingRequest {
            method: method(&arguments),
            to: Destination::Untrusted { url, tenant: context.tenant },
            headers: headers(&arguments)?,
            body: arguments.get("body").and_then(Value::as_str).unwrap_or_default().to_owned().into(),
            // A larger body is truncated, not refused.
            bounds: Bounds { headers: TOTAL_TIMEOUT, stall: STALL_TIMEOUT, total: TOTAL_TIMEOUT, bytes: usize::MAX },
        };
        let mut processed = None;
        let result = match self.egress.follow_processed(request, &mut processed).await {
            Ok((url, answer)) => output(url, answer, class).await,
            Err(error) => Err(call_error(&error, class)),
        };
        match processed {
            // The request was carried out, and only its result could not be fetched.
            Some((url, mut redirect)) if result.is_err() => {
                let body = read_beginning(&mut redirect).await.unwrap_or_else(|_| (Vec::new(), true));
                Ok(output_of(&url, &redirect, body))
            }
            Some(_) | None => result,
        }
    }
}

/// What a response tells.
async fn output(url: Url, mut answer: IncomingResponse, class: ToolClass) -> Result<ToolOutput, ToolError> {
    let (body, is_truncated) = read_beginning(&mut answer).await.map_err(|error| call_error(&error, class))?;
    match lost_error(answer.status(), &body, class) {
        Some(lost) => Err(lost),
        None => Ok(output_of(&url, &answer, (body, is_truncated))),
    }
}

fn is_read_only(arguments: &Value) -> bool {
    matches!(method(arguments), Method::GET | Method::HEAD)
}

fn method(arguments: &Value) -> Method {
    let named = arguments.get("method").and_then(Value::as_str);
    named.and_then(|name| name.parse().ok()).unwrap_or(Method::GET)
}

fn headers(arguments: &Value) -> Result<HeaderMap, ToolError> {
    let mut headers = HeaderMap::new();
    for (name, value) in arguments.get("headers").and_then(Value::as_object).into_iter().flatten() {
        let wrong = || invalid(&format!("/headers/{name}"), format!("`{name}` is no header that can be sent."));
        let value = value.as_str().and_then(|value| HeaderValue::from_str(value).ok());
        let name = HeaderName::from_bytes(name.as_bytes()).ok();
        headers.insert(name.ok_or_else(wrong)?, value.ok_or_else(wrong)?);
    }
    Ok(headers)
}

/// The beginning of the body, and whether it was truncated.
async fn read_beginning(answer: &mut IncomingResponse) -> Result<(Vec<u8>, bool), Error> {
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await? {
        body.extend_from_slice(&chunk);
        if body.len() > MAX_BODY {
            body.truncate(MAX_BODY);
            return Ok((body, true));
        }
    }
    Ok((body, false))
}

fn output_of(url: &Url, answer: &IncomingResponse, (body, is_truncated): (Vec<u8>, bool)) -> ToolOutput {
    let text_of = |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok());
    let headers: Map<String, Value> =
        SHOWN_HEADERS.iter().filter_map(|name| Some(((*name).to_owned(), text_of(name)?.into()))).collect();
    let content_type = text_of(CONTENT_TYPE.as_str()).unwrap_or_default();
    let mut output = json!({
        "url": url.as_str(),
        "status": answer.status().as_u16(),
        "headers": headers,
        "contentType": content_type,
    });
    let length = body.len();
    match text(content_type, body, is_truncated) {
        Some(text) => output["body"] = text.into(),
        None => output["binary"] = json!({ "bytes": length, "isWhole": !is_truncated }),
    }
    if is_truncated {
        output["truncated"] = true.into();
    }
    let source = json!({ "sourceName": url.host_str().unwrap_or_default(), "url": url.as_str() });
    ToolOutput { output, metadata: Some(json!({ "sources": [source] })), state_patch: None }
}

/// The body as text, if it is text: UTF-8, or Windows-1252 if the response says that or Latin-1, which browsers take for
/// the same.
fn text(content_type: &str, mut body: Vec<u8>, is_truncated: bool) -> Option<String> {
    if body.contains(&0) {
        return None;
    }
    let content_type = content_type.to_ascii_lowercase();
    if matches!(charset(&content_type), Some("iso-8859-1" | "windows-1252")) {
        return Some(body.into_iter().map(windows_1252).collect());
    }
    if let (true, Err(error)) = (is_truncated, std::str::from_utf8(&body))
        && error.error_len().is_none()
    {
        // The truncation split a character.
        body.truncate(error.valid_up_to());
    }
    match String::from_utf8(body) {
        Ok(text) => Some(text),
        Err(error) if content_type.starts_with("text/") => Some(String::from_utf8_lossy(error.as_bytes()).into_owned()),
        Err(_) => None,
    }
}

fn charset(content_type: &str) -> Option<&str> {
    let mut parameters = content_type.split(';').skip(1).filter_map(|parameter| parameter.split_once('='));
    let (_, charset) = parameters.find(|(name, _)| name.trim() == "charset")?;
    Some(charset.trim().trim_matches('"'))
}

fn windows_1252(byte: u8) -> char {
    match byte {
        0x80..=0x9F => WINDOWS_1252[usize::from(byte - 0x80)],
        byte => char::from(byte),
    }
}

fn invalid(pointer: &str, message: String) -> ToolError {
    ToolError::new(CallCode::InvalidArguments, message).at(pointer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_told_and_anything_else_is_not() {
        let of = |kind: &str, body: &[u8]| text(kind, body.to_vec(), false);
        assert_eq!(of("application/json", b"{}").as_deref(), Some("{}"));
        assert_eq!(of("", "grün".as_bytes()).as_deref(), Some("grün"));
        assert_eq!(of("text/html; charset=ISO-8859-1", b"gr\xFCn").as_deref(), Some("grün"));
        assert_eq!(of("text/plain; charset=windows-1252", b"\x80 5 \x96 \x9F").as_deref(), Some("€ 5 – Ÿ"));
        assert_eq!(of("text/plain; a=b; charset=\"ISO-8859-1\"", b"\xA4").as_deref(), Some("¤"));
        assert_eq!(of("text/plain; charset=ISO-8859-15", b"\xA4").as_deref(), Some("\u{FFFD}"));
        assert_eq!(of("text/plain", b"gr\xFCn").as_deref(), Some("gr\u{FFFD}n"));
        assert_eq!(of("image/png", b"\x89PNG\r\n\x1a\n"), None);
        assert_eq!(of("text/plain", b"a\0b"), None);
        assert_eq!(of("image/png; charset=ISO-8859-1", b"\x89PNG\0\0\0\r"), None);
        assert_eq!(
            text("", "grü".as_bytes()[..3].to_vec(), true).as_deref(),
            Some("gr"),
            "cut on a character's border"
        );
    }
}
