//! What model calls used: tokens, and money where a price is known.

use serde::{Deserialize, Serialize};

use super::ids::{ItemId, RunId};
use super::model::Usage;
use super::words;

/// Billionths of a US dollar: sums are exact, in every database.
pub type Nanos = i64;

/// A set of spending caps; the server knows which ones there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CapSet(pub u16);

/// What a model's tokens cost, in US dollars per million of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Input that was not cached.
    pub input_per_million: f64,
    /// Output, thinking included unless it has a price of its own.
    pub output_per_million: f64,
    /// Input that the provider had cached; unset = like other input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_input_per_million: Option<f64>,
    /// Output that was thinking; unset = like other output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking_per_million: Option<f64>,
}

impl Price {
    /// Cached tokens are included in the input, thinking tokens in the output.
    pub fn of(&self, usage: &Usage) -> Nanos {
        let cached = usage.cached_input_tokens.min(usage.input_tokens);
        let thinking = usage.thinking_tokens.min(usage.output_tokens);
        let parts = [
            (usage.input_tokens - cached, self.input_per_million),
            (cached, self.cached_input_per_million.unwrap_or(self.input_per_million)),
            (usage.output_tokens - thinking, self.output_per_million),
            (thinking, self.thinking_per_million.unwrap_or(self.output_per_million)),
        ];
        // A dollar per million tokens is a thousand nanos per token.
        let cost = |(tokens, price): (u64, f64)| (tokens as f64 * price * 1_000.0).round() as Nanos;
        parts.into_iter().map(cost).fold(0, Nanos::saturating_add)
    }

    /// Whether each price is a number from 0 to a million.
    pub fn is_sound(&self) -> bool {
        let optional = [self.cached_input_per_million, self.thinking_per_million].into_iter().flatten();
        [self.input_per_million, self.output_per_million]
            .into_iter()
            .chain(optional)
            .all(|price| price.is_finite() && (0.0..=1_000_000.0).contains(&price))
    }
}

/// As clients read it.
pub fn usd(nanos: Nanos) -> f64 {
    nanos as f64 / 1e9
}

/// As clients write it.
pub fn nanos(usd: f64) -> Nanos {
    (usd * 1e9).round() as Nanos
}

/// One model call: a row of the kind `usage`, whose `ord` is the time of its reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelUse {
    /// The run that the call was made for.
    pub run: RunId,
    /// The todo item that the call was made for; absent: planning, synthesis or a summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<ItemId>,
    /// The provider that answered, which is not always the first of a fallback list.
    pub provider: String,
    /// The provider's name of the model.
    pub model: String,
    /// As the provider reported it, else an estimate.
    #[serde(flatten)]
    pub usage: Usage,
    /// `None`: no price was known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_nanos: Option<Nanos>,
}

words! {
    /// What usage is summed by.
    pub enum UsageGroup {
        /// By run.
        Run = "run",
        /// By the models that each run asked.
        RunModel = "run,model",
        /// By run and item.
        Item = "item",
        /// By provider and model.
        Model = "model",
        /// By tenant, for the operator.
        Tenant = "tenant",
        /// By day in UTC.
        Day = "day",
    }
}

/// The calls of one group, summed. Groups of two names (run and item, provider and model) have both.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UsageSum {
    /// A run, a provider, a tenant's name, or a day in UTC as `2026-11-21`.
    pub key: String,
    /// An item (empty: the run's own calls), a model, or a run's model as `provider:model`.
    pub sub: String,
    /// How many model calls were made.
    pub calls: u64,
    /// The tokens of all of them.
    pub usage: Usage,
    /// In billionths of a US dollar, of the calls with a price.
    pub cost_nanos: Nanos,
    /// Calls without a price: they are not in the cost.
    pub unpriced: u64,
}

impl UsageSum {
    /// Counts one more call.
    pub fn add(&mut self, call: &ModelUse) {
        self.calls += 1;
        self.usage.add(&call.usage);
        match call.cost_nanos {
            Some(cost) => self.cost_nanos = self.cost_nanos.saturating_add(cost),
            None => self.unpriced += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_counts_each_kind_of_token_once() {
        let usage = Usage { input_tokens: 1_000, output_tokens: 100, thinking_tokens: 40, cached_input_tokens: 400 };
        let price = Price { input_per_million: 0.4, output_per_million: 1.6, ..Price::default() };
        assert_eq!(price.of(&usage), 400_000 + 160_000);
        let price = Price { cached_input_per_million: Some(0.1), thinking_per_million: Some(0.0), ..price };
        assert_eq!(price.of(&usage), 240_000 + 40_000 + 96_000);
        assert_eq!((usd(1_500_000_000), nanos(0.000_000_1)), (1.5, 100));
        let all = Usage { input_tokens: u64::MAX, output_tokens: u64::MAX, ..usage };
        assert_eq!(price.of(&all), Nanos::MAX, "no sum is less than its parts");
    }

    #[test]
    fn a_price_that_is_no_number_or_below_zero_is_not_sound() {
        let price = |input: f64| Price { input_per_million: input, ..Price::default() };
        assert!(price(0.0).is_sound());
        for wrong in [-1.0, f64::NAN, f64::INFINITY] {
            assert!(!price(wrong).is_sound(), "{wrong}");
        }
    }
}
