//! Opaque blocks that a vendor wants back within a tool loop. They mean something to the wire and the model that gave
//! them alone: another one, after a fall-back, is not shown them.

use serde_json::{Value, json};

/// The blocks with the name of whom they came from.
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
