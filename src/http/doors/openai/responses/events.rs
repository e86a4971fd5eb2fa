//! Projects a run's observations and tokens to the events of a response. Pure: the sequence numbers follow from the log
//! alone. Tokens only bring the text earlier, in the same pieces in which a later read sends it.
//!
//! A response is a part of its run: it begins with the query or with answers, and ends with the run or when the run
//! asks something.

mod items;
mod message;

use std::collections::HashMap;

use serde::Serialize;
use serde_json::{Value, json};

use self::message::OpenMessage;
use super::object::{ResponseHead, ResponseState};
use crate::domain::console_urls::ConsoleUrls;
use crate::domain::facts::{Fact, RunFinishedBody};
use crate::domain::fault::Code;
use crate::domain::hitl::SuspensionKind;
use crate::domain::ids::{CallId, StreamId};
use crate::domain::model::Phase;
use crate::domain::observation::ObservationType;
use crate::domain::run::RunStatus;
use crate::domain::run_activity::RunActivity;
use crate::http::doors::frames::{DecodedObservation, ObservationContent, RunFrame};
use crate::http::doors::openai::error::OpenAiError;
use crate::http::doors::progress::ProgressLines;
use crate::http::doors::run_stream::Projection;

/// What a client is told when the server stops.
pub(super) const STOPPING: &str = "The server is stopping; the response can be had again from its successor.";

/// An event with its sequence number, and its data as sent.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ResponseEvent {
    pub(super) number: u64,
    pub(super) kind: &'static str,
    pub(super) data: String,
}

#[derive(Serialize)]
struct EventData<'a, M> {
    #[serde(rename = "type")]
    kind: &'a str,
    sequence_number: u64,
    #[serde(flatten)]
    members: M,
}

pub(super) struct ResponseEvents {
    head: ResponseHead,
    urls: Option<ConsoleUrls>,
    number: u64,
    state: ResponseState,
    interruption: Option<OpenAiError>,
    /// How many of the request's answers have not been read yet.
    answers_left: u32,
    activity: RunActivity,
    progress: ProgressLines,
    /// The arguments of the calls.
    arguments: HashMap<CallId, Value>,
    /// Calls of the client's functions, whose results the client knows.
    own_calls: Vec<CallId>,
    /// The stream that writes the answer. `None` unless one is being written.
    answer_stream: Option<StreamId>,
    message: Option<OpenMessage>,
    failure: Option<String>,
    is_cut: bool,
    ready: Vec<ResponseEvent>,
}

impl Projection for ResponseEvents {
    type Event = ResponseEvent;

    const OBSERVATION_TYPES: &'static [ObservationType] = &[
        ObservationType::RunStarted,
        ObservationType::Title,
        ObservationType::Plan,
        ObservationType::PlanUpdate,
        ObservationType::ItemStatusChange,
        ObservationType::LlmStreamStart,
        ObservationType::LlmStreamMetadata,
        ObservationType::LlmStreamEnd,
        ObservationType::LlmStreamError,
        ObservationType::Thoughts,
        ObservationType::ToolCall,
        ObservationType::ToolExecution,
        ObservationType::AgentSuspended,
        ObservationType::AgentResumed,
        ObservationType::SuspensionTimeout,
        ObservationType::Error,
        ObservationType::FinalResponse,
        ObservationType::RunFinished,
    ];

    async fn project(&mut self, frame: RunFrame) -> Vec<ResponseEvent> {
        match frame {
            RunFrame::Observation(observation) => self.observation(&observation),
            RunFrame::Token(token) => self.token(&token),
            RunFrame::Suspended => self.suspended(),
            RunFrame::CaughtUp => self.caught_up(),
            RunFrame::CallStarted(_) => {}
            RunFrame::Draining => self.interrupted(Code::Draining.as_str(), STOPPING),
            RunFrame::Gap => self.interrupted("gap", "The client reads too slowly; get the response again."),
            RunFrame::LogUnreadable => self
                .interrupted(Code::StoreUnavailable.as_str(), "The events cannot be read now; get the response again."),
            RunFrame::Erased => self.interrupted(Code::NotFound.as_str(), "The thread was erased."),
        }
        self.take()
    }

    fn is_finished(&self) -> bool {
        self.state.is_finished() || self.interruption.is_some()
    }
}

