//! Tool calls as parts of the message. A call is sent when it starts, asks something or has ended, but not while it
//! waits for its turn: the client submits a person's decisions only when every call of the step that it knows is
//! settled.

use serde_json::{Value, json};

use super::chunk::{Chunk, ToolHead};
use crate::domain::hitl::{AskedQuestion, SuspensionKind};
use crate::domain::ids::CallId;
use crate::domain::tool::{CallCode, ToolCall, ToolResult, ToolStatus};

/// The tool whose question the page answers itself.
const ASK_USER: &str = "ask_user";

#[derive(Clone, Debug, Default)]
pub(super) struct ToolParts(Vec<ToolPart>);

#[derive(Clone, Debug)]
struct ToolPart {
    id: CallId,
    name: String,
    input: Value,
    sent: SentState,
    is_of_page: bool,
    /// It was sent as a tool that the page has no type for.
    is_dynamic: bool,
    /// The end of the call, if it came before the stream.
    end: Option<Chunk>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SentState {
    Unsent,
    /// Sent in an earlier step of the message. There the client finds the call only for chunks that end it.
    EarlierStep,
    Sent,
}

/// A call in the client's copy of the message.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct KnownCall {
    pub(super) id: String,
    pub(super) state: String,
}

impl KnownCall {
    /// Whether the client is to ask its user, or to make the call.
    fn is_pending(&self) -> bool {
        matches!(self.state.as_str(), "approval-requested" | "input-available")
    }
}

/// Who can answer a question.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum QuestionRoute {
    /// The page lets its user decide about this call.
    Approval(CallId),
    /// The page brings the result of this call.
    Result(CallId),
    /// Nobody on this wire. The question is shown with the URL where it can be answered.
    Elsewhere,
}

impl QuestionRoute {
    /// Whether a client with these calls already shows the question.
    pub(super) fn is_shown_in(&self, known: &[KnownCall]) -> bool {
        match self {
            QuestionRoute::Approval(call) | QuestionRoute::Result(call) => {
                known.iter().any(|known| known.id == call.as_str() && known.is_pending())
            }
            QuestionRoute::Elsewhere => false,
        }
    }

    pub(super) fn of(question: &AskedQuestion, may_approve: bool) -> Self {
        let Some(call) = question.call_id.clone() else { return QuestionRoute::Elsewhere };
        match question.kind {
            SuspensionKind::Approval if may_approve => QuestionRoute::Approval(call),
            SuspensionKind::ClientTool => QuestionRoute::Result(call),
            SuspensionKind::Input if question.tool_name.as_deref() == Some(ASK_USER) => QuestionRoute::Result(call),
            SuspensionKind::Approval
            | SuspensionKind::Input
            | SuspensionKind::InDoubt
            | SuspensionKind::Budget
            | SuspensionKind::PeerInput
            | SuspensionKind::PeerAuth
            | SuspensionKind::PlanReview
            | SuspensionKind::Pause => QuestionRoute::Elsewhere,
        }
    }
}

impl ToolParts {
    pub(super) fn add(&mut self, call: &ToolCall) {
        self.find_or_add(&call.call_id, || (call.tool_name.clone(), call.arguments.clone()));
    }

    /// The server starts the call.
    pub(super) fn call_started(&mut self, id: &CallId) -> Vec<Chunk> {
        match self.find(id) {
            Some(call) if call.sent == SentState::Unsent => call.send_input(),
            Some(_) | None => Vec::new(),
        }
    }

    /// A person is asked to approve the call.
    pub(super) fn approval_requested(&mut self, id: &CallId, question: &AskedQuestion) -> Vec<Chunk> {
        let mut chunks = match self.update_from_question(id, question) {
            call if call.sent == SentState::Unsent => call.send_input(),
            _ => Vec::new(),
        };
        let approval_id = question.suspension_id.to_string();
        chunks.push(Chunk::ToolApprovalRequest { approval_id, tool_call_id: id.to_string() });
        chunks
    }

    /// The page is asked to make the call.
    pub(super) fn client_call_requested(&mut self, id: &CallId, question: &AskedQuestion) -> Vec<Chunk> {
        let call = self.update_from_question(id, question);
        call.is_of_page = true;
        call.send_input()
    }

