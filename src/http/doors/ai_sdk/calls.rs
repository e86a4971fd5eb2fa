//! Calls of tools, as parts of the message. A call is told when it begins, asks or has ended: one that waits for its turn
//! would keep the page from sending what a person has decided, for it waits until every call of the step is settled.

use serde_json::{Value, json};

use super::chunk::{Chunk, ToolHead};
use crate::domain::hitl::{AskedQuestion, SuspensionKind};
use crate::domain::ids::CallId;
use crate::domain::tool::{ToolCall, ToolResult, ToolStatus};

/// What the engine calls the end of a call that a person refused.
const REJECTED: &str = "rejected";
/// The tool whose question the page answers itself.
const ASK_USER: &str = "ask_user";

#[derive(Clone, Debug, Default)]
pub(super) struct Calls(Vec<Call>);

#[derive(Clone, Debug)]
struct Call {
    id: CallId,
    name: String,
    input: Value,
    told: Told,
    is_of_page: bool,
    /// It was told as a tool that the page does not know.
    is_dynamic: bool,
    /// How it ended while nobody was told.
    end: Option<Chunk>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    No,
    /// In an earlier step of the message, whose parts are only found by what ends them.
    Before,
    Now,
}

/// What the client's copy of the message has of a call.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct KnownCall {
    pub(super) id: String,
    pub(super) state: String,
}

impl KnownCall {
    /// The client asks its user, or makes the call.
    fn is_pending(&self) -> bool {
        matches!(self.state.as_str(), "approval-requested" | "input-available")
    }
}

/// Who is to do what about a question.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Asks {
    /// The page lets its user decide about this call.
    Approval(CallId),
    /// The page brings the result of this call.
    Result(CallId),
    /// Nobody at this wire: it is shown, with the place where it is answered.
    Elsewhere,
}

impl Asks {
    /// Of a client that has these calls.
    pub(super) fn is_known(&self, known: &[KnownCall]) -> bool {
        match self {
            Asks::Approval(call) | Asks::Result(call) => {
                known.iter().any(|known| known.id == call.as_str() && known.is_pending())
            }
            Asks::Elsewhere => false,
        }
    }

    pub(super) fn of(question: &AskedQuestion, may_approve: bool) -> Self {
        let Some(call) = question.call_id.clone() else { return Asks::Elsewhere };
        match question.kind {
            SuspensionKind::Approval if may_approve => Asks::Approval(call),
            SuspensionKind::ClientTool => Asks::Result(call),
            SuspensionKind::Input if question.tool_name.as_deref() == Some(ASK_USER) => Asks::Result(call),
            SuspensionKind::Approval
            | SuspensionKind::Input
            | SuspensionKind::InDoubt
            | SuspensionKind::Budget
            | SuspensionKind::PeerInput
            | SuspensionKind::PeerAuth
            | SuspensionKind::PlanReview
            | SuspensionKind::Pause => Asks::Elsewhere,
        }
    }
}

impl Calls {
    pub(super) fn learn(&mut self, call: &ToolCall) {
        self.find_or(&call.call_id, || (call.tool_name.clone(), call.arguments.clone()));
    }

    /// The server makes the call.
    pub(super) fn begins(&mut self, id: &CallId) -> Vec<Chunk> {
        match self.find(id) {
            Some(call) if call.told == Told::No => call.tell(),
            Some(_) | None => Vec::new(),
        }
    }

    /// Somebody decides about the call.
    pub(super) fn gated(&mut self, id: &CallId, question: &AskedQuestion) -> Vec<Chunk> {
        let mut chunks = match self.asked(id, question) {
            call if call.told == Told::No => call.tell(),
            _ => Vec::new(),
        };
        let approval_id = question.suspension_id.to_string();
        chunks.push(Chunk::ToolApprovalRequest { approval_id, tool_call_id: id.to_string() });
        chunks
    }

