//! Questions as interrupts, and what clients answer to them.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::request::{Resume, ResumeStatus};
use crate::domain::fault::Fault;
use crate::domain::hitl::{Answer, AskedQuestion, Suspension, SuspensionKind};
use crate::domain::ids::CallId;
use crate::http::doors::text_reply;

pub(super) fn interrupt(question: &AskedQuestion) -> Value {
    let reason = match question.kind {
        SuspensionKind::Approval | SuspensionKind::ClientTool => "tool_call".to_owned(),
        SuspensionKind::Input => "input_required".to_owned(),
        SuspensionKind::InDoubt
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
    // Clients read it as a date; anything else would never expire.
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

/// What the client says to an open question.
pub(super) fn answer(open: &Suspension, resume: &Resume) -> Result<Answer, Fault> {
    let blank = Answer { digest: open.digest.clone(), ..text_reply::blank(open) };
    if resume.status == ResumeStatus::Cancelled {
        let reason = Some("The client gave it up.".to_owned());
        return Ok(Answer { approved: Some(false), reason, ..blank });
    }
    let payload = &resume.payload;
    let given = json!({
        "suspensionId": open.suspension_id, "digest": open.digest, "approved": payload["approved"],
        "value": payload["value"], "modifiedArgs": payload["editedArgs"], "reason": payload["reason"],
        "action": payload["action"],
    });
    let mut given = given;
    if let Value::Object(members) = &mut given {
        members.retain(|_, value| !value.is_null());
    }
    crate::http::json::typed(given).map_err(|mut fault| {
        for pointed in &mut fault.errors {
            pointed.pointer = format!("/resume/payload{}", pointed.pointer);
        }
        fault
    })
}

/// The result of a call that the client made.
pub(super) fn is_of_call(open: &Suspension, call: &str) -> bool {
    let is_own = matches!(open.kind, SuspensionKind::ClientTool | SuspensionKind::Input);
    is_own && open.call_id.as_ref().map(CallId::as_str) == Some(call)
}
