//! What a transition writes: each row and each payload once.

use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::Value;

use crate::domain::ids::PayloadId;
use crate::domain::payload;
use crate::pes::state::rows;
use crate::step::{Row, RowKind};

#[derive(Default)]
pub(crate) struct WrittenRows {
    rows: IndexMap<(RowKind, String), Row>,
    payloads: Vec<(PayloadId, Arc<Value>)>,
}

impl WrittenRows {
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Writes a row; it replaces an earlier one with the same kind and id.
    pub fn put(&mut self, row: Row) {
        self.rows.insert((row.kind, row.id.clone()), row);
    }

    /// Stores a value under an id of its own, unless it is stored already; returns what to write in its place.
    pub fn store(&mut self, id: impl Into<PayloadId>, value: Value) -> Value {
        let (written, large) = payload::store(id, value);
        if let Some((id, value)) = large
            && !self.rows.contains_key(&(RowKind::Payload, id.to_string()))
        {
            self.put(rows::payload(&id, &value));
            self.payloads.push((id, value));
        }
        written
    }

    pub fn into_parts(self) -> (Vec<Row>, Vec<(PayloadId, Arc<Value>)>) {
        (self.rows.into_values().collect(), self.payloads)
    }
}
