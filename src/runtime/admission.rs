//! Whether models can take more work, and how they do.

use super::Runtime;
use super::shared::Shared;
use super::tenant_runs::RunLimits;
use crate::domain::ids::TenantPk;
use crate::domain::settings::RunSettings;
use crate::domain::spend::{Amount, Capped, SpendCaps};
use crate::domain::usage::Price;
use crate::engine::ModelBook;
use crate::provider::gate::{Admitted, Asker, Health};
use crate::store::Spent;

impl Shared {
    /// On whose behalf a tenant's calls of a provider are made.
    pub(super) fn asker(&self, tenant: TenantPk, provider: &str) -> Asker {
        Asker { tenant, has_own_key: self.has_own_key(tenant, provider) }
    }
}

impl Runtime {
    /// A place at the first model of these settings that has one; `None`: none has. It is kept as long as the answer is
    /// held.
    pub(crate) fn place_at_a_model(&self, tenant: TenantPk, settings: &RunSettings) -> Option<Admitted> {
        let mut providers = (0..).map_while(|n| settings.choice(n)).map(|(provider, _)| provider);
        providers.find_map(|provider| self.0.gates.admit(provider, self.0.asker(tenant, provider)))
    }

    /// How a provider does; `None`: it is not gated.
    pub(crate) fn provider_health(&self, provider: &str) -> Option<Health> {
        self.0.gates.health(provider, self.0.now())
    }

    /// The caps on what a tenant's model calls may cost.
    pub(crate) fn spend_caps(&self, tenant: TenantPk) -> SpendCaps {
        self.0.caps(tenant)
    }

    /// How many runs a tenant may have.
    pub(crate) fn run_limits(&self, tenant: TenantPk) -> RunLimits {
        self.0.run_limits(tenant)
    }

    /// How many it has under way in this process.
    pub(crate) fn running_runs(&self, tenant: TenantPk) -> usize {
        self.0.tenant_runs.running(tenant)
    }

    /// Looks at once whether runs that wait may begin.
    pub(crate) fn begin_waiting(&self) {
        self.0.alarm.sooner(self.0.now());
    }

    /// Tells webhooks that this cap leaves nothing for another run, unless they were told.
    pub(crate) async fn tell_reached(&self, spent: &Spent, capped: Capped, cap: Amount) {
        self.0.tell_reached(spent, capped, cap).await;
    }

    pub(crate) fn price(&self, provider: &str, model: &str) -> Option<Price> {
        self.0.model_facts.price(provider, model)
    }
}
