//! The application's own state: changed by tools and by clients, recorded each time.

use serde_json::Value;

use super::rows;
use super::transition::{Handled, Taken, Transition};
use crate::domain::fault::{Code, Fault};
use crate::domain::thread::AgentState;

impl Transition<'_> {
    /// A tool's merge patch.
    pub fn patch_state(&mut self, patch: Value) -> Result<(), Fault> {
        let keys = match &patch {
            Value::Object(map) => map.keys().cloned().collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Vec::new(),
        };
        let mut data = self.state.agent_state.data.clone();
        json_patch::merge(&mut data, &patch);
        self.write_state(data, keys)
    }

    pub fn put_state(&mut self, data: Value, expected: Option<i64>) -> Handled {
        let version = self.state.agent_state.version;
        if expected.is_some_and(|expected| expected != version) {
            return Err(Fault::new(
                Code::PreconditionFailed,
                format!("The state is at version {version}; read it again."),
            ));
        }
        let keys = data.as_object().map(|map| map.keys().cloned().collect()).unwrap_or_default();
        self.write_state(data, keys)?;
        Ok(Taken::Yes)
    }

    fn write_state(&mut self, data: Value, keys: Vec<String>) -> Result<(), Fault> {
        let most = self.world.limits.state_bytes;
        let bytes = rows::text(&data).len();
        if bytes > most {
            return Err(Fault::new(
                Code::StateTooLarge,
                format!("The state would take {bytes} bytes; at most {most}."),
            ));
        }
        self.state.agent_state = AgentState { data, version: self.state.agent_state.version + 1 };
        let row = rows::agent_state(&self.state.agent_state);
        self.rows.retain(|other| other.kind != row.kind);
        self.rows.push(row);
        self.record_state_update(keys, None);
        Ok(())
    }
}
