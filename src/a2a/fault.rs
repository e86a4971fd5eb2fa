//! The protocol's errors: one table for both bindings and both directions.

use serde_json::{Map, Value, json};

use crate::domain::fault::Pointed;

macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $http:literal, $grpc:literal, $reason:literal;)+) => {
        /// The errors between agents. The statuses are those of 1.0.1.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Error { $($(#[$doc])* $name,)+ }

        impl Error {
            pub const ALL: &'static [Error] = &[$(Error::$name,)+];

            /// The code in JSON-RPC.
            pub fn code(self) -> i64 {
                match self { $(Error::$name => $code,)+ }
            }
            pub fn http_status(self) -> u16 {
                match self { $(Error::$name => $http,)+ }
            }
            /// The name of the gRPC status, which the bodies of the HTTP binding contain.
            pub fn status(self) -> &'static str {
                match self { $(Error::$name => $grpc,)+ }
            }
            pub fn reason(self) -> &'static str {
                match self { $(Error::$name => $reason,)+ }
            }
        }
    };
}

errors! {
    TaskNotFound = -32001, 404, "NOT_FOUND", "TASK_NOT_FOUND";
    TaskNotCancelable = -32002, 400, "FAILED_PRECONDITION", "TASK_NOT_CANCELABLE";
    PushNotificationNotSupported = -32003, 400, "FAILED_PRECONDITION", "PUSH_NOTIFICATION_NOT_SUPPORTED";
    UnsupportedOperation = -32004, 400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION";
    ContentTypeNotSupported = -32005, 400, "INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED";
    InvalidAgentResponse = -32006, 500, "INTERNAL", "INVALID_AGENT_RESPONSE";
    ExtendedAgentCardNotConfigured = -32007, 400, "FAILED_PRECONDITION", "EXTENDED_AGENT_CARD_NOT_CONFIGURED";
    ExtensionSupportRequired = -32008, 400, "FAILED_PRECONDITION", "EXTENSION_SUPPORT_REQUIRED";
    VersionNotSupported = -32009, 400, "FAILED_PRECONDITION", "VERSION_NOT_SUPPORTED";
    Parse = -32700, 400, "INVALID_ARGUMENT", "PARSE_ERROR";
    InvalidRequest = -32600, 400, "INVALID_ARGUMENT", "INVALID_REQUEST";
    MethodNotFound = -32601, 404, "NOT_FOUND", "METHOD_NOT_FOUND";
    InvalidParams = -32602, 400, "INVALID_ARGUMENT", "INVALID_PARAMS";
    Internal = -32603, 500, "INTERNAL", "INTERNAL_ERROR";
    /// The protocol leaves these to HTTP; their codes are in the range that JSON-RPC reserves for servers.
    Unauthenticated = -32050, 401, "UNAUTHENTICATED", "UNAUTHENTICATED";
    PermissionDenied = -32051, 403, "PERMISSION_DENIED", "PERMISSION_DENIED";
    ResourceExhausted = -32052, 429, "RESOURCE_EXHAUSTED", "RESOURCE_EXHAUSTED";
    Unavailable = -32053, 503, "UNAVAILABLE", "UNAVAILABLE";
}

const ERROR_INFO: &str = "type.googleapis.com/google.rpc.ErrorInfo";
const BAD_REQUEST: &str = "type.googleapis.com/google.rpc.BadRequest";
const DOMAIN: &str = "a2a-protocol.org";
/// How much is passed on of what others say in a body of their own.
const MAX_WORDS_CHARS: usize = 300;

/// An error with its details.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}: {detail}", error.reason())]
pub struct Fault {
    pub error: Error,
    /// A sentence that says what to do.
    pub detail: String,
    /// Additional texts, by name.
    pub metadata: Box<Map<String, Value>>,
    /// The mistakes in the request, by JSON Pointer.
    pub violations: Vec<Pointed>,
}

impl Fault {
    pub fn new(error: Error, detail: impl Into<String>) -> Self {
        Self { error, detail: detail.into(), metadata: Box::default(), violations: Vec::new() }
    }

    /// The task is unknown or belongs to somebody else; callers cannot distinguish the two.
    pub fn no_task() -> Self {
        Self::new(Error::TaskNotFound, "There is no such task; check the id.")
    }

    pub fn invalid(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        let (pointer, detail) = (pointer.into(), detail.into());
        let said = if pointer.is_empty() { detail.clone() } else { format!("`{pointer}` {detail}") };
        let mut fault = Self::new(Error::InvalidParams, said);
        fault.violations.push(Pointed { pointer, detail });
        fault
    }

    pub fn with(mut self, name: &str, text: impl Into<String>) -> Self {
        self.metadata.insert(name.to_owned(), Value::String(text.into()));
        self
    }

