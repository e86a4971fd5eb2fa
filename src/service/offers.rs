//! The models and tools that a run can use.

use std::panic::resume_unwind;
use std::sync::Arc;

use super::{Result, Service, admission, settings, threads};
use crate::domain::caller::Caller;
use crate::domain::ids::ThreadId;
use crate::domain::tool::ToolSpec;
use crate::domain::usage::ModelUse;
use crate::engine::Toolbox;
use crate::provider::gate::Health;
use crate::provider::{self, CheckedModel};
use crate::runtime::stopping;

pub use crate::provider::ModelInfo;

/// The models that runs may name, with the health of their providers.
pub fn models(service: &Service) -> Vec<ModelInfo> {
    let health = |info: ModelInfo| ModelInfo { health: service.runtime.provider_health(&info.provider), ..info };
    service.models.list().into_iter().map(health).collect()
}

/// The run under which the usage of checks is counted.
const CHECK_RUN: &str = "check";

/// All models, and whether each responds now. Each gets a short test call, with the keys of the caller's tenant, within the
/// limits on calls to its provider. The calls count like those of runs; at a cap on spending none is made.
pub async fn check_models(service: &Service, caller: &Caller) -> Result<Vec<ModelInfo>> {
    service.runtime.accepting()?;
    admission::check_reached_caps(service, caller.into()).await?;
    // In a task of its own, so that the calls count although the client disconnects.
    let (cloned, caller) = (service.clone(), caller.clone());
    let checked = service.runtime.spawn_until_halt(async move { check_and_count(&cloned, &caller).await });
    let checked = checked.await.unwrap_or_else(|error| resume_unwind(error.into_panic()));
    checked.ok_or_else(stopping)
}

async fn check_and_count(service: &Service, caller: &Caller) -> Vec<ModelInfo> {
    let acquire = move |provider: String| async move { service.runtime.acquire_call(caller.tenant, &provider).await };
    let checked = provider::check(&*service.models, &caller.tenant_name, acquire).await;
    let took = |model: &CheckedModel| {
        let (usage, info) = (model.usage.clone()?, &model.info);
        let cost_nanos = service.runtime.price(&info.provider, &info.model).map(|price| price.of(&usage));
        let (provider, model) = (info.provider.clone(), info.model.clone());
        Some(ModelUse { run: CHECK_RUN.into(), item: None, provider, model, usage, cost_nanos })
    };
    let took = checked.iter().filter_map(took).collect();
    if let Err(error) = service.runtime.count_calls(caller.tenant, &caller.name, took).await {
        // The calls are paid for. Without their results the client would check again, and pay again.
        for CheckedModel { info, usage } in &checked {
            let (tenant, provider, model) = (&caller.tenant_name, &info.provider, &info.model);
            tracing::error!(%error, tenant, provider, model, ?usage, "the usage of a check of a model was not stored");
        }
    }
    checked.into_iter().map(|model| model.info).collect()
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
    service.tools.toolset(caller.tenant).await.specs()
}

/// The tools that the thread's active run may call, or those of its next run if none is active.
pub async fn tools_of(service: &Service, caller: &Caller, id: &ThreadId) -> Result<Vec<Arc<ToolSpec>>> {
    let row = threads::row(service, caller, id).await?;
    let thread = service.runtime.snapshot(row.pk).await?;
    let tools = service.tools.toolset(caller.tenant).await;
    Ok(match thread.run() {
        Some(run) => tools.offered(&run.settings),
        None => tools.offered(&settings::of_next_run(service, caller, &thread.row)?),
    })
}
