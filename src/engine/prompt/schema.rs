//! The form of a plan, for providers with structured output.

use serde_json::{Value, json};

/// The JSON schema of a plan. Every member is required and may be null where it is optional: strict modes want it so.
pub fn plan_schema() -> Value {
    let words = json!({ "type": "array", "items": { "type": "string" } });
    let optional = json!({ "type": ["string", "null"] });
    let item = json!({
        "type": "object",
        "properties": {
            "id": { "type": "string" },
            "description": { "type": "string" },
            "stepType": { "type": "string", "enum": ["tool", "reasoning"] },
            "requiredTools": words,
            "expectedOutcome": optional,
            "dependencies": words,
            "status": { "type": ["string", "null"], "enum": ["pending", "completed", "failed", "cancelled", null] },
        },
        "required": ["id", "description", "stepType", "requiredTools", "expectedOutcome", "dependencies", "status"],
        "additionalProperties": false,
    });
    json!({
        "type": "object",
        "properties": {
            "title": { "type": "string" },
            "intent": { "type": "string" },
            "plan": { "type": "string" },
            "answer": optional,
            "refuse": optional,
            "todoList": { "type": "array", "items": item },
        },
        "required": ["title", "intent", "plan", "answer", "refuse", "todoList"],
        "additionalProperties": false,
    })
}
