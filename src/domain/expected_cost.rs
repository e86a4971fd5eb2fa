//! The expected cost of the rest of a plan, and the data it is based on.

use serde::{Deserialize, Serialize};

use super::forecast::PlanForecast;

/// The answer of `/threads/{id}/plan/forecast`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Forecast {
    #[serde(flatten)]
    pub plan: PlanForecast,
    pub cost: ExpectedCost,
}

/// What the items that are left may cost, in US dollars. It is computed from past items, never guessed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExpectedCost {
    /// The model that the run asks first.
    pub provider: String,
    pub model: String,
    /// Items that are left.
    pub items: u64,
    /// All of them at the price of a cheap past item: nine of ten cost as much or more. Absent: no past item has a price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low_usd: Option<f64>,
    /// All of them at the price of an expensive one: nine of ten cost as much or less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high_usd: Option<f64>,
    /// The upper bound: what is left of the run's budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most_usd: Option<f64>,
    pub basis: CostBasis,
}

/// The past items that it is computed from: of this tenant's runs that asked this model and no other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CostBasis {
    /// How many days are looked back.
    pub days: u32,
    /// Past items whose calls all have a price.
    pub items: u64,
    /// Their model calls.
    pub calls: u64,
    /// Past items with a call without a price: they are not counted.
    pub unpriced_items: u64,
}
