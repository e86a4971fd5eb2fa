//! Error answers: JSON-RPC errors, with the HTTP status that tells clients what to do.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::domain::fault::{Code, Fault};
use crate::http::doors::answer_headers;
use crate::http::problem;

/// The protocol's errors, as far as this server has a use for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Error {
    Parse,
    InvalidRequest,
    MethodNotFound,
    InvalidParams,
    Internal,
    /// Nothing that the protocol has a word for; `data.code` says what.
    Server,
    HeaderMismatch,
    MissingCapability,
    UnsupportedVersion,
}

impl Error {
    fn code(self) -> i32 {
        match self {
            Error::Parse => -32700,
            Error::InvalidRequest => -32600,
            Error::MethodNotFound => -32601,
            Error::InvalidParams => -32602,
            Error::Internal => -32603,
            Error::Server => -32000,
            Error::HeaderMismatch => -32020,
            Error::MissingCapability => -32021,
            Error::UnsupportedVersion => -32022,
        }
    }
}

/// Why a request comes to nothing.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Refusal {
    error: Error,
    message: String,
    data: Option<Value>,
    status: u16,
    retry_after_ms: Option<i64>,
}

impl Refusal {
    pub(super) fn new(error: Error, message: impl Into<String>) -> Self {
        Self { error, message: message.into(), data: None, status: 200, retry_after_ms: None }
    }

    pub(super) fn with_status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    pub(super) fn with_data(self, data: Value) -> Self {
        Self { data: Some(data), ..self }
    }

    /// The message to the client.
    pub(super) fn body(&self, id: &Value) -> Value {
        let mut error = json!({ "code": self.error.code(), "message": self.message });
        if let Some(data) = &self.data {
            error["data"] = data.clone();
        }
        json!({ "jsonrpc": "2.0", "id": id, "error": error })
    }

    pub(super) fn of(&self, id: &Value) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(self.body(id))).into_response();
        problem::tell_what_to_do(response.headers_mut(), status, self.retry_after_ms);
        response
    }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        let error = match fault.code {
            Code::Malformed => Error::Parse,
            Code::BodyTooLarge | Code::UnsupportedMediaType | Code::MethodNotAllowed => Error::InvalidRequest,
            Code::Invalid => Error::InvalidParams,
            Code::Internal => Error::Internal,
            _others => Error::Server,
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

/// Whether hosts ask at this path, which is one below the server's own base.
pub(crate) fn is_ours(path: &str) -> bool {
    path.trim_end_matches('/') == "/mcp"
}

/// A fault that the endpoint has not answered, with the headers that `bare` has.
pub(crate) fn refuse(fault: &Fault, bare: &Response) -> Response {
    let mut response = Refusal::from(fault.clone()).of(&Value::Null);
    answer_headers::keep(&mut response, bare.headers());
    response
}
