use super::*;
use crate::step::Keep;

impl WrittenRows {
    /// All rows are looked at.
    pub(super) fn count_look(&mut self) {
        self.looked_at += self.rows.len();
    }
}

fn row(id: usize, body: &str) -> Row {
    Row { kind: RowKind::Message, id: id.to_string(), ord: 1, keep: Keep::Never, body: body.to_owned() }
}

#[test]
fn what_is_written_is_searched_only_for_what_is_written_again() {
    let large = || Value::String("x".repeat(payload::INLINE_LIMIT + 1));
    let mut written = WrittenRows::default();
    for id in 0..500 {
        written.put(row(id, "1"));
        written.store(format!("{id}.content"), large());
    }
    assert_eq!(written.looked_at, 0, "a copy of a long conversation costs what it writes");
    written.put(row(7, "2"));
    written.store("7.content", large());
    assert_eq!(written.looked_at, 1000, "once through all rows, and a payload is stored once");
    let (rows, payloads) = written.into_parts();
    assert_eq!((rows.len(), payloads.len()), (1000, 500));
    assert_eq!(rows.last(), Some(&row(7, "2")));
}