impl ResponseEvents {
    pub(super) fn new(head: ResponseHead, urls: Option<ConsoleUrls>) -> Self {
        let mut events = Self {
            answers_left: head.answers,
            head,
            urls,
            number: 0,
            state: ResponseState::default(),
            interruption: None,
            activity: RunActivity::default(),
            progress: ProgressLines::default(),
            arguments: HashMap::new(),
            own_calls: Vec::new(),
            answer_stream: None,
            message: None,
            failure: None,
            is_cut: false,
            ready: Vec::new(),
        };
        let response = events.response();
        events.emit("response.created", json!({ "response": response }));
        events.emit("response.in_progress", json!({ "response": response }));
        events
    }

    /// Why the events end although the run goes on.
    pub(super) fn interruption(&mut self) -> Option<OpenAiError> {
        self.interruption.take()
    }

    /// Why the run has ended without an answer.
    pub(super) fn failure(&self) -> Option<OpenAiError> {
        match self.state.status {
            Some("cancelled") => Some(OpenAiError::failed(Code::RunCancelled.as_str(), "The run was cancelled.")),
            Some("failed") => {
                let why = self.state.failure.as_deref().unwrap_or_default();
                let code = self.state.code.as_deref().unwrap_or(Code::Internal.as_str());
                let message = why.strip_prefix(code).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(why);
                Some(OpenAiError::failed(code, message))
            }
            Some(_) | None => None,
        }
    }

    /// The response in its current state.
    pub(super) fn response(&self) -> Value {
        self.head.response(&self.state)
    }

    /// Takes the events since the last call.
    pub(super) fn take(&mut self) -> Vec<ResponseEvent> {
        std::mem::take(&mut self.ready)
    }

    fn observation(&mut self, observation: &DecodedObservation) {
        if observation.run != self.head.run || self.is_finished() {
            return;
        }
        if observation.seq > self.head.start {
            self.end_if_running_call_asks();
            if self.is_finished() {
                return;
            }
            let is_answer = matches!(observation.content, ObservationContent::Fact(Fact::AgentResumed(_)));
            if is_answer && self.answers_left > 0 {
                self.answers_left -= 1;
            } else if observation.resumes(&self.activity) {
                // The run was suspended. What it does now belongs to another response.
                return self.suspended();
            }
        }
        observation.apply_to(&mut self.activity);
        let lines = self.progress.lines(observation);
        self.remember(observation);
        self.state.at = observation.at;
        if observation.seq <= self.head.start {
            return;
        }
        match &observation.content {
            ObservationContent::Plan(_) if !lines.is_empty() => self.reasoning(lines.trim_end()),
            ObservationContent::Plan(_) | ObservationContent::PlanUpdate(_) => {}
            ObservationContent::Fact(fact) => self.fact(fact),
        }
        self.end_if_running_call_asks();
    }

    /// All observations from before the subscription were read, and with them all answers of the request.
    fn caught_up(&mut self) {
        self.answers_left = 0;
        self.end_if_running_call_asks();
    }

    /// Ends the response if a call that keeps running has asked something, also before the response: the run is not
    /// suspended for it, and cannot end before it is answered. While answers of the request are unread, the question
    /// may be one of those that they answer. The commit of an answer that fails its item withdraws what the item's other
    /// calls ask; the response ends with such a question, too, because the log does not say where a commit ends.
    fn end_if_running_call_asks(&mut self) {
        if self.answers_left == 0 && self.activity.open().iter().any(|open| open.while_running) {
            self.suspended();
        }
    }

    /// Reads what a response needs from before its beginning as well.
    fn remember(&mut self, observation: &DecodedObservation) {
        match &observation.content {
            ObservationContent::Fact(Fact::ToolCall(body)) => {
                self.arguments
                    .extend(body.tool_calls.iter().map(|call| (call.call_id.clone(), call.arguments.clone())));
            }
            ObservationContent::Fact(Fact::AgentSuspended(asked)) if asked.kind == SuspensionKind::ClientTool => {
                self.own_calls.extend(asked.call_id.clone());
            }
            ObservationContent::Fact(_) | ObservationContent::Plan(_) | ObservationContent::PlanUpdate(_) => {}
        }
    }

