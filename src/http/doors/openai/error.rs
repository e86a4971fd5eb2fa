//! Errors in OpenAI's format. Its clients retry some statuses by themselves, also conflicts. So every response that a
//! retry cannot change has the header `x-should-retry: false`. Clients of other makers do not know that header, and a
//! retry of a request whose run has failed would start another run. So such a response has status 400, which none of
//! them retries.

use axum::Json;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::domain::fault::{Code, Fault, Pointed};
use crate::domain::pointer;
use crate::http::doors::answer_headers;
use crate::http::problem;

/// Parameters of chat completions, and their names in responses.
const RESPONSES_PARAMS: [(&str, &str); 4] = [
    ("response_format", "text.format"),
    ("max_completion_tokens", "max_output_tokens"),
    ("reasoning_effort", "reasoning.effort"),
    ("messages", "input"),
];

/// An error response.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OpenAiError {
    status: u16,
    code: String,
    message: String,
    /// The position in the request in OpenAI's notation: `messages[0].content[1]`.
    param: Option<String>,
    is_retryable: bool,
    retry_after_ms: Option<i64>,
    /// It is the response to a request whose run began.
    is_of_run: bool,
}

impl OpenAiError {
    /// The request is invalid, so a retry fails as well.
    pub(super) fn bad_request(code: &str, param: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            status: 400,
            code: code.to_owned(),
            message: message.into(),
            param: Some(param.into()),
            is_retryable: false,
            retry_after_ms: None,
            is_of_run: false,
        }
    }

    /// A feature of OpenAI that this server does not have.
    pub(super) fn unsupported(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self::bad_request("unsupported", param, message)
    }

    /// There is no model of this name.
    pub(super) fn no_model(name: &str) -> Self {
        let message = format!("The model `{name}` does not exist; GET /v1/models lists those that do.");
        Self { status: 404, ..Self::bad_request("model_not_found", "model", message) }
    }

    /// A run that began and gives no answer. It is not retryable, since a retry would start another run. The exception
    /// is a server that is stopping: a retry then gets the answer of the same run.
    pub(super) fn failed(code: &str, message: &str) -> Self {
        Self::unreadable(code, message).of_run()
    }

    /// The events of a run cannot be read to their end.
    pub(super) fn unreadable(code: &str, message: &str) -> Self {
        let known = Code::ALL.iter().find(|known| known.as_str() == code);
        let status = known.map_or(500, |known| known.status());
        let is_retryable = code == Code::Draining.as_str();
        Self { status, param: None, is_retryable, ..Self::bad_request(code, "", message) }
    }

    /// The same error as the response to the request that began the run.
    pub(super) fn of_run(self) -> Self {
        Self { is_of_run: true, ..self }
    }

    /// The same error for the Responses API.
    pub(super) fn for_responses_api(mut self) -> Self {
        let Some(param) = self.param.take() else { return self };
        let known = RESPONSES_PARAMS.iter().find(|(of_chat, _)| *of_chat == param);
        let renamed = known.map_or_else(|| param.replace("].function.", "]."), |(_, own)| (*own).to_owned());
        self.message = self.message.replace(&format!("`{param}`"), &format!("`{renamed}`"));
        self.param = Some(renamed);
        self
    }

    pub(super) fn has_code(&self, code: Code) -> bool {
        self.code == code.as_str()
    }

    pub(super) fn body(&self) -> Value {
        let kind = match self.status {
            403 => "permission_error",
            429 => "rate_limit_error",
            500.. => "server_error",
            _ => "invalid_request_error",
        };
        json!({ "error": { "message": self.message, "type": kind, "param": self.param, "code": self.code } })
    }
}

impl From<Fault> for OpenAiError {
    fn from(fault: Fault) -> Self {
        let code = match fault.code {
            Code::Unauthorized => "invalid_api_key",
            own => own.as_str(),
        };
        let status = match fault.code {
            // The content of the request is invalid, which is 400 for these clients.
            Code::Invalid | Code::TooManyItems | Code::PlanInvalid | Code::StateTooLarge => 400,
            own => own.status(),
        };
        let pointed = fault.errors.first();
        let message = match pointed {
            // The detail is about the options of a run, or only refers to the mistakes.
            Some(pointed)
                if fault.code == Code::Invalid
                    && (pointed.pointer.starts_with("/options/") || !fault.detail.contains(&pointed.detail)) =>
            {
                fault.errors.iter().map(mistake).collect::<Vec<_>>().join("; ")
            }
            Some(pointed) if fault.errors.len() == 1 && !fault.detail.contains(&pointed.detail) => {
                format!("{} ({})", fault.detail, pointed.detail)
            }
            Some(_) | None => fault.detail.clone(),
        };
        Self {
            status,
            code: code.to_owned(),
            message,
            param: pointed.map(|pointed| param(&pointed.pointer)),
            is_retryable: fault.code.retryable() && (matches!(status, 408 | 429) || status >= 500),
            retry_after_ms: fault.retry_after_ms,
            is_of_run: false,
        }
    }
}

