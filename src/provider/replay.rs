//! Opaque blocks that a vendor requires within a tool loop. Only the wire and the model that produced them get them
//! back; after a fallback another model does not see them.

use serde_json::{Value, json};

/// Wraps the blocks with the names of wire and model.
pub(crate) fn sealed(wire: &str, model: &str, blocks: Value) -> Value {
    json!({ "wire": wire, "model": model, "blocks": blocks })
}

/// The blocks, if they came from this wire and model.
pub(crate) fn opened<'v>(wire: &str, model: &str, replay: Option<&'v Value>) -> Option<&'v Value> {
    let replay = replay?;
    let is_own = replay["wire"] == wire && replay["model"] == model;
    if is_own { replay.get("blocks") } else { None }
}

#[cfg(test)]
mod tests;
