//! What a subscriber wants to see.

use crate::domain::observation::ObservationType;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wants {
    pub tokens: bool,
    /// Empty: every type.
    pub types: Vec<ObservationType>,
}

impl Default for Wants {
    fn default() -> Self {
        Self { tokens: true, types: Vec::new() }
    }
}

impl Wants {
    pub fn includes(&self, kind: ObservationType) -> bool {
        self.types.is_empty() || self.types.contains(&kind)
    }
}
