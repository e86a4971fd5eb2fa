//! Assembles streamed tool calls from fragments: finds the call that each fragment belongs to.

use std::collections::HashMap;

use crate::domain::model::{FailureKind, ModelFailure};
use crate::provider::http::failure;

/// Maximum number of tool calls in one reply; far above what any run accepts.
const MAX_CALLS: usize = 256;

/// A fragment of a call. `None` for an empty id or name.
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

/// Tracks whether the arguments are complete JSON, by their brackets, in one pass.
#[derive(Debug, Default)]
struct Brackets {
    open: usize,
    is_text: bool,
    is_escaped: bool,
    /// The outermost bracket was closed.
    is_whole: bool,
}

impl Calls {
    pub(super) fn is_empty(&self) -> bool {
        self.begun.is_empty()
    }

    /// Returns our index of the fragment's call: the call with its index; without an index the one with its id, else
    /// the last. A fragment with a name starts another call if the found one is complete or has another id, because
    /// some servers number every call 0. `None`: the fragment repeats a complete call with the same id.
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
    /// Whether the fragment belongs to another call. A name alone is not enough: some servers repeat it in every
    /// fragment.
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
