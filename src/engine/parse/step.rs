//! Steps of an item.

use super::{CallDraft, StepDraft};
use crate::domain::model::ModelReply;

/// Reads one step; never fails: plain text is a step without calls.
pub fn step(reply: &ModelReply) -> StepDraft {
    let calls = reply.tool_calls.iter().map(|call| CallDraft {
        provider_id: call.id.clone(),
        name: call.name.clone(),
        arguments: serde_json::from_str(&call.arguments).map_err(|e| e.to_string()),
    });
    StepDraft { content: reply.text.clone(), calls: calls.collect(), ..StepDraft::default() }
}
