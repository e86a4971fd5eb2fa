//! Error responses: the protocol's errors, in the form of the binding.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::rest;
use crate::a2a::fault::{Error, Fault};
use crate::a2a::wire::{Unreadable, Version};
use crate::domain::fault::{self, Code};
use crate::http::doors::answer_headers;
use crate::http::problem;

/// An error of the protocol, and its HTTP status.
#[derive(Clone, Debug)]
pub(super) struct A2aError {
    pub(super) fault: Fault,
    status: u16,
    retry_after_ms: Option<i64>,
}

impl From<Fault> for A2aError {
    fn from(fault: Fault) -> Self {
        Self { status: fault.error.http_status(), fault, retry_after_ms: None }
    }
}

impl From<Unreadable> for A2aError {
    fn from(unreadable: Unreadable) -> Self {
        Fault::invalid(unreadable.pointer, unreadable.detail).into()
    }
}

/// Maps this server's faults to errors of the protocol.
impl From<fault::Fault> for A2aError {
    fn from(own: fault::Fault) -> Self {
        let error = match own.code {
            Code::NotFound => Error::TaskNotFound,
            Code::UnsupportedMediaType => Error::ContentTypeNotSupported,
            Code::BodyTooLarge => Error::InvalidRequest,
            Code::MethodNotAllowed => Error::MethodNotFound,
            Code::AlreadyResolved | Code::Expired | Code::RunCancelled | Code::RunFinished | Code::ApprovalMismatch => {
                Error::UnsupportedOperation
            }
            // The same message may be sent again unchanged.
            Code::RequestInProgress | Code::ThreadBusy => Error::Unavailable,
            code => match code.status() {
                401 => Error::Unauthenticated,
                403 => Error::PermissionDenied,
                429 => Error::ResourceExhausted,
                503 => Error::Unavailable,
                400..=499 => Error::InvalidParams,
                _ => Error::Internal,
            },
        };
        let status = match own.code.status() {
            plain @ (401 | 403 | 405 | 413 | 415 | 429 | 503) => plain,
            _ => error.http_status(),
        };
        let mut fault = Fault::new(error, detail_for_agents(&own));
        fault.violations = own.errors;
        Self { fault, status, retry_after_ms: own.retry_after_ms }
    }
}

/// Agents know tasks and contexts. Runs, threads and suspensions are terms of this server's own API.
fn detail_for_agents(own: &fault::Fault) -> String {
    let text = match own.code {
        Code::RunCancelled => "The task was cancelled.",
        Code::RunFinished => "The task is over.",
        Code::AlreadyResolved => "The task's question is answered already; get the task.",
        Code::ApprovalMismatch => "The answer is for another question than the task asks; get the task.",
        Code::Expired => "The task's question has expired; get the task.",
        Code::ThreadBusy => "Another task is being worked on in this context; send the message again when it is over.",
        Code::ThreadExists => "There is a context of this id; begin another one.",
        Code::ThreadQuarantined => "This context kept failing and takes no more tasks; begin another one.",
        Code::IdempotencyMismatch => {
            "This message id was used for another message; give each message an id of its own."
        }
        Code::QueueFull => "Too many tasks wait, in this context or for others; send the message again later.",
        Code::NotFound => {
            let task = own.detail.replace("such run", "such task").replace("such thread", "such context");
            return task.replace("such suspension", "such question");
        }
        _others => return own.detail.clone(),
    };
    text.to_owned()
}

impl A2aError {
    /// The answer to the JSON-RPC request of this id. The HTTP status says no more than: not authenticated, not
    /// permitted, wrong method, or try again later.
    pub(super) fn rpc_response(&self, id: &Value) -> Response {
        let status = if matches!(self.status, 401 | 403 | 405 | 429 | 503) { self.status } else { 200 };
        self.sent(status, &self.rpc_body(id))
    }

    pub(super) fn rest_response(&self, version: Version) -> Response {
        self.sent(self.status, &self.rest_body(version))
    }

    pub(super) fn rpc_body(&self, id: &Value) -> Value {
        json!({ "jsonrpc": "2.0", "id": id, "error": self.fault.json_rpc() })
    }

    pub(super) fn rest_body(&self, version: Version) -> Value {
        match version {
            Version::V1 => self.fault.http(self.status),
            Version::V03 | Version::V03Rest => self.fault.http_03(self.status),
        }
    }

    fn sent(&self, status: u16, body: &Value) -> Response {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(body)).into_response();
        problem::set_retry_after(response.headers_mut(), status, self.retry_after_ms);
        response
    }
}

/// The response for a fault that no binding has answered. Keeps the headers of `bare`.
pub(crate) fn refuse(fault: &fault::Fault, path: &str, bare: Response) -> Response {
    // A `NotFound` here means that the path is unknown.
    let own = if fault.code == Code::NotFound {
        Fault::new(Error::MethodNotFound, "There is nothing at this path.").into()
    } else {
        A2aError::from(fault.clone())
    };
    let mut response = if path.trim_end_matches('/') == "/a2a" {
        own.rpc_response(&Value::Null)
    } else {
        own.rest_response(rest::version_of(path.trim_start_matches("/a2a/")))
    };
    answer_headers::keep_existing(&mut response, bare.headers());
    response
}
