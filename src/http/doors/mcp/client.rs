//! The protocol version of a request, and the client's capabilities.
//!
//! Up to 2025-11-25 a client begins with `initialize` and names the version in a header of each later request. A
//! stateless server stores nothing of `initialize`. Since 2026-07-28 each request carries everything in its `_meta`,
//! and repeats in headers what proxies may need. A header that differs from the body is refused.

use axum::http::HeaderMap;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};

use super::envelope::RpcRequest;
use super::error::{McpError, RpcErrorKind};
use super::tasks::EXTENSION;

/// The supported versions, oldest first. Their names sort by age.
pub(super) const VERSIONS: [&str; 4] = ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];
/// The first version without `initialize`.
const MODERN: &str = "2026-07-28";
/// The version in the response to `initialize` if the client names an unsupported one.
const NEWEST_WITH_INITIALIZE: &str = "2025-11-25";

const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// What a request says about its client.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct McpClient {
    /// Version 2026-07-28 or newer: requests may be answered with questions, and closing a stream cancels its request.
    pub(super) is_modern: bool,
    /// The client can show a form to a person.
    pub(super) has_forms: bool,
    /// The client can wait for a task.
    pub(super) has_tasks: bool,
    /// Set if the client wants progress notifications, which carry this token.
    pub(super) progress_token: Option<Value>,
}

impl McpClient {
    /// Fails if the request contradicts itself, or names an unsupported version.
    pub(super) fn of(request: &RpcRequest, headers: &HeaderMap) -> Result<Self, McpError> {
        let nothing = Map::new();
        let meta = request.params.get("_meta").and_then(Value::as_object).unwrap_or(&nothing);
        let progress_token = meta.get("progressToken").filter(|token| token.is_string() || token.is_number()).cloned();
        let named = single_header(headers, "mcp-protocol-version")?;
        if request.method == "initialize" {
            return Ok(Self { progress_token, ..Self::default() });
        }
        let is_newer = named.is_some_and(|version| version >= MODERN);
        let version = meta.get(META_VERSION).and_then(Value::as_str);
        if version.is_none() && !is_newer && request.method != "server/discover" {
            named.map_or(Ok(()), check_version)?;
            return Ok(Self { progress_token, ..Self::default() });
        }
        let missing = |name: &str| {
            McpError::new(RpcErrorKind::InvalidParams, format!("`params._meta[\"{name}\"]` is missing."))
                .with_status(400)
        };
        let version = version.ok_or_else(|| missing(META_VERSION))?;
        if named != Some(version) {
            let sent = named.unwrap_or("nothing");
            return Err(mismatch(format!("MCP-Protocol-Version says {sent}, the body {version}.")));
        }
        check_version(version)?;
        let capabilities = meta.get(META_CAPABILITIES).and_then(Value::as_object);
        let capabilities = capabilities.ok_or_else(|| missing(META_CAPABILITIES))?;
        if is_newer {
            check_header(headers, "mcp-method", &request.method)?;
            let name = named_by(request).and_then(|member| request.params.get(member)?.as_str());
            // Some clients, as FastMCP's, leave it out where it names a task. Nothing here needs it.
            let is_needed = request.method == "tools/call" || headers.contains_key("mcp-name");
            if let Some(name) = name.filter(|_| is_needed) {
                check_header(headers, "mcp-name", name)?;
            }
        }
        let (has_forms, has_tasks) = (has_forms(capabilities), has_tasks(capabilities));
        Ok(Self {
            is_modern: is_newer,
            has_forms: is_newer && has_forms,
            has_tasks: is_newer && has_tasks,
            progress_token,
        })
    }

    /// A result in the format of the client's version.
    pub(super) fn result(&self, mut result: Value) -> Value {
        if self.is_modern && result.get("resultType").is_none() {
            result["resultType"] = json!("complete");
        }
        result
    }

    /// The same for a result that may be cached: only by this client and not for long, as it depends on the key.
    pub(super) fn cacheable_result(&self, mut result: Value) -> Value {
        if self.is_modern {
            result["ttlMs"] = json!(0);
            result["cacheScope"] = json!("private");
        }
        self.result(result)
    }
}

/// The parameter that the header `mcp-name` repeats.
fn named_by(request: &RpcRequest) -> Option<&'static str> {
    match request.method.as_str() {
        "tools/call" => Some("name"),
        "tasks/get" | "tasks/update" | "tasks/cancel" => Some("taskId"),
        _ => None,
    }
}

/// A client that names no kind of elicitation has the original one: forms.
fn has_forms(capabilities: &Map<String, Value>) -> bool {
    let kinds = capabilities.get("elicitation").and_then(Value::as_object);
    kinds.is_some_and(|kinds| kinds.is_empty() || kinds.contains_key("form"))
}

fn has_tasks(capabilities: &Map<String, Value>) -> bool {
    capabilities.get("extensions").is_some_and(|extensions| extensions[EXTENSION].is_object())
}

/// The version in the response to `initialize`.
pub(super) fn negotiated(asked: &str) -> &'static str {
    let known = VERSIONS.into_iter().find(|version| *version == asked && *version < MODERN);
    known.unwrap_or(NEWEST_WITH_INITIALIZE)
}

fn check_version(version: &str) -> Result<(), McpError> {
    if VERSIONS.contains(&version) {
        return Ok(());
    }
    let detail = format!("The versions {} of the protocol are spoken.", VERSIONS.join(", "));
    let data = json!({ "supported": VERSIONS, "requested": version });
    Err(McpError::new(RpcErrorKind::UnsupportedVersion, detail).with_data(data).with_status(400))
}

fn check_header(headers: &HeaderMap, name: &'static str, body: &str) -> Result<(), McpError> {
    let header = single_header(headers, name)?.ok_or_else(|| mismatch(format!("The header {name} is missing.")))?;
    match decoded(header) {
        Some(header) if header == body => Ok(()),
        Some(_) | None => Err(mismatch(format!("The header {name} and the body do not say the same."))),
    }
}

/// A header may be written as `=?base64?…?=` if its text is not plain ASCII.
fn decoded(header: &str) -> Option<String> {
    match header.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) {
        Some(text) => String::from_utf8(BASE64_STANDARD.decode(text).ok()?).ok(),
        None => Some(header.to_owned()),
    }
}

/// The value of a header. A repeated header is refused: a proxy may have read the other value.
fn single_header<'h>(headers: &'h HeaderMap, name: &'static str) -> Result<Option<&'h str>, McpError> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(mismatch(format!("The header {name} came twice.")));
    }
    value.to_str().map(Some).map_err(|_| mismatch(format!("The header {name} is not plain text.")))
}

fn mismatch(how: String) -> McpError {
    McpError::new(RpcErrorKind::HeaderMismatch, how).with_status(400)
}
