//! Whether models can take more work, and the health of their providers.

use super::Runtime;
use super::tenant_runs::RunLimits;
use crate::domain::ids::TenantPk;
use crate::domain::model::ModelFailure;
use crate::domain::settings::RunSettings;
use crate::domain::spend::SpendCaps;
use crate::domain::usage::Price;
use crate::engine::ModelBook;
use crate::provider::gate::{CallPass, Health, QueuePlace};

impl Runtime {
    /// Reserves a place at the first model of these settings that has one, until the result is dropped; `None`: none has.
    pub(crate) fn admit_to_model(&self, tenant: TenantPk, settings: &RunSettings) -> Option<QueuePlace> {
        let mut providers = (0..).map_while(|n| settings.choice(n)).map(|(provider, _)| provider);
        let models = &self.0.models;
        providers.find_map(|provider| models.gates.reserve(provider, models.call_owner(tenant, provider)))
    }

    /// Waits for the permission to call a provider for a tenant, outside of runs.
    pub(crate) async fn acquire_call(&self, tenant: TenantPk, provider: &str) -> Result<CallPass, ModelFailure> {
        let models = &self.0.models;
        models.gates.acquire_soon(provider, models.call_owner(tenant, provider)).await
    }

    /// The health of a provider; `None`: it has no gate.
    pub(crate) fn provider_health(&self, provider: &str) -> Option<Health> {
        self.0.models.gates.health(provider, self.0.now())
    }

    /// Whether the provider failed too often in a row, and recently.
    pub(crate) fn is_provider_failing(&self, provider: &str) -> bool {
        self.0.models.gates.is_failing(provider)
    }

    /// The caps on what a tenant's model calls may cost.
    pub(crate) fn spend_caps(&self, tenant: TenantPk) -> SpendCaps {
        self.0.caps(tenant)
    }

    /// How many runs a tenant may have.
    pub(crate) fn run_limits(&self, tenant: TenantPk) -> RunLimits {
        self.0.run_limits(tenant)
    }

    /// How many runs the tenant has under way in this process.
    pub(crate) fn running_runs(&self, tenant: TenantPk) -> usize {
        self.0.tenant_runs.running(tenant)
    }

    /// Has the sweeper look at once whether waiting runs may begin.
    pub(crate) fn recheck_waiting_runs(&self) {
        self.0.sweeper.look_by(self.0.now());
    }

    pub(crate) fn price(&self, provider: &str, model: &str) -> Option<Price> {
        self.0.models.price(provider, model)
    }
}
