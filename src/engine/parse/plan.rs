//! Plans and refinements.

use serde_json::Value;

use super::{ItemDraft, ParseFault, PlanDraft};
use crate::domain::model::RawToolCall;

/// Reads a plan. `native` are the reply's native tool calls.
pub fn plan(text: &str, native: &[RawToolCall]) -> Result<PlanDraft, ParseFault> {
    let _ = native;
    let start = text.find('{').unwrap_or(0);
    let end = text.rfind('}').map_or(text.len(), |end| end + 1);
    let value: Value =
        serde_json::from_str(text.get(start..end).unwrap_or("")).map_err(|e| ParseFault(e.to_string()))?;
    let word = |v: &Value, key: &str| v.get(key).and_then(Value::as_str).map(str::to_owned);
    let items = value.get("todoList").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    Ok(PlanDraft {
        title: word(&value, "title"),
        intent: word(&value, "intent"),
        plan: word(&value, "plan"),
        answer: word(&value, "answer"),
        items: items
            .iter()
            .map(|item| ItemDraft {
                id: word(item, "id").unwrap_or_default(),
                description: word(item, "description"),
                ..ItemDraft::default()
            })
            .collect(),
        calls: Vec::new(),
    })
}
