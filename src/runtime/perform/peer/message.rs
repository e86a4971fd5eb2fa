//! The message that is sent to an agent: the instructions of a task, or a person's answer.

use serde_json::{Value, json};

use super::attempt::PeerAttempt;
use super::connection::PeerConnection;
use super::failure::ActionError;
use crate::a2a::callback;
use crate::a2a::types::{Authentication, Configuration, Message, Metadata, Part, PushConfig, Role, SendRequest};
use crate::domain::digest;
use crate::domain::hitl::SuspensionKind;
use crate::domain::task::{self, RemoteQuestion, Task};
use crate::domain::tool::ToolError;

impl PeerAttempt {
    pub(super) async fn request(&self, to: &PeerConnection<'_>) -> Result<SendRequest, ActionError> {
        let task = &self.input.task;
        let parts = self.parts(task).await?;
        let is_reply = task.reply.is_some();
        let message = Message {
            message_id: task.message_id.to_string(),
            context_id: task.remote_context_id.clone().filter(|_| is_reply),
            task_id: task.remote_task_id.clone().filter(|_| is_reply),
            role: Role::User,
            parts,
            metadata: Metadata::new(),
            extensions: Vec::new(),
            reference_task_ids: Vec::new(),
        };
        let push = if is_reply { None } else { self.push(to, task) };
        // The history would only be our own message, which may be too large for an answer.
        let configuration =
            Configuration { push, return_immediately: true, history_length: Some(0), ..Configuration::default() };
        Ok(SendRequest { tenant: None, message, configuration, metadata: Metadata::new() })
    }

    /// The parts of the message: the person's answer, or the instructions and their input.
    async fn parts(&self, task: &Task) -> Result<Vec<Part>, ActionError> {
        if let Some(reply) = &task.reply {
            let reply = self.shared.inlined(self.pk, reply.clone()).await?;
            return Ok(vec![reply_part(task.remote_question.as_ref(), reply)]);
        }
        let arguments = self.shared.inlined(self.pk, self.input.arguments.clone()).await?;
        let is_approved = |digest: &String| *digest == digest::of_call(task::TOOL, &arguments);
        if !self.input.digest.as_ref().is_none_or(is_approved) {
            return Err(ActionError::NotApproved { is_repeated: task.earlier_may_have_arrived });
        }
        let settings = self.input.judged_before.as_deref();
        if let Some(error) =
            self.shared.denial_by_now(self.tenant, &task.thread_id, settings, task::TOOL, &arguments).await
        {
            let sent = if task.earlier_may_have_arrived { "It was not sent again." } else { "Nothing was sent." };
            let message = format!("{} {sent}", error.message);
            return Err(ActionError::Denied(Box::new(ToolError { message, ..error })));
        }
        let instructions = arguments["instructions"].as_str().unwrap_or_default();
        let input = arguments.get("input").filter(|input| !input.is_null()).cloned();
        Ok(std::iter::once(Part::text(instructions)).chain(input.map(part)).collect())
    }

    /// The push address for the agent; `None`: it has no push support, or cannot reach this server.
    pub(super) fn push(&self, to: &PeerConnection<'_>, task: &Task) -> Option<PushConfig> {
        if !to.card.capabilities.push_notifications {
            return None;
        }
        let base = self.shared.own_address.base_for(to.interface.is_loopback())?;
        let token = match callback::token(&self.shared.sealer, self.tenant, &task.task_id) {
            Ok(token) => token,
            Err(fault) => {
                tracing::warn!(why = fault.detail, "agents cannot report here; they are asked");
                return None;
            }
        };
        let credentials = Some(token.clone());
        Some(PushConfig {
            url: format!("{base}/a2a/callbacks/{}", task.task_id),
            token: Some(token),
            authentication: Some(Authentication { scheme: "Bearer".to_owned(), credentials }),
            ..PushConfig::default()
        })
    }
}

/// A person's answer. It names the question if that has an id: the agent may ask something else by now, and takes the value
/// as it is instead of reading it as text.
fn reply_part(question: Option<&RemoteQuestion>, mut reply: Value) -> Part {
    let Some(question) = question else { return part(reply) };
    // A decision about a call or a plan of the agent's own is a whole answer, to its question instead of ours.
    if question.kind.may_let_run() && reply.is_object() {
        reply["suspensionId"] = json!(question.suspension_id);
        return Part::data(reply);
    }
    let member = if question.kind.asks_for_a_value() {
        "value"
    } else if reply.is_boolean() {
        "approved"
    } else if question.kind == SuspensionKind::InDoubt {
        "action"
    } else {
        return part(reply);
    };
    Part::data(json!({ "suspensionId": question.suspension_id, member: reply }))
}

fn part(value: Value) -> Part {
    match value {
        Value::String(text) => Part::text(text),
        data @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            Part::data(data)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::types::Content;

    #[test]
    fn a_decision_names_the_agents_question() {
        let question = |kind| RemoteQuestion { suspension_id: "sus_theirs".into(), kind };
        let approval = question(SuspensionKind::Approval);
        let reply = json!({ "suspensionId": "sus_ours", "approved": false, "reason": "not today" });
        let sent = json!({ "suspensionId": "sus_theirs", "approved": false, "reason": "not today" });
        assert_eq!(reply_part(Some(&approval), reply).content, Content::Data(sent));
        // A reply that an earlier release stored.
        let sent = json!({ "suspensionId": "sus_theirs", "approved": true });
        assert_eq!(reply_part(Some(&approval), json!(true)).content, Content::Data(sent));
        // An object is the whole value of an input.
        let value = json!({ "suspensionId": "sus_theirs", "value": { "approved": 7 } });
        let given = reply_part(Some(&question(SuspensionKind::Input)), json!({ "approved": 7 }));
        assert_eq!(given.content, Content::Data(value));
        // So is one to a question without an id.
        assert_eq!(reply_part(None, json!({ "approved": 7 })).content, Content::Data(json!({ "approved": 7 })));
    }
}
