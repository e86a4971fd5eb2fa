//! The frames that a subscriber receives.

use crate::domain::observation::ObservationType;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriptionFilter {
    pub tokens: bool,
    /// Empty: every type.
    pub types: Vec<ObservationType>,
}

impl Default for SubscriptionFilter {
    fn default() -> Self {
        Self { tokens: true, types: Vec::new() }
    }
}

impl SubscriptionFilter {
    pub fn includes(&self, kind: ObservationType) -> bool {
        self.types.is_empty() || self.types.contains(&kind)
    }
}
