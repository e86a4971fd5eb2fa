//! The application's own state, write by write.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::size;
use crate::domain::facts::StateUpdateBody;
use crate::domain::thread::AgentState;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct AgentStateFold {
    version: i64,
    /// The writes since the last whole one.
    writes: Vec<StateWrite>,
    /// A write was recorded without its content: the state is unknown from then on, until it is written whole.
    is_unknown: bool,
}

/// One write; a large value is a reference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum StateWrite {
    /// The whole state, in place of what was written before.
    Whole(Value),
    /// A merge patch.
    Patch(Value),
}

/// The writes that the application's state consists of.
#[derive(Clone, Debug, PartialEq)]
pub struct StateWrites {
    /// The version after all of them.
    pub version: i64,
    /// In their order: the first one is a whole state, or a patch of the empty one.
    pub writes: Vec<StateWrite>,
}

impl AgentStateFold {
    pub(super) fn bytes(&self) -> usize {
        let values = self.writes.iter().map(|write| match write {
            StateWrite::Whole(value) | StateWrite::Patch(value) => size::value(value),
        });
        values.sum()
    }

    /// Applies a `STATE_UPDATE`; most are about something else.
    pub(super) fn apply(&mut self, body: &StateUpdateBody) {
        let before = self.version;
        self.version = body.state_version;
        if self.version == before {
            return;
        }
        match (&body.data, &body.patch) {
            (Some(data), _) => {
                let writes = vec![StateWrite::Whole(data.clone())];
                *self = Self { version: self.version, writes, ..Self::default() }
            }
            (None, Some(patch)) if self.version == before + 1 => self.writes.push(StateWrite::Patch(patch.clone())),
            (None, Some(_) | None) => self.is_unknown = true,
        }
    }

    pub(super) fn writes(&self) -> Option<StateWrites> {
        (!self.is_unknown).then(|| StateWrites { version: self.version, writes: self.writes.clone() })
    }
}

impl StateWrites {
    /// The resulting state, once the payloads are inlined.
    pub fn state(self) -> AgentState {
        let mut data = Value::Null;
        for write in self.writes {
            match write {
                StateWrite::Patch(patch) => json_patch::merge(&mut data, &patch),
                StateWrite::Whole(whole) => data = whole,
            }
        }
        AgentState { data, version: self.version }
    }
}
