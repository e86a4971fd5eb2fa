//! Renders questions as AG-UI interrupts, and reads the clients' answers.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::request::{Resume, ResumeStatus, ToolMessage};
use crate::domain::depth;
use crate::domain::fault::{Code, Fault};
use crate::domain::hitl::{
    Answer, AskedQuestion, FeedbackSchema, InDoubtAction, InputType, Suspension, SuspensionKind,
};
use crate::domain::ids::CallId;
use crate::http::doors::{function_result, text_reply};

pub(super) fn interrupt(question: &AskedQuestion) -> Value {
    // A call of another agent is no tool call of this conversation.
    let is_own = question.remote.is_none();
    let reason = match question.kind {
        SuspensionKind::Approval | SuspensionKind::ClientTool if is_own => "tool_call".to_owned(),
        SuspensionKind::Input => "input_required".to_owned(),
        SuspensionKind::Approval
        | SuspensionKind::ClientTool
        | SuspensionKind::InDoubt
        | SuspensionKind::Budget
        | SuspensionKind::PeerInput
        | SuspensionKind::PeerAuth
        | SuspensionKind::PlanReview
        | SuspensionKind::Pause => format!("pes:{}", question.kind.as_str()),
    };
    let mut shown = json!({
        "id": question.suspension_id, "reason": reason, "message": question.message,
        "responseSchema": schema(question), "metadata": { "pes": question },
    });
    if let Some(call) = &question.call_id {
        shown["toolCallId"] = json!(call);
    }
    // Clients parse this as a date. With any other format the interrupt would never expire.
    if let Some(at) = question.expires_at.and_then(|at| Timestamp::from_millisecond(at).ok()) {
        shown["expiresAt"] = json!(at.to_string());
    }
    shown
}

fn schema(question: &AskedQuestion) -> Value {
    let reason = json!({ "type": "string" });
    match question.kind {
        SuspensionKind::Approval | SuspensionKind::PlanReview if question.feedback_schema.allow_modify_args => json!({
            "type": "object", "required": ["approved"],
            "properties": { "approved": { "type": "boolean" }, "editedArgs": { "type": "object" }, "reason": reason },
        }),
        SuspensionKind::Approval | SuspensionKind::PlanReview | SuspensionKind::Budget | SuspensionKind::Pause => {
            json!({
                "type": "object", "required": ["approved"],
                "properties": { "approved": { "type": "boolean" }, "reason": reason },
            })
        }
        SuspensionKind::InDoubt => json!({
            "type": "object", "required": ["action"],
            "properties": { "action": { "enum": ["retry", "done", "skip", "abort"] }, "value": {} },
        }),
        SuspensionKind::Input | SuspensionKind::ClientTool | SuspensionKind::PeerInput | SuspensionKind::PeerAuth => {
            let value = question.feedback_schema.custom_schema.clone().unwrap_or_else(|| json!({}));
            json!({ "type": "object", "required": ["value"], "properties": { "value": value } })
        }
    }
}

/// The client's answer to an open question. `None` means that it stays open.
pub(super) fn answer(open: &Suspension, resume: &Resume) -> Result<Option<Answer>, Fault> {
    if resume.status == ResumeStatus::Cancelled {
        return Ok(given_up(open));
    }
    let payload = &resume.payload;
    let mut given = json!({
        "suspensionId": open.suspension_id, "digest": open.digest, "approved": payload["approved"],
        "value": payload["value"], "modifiedArgs": payload["editedArgs"], "reason": payload["reason"],
        "action": payload["action"],
    });
    if let Value::Object(members) = &mut given {
        members.retain(|_, value| !value.is_null());
    }
    crate::http::json::typed(given).map(Some).map_err(|fault| fault.below("/resume/payload"))
}

/// The mildest rejection that the question's kind has. A pause has none and stays open.
fn given_up(open: &Suspension) -> Option<Answer> {
    let reason = Some("The client gave it up.".to_owned());
    let blank = Answer { digest: open.digest.clone(), reason, ..text_reply::empty_answer(&open.suspension_id) };
    match open.kind {
        SuspensionKind::Pause => None,
        SuspensionKind::InDoubt => Some(Answer { action: Some(InDoubtAction::Skip), ..blank }),
        SuspensionKind::Approval
        | SuspensionKind::Input
        | SuspensionKind::ClientTool
        | SuspensionKind::Budget
        | SuspensionKind::PeerInput
        | SuspensionKind::PeerAuth
        | SuspensionKind::PlanReview => Some(Answer { approved: Some(false), ..blank }),
    }
}

