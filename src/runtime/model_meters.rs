//! The metrics of model calls: what each provider and model has is made once, instead of at every call.
//! A model that the operator did not choose is `other`: callers may name any.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use metrics::{Counter, Histogram, counter, histogram};
use parking_lot::Mutex;

use crate::config::ModelRef;

pub(super) struct ModelMeters {
    /// Models that the operator chose.
    chosen: Vec<ModelRef>,
    /// By provider, and by the label of the model.
    known: Mutex<HashMap<String, HashMap<String, Arc<Meters>>>>,
}

/// Of one provider and model.
pub(super) struct Meters {
    labels: [(&'static str, String); 2],
    pub(super) took: Histogram,
    pub(super) first_token: Histogram,
    tokens: [Counter; 4],
    cost: OnceLock<Counter>,
    unpriced: OnceLock<Counter>,
}

/// What a call took of tokens: input, output, thinking, and of the input what was cached.
pub(super) type Tokens = [u64; 4];

const DIRECTIONS: [&str; 4] = ["input", "output", "thinking", "cached_input"];

impl ModelMeters {
    pub(super) fn new(chosen: Vec<ModelRef>) -> Self {
        Self { chosen, known: Mutex::default() }
    }

    pub(super) fn of(&self, provider: &str, model: &str) -> Arc<Meters> {
        let is_chosen = self.chosen.iter().any(|chosen| chosen.provider == provider && chosen.model == model);
        let label = if is_chosen { model } else { "other" };
        let mut known = self.known.lock();
        if let Some(meters) = known.get(provider).and_then(|models| models.get(label)) {
            return meters.clone();
        }
        let meters = Arc::new(Meters::new(provider, label));
        known.entry(provider.to_owned()).or_default().insert(label.to_owned(), meters.clone());
        meters
    }
}

impl Meters {
    fn new(provider: &str, model: &str) -> Self {
        let labels = [("provider", provider.to_owned()), ("model", model.to_owned())];
        let tokens = DIRECTIONS.map(|direction| {
            let [provider, model] = labels.clone();
            counter!("pes_model_tokens_total", &[provider, model, ("direction", direction.to_owned())])
        });
        Self {
            took: histogram!("pes_model_call_duration_seconds", &labels),
            first_token: histogram!("pes_model_first_token_seconds", &labels),
            tokens,
            cost: OnceLock::new(),
            unpriced: OnceLock::new(),
            labels,
        }
    }

    pub(super) fn used(&self, tokens: Tokens, cost_usd: Option<f64>) {
        for (counter, tokens) in self.tokens.iter().zip(tokens) {
            counter.increment(tokens);
        }
        match cost_usd {
            // Counters are whole numbers: `/metrics` divides these.
            Some(usd) => {
                let cost = self.cost.get_or_init(|| counter!("pes_model_cost_usd_total", &self.labels));
                cost.increment((usd * 1e9) as u64);
            }
            None => {
                let unpriced = self.unpriced.get_or_init(|| counter!("pes_model_unpriced_calls_total", &self.labels));
                unpriced.increment(1);
            }
        }
    }

    /// A call ended like this.
    pub(super) fn ended(&self, phase: String, outcome: String) {
        let [provider, model] = self.labels.clone();
        let labels = [provider, model, ("phase", phase), ("outcome", outcome)];
        counter!("pes_model_calls_total", &labels).increment(1);
    }
}
