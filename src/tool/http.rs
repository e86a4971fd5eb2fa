//! HTTP tools: a tenant's own service. Each call is one POST, signed if there is a secret; its JSON response is the output.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::{Value, json};

use super::http_errors::{call_error, status_error};
use super::{Tool, ToolContext, ToolOutput};
use crate::domain::ids::TenantPk;
use crate::domain::tool::{CallCode, ToolError, ToolSpec};
use crate::egress::{Bounds, Destination, Egress, Error, OutgoingRequest, SigningSecret, insert_trace_headers, sign};
use crate::store::documents::{DocumentKind, Unreadable};

/// The endpoint of an HTTP tool and the secrets that it shares with us.
pub struct HttpTool {
    spec: Arc<ToolSpec>,
    to: Destination,
    secrets: Result<Vec<SigningSecret>, Unreadable>,
    egress: Arc<Egress>,
    /// Maximum size of a response.
    bytes: usize,
}

impl HttpTool {
    /// `Err` secrets make every call fail, because it could not be signed.
    pub fn new(
        spec: ToolSpec,
        to: Destination,
        secrets: Result<Vec<SigningSecret>, Unreadable>,
        egress: Arc<Egress>,
        bytes: usize,
    ) -> Self {
        Self { spec: Arc::new(spec), to, secrets, egress, bytes }
    }

    fn error(&self, error: Error) -> ToolError {
        call_error(&error, self.spec.class)
    }

    /// The call was certainly not sent, because it could not be signed.
    fn unsigned(&self, why: &Unreadable) -> ToolError {
        let tenant = match &self.to {
            Destination::Untrusted { tenant, .. } => *tenant,
            Destination::Operator(_) => TenantPk::NONE,
        };
        why.warn(DocumentKind::HttpTool.as_str(), tenant, &self.spec.name);
        ToolError::new(CallCode::SecretUnreadable, format!("The call cannot be signed, so it was not sent: {why}."))
    }

    fn bounds(&self) -> Bounds {
        let total = Duration::from_millis(u64::try_from(self.spec.timeout_ms).unwrap_or(0));
        Bounds { headers: total, stall: total, total, bytes: self.bytes }
    }
}

#[async_trait]
impl Tool for HttpTool {
    fn spec(&self) -> Arc<ToolSpec> {
        self.spec.clone()
    }

    /// Every attempt of a call has the same `Idempotency-Key` and `webhook-id`.
    async fn call(&self, arguments: Value, context: ToolContext) -> Result<ToolOutput, ToolError> {
        let secrets = self.secrets.as_ref().map_err(|why| self.unsigned(why))?;
        let body = json!({
            "callId": context.call_id,
            "tool": self.spec.name,
            "arguments": arguments,
            "threadId": context.thread_id,
            "runId": context.run_id,
            "traceparent": context.trace.parent,
        });
        let body = body.to_string();
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        if let Ok(key) = HeaderValue::try_from(&context.idempotency_key) {
            headers.insert(HeaderName::from_static("idempotency-key"), key);
        }
        insert_trace_headers(&mut headers, &context.trace);
        sign(&mut headers, secrets, context.call_id.as_str(), context.now / 1_000, body.as_bytes());
        let (to, bounds) = (self.to.clone(), self.bounds());
        let request = OutgoingRequest { method: Method::POST, to, headers, body: body.into(), bounds };
        let mut answer = self.egress.send(request).await.map_err(|error| self.error(error))?;
        if !answer.status().is_success() {
            return Err(status_error(answer, self.spec.class).await);
        }
        let body = answer.read_all().await.map_err(|error| self.error(error))?;
        if body.is_empty() {
            return Ok(ToolOutput::default());
        }
        let output: Value = serde_json::from_slice(&body).map_err(|error| {
            ToolError::new(
                CallCode::InvalidOutput,
                format!("The service answered with something else than JSON: {error}"),
            )
        })?;
        Ok(ToolOutput::new(output))
    }
}
