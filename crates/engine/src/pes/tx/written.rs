//! What a transition writes: each row and each payload once.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::Value;

use crate::domain::ids::PayloadId;
use crate::domain::payload;
use crate::pes::state::rows;
use crate::step::{Row, RowKind};

#[derive(Default)]
pub(crate) struct WrittenRows {
    rows: Vec<Row>,
    payloads: Vec<(PayloadId, Arc<Value>)>,
    /// The kinds and ids of the rows.
    names: HashSet<(RowKind, String)>,
    /// How many rows were compared to find one that is written again.
    #[cfg(test)]
    looked_at: usize,
}

impl WrittenRows {
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Writes a row; it replaces an earlier one with the same kind and id.
    pub fn put(&mut self, row: Row) {
        if !self.names.insert((row.kind, row.id.clone())) {
            #[cfg(test)]
            self.count_look();
            self.rows.retain(|other| (other.kind, &other.id) != (row.kind, &row.id));
        }
        self.rows.push(row);
    }

    /// Stores a value under an id of its own, unless it is stored already; returns what to write in its place.
    pub fn store(&mut self, id: impl Into<PayloadId>, value: Value) -> Value {
        let (written, large) = payload::store(id, value);
        if let Some((id, value)) = large
            && !self.names.contains(&(RowKind::Payload, id.to_string()))
        {
            self.put(rows::payload(&id, &value));
            self.payloads.push((id, value));
        }
        written
    }

    pub fn into_parts(self) -> (Vec<Row>, Vec<(PayloadId, Arc<Value>)>) {
        (self.rows, self.payloads)
    }
}

#[cfg(test)]
mod tests;
