//! The metrics of model calls. Those of each provider and model are created once, instead of at every call. A model that the
//! operator did not choose is labelled `other`, because callers may name any.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use metrics::{Counter, Histogram, counter, histogram};
use parking_lot::Mutex;

use crate::config::ModelRef;
use crate::domain::model::{FailureKind, Phase};
use crate::domain::usage::ModelUse;
use crate::domain::word_of;

pub(super) struct ModelMeters {
    /// Models that the operator chose.
    chosen: Vec<ModelRef>,
    /// By provider, and by the label of the model.
    known: Mutex<HashMap<String, HashMap<String, Arc<Meters>>>>,
}

/// The metrics of one provider and model.
pub(super) struct Meters {
    labels: [(&'static str, String); 2],
    pub(super) duration: Histogram,
    pub(super) first_token: Histogram,
    /// By phase and failure; `None`: it went well.
    calls: Mutex<HashMap<(Phase, Option<FailureKind>), Counter>>,
    tokens: [Counter; 4],
    cost: OnceLock<Counter>,
    unpriced: OnceLock<Counter>,
}

/// The order is that of [`Meters::record_usage`].
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

    /// Counts what a call took. Called for everything that is stored as usage, once it is stored, so that both are the same.
    pub(super) fn record_usage(&self, used: &ModelUse) {
        self.of(&used.provider, &used.model).record_usage(used);
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
            duration: histogram!("pes_model_call_duration_seconds", &labels),
            first_token: histogram!("pes_model_first_token_seconds", &labels),
            calls: Mutex::default(),
            tokens,
            cost: OnceLock::new(),
            unpriced: OnceLock::new(),
            labels,
        }
    }

    fn record_usage(&self, used: &ModelUse) {
        let usage = &used.usage;
        let tokens = [usage.input_tokens, usage.output_tokens, usage.thinking_tokens, usage.cached_input_tokens];
        for (counter, tokens) in self.tokens.iter().zip(tokens) {
            counter.increment(tokens);
        }
        match used.cost_nanos {
            // Counters are integers, so this one counts nano-dollars; `/metrics` divides it.
            Some(nanos) => {
                let cost = self.cost.get_or_init(|| counter!("pes_model_cost_usd_total", &self.labels));
                cost.increment(u64::try_from(nanos).unwrap_or(0));
            }
            None => {
                let unpriced = self.unpriced.get_or_init(|| counter!("pes_model_unpriced_calls_total", &self.labels));
                unpriced.increment(1);
            }
        }
    }

    /// Counts an attempt of a call, which went well if there is no failure.
    pub(super) fn count_call(&self, phase: Phase, failure: Option<FailureKind>) {
        let new = || {
            let [provider, model] = self.labels.clone();
            let outcome = failure.map_or_else(|| "ok".to_owned(), |kind| word_of(&kind));
            counter!("pes_model_calls_total", &[provider, model, ("phase", word_of(&phase)), ("outcome", outcome)])
        };
        self.calls.lock().entry((phase, failure)).or_insert_with(new).increment(1);
    }
}
