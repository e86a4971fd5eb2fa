//! What the engine may know of models.

use crate::config::Config;
use crate::domain::usage::Price;
use crate::engine::ModelBook;
use crate::usage::Prices;

pub(super) struct Book {
    prices: Prices,
}

impl Book {
    pub(super) fn new(config: &Config) -> Self {
        Self { prices: Prices::new(config.prices.clone()) }
    }
}

impl ModelBook for Book {
    fn price(&self, provider: &str, model: &str) -> Option<Price> {
        self.prices.of(provider, model)
    }
}