impl IntoResponse for OpenAiError {
    fn into_response(self) -> Response {
        let status = if self.is_of_run && !self.is_retryable { 400 } else { self.status };
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(self.body())).into_response();
        let headers = response.headers_mut();
        if !self.is_retryable {
            headers.insert("x-should-retry", HeaderValue::from_static("false"));
        }
        problem::set_retry_after(headers, status, self.retry_after_ms);
        response
    }
}

/// The response for a fault that no handler has answered. Keeps the headers of `bare`.
pub(crate) fn refuse(fault: &Fault, bare: &Response) -> Response {
    let mut response = OpenAiError::from(fault.clone()).into_response();
    answer_headers::keep_existing(&mut response, bare.headers());
    response
}

fn mistake(pointed: &Pointed) -> String {
    match param(&pointed.pointer) {
        whole if whole.is_empty() => pointed.detail.clone(),
        param => format!("`{param}`: {}", pointed.detail),
    }
}

/// Converts a JSON Pointer to OpenAI's notation, as a position in the client's own request.
fn param(pointer: &str) -> String {
    if let Some(of_query) = pointer.strip_prefix('?') {
        return of_query.to_owned();
    }
    let mut steps: Vec<String> = pointer.split('/').skip(1).map(pointer::name).collect();
    let renamed = match steps.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["options", "llmParams" | "synthesisParams", "maxTokens", ..] => Some(vec!["max_completion_tokens"]),
        ["options", "synthesisParams", "frequencyPenalty", ..] => Some(vec!["frequency_penalty"]),
        ["options", "synthesisParams", "presencePenalty", ..] => Some(vec!["presence_penalty"]),
        ["options", "llmParams", "topP", ..] => Some(vec!["top_p"]),
        ["options", "llmParams", "reasoningEffort", ..] => Some(vec!["reasoning_effort"]),
        ["options", "llmParams" | "synthesisParams", name, ..] => Some(vec![name]),
        ["options", "clientTools", at, "inputSchema", ..] => Some(vec!["tools", at, "function", "parameters"]),
        ["options", "clientTools", at, ..] => Some(vec!["tools", at, "function", "name"]),
        ["options", "clientTools"] => Some(vec!["tools"]),
        ["options", "systemPrompt", ..] | ["query", ..] | ["history", ..] => Some(vec!["messages"]),
        ["options", "answerSchema", ..] => Some(vec!["response_format"]),
        ["options", "providerConfig", ..] => Some(vec!["model"]),
        _ => None,
    };
    if let Some(renamed) = renamed {
        steps = renamed.into_iter().map(str::to_owned).collect();
    }
    steps.iter().fold(String::new(), |so_far, step| match step.parse::<usize>() {
        Ok(at) => format!("{so_far}[{at}]"),
        Err(_) if so_far.is_empty() => step.clone(),
        Err(_) => format!("{so_far}.{step}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_written_as_its_clients_know_it() {
        for (pointer, written) in [
            ("/messages/0/content/1", "messages[0].content[1]"),
            ("/options/llmParams/topP", "top_p"),
            ("/options/clientTools/2/inputSchema/type", "tools[2].function.parameters"),
            ("/metadata/a~1b", "metadata.a/b"),
            ("", ""),
        ] {
            assert_eq!(param(pointer), written);
        }
    }

    #[test]
    fn what_another_attempt_cannot_change_says_so() {
        let should_retry = |code| {
            let response = OpenAiError::from(Fault::new(code, "…")).into_response();
            (response.status().as_u16(), response.headers().get("x-should-retry").is_none())
        };
        assert_eq!(should_retry(Code::ThreadBusy), (409, false));
        assert_eq!(should_retry(Code::AlreadyResolved), (409, false));
        assert_eq!(should_retry(Code::Invalid), (400, false));
        assert_eq!(should_retry(Code::TooManyRequests), (429, true));
        assert_eq!(should_retry(Code::Draining), (503, true));
        assert_eq!(should_retry(Code::ModelRefused), (500, false));
    }

    #[test]
    fn no_client_retries_a_run_that_failed() {
        let told = |code| {
            let error = OpenAiError::failed(code, "…");
            (error.body()["error"]["type"].clone(), error.into_response().status().as_u16())
        };
        assert_eq!(told("run_cancelled"), (json!("invalid_request_error"), 400));
        assert_eq!(told("store_unavailable"), (json!("server_error"), 400));
        assert_eq!(told("the_word_of_a_core"), (json!("server_error"), 400));
        assert_eq!(told("draining"), (json!("server_error"), 503));
    }
}
