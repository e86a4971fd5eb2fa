//! HTTP tools as a tenant sets them up over the API.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::tool::{ToolClass, ToolSpec};

/// A service of the tenant's own, offered to its agents.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpToolSpec {
    pub name: String,
    pub description: String,
    /// Must be an address that this server calls for tenants (`egress`).
    pub url: String,
    /// JSON Schema of the arguments.
    #[schema(value_type = Object)]
    pub input_schema: Value,
    /// JSON Schema of the answer; what does not fit becomes an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub output_schema: Option<Value>,
    #[serde(default = "external")]
    pub class: ToolClass,
    /// Whether a call that is repeated under its `Idempotency-Key` has its effect once.
    #[serde(default)]
    pub idempotent: bool,
    #[serde(default = "patience")]
    pub timeout_ms: i64,
    /// What calls are signed with: `whsec_…`, or any text. Never shown again. Absent = one is made (when created), or it
    /// stays (when replaced).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// An HTTP tool as clients see it.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpToolResource {
    pub name: String,
    pub description: String,
    pub url: String,
    #[schema(value_type = Object)]
    pub input_schema: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub output_schema: Option<Value>,
    pub class: ToolClass,
    pub idempotent: bool,
    pub timeout_ms: i64,
    /// The secret that was made, in the answer to its creation only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// Why it is not called: its secret cannot be opened. A new one repairs that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_error: Option<String>,
    /// Why it is not there for agents: what is stored of it cannot be read. Nothing else is known of it; replace or delete it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored_error: Option<String>,
}

impl HttpToolResource {
    /// One that cannot be read: only its name is known.
    pub fn illegible(name: String, why: String) -> Self {
        Self {
            name,
            description: String::new(),
            url: String::new(),
            input_schema: Value::Object(Map::new()),
            output_schema: None,
            class: external(),
            idempotent: false,
            timeout_ms: 0,
            secret: None,
            secret_error: None,
            stored_error: Some(why),
        }
    }

    /// `secret` is what may be shown, whatever the specification holds.
    pub fn of(spec: HttpToolSpec, secret: Option<String>, secret_error: Option<String>) -> Self {
        let HttpToolSpec { name, description, url, input_schema, output_schema, class, idempotent, timeout_ms, .. } =
            spec;
        Self {
            name,
            description,
            url,
            input_schema,
            output_schema,
            class,
            idempotent,
            timeout_ms,
            secret,
            secret_error,
            stored_error: None,
        }
    }
}

fn external() -> ToolClass {
    ToolClass::External
}

fn patience() -> i64 {
    30_000
}

impl HttpToolSpec {
    /// As a tool.
    pub fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name.clone(),
            description: self.description.clone(),
            input_schema: self.input_schema.clone(),
            output_schema: self.output_schema.clone(),
            class: self.class,
            idempotent: self.idempotent,
            timeout_ms: self.timeout_ms,
            risk_level: None,
        }
    }
}
