//! A run's observations and tokens as the events of a response. Pure: the numbers of events follow from the log alone.
//! Tokens only bring the text earlier, cut as it is cut when it is read again.
//!
//! A response is a part of its run: from where somebody asked or answered to its end, or to where it asks.

mod items;
mod message;

use std::collections::HashMap;

use serde::Serialize;
use serde_json::{Value, json};

use self::message::OpenMessage;
use super::object::{Head, State};
use crate::domain::console_urls::ConsoleUrls;
use crate::domain::facts::{Fact, RunFinishedBody};
use crate::domain::hitl::SuspensionKind;
use crate::domain::ids::{CallId, StreamId};
use crate::domain::model::{Phase, Usage};
use crate::domain::observation::ObservationType;
use crate::domain::run::RunStatus;
use crate::domain::standing::RunActivity;
use crate::http::doors::openai::refusal::Refusal;
use crate::http::doors::progress::Progress;
use crate::http::doors::told::{Says, ToldFact};

/// An event with its number, and its data as it is written.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Event {
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
    head: Head,
    urls: Option<ConsoleUrls>,
    number: u64,
    state: State,
    interruption: Option<Refusal>,
    /// How many of the answers that it begins with are still to come.
    answers_left: u32,
    standing: RunActivity,
    progress: Progress,
    /// What calls were made with.
    arguments: HashMap<CallId, Value>,
    /// The client's own, which it knows.
    own_calls: Vec<CallId>,
    /// The streams that write the answer, and the one that is heard.
    writing: Vec<StreamId>,
    message: Option<OpenMessage>,
    failure: Option<String>,
    is_cut: bool,
    ready: Vec<Event>,
}

impl ResponseEvents {
    /// What it must hear.
    pub(super) const HEARD: [ObservationType; 18] = [
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

    pub(super) fn new(head: Head, urls: Option<ConsoleUrls>) -> Self {
        let mut events = Self {
            answers_left: head.answers,
            head,
            urls,
            number: 0,
            state: State::default(),
            interruption: None,
            standing: RunActivity::default(),
            progress: Progress::default(),
            arguments: HashMap::new(),
            own_calls: Vec::new(),
            writing: Vec::new(),
            message: None,
            failure: None,
            is_cut: false,
            ready: Vec::new(),
        };
        let response = events.response();
        events.say("response.created", json!({ "response": response }));
        events.say("response.in_progress", json!({ "response": response }));
        events
    }

    pub(super) fn is_over(&self) -> bool {
        self.state.is_over() || self.interruption.is_some()
    }

    /// Why it is told no further although it goes on.
    pub(super) fn interruption(&mut self) -> Option<Refusal> {
        self.interruption.take()
    }

    /// The response as it stands.
    pub(super) fn response(&self) -> Value {
        self.head.response(&self.state)
    }

    /// What is to be told since the last time.
    pub(super) fn take(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.ready)
    }

    pub(super) fn observation(&mut self, told: &ToldFact) {
        if told.run != self.head.run || self.is_over() {
            return;
        }
        if told.seq > self.head.start {
            let is_answer = matches!(told.says, Says::Fact(Fact::AgentResumed(_)));
            if is_answer && self.answers_left > 0 {
                self.answers_left -= 1;
            } else if told.moves(&self.standing) {
                // The run stood still: what it does now is another response.
                return self.suspended();
            }
        }
        told.apply_to(&mut self.standing);
        let lines = self.progress.lines(told);
        self.learn(told);
        if told.seq <= self.head.start {
            return;
        }
        self.state.at = told.at;
        match &told.says {
            Says::Plan(_) if !lines.is_empty() => self.reasoning(lines.trim_end()),
            Says::Plan(_) | Says::PlanUpdate(_) => {}
            Says::Fact(fact) => self.fact(fact),
        }
    }

