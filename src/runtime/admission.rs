//! Whether models can take more work, and how they do.

use super::shared::Shared;
use super::{Result, Runtime};
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::TenantPk;
use crate::domain::settings::{Budget, RunSettings};
use crate::engine::ModelBook;
use crate::provider::ModelInfo;
use crate::provider::gate::{Admitted, Asker, BreakerState, Health};

const COME_BACK_MS: i64 = 1_000;

impl Shared {
    /// Refuses a run whose budget cannot be kept, and any while no model that it could ask has room for it. What is
    /// accepted waits for its turn; the room is kept until then, as long as the answer is held.
    pub(super) fn can_serve(&self, caller: &Caller, settings: &RunSettings) -> Result<Admitted> {
        if let Some(budget) = &settings.budget {
            self.check_budget(budget, settings)?;
        }
        self.room_for(caller.tenant, settings)
    }

    /// On whose behalf a tenant's calls of a provider are made.
    pub(super) fn asker(&self, tenant: TenantPk, provider: &str) -> Asker {
        Asker { tenant, has_own_key: self.has_own_key(tenant, provider) }
    }

    fn check_budget(&self, budget: &Budget, settings: &RunSettings) -> Result<()> {
        const PLACE: &str = "/options/budget";
        budget.check(PLACE)?;
        let mut choices = (0..).map_while(|n| settings.choice(n));
        let unpriced = choices.find(|(provider, model)| self.model_facts.price(provider, model).is_none());
        match (budget.max_cost_usd, unpriced) {
            (Some(_), Some((provider, model))) => {
                let why = format!("`prices` of the server's configuration does not say what {provider}:{model} costs.");
                Err(Fault::new(Code::Invalid, why.clone()).at(format!("{PLACE}/maxCostUsd"), why))
            }
            (Some(_) | None, _) => Ok(()),
        }
    }

    fn room_for(&self, tenant: TenantPk, settings: &RunSettings) -> Result<Admitted> {
        let mut providers = (0..).map_while(|n| settings.choice(n)).map(|(provider, _)| provider);
        let admitted = providers.find_map(|provider| self.gates.admit(provider, self.asker(tenant, provider)));
        if let Some(admitted) = admitted {
            return Ok(admitted);
        }
        let mut fault =
            Fault::new(Code::ProviderSaturated, "Too many calls wait for the model already; ask again soon.");
        fault.retry_after_ms = Some(COME_BACK_MS);
        Err(fault)
    }
}

impl Runtime {
    /// The models that runs may name, and how their providers do.
    pub fn models(&self) -> Vec<ModelInfo> {
        let health = |info: ModelInfo| ModelInfo { health: self.0.gates.health(&info.provider), ..info };
        self.0.models.list().into_iter().map(health).collect()
    }

    /// What `/metrics` shows of the gated providers: a gauge's name, and its value for each.
    pub fn provider_figures(&self) -> [(&'static str, Vec<(String, usize)>); 3] {
        let mut names: Vec<String> = self.0.models.list().into_iter().map(|info| info.provider).collect();
        names.sort();
        names.dedup();
        let known: Vec<(String, Health)> =
            names.into_iter().filter_map(|name| Some((name.clone(), self.0.gates.health(&name)?))).collect();
        let figure = |of: fn(&Health) -> usize| known.iter().map(|(name, health)| (name.clone(), of(health))).collect();
        [
            ("pes_provider_running_calls", figure(|health| health.running)),
            ("pes_provider_waiting_calls", figure(|health| health.waiting)),
            ("pes_provider_breaker_open", figure(|health| usize::from(health.breaker != BreakerState::Closed))),
        ]
    }
}