    /// The `error` member of a JSON-RPC answer.
    pub fn json_rpc(&self) -> Value {
        json!({ "code": self.error.code(), "message": self.detail, "data": self.details() })
    }

    /// The body of an HTTP answer that has the status `http_status`.
    pub fn http(&self, http_status: u16) -> Value {
        json!({ "error": {
            "code": http_status, "status": self.error.status(), "message": self.detail, "details": self.details(),
        } })
    }

    /// The same for clients of 0.3, which read the code of JSON-RPC, or the name of the error in the SDKs, beside `error`.
    pub fn http_03(&self, http_status: u16) -> Value {
        let name = if self.error == Error::Parse { "JSONParse".to_owned() } else { format!("{:?}", self.error) };
        let mut body = self.http(http_status);
        body["code"] = self.error.code().into();
        body["type"] = format!("{name}Error").into();
        body["message"] = self.detail.as_str().into();
        body
    }

    fn details(&self) -> Vec<Value> {
        let info = json!({
            "@type": ERROR_INFO, "reason": self.error.reason(), "domain": DOMAIN, "metadata": self.metadata,
        });
        let mut details = vec![info];
        if !self.violations.is_empty() {
            let violations: Vec<Value> =
                self.violations.iter().map(|it| json!({ "field": it.pointer, "description": it.detail })).collect();
            details.push(json!({ "@type": BAD_REQUEST, "fieldViolations": violations }));
        }
        details
    }

    /// Reads the `error` member of a JSON-RPC answer.
    pub fn from_json_rpc(error: &Value) -> Self {
        Self::read(of_code(error), error, &error["data"])
    }

    /// Reads an HTTP answer whose status is no success.
    pub fn from_http(http_status: u16, body: &Value) -> Self {
        let known = match http_status {
            401 => Some(Error::Unauthenticated),
            403 => Some(Error::PermissionDenied),
            429 => Some(Error::ResourceExhausted),
            503 => Some(Error::Unavailable),
            _ => None,
        };
        // 1.0 wraps its error in `error`; some agents of 0.3 return that of JSON-RPC.
        let error = error_member(body);
        let known = known.or_else(|| of_code(error)).or_else(|| of_grpc_status(error["status"].as_str()?));
        let mut fault = Self::read(known, error, details_of(error));
        if fault.detail.is_empty() {
            fault.detail = said_over_http(http_status, body);
        }
        fault
    }

    /// Reads such an answer of an agent of 0.3 over HTTP+JSON. Many return only a message, so the HTTP status must say the
    /// rest.
    pub fn from_http_03(http_status: u16, body: &Value) -> Self {
        let fault = Self::from_http(http_status, body);
        let error = match http_status {
            400 | 422 => Error::InvalidParams,
            404 => Error::TaskNotFound,
            409 => Error::TaskNotCancelable,
            405 | 501 => Error::UnsupportedOperation,
            415 => Error::ContentTypeNotSupported,
            _ => return fault,
        };
        let has_only_a_message = body["message"].is_string() && body.get("code").is_none();
        if fault.error == Error::Internal && has_only_a_message { Self { error, ..fault } } else { fault }
    }

    /// The reason in `details` is more specific than a code, which several errors may share.
    fn read(known: Option<Error>, error: &Value, details: &Value) -> Self {
        let info = info(details);
        Self {
            error: info.and_then(of_reason).or(known).unwrap_or(Error::Internal),
            detail: error["message"].as_str().unwrap_or_default().to_owned(),
            metadata: Box::new(info.and_then(|it| it["metadata"].as_object()).cloned().unwrap_or_default()),
            violations: Vec::new(),
        }
    }
}

/// Whether the body of an HTTP answer names an error of the protocol by its code or its reason.
pub(super) fn names_error(body: &Value) -> bool {
    let error = error_member(body);
    of_code(error).is_some() || info(details_of(error)).is_some_and(|info| of_reason(info).is_some())
}

/// The error in the body of an HTTP answer.
fn error_member(body: &Value) -> &Value {
    body.get("error").unwrap_or(body)
}

fn details_of(error: &Value) -> &Value {
    error.get("details").unwrap_or(&error["data"])
}

fn info(details: &Value) -> Option<&Value> {
    details.as_array()?.iter().find(|it| it["@type"] == ERROR_INFO)
}

fn of_reason(info: &Value) -> Option<Error> {
    Error::ALL.iter().find(|error| info["reason"] == error.reason()).copied()
}

fn of_code(error: &Value) -> Option<Error> {
    Error::ALL.iter().find(|it| Some(it.code()) == error["code"].as_i64()).copied()
}

