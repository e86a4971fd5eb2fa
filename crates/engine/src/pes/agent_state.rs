//! The application's own state: changed by tools and by clients, recorded each time.

use serde_json::Value;

use super::rows;
use super::transition::{Handled, Taken, Transition};
use crate::domain::fault::{Code, Fault};
use crate::domain::thread::AgentState;

impl Transition<'_> {
    /// A tool's merge patch.
    pub fn patch_state(&mut self, patch: Value) -> Result<(), Fault> {
        let keys = keys_of(&patch);
        let mut data = self.state.agent_state.data.clone();
        json_patch::merge(&mut data, &patch);
        self.write_state(data, keys, ("patch", patch))
    }

    pub fn put_state(&mut self, data: Value, expected: Option<i64>) -> Handled {
        let version = self.state.agent_state.version;
        if expected.is_some_and(|expected| expected != version) {
            return Err(Fault::new(
                Code::PreconditionFailed,
                format!("The state is at version {version}; read it again."),
            ));
        }
        self.write_state(data.clone(), keys_of(&data), ("data", data))?;
        Ok(Taken::Yes)
    }

    /// A copy begins with the state of the other thread.
    pub fn copy_state(&mut self, state: AgentState) {
        let data = state.data.clone();
        self.keep_state(state, keys_of(&data), ("data", data));
    }

    fn write_state(&mut self, data: Value, keys: Vec<String>, written: (&str, Value)) -> Result<(), Fault> {
        let most = self.world.limits.state_bytes;
        let bytes = rows::text(&data).len();
        if bytes > most {
            return Err(Fault::new(
                Code::StateTooLarge,
                format!("The state would take {bytes} bytes; at most {most}."),
            ));
        }
        self.keep_state(AgentState { data, version: self.state.agent_state.version + 1 }, keys, written);
        Ok(())
    }

    /// What is written of it is recorded, so that it can be told as of any observation.
    fn keep_state(&mut self, state: AgentState, keys: Vec<String>, (name, written): (&str, Value)) {
        let row = rows::agent_state(&state);
        let written = self.store(format!("agent-state-{}", state.version), written);
        self.state.agent_state = state;
        self.rows.retain(|other| other.kind != row.kind);
        self.rows.push(row);
        self.record_state_update(keys, None);
        if let Some(last) = self.records.last_mut() {
            last.content[name] = written;
        }
    }
}

fn keys_of(data: &Value) -> Vec<String> {
    data.as_object().map(|map| map.keys().cloned().collect()).unwrap_or_default()
}