    fn fact(&mut self, fact: &Fact) {
        match fact {
            Fact::LlmStreamStart(body) if body.phase == Phase::Synthesis && body.purpose.is_none() => {
                self.close("incomplete");
                self.answer_stream = (!self.head.is_json()).then(|| body.stream_id.clone());
            }
            Fact::LlmStreamMetadata(body) => self.state.usage.add(&body.usage()),
            Fact::LlmStreamEnd(body) if self.is_answer_stream(&body.stream_id) => {
                self.answer_stream = None;
                self.whole_text(body.text.as_str().unwrap_or_default());
            }
            Fact::LlmStreamError(body) if self.is_answer_stream(&body.stream_id) => {
                self.answer_stream = None;
                self.attempt_failed(body.code);
            }
            // They come after the text of the answer. An item of their own would cut its message in two.
            Fact::Thoughts(body) if body.phase == Phase::Synthesis && !self.head.is_json() => {}
            Fact::Thoughts(body) => self.reasoning(body.text.as_str().unwrap_or_default().trim()),
            Fact::ToolExecution(result) if !self.own_calls.contains(&result.call_id) => self.call_ended(result),
            Fact::Error(body) => {
                self.is_cut |= body.cuts_the_answer();
                if body.fatal {
                    self.failure = Some(format!("{}: {}", body.code, body.message));
                    self.state.code = Some(body.code.clone());
                }
            }
            Fact::FinalResponse(body) => self.final_response(body),
            Fact::RunFinished(body) => self.run_ended(body),
            Fact::RunStarted(_)
            | Fact::Intent(_)
            | Fact::Title(_)
            | Fact::Plan(_)
            | Fact::PlanUpdate(_)
            | Fact::ItemStatusChange(_)
            | Fact::LlmStreamStart(_)
            | Fact::LlmStreamEnd(_)
            | Fact::LlmStreamError(_)
            | Fact::ToolCall(_)
            | Fact::ToolExecution(_)
            | Fact::AgentSuspended(_)
            | Fact::AgentResumed(_)
            | Fact::SuspensionTimeout(_)
            | Fact::A2aTask(_)
            | Fact::StateUpdate(_)
            | Fact::Synthesis(_) => {}
        }
    }

    /// Whether this stream writes the answer now.
    fn is_answer_stream(&self, stream: &StreamId) -> bool {
        self.answer_stream.as_ref() == Some(stream)
    }

    /// Ends the response with the open questions, because the run waits for an answer.
    fn suspended(&mut self) {
        let open = self.activity.open().to_vec();
        if self.is_finished() || open.is_empty() {
            return;
        }
        self.close("incomplete");
        for asked in &open {
            match asked.kind {
                SuspensionKind::ClientTool => self.function_call(asked),
                SuspensionKind::Approval if self.head.takes_approvals && asked.tool_name.is_some() => {
                    self.approval_request(asked);
                }
                SuspensionKind::Approval
                | SuspensionKind::Input
                | SuspensionKind::InDoubt
                | SuspensionKind::Budget
                | SuspensionKind::PeerInput
                | SuspensionKind::PeerAuth
                | SuspensionKind::PlanReview
                | SuspensionKind::Pause => self.question_asked(asked),
            }
        }
        self.end("completed");
    }

    fn run_ended(&mut self, body: &RunFinishedBody) {
        self.close("incomplete");
        match body.status {
            RunStatus::Completed if self.is_cut => self.end("incomplete"),
            RunStatus::Completed => self.end("completed"),
            RunStatus::Cancelled => self.end("cancelled"),
            RunStatus::Failed | RunStatus::Queued | RunStatus::Running | RunStatus::Suspended | RunStatus::Waiting => {
                self.state.failure = Some(self.failure.take().unwrap_or_else(|| "The run failed.".to_owned()));
                self.end("failed");
            }
        }
    }

    /// Ends the events although the run goes on. A later read of the same response has another event with this sequence
    /// number.
    fn interrupted(&mut self, code: &str, message: &str) {
        let data = json!({
            "type": "error", "sequence_number": self.number.saturating_sub(1), "code": code, "message": message, "param": null,
        });
        self.ready.push(ResponseEvent { number: self.number, kind: "error", data: data.to_string() });
        self.interruption = Some(OpenAiError::unreadable(code, message));
    }

    fn end(&mut self, status: &'static str) {
        self.state.status = Some(status);
        let response = self.response();
        let kind = match status {
            "completed" => "response.completed",
            "failed" => "response.failed",
            _ => "response.incomplete",
        };
        self.emit(kind, json!({ "response": response }));
    }

    fn emit(&mut self, kind: &'static str, members: impl Serialize) {
        let data = EventData { kind, sequence_number: self.number, members };
        let data = serde_json::to_string(&data).expect("members have string keys");
        self.ready.push(ResponseEvent { number: self.number, kind, data });
        self.number += 1;
    }
}

fn merged(one: &Value, other: Value) -> Value {
    let mut all = one.clone();
    if let (Value::Object(all), Value::Object(more)) = (&mut all, other) {
        all.extend(more);
    }
    all
}

#[cfg(test)]
mod tests;