    /// The call was approved. The chunk stops a page that still shows the question from asking again.
    pub(super) fn call_approved(&mut self, id: &CallId) -> Vec<Chunk> {
        let call = self.find(id).filter(|call| call.sent == SentState::Sent);
        call.map(|call| vec![call.input_available()]).unwrap_or_default()
    }

    pub(super) fn call_ended(&mut self, result: &ToolResult) -> Vec<Chunk> {
        let call = self.find_or_add(&result.call_id, || (result.tool_name.clone(), json!({})));
        let mut chunks = if call.sent == SentState::Unsent { call.send_input() } else { Vec::new() };
        chunks.push(call.output_chunk(result));
        chunks
    }

    /// Like [`call_ended`](Self::call_ended), for a call that ended before the stream.
    pub(super) fn replay_end(&mut self, result: &ToolResult) {
        let call = self.find_or_add(&result.call_id, || (result.tool_name.clone(), json!({})));
        call.end = Some(call.output_chunk(result));
    }

    /// The chunks that bring a message with these calls up to date.
    pub(super) fn catch_up(&mut self, known: &[KnownCall]) -> Vec<Chunk> {
        let mut chunks = Vec::new();
        for call in &mut self.0 {
            let state = known.iter().find(|known| known.id == call.id.as_str()).map(|known| known.state.as_str());
            call.sent = if state.is_some() { SentState::EarlierStep } else { SentState::Unsent };
            let Some(end) = call.end.take() else { continue };
            if state.is_none() {
                chunks.extend(call.send_input());
            }
            if !state.is_some_and(|state| state.starts_with("output-")) {
                chunks.push(end);
            }
        }
        chunks
    }

    fn update_from_question(&mut self, id: &CallId, question: &AskedQuestion) -> &mut ToolPart {
        let call = self.find_or_add(id, || (question.tool_name.clone().unwrap_or_default(), json!({})));
        // The exact arguments with which the call would run.
        if let Some(input) = &question.tool_input {
            call.input = input.clone();
        }
        call
    }

    fn find(&mut self, id: &CallId) -> Option<&mut ToolPart> {
        self.0.iter_mut().rev().find(|call| call.id == *id)
    }

    fn find_or_add(&mut self, id: &CallId, new: impl FnOnce() -> (String, Value)) -> &mut ToolPart {
        let at = self.0.iter().rposition(|call| call.id == *id).unwrap_or_else(|| {
            let (name, input) = new();
            self.0.push(ToolPart::new(id.clone(), name, input));
            self.0.len() - 1
        });
        &mut self.0[at]
    }
}

impl ToolPart {
    fn new(id: CallId, name: String, input: Value) -> Self {
        Self { id, name, input, sent: SentState::Unsent, is_of_page: false, is_dynamic: true, end: None }
    }

    fn send_input(&mut self) -> Vec<Chunk> {
        if self.sent != SentState::Sent {
            (self.sent, self.is_dynamic) = (SentState::Sent, !self.is_of_page);
        }
        vec![Chunk::ToolInputStart(self.head()), self.input_available()]
    }

    fn input_available(&self) -> Chunk {
        Chunk::ToolInputAvailable { head: self.head(), input: self.input.clone() }
    }

    fn head(&self) -> ToolHead {
        ToolHead {
            tool_call_id: self.id.to_string(),
            tool_name: self.name.clone(),
            dynamic: self.is_dynamic,
            provider_executed: !self.is_of_page,
        }
    }

    fn output_chunk(&self, result: &ToolResult) -> Chunk {
        let (tool_call_id, dynamic) = (result.call_id.to_string(), self.is_dynamic);
        let is_rejected = result.error.as_ref().is_some_and(|error| error.has(CallCode::Rejected));
        match result.status {
            ToolStatus::Success => {
                Chunk::ToolOutputAvailable { tool_call_id, output: result.output.clone().unwrap_or_default(), dynamic }
            }
            ToolStatus::Error | ToolStatus::Skipped if is_rejected && !self.is_of_page => {
                Chunk::ToolOutputDenied { tool_call_id }
            }
            ToolStatus::Error | ToolStatus::Skipped => {
                let message = result.error.as_ref().map(|error| error.message.clone());
                let error_text = message.unwrap_or_else(|| "The call was not made.".to_owned());
                Chunk::ToolOutputError { tool_call_id, error_text, dynamic }
            }
        }
    }
}