/// Reads the result of a call that the client made as the answer to the call's question. The result of a client tool
/// may be JSON text. The answer to an input question is read as JSON if it then fits the question's form, else as text
/// typed by a person.
pub(super) fn answer_of_result(open: &Suspension, result: &ToolMessage) -> Result<Answer, Fault> {
    let blank = text_reply::empty_answer(&open.suspension_id);
    let answer = match (&result.error, &result.content) {
        (Some(why), _) => Answer { approved: Some(false), reason: Some(why.clone()), ..blank },
        (None, Value::String(text)) if open.kind == SuspensionKind::Input => answer_of_person(open, result, text)?,
        (None, Value::String(text)) => Answer { value: Some(function_result::read(text)), ..blank },
        (None, content) => Answer { value: Some(content.clone()), ..blank },
    };
    Ok(Answer { digest: open.digest.clone(), ..answer })
}

fn answer_of_person(open: &Suspension, result: &ToolMessage, text: &str) -> Result<Answer, Fault> {
    if let Some(value) = fitting(&open.feedback_schema, text) {
        return Ok(Answer { value: Some(value), ..text_reply::empty_answer(&open.suspension_id) });
    }
    let refuse = |why: String| Fault::new(Code::Invalid, why.clone()).at(result.pointer.clone(), why);
    text_reply::answer(open, text).map_err(refuse)
}

/// The answer if the text is read as JSON. A question that asks for text gets the text unchanged, even if it is valid
/// JSON.
fn fitting(form: &FeedbackSchema, text: &str) -> Option<Value> {
    match form.input_type {
        InputType::Text | InputType::Date | InputType::Datetime => None,
        InputType::Boolean
        | InputType::Confirm
        | InputType::Number
        | InputType::Select
        | InputType::Multiselect
        | InputType::File
        | InputType::Custom => {
            depth::read(text.as_bytes()).ok().filter(|value| crate::tool::answer::check(form, value).is_ok())
        }
    }
}

/// Whether a question of this kind is answered by the result of its call.
pub(super) fn takes_result(kind: SuspensionKind) -> bool {
    match kind {
        SuspensionKind::ClientTool | SuspensionKind::Input => true,
        SuspensionKind::Approval
        | SuspensionKind::InDoubt
        | SuspensionKind::Budget
        | SuspensionKind::PeerInput
        | SuspensionKind::PeerAuth
        | SuspensionKind::PlanReview
        | SuspensionKind::Pause => false,
    }
}

/// Whether the open question belongs to this call and can be answered by its result.
pub(super) fn is_of_call(open: &Suspension, call: &str) -> bool {
    takes_result(open.kind) && open.call_id.as_ref().map(CallId::as_str) == Some(call)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_up_is_answered_as_its_question_takes_it() {
        let given_up = |kind: &str| {
            let open = json!({
                "suspensionId": "sus_1", "threadId": "t", "runId": "run_1", "kind": kind, "status": "pending", "message": "?",
                "feedbackSchema": { "inputType": "confirm", "prompt": "?" }, "createdAt": 1,
            });
            given_up(&serde_json::from_value(open).unwrap()).map(|answer| (answer.approved, answer.action))
        };
        assert_eq!(given_up("approval"), Some((Some(false), None)));
        assert_eq!(given_up("in_doubt"), Some((None, Some(InDoubtAction::Skip))));
        assert_eq!(given_up("pause"), None);
    }
    #[test]
    fn an_agents_call_is_no_tool_call_of_the_conversation() {
        let shown = |change: Value| {
            let mut question = json!({
                "suspensionId": "sus_1", "kind": "approval", "message": "?", "toolName": "pay", "toolInput": { "to": "r" },
                "feedbackSchema": { "inputType": "confirm", "prompt": "?" },
            });
            question.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            interrupt(&serde_json::from_value(question).unwrap())
        };
        let own = shown(json!({ "callId": "call_1" }));
        assert_eq!((&own["reason"], &own["toolCallId"]), (&json!("tool_call"), &json!("call_1")));
        let remote = json!({ "agentId": "helper", "taskId": "task_1", "callId": "call_1" });
        let remote = shown(json!({ "remote": remote }));
        assert_eq!((&remote["reason"], remote.get("toolCallId")), (&json!("pes:approval"), None));
        assert_eq!(remote["metadata"]["pes"]["toolInput"], json!({ "to": "r" }));
    }
}
