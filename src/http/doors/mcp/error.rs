//! Error responses: JSON-RPC errors, with the HTTP status that tells clients what to do.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::domain::fault::{Code, Fault};
use crate::http::doors::answer_headers;
use crate::http::problem;

/// The protocol's error codes that this server uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RpcErrorKind {
    Parse,
    InvalidRequest,
    MethodNotFound,
    InvalidParams,
    Internal,
    /// An error that the protocol has no code for. `data.code` names it.
    Server,
    HeaderMismatch,
    MissingCapability,
    UnsupportedVersion,
}

impl RpcErrorKind {
    fn code(self) -> i32 {
        match self {
            RpcErrorKind::Parse => -32700,
            RpcErrorKind::InvalidRequest => -32600,
            RpcErrorKind::MethodNotFound => -32601,
            RpcErrorKind::InvalidParams => -32602,
            RpcErrorKind::Internal => -32603,
            RpcErrorKind::Server => -32000,
            RpcErrorKind::HeaderMismatch => -32020,
            RpcErrorKind::MissingCapability => -32021,
            RpcErrorKind::UnsupportedVersion => -32022,
        }
    }
}

/// An error response.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct McpError {
    error: RpcErrorKind,
    message: String,
    data: Option<Value>,
    status: u16,
    retry_after_ms: Option<i64>,
}

impl McpError {
    pub(super) fn new(error: RpcErrorKind, message: impl Into<String>) -> Self {
        Self { error, message: message.into(), data: None, status: 200, retry_after_ms: None }
    }

    pub(super) fn with_status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    pub(super) fn with_data(self, data: Value) -> Self {
        Self { data: Some(data), ..self }
    }

    /// The JSON-RPC message.
    pub(super) fn body(&self, id: &Value) -> Value {
        let mut error = json!({ "code": self.error.code(), "message": self.message });
        if let Some(data) = &self.data {
            error["data"] = data.clone();
        }
        json!({ "jsonrpc": "2.0", "id": id, "error": error })
    }

    pub(super) fn response(&self, id: &Value) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(self.body(id))).into_response();
        problem::set_retry_after(response.headers_mut(), status, self.retry_after_ms);
        response
    }
}

impl From<Fault> for McpError {
    fn from(fault: Fault) -> Self {
        let error = match fault.code {
            Code::Malformed => RpcErrorKind::Parse,
            Code::BodyTooLarge | Code::UnsupportedMediaType | Code::MethodNotAllowed => RpcErrorKind::InvalidRequest,
            Code::Invalid => RpcErrorKind::InvalidParams,
            Code::Internal => RpcErrorKind::Internal,
            _others => RpcErrorKind::Server,
        };
        let mut data = json!({ "code": fault.code, "retryable": fault.code.retryable() });
        if !fault.errors.is_empty() {
            data["errors"] = json!(fault.errors);
        }
        Self {
            error,
            message: fault.detail,
            data: Some(data),
            status: fault.code.status(),
            retry_after_ms: fault.retry_after_ms,
        }
    }
}

/// The response for a fault that the endpoint has not answered. Keeps the headers of `bare`.
pub(crate) fn refuse(fault: &Fault, bare: &Response) -> Response {
    let mut response = McpError::from(fault.clone()).response(&Value::Null);
    answer_headers::keep_existing(&mut response, bare.headers());
    response
}
