//! The facts about models that the engine may use: context window, longest reply and price.

use std::sync::Arc;

use crate::config::Config;
use crate::domain::prices::Prices;
use crate::domain::usage::Price;
use crate::engine::ModelBook;
use crate::provider::Catalog;

/// The models of the configuration and of the catalog.
pub(super) struct ConfiguredModels {
    prices: Prices,
    models: Arc<dyn Catalog>,
}

impl ConfiguredModels {
    pub(super) fn new(config: &Config, models: Arc<dyn Catalog>) -> Self {
        Self { prices: Prices::new(config.prices.clone()), models }
    }
}

impl ModelBook for ConfiguredModels {
    fn window(&self, provider: &str, model: &str) -> Option<u64> {
        self.models.facts(provider, model).context_window
    }

    fn max_output(&self, provider: &str, model: &str) -> Option<u64> {
        self.models.facts(provider, model).max_output
    }

    fn price(&self, provider: &str, model: &str) -> Option<Price> {
        self.prices.of(provider, model)
    }
}
