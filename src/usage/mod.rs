//! Prices: what the operator says that models cost.

use std::collections::BTreeMap;

use crate::domain::usage::Price;

/// By `provider:model`, or `provider:*` for the rest of a provider's models.
#[derive(Clone, Debug, Default)]
pub struct Prices(BTreeMap<String, Price>);

impl Prices {
    pub fn new(prices: BTreeMap<String, Price>) -> Self {
        Self(prices)
    }

    /// The price of this very model, else that of its provider's rest.
    pub fn of(&self, provider: &str, model: &str) -> Option<Price> {
        let named = self.0.get(&format!("{provider}:{model}"));
        named.or_else(|| self.0.get(&format!("{provider}:*"))).copied()
    }
}

#[cfg(test)]
mod tests;
