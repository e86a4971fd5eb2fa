//! Values that are looked up when `/metrics` is requested.

use super::{MetricValue, process};
use crate::domain::Millis;
use crate::domain::hitl::SuspensionKind;
use crate::domain::run::RunStatus;
use crate::http::app_state::AppState;
use crate::service::readiness::{self, Check};
use crate::service::{figures, offers, schedules};
use crate::store::{Figures, Pooled, Size};

/// The statuses of runs that have not ended.
const OPEN: [RunStatus; 4] = [RunStatus::Queued, RunStatus::Running, RunStatus::Waiting, RunStatus::Suspended];
/// The label value for a tenant's own servers.
const TENANT: &str = "tenant";

/// The looked-up values of `/metrics`, family by family.
pub(crate) async fn values(app: &AppState) -> Vec<MetricValue> {
    let service = &app.service;
    let build = vec![("version", env!("CARGO_PKG_VERSION").to_owned()), ("store", figures::store(service).to_owned())];
    let tokio = tokio::runtime::Handle::current().metrics();
    let mut values: Vec<MetricValue> = vec![
        ("pes_build_info", build, 1.0),
        ("pes_active_threads", Vec::new(), service.active_threads() as f64),
        ("pes_tokio_alive_tasks", Vec::new(), tokio.num_alive_tasks() as f64),
        ("pes_tokio_global_queue_depth", Vec::new(), tokio.global_queue_depth() as f64),
    ];
    for (name, providers) in offers::provider_figures(service) {
        values.extend(providers.into_iter().map(|(provider, of)| (name, vec![("provider", provider)], of as f64)));
    }
    for (name, mut servers) in figures::mcp(service) {
        if servers.is_empty() {
            servers.push((TENANT.to_owned(), 0));
        }
        values.extend(servers.into_iter().map(|(server, of)| (name, vec![("server", server)], of as f64)));
    }
    values.extend(pooled(&figures::pools(service)));
    let (checks, figures) = tokio::join!(readiness::checks(service), figures::read(service));
    let is_leaving = app.leaving.is_cancelled();
    values.extend(checks.into_iter().map(|Check { name, failure }| {
        let is_well = failure.is_none() && !(name == "draining" && is_leaving);
        ("pes_ready", vec![("check", name.to_owned())], f64::from(u8::from(is_well)))
    }));
    if let Some(figures) = figures {
        values.extend(open(&figures, service.now(), service.wall()));
        values.extend(stored(&figures.size));
        values.push(("pes_schedule_lag_seconds", Vec::new(), schedules::lag(service, &figures) as f64 / 1_000.0));
        let used = figures::used_of_caps(service, &figures).into_iter();
        values.extend(used.map(|(cap, of)| ("pes_spend_cap_used_ratio", vec![("cap", cap.as_str().to_owned())], of)));
    }
    values.extend(process::values());
    values
}

fn pooled(pools: &[Pooled]) -> Vec<MetricValue> {
    let state = |of: &Pooled, state: &str| vec![("pool", of.pool.to_owned()), ("state", state.to_owned())];
    let connections = pools.iter().flat_map(|of| {
        [("busy", of.busy), ("idle", of.idle)]
            .map(|(word, count)| ("pes_store_pool_connections", state(of, word), f64::from(count)))
    });
    let limits =
        pools.iter().map(|of| ("pes_store_pool_limit", vec![("pool", of.pool.to_owned())], f64::from(of.limit)));
    connections.chain(limits).collect()
}

fn open(figures: &Figures, now: Millis, wall: Millis) -> Vec<MetricValue> {
    let age = |since: Option<Millis>| since.map_or(0.0, |since| (now - since).max(0) as f64 / 1000.0);
    let runs = OPEN.iter().map(|status| {
        let of = figures.runs.iter().find(|(known, _)| known == status).map_or(0, |(_, count)| *count);
        ("pes_runs", vec![("status", status.as_str().to_owned())], of as f64)
    });
    let question = |kind: SuspensionKind| figures.questions.iter().find(|of| of.kind == kind);
    let label = |kind: SuspensionKind| vec![("kind", kind.as_str().to_owned())];
    let counts = SuspensionKind::ALL
        .iter()
        .map(|kind| ("pes_suspensions_open", label(*kind), question(*kind).map_or(0, |of| of.count) as f64));
    let ages = SuspensionKind::ALL
        .iter()
        .map(|kind| ("pes_suspension_oldest_seconds", label(*kind), age(question(*kind).map(|of| of.since))));
    let threads = &figures.threads;
    let plain = [
        ("pes_run_no_progress_seconds", age(threads.running_since)),
        ("pes_threads_overdue", threads.due as f64),
        ("pes_thread_overdue_seconds", age(threads.due_since)),
        ("pes_auth_key_expiry_seconds", figures.next_key_end.map_or(f64::INFINITY, |end| (end - wall) as f64 / 1000.0)),
        ("pes_outbox_waiting", figures.deliveries as f64),
        ("pes_outbox_oldest_due_seconds", age(figures.oldest_due)),
    ];
    runs.chain(counts).chain(ages).chain(plain.map(|(name, value)| (name, Vec::new(), value))).collect()
}

fn stored(size: &Size) -> Vec<MetricValue> {
    let table = |(table, bytes): &(String, u64)| ("pes_store_bytes", vec![("table", table.clone())], *bytes as f64);
    let free = size.free.map(|bytes| ("pes_store_free_bytes", Vec::new(), bytes as f64));
    let wal = size.wal.map(|bytes| ("pes_store_wal_bytes", Vec::new(), bytes as f64));
    size.tables.iter().map(table).chain(free).chain(wal).collect()
}
