//! Rows on their way into SQLite: small cells as JSON arrays, bodies beside them in one blob.

use serde::Serialize;
use uuid::Uuid;

use crate::domain::ids::ThreadPk;

pub(super) struct PackedRows {
    rows: String,
    bodies: Vec<u8>,
}

impl PackedRows {
    pub const fn new() -> Self {
        Self { rows: String::new(), bodies: Vec::new() }
    }

    /// Begins a row; every row begins with its thread.
    pub fn row(&mut self, pk: ThreadPk) -> &mut Self {
        self.rows.push_str(if self.rows.is_empty() { "[[" } else { "],[" });
        self.write(pk);
        self
    }

    pub fn cell(&mut self, value: impl Serialize) -> &mut Self {
        self.rows.push(',');
        self.write(value);
        self
    }

    pub fn id(&mut self, id: Option<Uuid>) -> &mut Self {
        let mut buffer = Uuid::encode_buffer();
        self.cell(id.map(|id| &*id.simple().encode_lower(&mut buffer)))
    }

    /// Two cells: where `substr` finds the body, and how long it is; or two nulls.
    pub fn body(&mut self, body: Option<&str>) -> &mut Self {
        let place = body.map(|body| {
            let start = self.bodies.len() + 1;
            self.bodies.extend_from_slice(body.as_bytes());
            (start, body.len())
        });
        self.cell(place.map(|(start, _)| start)).cell(place.map(|(_, length)| length))
    }

    fn write(&mut self, value: impl Serialize) {
        let text = serde_json::to_string(&value).expect("a cell is a number, a string or nothing");
        self.rows.push_str(&text);
    }

    /// The rows as one JSON array, and the bodies.
    pub fn finish(mut self) -> (String, Vec<u8>) {
        self.rows.push_str(if self.rows.is_empty() { "[]" } else { "]]" });
        (self.rows, self.bodies)
    }
}
