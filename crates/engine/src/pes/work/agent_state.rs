//! The application's own state: changed by tools and by clients, recorded each time.

use serde_json::Value;

use crate::domain::facts::StateUpdateBody;
use crate::domain::fault::{Code, Fault};
use crate::domain::thread::AgentState;
use crate::history::fold::StateWrite;
use crate::pes::state::rows;
use crate::pes::tx::{EventOutcome, HandlerResult, Tx};

/// Applies a tool's merge patch.
pub(crate) fn patch(tx: &mut Tx<'_>, patch: Value) -> Result<(), Fault> {
    let keys = keys_of(&patch);
    let mut data = tx.state.agent_state.data.clone();
    json_patch::merge(&mut data, &patch);
    write(tx, data, keys, StateWrite::Patch(patch))
}

/// A client writes the whole state.
pub(crate) fn put(tx: &mut Tx<'_>, data: Value, expected: Option<i64>) -> HandlerResult {
    let version = tx.state.agent_state.version;
    if expected.is_some_and(|expected| expected != version) {
        return Err(Fault::new(Code::PreconditionFailed, format!("The state is at version {version}; read it again.")));
    }
    write(tx, data.clone(), keys_of(&data), StateWrite::Whole(data))?;
    Ok(EventOutcome::Applied)
}

/// A copied thread begins with the other thread's state.
pub(crate) fn copy(tx: &mut Tx<'_>, state: AgentState) {
    let data = state.data.clone();
    store(tx, state, keys_of(&data), StateWrite::Whole(data));
}

fn write(tx: &mut Tx<'_>, data: Value, keys: Vec<String>, written: StateWrite) -> Result<(), Fault> {
    let most = tx.world.limits.state_bytes;
    let bytes = rows::text(&data).len();
    if bytes > most {
        return Err(Fault::new(Code::StateTooLarge, format!("The state would take {bytes} bytes; at most {most}.")));
    }
    store(tx, AgentState { data, version: tx.state.agent_state.version + 1 }, keys, written);
    Ok(())
}

/// Stores and records a write, so that the state can be reconstructed as of any observation.
fn store(tx: &mut Tx<'_>, state: AgentState, keys: Vec<String>, written: StateWrite) {
    let (row, id) = (rows::agent_state(&state), format!("agent-state-{}", state.version));
    let (data, patch) = match written {
        StateWrite::Whole(data) => (Some(tx.store(id, data)), None),
        StateWrite::Patch(patch) => (None, Some(tx.store(id, patch))),
    };
    tx.state.agent_state = state;
    tx.written.put(row);
    let body = StateUpdateBody { data, patch, ..tx.state_update(keys) };
    tx.record(None, "State changed", body);
}

fn keys_of(data: &Value) -> Vec<String> {
    data.as_object().map(|map| map.keys().cloned().collect()).unwrap_or_default()
}