    /// What must be known of a run before the response begins, too.
    fn learn(&mut self, told: &ToldFact) {
        match &told.says {
            Says::Fact(Fact::ToolCall(body)) => {
                self.arguments
                    .extend(body.tool_calls.iter().map(|call| (call.call_id.clone(), call.arguments.clone())));
            }
            Says::Fact(Fact::AgentSuspended(asked)) if asked.kind == SuspensionKind::ClientTool => {
                self.own_calls.extend(asked.call_id.clone());
            }
            Says::Fact(_) | Says::Plan(_) | Says::PlanUpdate(_) => {}
        }
    }

    fn fact(&mut self, fact: &Fact) {
        match fact {
            Fact::LlmStreamStart(body) if body.phase == Phase::Synthesis && body.purpose.is_none() => {
                self.close("incomplete");
                self.writing.extend((!self.head.is_json()).then(|| body.stream_id.clone()));
            }
            Fact::LlmStreamMetadata(body) => self.state.usage.add(&Usage {
                input_tokens: body.input_tokens,
                output_tokens: body.output_tokens,
                thinking_tokens: body.thinking_tokens,
                cached_input_tokens: body.cached_input_tokens,
            }),
            Fact::LlmStreamEnd(body) if self.writing.contains(&body.stream_id) => {
                self.written(body.text.as_str().unwrap_or_default());
            }
            Fact::LlmStreamError(body) if self.writing.contains(&body.stream_id) => self.broke_off(body.code),
            Fact::Thoughts(body) => self.reasoning(body.text.as_str().unwrap_or_default().trim()),
            Fact::ToolExecution(result) if !self.own_calls.contains(&result.call_id) => self.called(result),
            Fact::AgentSuspended(asked) if asked.while_running => self.suspended(),
            Fact::Error(body) => {
                self.is_cut |= body.cuts_the_answer();
                if body.fatal {
                    self.failure = Some(format!("{}: {}", body.code, body.message));
                    self.state.code = Some(body.code.clone());
                }
            }
            Fact::FinalResponse(body) => self.answered(body),
            Fact::RunFinished(body) => self.finished(body),
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

    /// Nothing goes on before somebody answers: the response ends with what is asked.
    pub(super) fn suspended(&mut self) {
        let open = self.standing.open().to_vec();
        if self.is_over() || open.is_empty() {
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
                | SuspensionKind::Pause => self.asked(asked),
            }
        }
        self.ends("completed");
    }

    fn finished(&mut self, body: &RunFinishedBody) {
        self.close("incomplete");
        match body.status {
            RunStatus::Completed if self.is_cut => self.ends("incomplete"),
            RunStatus::Completed => self.ends("completed"),
            RunStatus::Cancelled => self.ends("cancelled"),
            RunStatus::Failed | RunStatus::Queued | RunStatus::Running | RunStatus::Suspended | RunStatus::Waiting => {
                self.state.failure = Some(self.failure.take().unwrap_or_else(|| "The run failed.".to_owned()));
                self.ends("failed");
            }
        }
    }

    /// What is told ends here although the run does not: the same response can be had later, with an event of this number.
    pub(super) fn interrupted(&mut self, code: &str, message: &str) {
        let data = json!({
            "type": "error", "sequence_number": self.number.saturating_sub(1), "code": code, "message": message, "param": null,
        });
        self.ready.push(Event { number: self.number, kind: "error", data: data.to_string() });
        self.interruption = Some(Refusal::failed(code, message));
    }

    fn ends(&mut self, status: &'static str) {
        self.state.status = Some(status);
        let response = self.response();
        let kind = match status {
            "completed" => "response.completed",
            "failed" => "response.failed",
            _ => "response.incomplete",
        };
        self.say(kind, json!({ "response": response }));
    }

    fn say(&mut self, kind: &'static str, members: impl Serialize) {
        let data = EventData { kind, sequence_number: self.number, members };
        let data = serde_json::to_string(&data).expect("members have string keys");
        self.ready.push(Event { number: self.number, kind, data });
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