/// An HTTP answer in words. Its body may be an error of OAuth, a problem document, or what common frameworks send.
pub(super) fn said_over_http(http_status: u16, body: &Value) -> String {
    let error = &body["error"];
    let texts =
        [&error["message"], &body["message"], &body["error_description"], error, &body["detail"], &body["title"]];
    let text = texts.into_iter().filter_map(Value::as_str).find(|text| !text.is_empty());
    let words = text.map(|text| text.chars().take(MAX_WORDS_CHARS).collect::<String>());
    let words = words.map(|words| format!(": {}", words.trim_end_matches('.'))).unwrap_or_default();
    format!("The answer is HTTP {http_status}{words}.")
}

/// The error that the name of a gRPC status stands for, in an answer without a reason.
fn of_grpc_status(name: &str) -> Option<Error> {
    match name {
        "NOT_FOUND" => Some(Error::TaskNotFound),
        "INVALID_ARGUMENT" => Some(Error::InvalidParams),
        "FAILED_PRECONDITION" | "UNIMPLEMENTED" => Some(Error::UnsupportedOperation),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_comes_back_through_both_bindings() {
        for error in Error::ALL.iter().copied() {
            let fault = Fault::new(error, "Do something else.").with("taskId", "run_1");
            assert_eq!(Fault::from_json_rpc(&fault.json_rpc()), fault);
            assert_eq!(Fault::from_http(error.http_status(), &fault.http(error.http_status())), fault);
            assert_eq!(Fault::from_http_03(error.http_status(), &fault.http_03(error.http_status())), fault);
        }
    }

    #[test]
    fn clients_of_0_3_read_the_error_beside_its_document() {
        let body = Fault::no_task().http_03(404);
        assert_eq!((&body["code"], &body["type"]), (&json!(-32001), &json!("TaskNotFoundError")));
        assert_eq!((&body["message"], &body["error"]["code"]), (&body["error"]["message"], &json!(404)));
        assert_eq!(Fault::new(Error::Parse, "x").http_03(400)["type"], "JSONParseError");
    }

    #[test]
    fn codes_and_reasons_are_unique() {
        for of in [|it: &Error| it.code().to_string(), |it: &Error| it.reason().to_owned()] {
            let mut seen: Vec<String> = Error::ALL.iter().map(of).collect();
            seen.sort();
            seen.dedup();
            assert_eq!(seen.len(), Error::ALL.len());
        }
    }

    #[test]
    fn an_answer_that_is_no_error_document_still_has_a_name() {
        assert_eq!(Fault::from_http(401, &Value::Null).error, Error::Unauthenticated);
        assert_eq!(Fault::from_http(502, &json!("Bad Gateway")).error, Error::Internal);
        assert_eq!(Fault::from_http(400, &json!({"code": -32001, "message": "x"})).error, Error::TaskNotFound);
        let named = json!({ "error": { "code": 404, "status": "NOT_FOUND", "message": "x" } });
        assert_eq!(Fault::from_http(404, &named).error, Error::TaskNotFound);
    }

    #[test]
    fn what_a_body_of_another_kind_says_is_told_with_its_status() {
        let said = |body: Value| Fault::from_http(401, &body).detail;
        assert_eq!(said(json!({ "error": "invalid_token" })), "The answer is HTTP 401: invalid_token.");
        let described = json!({ "error": "invalid_token", "error_description": "It expired." });
        assert_eq!(said(described), "The answer is HTTP 401: It expired.");
        assert_eq!(said(json!({ "detail": "x".repeat(1_000) })).len(), "The answer is HTTP 401: .".len() + 300);
        assert_eq!(said(Value::Null), "The answer is HTTP 401.");
        assert!(names_error(&json!({ "error": { "code": -32603 } })) && !names_error(&json!({ "error": "x" })));
    }

    #[test]
    fn an_answer_of_0_3_with_only_a_message_is_named_by_its_status() {
        let read = |status, body: Value| Fault::from_http_03(status, &body).error;
        for (status, error) in [
            (400, Error::InvalidParams),
            (404, Error::TaskNotFound),
            (409, Error::TaskNotCancelable),
            (415, Error::ContentTypeNotSupported),
            (422, Error::InvalidParams),
            (501, Error::UnsupportedOperation),
            (500, Error::Internal),
        ] {
            assert_eq!(read(status, json!({ "message": "x" })), error, "{status}");
            assert_eq!(read(status, json!("x")), Error::Internal, "a proxy says so: {status}");
            assert_eq!(read(status, json!({ "code": -32603, "message": "x" })), Error::Internal, "{status}");
            assert_eq!(Fault::from_http(status, &json!({ "message": "x" })).error, Error::Internal, "1.0: {status}");
        }
    }
}
