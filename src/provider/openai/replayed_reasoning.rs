//! The reasoning of a reply that must be sent back together with its tool calls.

use serde_json::{Map, Value};

use super::compatible::Reasoning;

/// Maximum number of reasoning blocks in one reply.
const MOST: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct ReplayedReasoning {
    what: Reasoning,
    text: String,
    details: Vec<Map<String, Value>>,
}

impl ReplayedReasoning {
    pub(super) fn new(what: Reasoning) -> Self {
        Self { what, ..Self::default() }
    }

    pub(super) fn take(&mut self, text: Option<&str>, details: Option<Vec<Map<String, Value>>>) {
        match self.what {
            Reasoning::Nothing => {}
            Reasoning::Content => self.text.push_str(text.unwrap_or_default()),
            Reasoning::Details => details.into_iter().flatten().for_each(|piece| self.detail(piece)),
        }
    }

    /// `None`: there was no reasoning.
    pub(super) fn blocks(self) -> Option<Value> {
        match self.what {
            Reasoning::Content if !self.text.is_empty() => Some(Value::String(self.text)),
            Reasoning::Details if !self.details.is_empty() => {
                Some(self.details.into_iter().map(Value::Object).collect())
            }
            Reasoning::Nothing | Reasoning::Content | Reasoning::Details => None,
        }
    }

    /// Fragments of one block have the same index and type: their texts are concatenated, other members keep the last
    /// value.
    fn detail(&mut self, piece: Map<String, Value>) {
        let is_same =
            |known: &Map<String, Value>| ["index", "type"].iter().all(|key| known.get(*key) == piece.get(*key));
        let known = self.details.iter_mut().rev().find(|known| known.contains_key("index") && is_same(known));
        let Some(known) = known else {
            if self.details.len() < MOST {
                self.details.push(piece);
            }
            return;
        };
        for (key, value) in piece {
            match (known.get_mut(&key), value) {
                (_, Value::Null) => {}
                (Some(Value::String(text)), Value::String(more)) if key == "text" || key == "summary" => {
                    text.push_str(&more);
                }
                (_, value) => drop(known.insert(key, value)),
            }
        }
    }
}
