//! The models and tools that a run can use.

use std::sync::Arc;

use super::{Result, Service, settings, threads};
use crate::domain::caller::Caller;
use crate::domain::ids::ThreadId;
use crate::domain::tool::ToolSpec;
use crate::engine::Toolbox;
use crate::provider;
use crate::provider::gate::Health;

pub use crate::provider::ModelInfo;

/// The models that runs may name, with the health of their providers.
pub fn models(service: &Service) -> Vec<ModelInfo> {
    let health = |info: ModelInfo| ModelInfo { health: service.runtime.provider_health(&info.provider), ..info };
    service.models.list().into_iter().map(health).collect()
}

/// All models, and whether each responds now. Each gets a short test call, with the keys of the caller's tenant.
pub async fn check_models(service: &Service, caller: &Caller) -> Vec<ModelInfo> {
    provider::check(&*service.models, &caller.tenant_name).await
}

/// The agent cores that a thread may have, the configured one first.
pub fn cores(service: &Service) -> Vec<String> {
    let chosen = &service.config.agent.core;
    let others = service.runtime.cores().into_iter().filter(|name| name != chosen);
    std::iter::once(chosen.clone()).chain(others).collect()
}

/// The gauges of the gated providers for `/metrics`: the name of each gauge, and its value per provider.
pub fn provider_figures(service: &Service) -> [(&'static str, Vec<(String, usize)>); 3] {
    let mut names: Vec<String> = service.models.list().into_iter().map(|info| info.provider).collect();
    names.sort();
    names.dedup();
    // A provider that was not called yet counts as healthy.
    let known: Vec<(&String, Option<Health>)> =
        names.iter().map(|name| (name, service.runtime.provider_health(name))).collect();
    let failing =
        names.iter().map(|name| (name.clone(), usize::from(service.runtime.is_provider_failing(name)))).collect();
    let figure = |of: fn(&Health) -> usize| {
        known.iter().map(|(name, health)| ((*name).clone(), health.as_ref().map_or(0, of))).collect()
    };
    [
        ("pes_provider_running_calls", figure(|health| health.running)),
        ("pes_provider_waiting_calls", figure(|health| health.waiting)),
        ("pes_provider_breaker_open", failing),
    ]
}

/// The tools that the caller's agents may call.
pub async fn tools(service: &Service, caller: &Caller) -> Vec<Arc<ToolSpec>> {
    service.tools.prepare(caller.tenant).await;
    service.tools.toolset(caller.tenant).specs()
}

/// The tools that the thread's active run may call, or those of its next run if none is active.
pub async fn tools_of(service: &Service, caller: &Caller, id: &ThreadId) -> Result<Vec<Arc<ToolSpec>>> {
    let row = threads::row(service, caller, id).await?;
    let thread = service.runtime.snapshot(row.pk).await?;
    let tools = service.tools.toolset(caller.tenant);
    Ok(match thread.run() {
        Some(run) => tools.offered(&run.settings),
        None => tools.offered(&settings::of_next_run(service, caller, &thread.row)?),
    })
}
