//! The application's own state, write by write.

use serde_json::{Value, json};

use crate::domain::thread::AgentState;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Written {
    version: i64,
    /// `{data}` or `{patch}`, since it was written whole.
    writes: Vec<Value>,
    /// A write was recorded without what was written: nobody knows from then on, until it is written whole.
    is_unknown: bool,
}

impl Written {
    /// Takes in what a `STATE_UPDATE` says; most are about something else.
    pub(super) fn tell(&mut self, content: &Value) {
        let before = self.version;
        self.version = content["stateVersion"].as_i64().unwrap_or(before);
        if self.version == before {
            return;
        }
        match (content.get("data"), content.get("patch")) {
            (Some(data), _) => {
                *self = Self { version: self.version, writes: vec![json!({ "data": data })], ..Self::default() }
            }
            (None, Some(patch)) if self.version == before + 1 => self.writes.push(json!({ "patch": patch })),
            (None, Some(_) | None) => self.is_unknown = true,
        }
    }

    pub(super) fn told(&self) -> Option<Value> {
        (!self.is_unknown).then(|| json!({ "version": self.version, "writes": self.writes }))
    }
}

/// The state that [`Fold::agent_state`](super::Fold::agent_state) tells, payloads in place.
pub fn agent_state(told: &Value) -> AgentState {
    let mut data = Value::Null;
    for write in told["writes"].as_array().into_iter().flatten() {
        match write.get("patch") {
            Some(patch) => json_patch::merge(&mut data, patch),
            None => data = write["data"].clone(),
        }
    }
    AgentState { data, version: told["version"].as_i64().unwrap_or_default() }
}
