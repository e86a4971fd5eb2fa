//! The JSON Schema of a plan, for providers with structured output.

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

static OF_A_PLAN: LazyLock<Arc<Value>> = LazyLock::new(|| Arc::new(schema(false)));
static OF_A_REFINEMENT: LazyLock<Arc<Value>> = LazyLock::new(|| Arc::new(schema(true)));

/// The JSON schema of a plan, or of a refinement. Every member is required, and optional ones may be null: the strict
/// modes of providers demand that.
pub fn plan_schema(refines: bool) -> Arc<Value> {
    if refines { OF_A_REFINEMENT.clone() } else { OF_A_PLAN.clone() }
}

fn schema(refines: bool) -> Value {
    let words = json!({ "type": "array", "items": { "type": "string" } });
    let optional = json!({ "type": ["string", "null"] });
    let mut item = json!({
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
    if refines {
        item["properties"]["redo"] = json!({ "type": ["boolean", "null"] });
        item["required"].as_array_mut().expect("a list stands above").push("redo".into());
    }
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