    /// The page makes the call.
    pub(super) fn handed_over(&mut self, id: &CallId, question: &AskedQuestion) -> Vec<Chunk> {
        let call = self.asked(id, question);
        call.is_of_page = true;
        call.tell()
    }

    /// The call was let run; a page that has it open must not ask again.
    pub(super) fn let_run(&mut self, id: &CallId) -> Vec<Chunk> {
        let call = self.find(id).filter(|call| call.told == Told::Now);
        call.map(|call| vec![call.available()]).unwrap_or_default()
    }

    pub(super) fn ended(&mut self, result: &ToolResult) -> Vec<Chunk> {
        let call = self.find_or(&result.call_id, || (result.tool_name.clone(), json!({})));
        let mut chunks = if call.told == Told::No { call.tell() } else { Vec::new() };
        chunks.push(call.end(result));
        chunks
    }

    /// The same, while nobody is told.
    pub(super) fn ended_unheard(&mut self, result: &ToolResult) {
        let call = self.find_or(&result.call_id, || (result.tool_name.clone(), json!({})));
        call.end = Some(call.end(result));
    }

    /// Brings a message up to date of which the client has these calls.
    pub(super) fn catch_up(&mut self, known: &[KnownCall]) -> Vec<Chunk> {
        let mut chunks = Vec::new();
        for call in &mut self.0 {
            let state = known.iter().find(|known| known.id == call.id.as_str()).map(|known| known.state.as_str());
            call.told = if state.is_some() { Told::Before } else { Told::No };
            let Some(end) = call.end.take() else { continue };
            if state.is_none() {
                chunks.extend(call.tell());
            }
            if !state.is_some_and(|state| state.starts_with("output-")) {
                chunks.push(end);
            }
        }
        chunks
    }

    fn asked(&mut self, id: &CallId, question: &AskedQuestion) -> &mut Call {
        let call = self.find_or(id, || (question.tool_name.clone().unwrap_or_default(), json!({})));
        // The exact arguments, as they would run.
        if let Some(input) = &question.tool_input {
            call.input = input.clone();
        }
        call
    }

    fn find(&mut self, id: &CallId) -> Option<&mut Call> {
        self.0.iter_mut().rev().find(|call| call.id == *id)
    }

    fn find_or(&mut self, id: &CallId, new: impl FnOnce() -> (String, Value)) -> &mut Call {
        let at = self.0.iter().rposition(|call| call.id == *id).unwrap_or_else(|| {
            let (name, input) = new();
            self.0.push(Call::new(id.clone(), name, input));
            self.0.len() - 1
        });
        &mut self.0[at]
    }
}

impl Call {
    fn new(id: CallId, name: String, input: Value) -> Self {
        Self { id, name, input, told: Told::No, is_of_page: false, is_dynamic: true, end: None }
    }

    fn tell(&mut self) -> Vec<Chunk> {
        if self.told != Told::Now {
            (self.told, self.is_dynamic) = (Told::Now, !self.is_of_page);
        }
        vec![Chunk::ToolInputStart(self.head()), self.available()]
    }

    fn available(&self) -> Chunk {
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

    fn end(&self, result: &ToolResult) -> Chunk {
        let tool_call_id = result.call_id.to_string();
        let code = result.error.as_ref().map(|error| error.code.as_str());
        match result.status {
            ToolStatus::Success => {
                Chunk::ToolOutputAvailable { tool_call_id, output: result.output.clone().unwrap_or_default() }
            }
            ToolStatus::Error | ToolStatus::Skipped if code == Some(REJECTED) && !self.is_of_page => {
                Chunk::ToolOutputDenied { tool_call_id }
            }
            ToolStatus::Error | ToolStatus::Skipped => {
                let said = result.error.as_ref().map(|error| error.message.clone());
                let error_text = said.unwrap_or_else(|| "The call was not made.".to_owned());
                Chunk::ToolOutputError { tool_call_id, error_text }
            }
        }
    }
}
