//! Who asks, as far as the protocol goes: the version that is spoken, and what the client can do.
//!
//! Up to 2025-11-25 a client begins with `initialize`, of which a stateless server keeps nothing, and names the version in a
//! header of each later request. Since 2026-07-28 each request says everything in its `_meta`, and repeats in headers what
//! those may want to know who stand between: a header that says something else than the body is refused.

use axum::http::HeaderMap;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};

use super::envelope::RpcRequest;
use super::refusal::{Error, Refusal};
use super::tasks::EXTENSION;

/// The versions that are spoken, oldest first. Their names sort as they came.
pub(super) const VERSIONS: [&str; 3] = ["2025-06-18", "2025-11-25", "2026-07-28"];
/// The first without `initialize`.
const MODERN: &str = "2026-07-28";
/// What `initialize` is answered with where the client names a version that is not spoken.
const NEWEST_WITH_INITIALIZE: &str = "2025-11-25";

const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// What a request says of the client that sent it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Client {
    /// 2026-07-28 or newer: requests may be answered with questions, and closing a stream takes its request back.
    pub(super) is_modern: bool,
    /// It can put a form to a person.
    pub(super) has_forms: bool,
    /// It can wait for a task.
    pub(super) has_tasks: bool,
    /// Wants to be told how it goes on, under this name.
    pub(super) progress_token: Option<Value>,
}

impl Client {
    /// Fails where the request contradicts itself, or names a version that is not spoken.
    pub(super) fn of(request: &RpcRequest, headers: &HeaderMap) -> Result<Self, Refusal> {
        let nothing = Map::new();
        let meta = request.params.get("_meta").and_then(Value::as_object).unwrap_or(&nothing);
        let progress_token = meta.get("progressToken").filter(|token| token.is_string() || token.is_number()).cloned();
        let named = sole(headers, "mcp-protocol-version")?;
        if request.method == "initialize" {
            return Ok(Self { progress_token, ..Self::default() });
        }
        let is_newer = named.is_some_and(|version| version >= MODERN);
        let version = meta.get(META_VERSION).and_then(Value::as_str);
        if version.is_none() && !is_newer && request.method != "server/discover" {
            named.map_or(Ok(()), spoken)?;
            return Ok(Self { progress_token, ..Self::default() });
        }
        let missing = |name: &str| {
            Refusal::new(Error::InvalidParams, format!("`params._meta[\"{name}\"]` is missing.")).with_status(400)
        };
        let version = version.ok_or_else(|| missing(META_VERSION))?;
        if named != Some(version) {
            let sent = named.unwrap_or("nothing");
            return Err(mismatch(format!("MCP-Protocol-Version says {sent}, the body {version}.")));
        }
        spoken(version)?;
        let capabilities = meta.get(META_CAPABILITIES).and_then(Value::as_object);
        let capabilities = capabilities.ok_or_else(|| missing(META_CAPABILITIES))?;
        if is_newer {
            agrees(headers, "mcp-method", &request.method)?;
            if let Some(name) = named_by(request).and_then(|member| request.params.get(member)?.as_str()) {
                agrees(headers, "mcp-name", name)?;
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

    /// A result in the form of the client's version.
    pub(super) fn result(&self, mut result: Value) -> Value {
        if self.is_modern && result.get("resultType").is_none() {
            result["resultType"] = json!("complete");
        }
        result
    }

    /// The same, of something that may be kept: by this client alone, and not for long, as it depends on the key.
    pub(super) fn kept_result(&self, mut result: Value) -> Value {
        if self.is_modern {
            result["ttlMs"] = json!(0);
            result["cacheScope"] = json!("private");
        }
        self.result(result)
    }
}

/// The member that the header `mcp-name` repeats.
fn named_by(request: &RpcRequest) -> Option<&'static str> {
    match request.method.as_str() {
        "tools/call" => Some("name"),
        "tasks/get" | "tasks/update" | "tasks/cancel" => Some("taskId"),
        _ => None,
    }
}

/// Who names no kind of elicitation has the one that was there first: forms.
fn has_forms(capabilities: &Map<String, Value>) -> bool {
    let kinds = capabilities.get("elicitation").and_then(Value::as_object);
    kinds.is_some_and(|kinds| kinds.is_empty() || kinds.contains_key("form"))
}

fn has_tasks(capabilities: &Map<String, Value>) -> bool {
    capabilities.get("extensions").is_some_and(|extensions| extensions[EXTENSION].is_object())
}

/// The version that `initialize` is answered with.
pub(super) fn negotiated(asked: &str) -> &'static str {
    let known = VERSIONS.into_iter().find(|version| *version == asked && *version < MODERN);
    known.unwrap_or(NEWEST_WITH_INITIALIZE)
}

fn spoken(version: &str) -> Result<(), Refusal> {
    // Whoever names none means the one before the header was there, which asks for nothing that is not here.
    if VERSIONS.contains(&version) || version == "2025-03-26" {
        return Ok(());
    }
    let detail = format!("The versions {} of the protocol are spoken.", VERSIONS.join(", "));
    let data = json!({ "supported": VERSIONS, "requested": version });
    Err(Refusal::new(Error::UnsupportedVersion, detail).with_data(data).with_status(400))
}

fn agrees(headers: &HeaderMap, name: &'static str, body: &str) -> Result<(), Refusal> {
    let header = sole(headers, name)?.ok_or_else(|| mismatch(format!("The header {name} is missing.")))?;
    match decoded(header) {
        Some(header) if header == body => Ok(()),
        Some(_) | None => Err(mismatch(format!("The header {name} and the body do not say the same."))),
    }
}

/// A header may be written as `=?base64?…?=` where its text is not plain.
fn decoded(header: &str) -> Option<String> {
    match header.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) {
        Some(text) => String::from_utf8(BASE64_STANDARD.decode(text).ok()?).ok(),
        None => Some(header.to_owned()),
    }
}

/// The one value of a header: of two, others may have read the other.
fn sole<'h>(headers: &'h HeaderMap, name: &'static str) -> Result<Option<&'h str>, Refusal> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(mismatch(format!("The header {name} came twice.")));
    }
    value.to_str().map(Some).map_err(|_| mismatch(format!("The header {name} is not plain text.")))
}

fn mismatch(how: String) -> Refusal {
    Refusal::new(Error::HeaderMismatch, how).with_status(400)
}
