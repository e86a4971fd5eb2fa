//! Prices of models, as the operator configured them.

use std::collections::BTreeMap;

use super::usage::Price;

/// The prices by `provider:model`, or `provider:*` for a provider's other models.
#[derive(Clone, Debug, Default)]
pub struct Prices(BTreeMap<String, Price>);

impl Prices {
    pub fn new(prices: BTreeMap<String, Price>) -> Self {
        Self(prices)
    }

    /// The price of this model, or else that of its provider's other models.
    pub fn of(&self, provider: &str, model: &str) -> Option<Price> {
        let named = self.0.get(&format!("{provider}:{model}"));
        named.or_else(|| self.0.get(&format!("{provider}:*"))).copied()
    }
}

#[cfg(test)]
mod tests;
