//! The OpenAPI document: what each route declares, and what is common to all of them.

mod live;
mod tidy;

use serde_json::{Map, Value, json};
use utoipa::openapi::OpenApi;

use super::problem::MEDIA_TYPE;
use crate::domain::fault::Code;

/// Paths that need no key.
pub const PUBLIC: [&str; 12] = [
    "/",
    "/healthz",
    "/readyz",
    "/version",
    "/openapi.json",
    "/docs",
    "/.well-known/agent-card.json",
    "/.well-known/oauth-protected-resource",
    "/.well-known/oauth-protected-resource/mcp",
    "/session/oidc",
    "/session/oidc/{name}",
    "/session/oidc/{name}/callback",
];

/// The scheme of keys and tokens.
pub(super) const SECURITY_SCHEME: &str = "key";

const ABOUT: &str = "A durable server for agents that plan, execute and synthesize. What is acknowledged survives a crash; \
                     every error is a problem document (RFC 9457) with one of the codes listed under `Code`.";

/// The document before any route is added.
pub(super) fn base_document() -> OpenApi {
    live::parts()
}

/// Adds path parameters, the security scheme and the problem response to every operation.
pub(super) fn complete(routes: OpenApi) -> Value {
    let mut document = serde_json::to_value(routes).expect("a document of strings is JSON");
    document["info"] =
        json!({ "title": "PES Agent Server", "version": env!("CARGO_PKG_VERSION"), "description": ABOUT });
    tidy::tidy(&mut document);
    let paths = document["paths"].as_object_mut().expect("there are paths");
    for (path, methods) in paths.iter_mut() {
        for (_, operation) in methods.as_object_mut().into_iter().flatten() {
            if let Some(operation) = operation.as_object_mut() {
                complete_operation(path, operation);
            }
        }
    }
    let components = &mut document["components"];
    let schemas = components["schemas"].as_object_mut().expect("there are schemas");
    schemas.insert("Problem".to_owned(), problem());
    live::add(schemas);
    schemas.sort_keys();
    let about = "A key, or a token of an issuer that the server knows (OpenID Connect). An operation names the scope that it \
                 needs; `admin` includes all others but `operator`.";
    let scheme = json!({ "type": "http", "scheme": "bearer", "description": about });
    components["securitySchemes"] = json!({ SECURITY_SCHEME: scheme });
    document
}

fn complete_operation(path: &str, operation: &mut Map<String, Value>) {
    let ids = path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'));
    let ids = ids.map(|id| json!({ "name": id, "in": "path", "required": true, "schema": { "type": "string" } }));
    let mut parameters: Vec<Value> = ids.collect();
    if let Some(Value::Array(own)) = operation.remove("parameters") {
        parameters.extend(own);
    }
    if !parameters.is_empty() {
        operation.insert("parameters".to_owned(), parameters.into());
    }
    let mut content = Map::new();
    let (media_type, schema) = match path {
        // In the error format of those protocols.
        "/a2a" | "/mcp" => ("application/json", json!({ "type": "object", "additionalProperties": true })),
        path if path.starts_with("/v1/") => {
            ("application/json", json!({ "type": "object", "additionalProperties": true }))
        }
        _ => (MEDIA_TYPE, json!({ "$ref": "#/components/schemas/Problem" })),
    };
    content.insert(media_type.to_owned(), json!({ "schema": schema }));
    operation["responses"]["default"] = json!({ "description": "A problem", "content": content });
    let keys = if PUBLIC.contains(&path) { json!([]) } else { json!([{ SECURITY_SCHEME: [] }]) };
    operation.entry("security").or_insert(keys);
}

fn text_list(description: &str) -> Value {
    json!({ "type": "array", "items": { "type": "string" }, "description": description })
}

/// Every member that a fault may add is described: tests read problems with this schema closed.
fn problem() -> Value {
    let table: Vec<_> = Code::ALL
        .iter()
        .map(|code| {
            json!({
                "code": code, "status": code.status(), "title": code.title(), "retryable": code.retryable(),
            })
        })
        .collect();
    json!({
        "type": "object",
        "required": ["type", "title", "status", "detail", "instance", "code", "traceId", "retryable"],
        "properties": {
            "type": { "type": "string", "format": "uri-reference" },
            "title": { "type": "string" },
            "status": { "type": "integer" },
            "detail": { "type": "string" },
            "instance": { "type": "string", "format": "uri-reference" },
            "code": { "$ref": "#/components/schemas/Code" },
            "traceId": { "type": "string" },
            "retryable": { "type": "boolean" },
            "errors": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["pointer", "detail"],
                    "properties": { "pointer": { "type": "string" }, "detail": { "type": "string" } },
                },
            },
            "approvers": text_list("not_an_approver: who may answer"),
            "by": { "type": "string", "description": "on_hold: who set the hold" },
            "at": { "type": "integer", "format": "int64", "description": "on_hold: when it was set" },
            "currentVersion": { "type": "integer", "format": "int64", "description": "precondition_failed: the version as it is now" },
            "digest": { "type": "string", "description": "approval_mismatch: the digest of what is asked now" },
            "failing": text_list("store_unavailable, draining: what is not ready"),
            "hash": { "type": "string", "description": "approval_mismatch: the hash of the tool as its server describes it now" },
            "limit": { "type": "integer", "description": "body_too_large, headers_too_large: the most bytes" },
            "line": { "type": "integer", "description": "import_invalid: the line that is wrong" },
            "minSeq": { "type": "integer", "format": "int64", "description": "history_compacted: the first observation that is left" },
            "planVersion": { "type": "integer", "description": "precondition_failed: the version of the plan as it is now" },
            "resolution": { "$ref": "#/components/schemas/Resolution" },
            "runStatus": { "$ref": "#/components/schemas/RunStatus" },
            "scope": { "$ref": "#/components/schemas/Scope" },
            "threadStatus": { "$ref": "#/components/schemas/ThreadStatus" },
        },
        "x-codes": table,
    })
}
