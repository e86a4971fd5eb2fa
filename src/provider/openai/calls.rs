//! Puts the fragments of streamed tool calls together: which call of a reply each belongs to.

use std::collections::HashMap;

use crate::domain::model::{FailureKind, ModelFailure};
use crate::provider::http::failure;

/// Tool calls in one reply at most; far above what any run accepts.
const MAX_CALLS: usize = 256;

/// A piece of a call as it came; an empty id or name is none.
pub(super) struct CallFragment {
    pub(super) index: Option<u64>,
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
    pub(super) arguments: String,
}

#[derive(Debug, Default)]
pub(super) struct Calls {
    /// Our index of a call by the vendor's, which may be any number.
    slots: HashMap<u64, usize>,
    begun: Vec<PartialCall>,
}

#[derive(Debug, Default)]
struct PartialCall {
    id: Option<String>,
    name: Option<String>,
    arguments: String,
    brackets: Brackets,
}

/// Whether the arguments are complete JSON, by their brackets: each byte is looked at once.
#[derive(Debug, Default)]
struct Brackets {
    open: usize,
    is_text: bool,
    is_escaped: bool,
    /// The outermost one was closed.
    is_whole: bool,
}

impl Calls {
    pub(super) fn is_empty(&self) -> bool {
        self.begun.is_empty()
    }

    /// Our index of the piece's call: the one with its index; without an index the one with its id, else the last. A piece
    /// with a name begins another call if the known one is whole or has another id: some servers number every call 0.
    /// `None`: it repeats a call that came whole under its id.
    pub(super) fn take(&mut self, piece: &CallFragment) -> Result<Option<u32>, ModelFailure> {
        let slot = match self.known(piece) {
            Some(slot) if !self.begun[slot].ends_before(piece) => slot,
            Some(slot) if self.begun[slot].is_repeated_whole(piece) => return Ok(None),
            Some(_) | None => self.begin(piece)?,
        };
        self.begun[slot].take(piece);
        Ok(Some(slot as u32))
    }

    fn known(&self, piece: &CallFragment) -> Option<usize> {
        match piece.index {
            Some(index) => self.slots.get(&index).copied(),
            None if piece.id.is_some() => self.begun.iter().rposition(|call| call.id == piece.id),
            None if piece.name.is_some() => None,
            None => self.begun.len().checked_sub(1),
        }
    }

    fn begin(&mut self, piece: &CallFragment) -> Result<usize, ModelFailure> {
        let slot = self.begun.len();
        if slot == MAX_CALLS {
            return Err(failure(FailureKind::Broken, format!("the reply has more than {MAX_CALLS} tool calls")));
        }
        self.begun.push(PartialCall { id: piece.id.clone(), ..PartialCall::default() });
        self.slots.extend(piece.index.map(|index| (index, slot)));
        Ok(slot)
    }
}

impl PartialCall {
    /// Whether the piece is of another call. A name alone says nothing: some servers repeat it with every piece.
    fn ends_before(&self, piece: &CallFragment) -> bool {
        let has_other_id = piece.id.is_some() && self.id.is_some() && piece.id != self.id;
        let says_more = piece.name != self.name || !piece.arguments.trim().is_empty();
        piece.name.is_some() && (has_other_id || (self.brackets.is_whole && says_more))
    }

    fn is_repeated_whole(&self, piece: &CallFragment) -> bool {
        piece.id.is_some() && piece.id == self.id && piece.name == self.name && piece.arguments == self.arguments
    }

    fn take(&mut self, piece: &CallFragment) {
        if self.name.is_none() {
            self.name.clone_from(&piece.name);
        }
        self.arguments.push_str(&piece.arguments);
        self.brackets.take(&piece.arguments);
    }
}

impl Brackets {
    fn take(&mut self, piece: &str) {
        for byte in piece.bytes() {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' if self.is_text => self.is_escaped = true,
                b'"' => self.is_text = !self.is_text,
                _ if self.is_text => {}
                b'{' | b'[' => self.open += 1,
                b'}' | b']' => {
                    self.open = self.open.saturating_sub(1);
                    self.is_whole = self.open == 0;
                }
                _ => {}
            }
        }
    }
}
