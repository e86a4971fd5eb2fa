//! Numbers for Prometheus. No label names a tenant, a thread or a person.

use std::sync::OnceLock;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio_util::sync::CancellationToken;

const SECONDS: [f64; 10] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0];

/// One recorder per process, as `metrics` has it.
fn recorder() -> &'static PrometheusHandle {
    static RECORDER: OnceLock<PrometheusHandle> = OnceLock::new();
    RECORDER.get_or_init(|| {
        let recorder = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)
            .expect("the list of buckets is not empty")
            .build_recorder();
        let handle = recorder.handle();
        if metrics::set_global_recorder(recorder).is_err() {
            tracing::warn!("another metrics recorder is installed; /metrics shows this server's own numbers only");
        }
        handle
    })
}

/// Begins to count.
pub(crate) fn install() {
    recorder();
}

pub(crate) fn request(method: &Method, route: &str, status: StatusCode, took: Duration) {
    let (method, route, status) = (known(method), route.to_owned(), status.as_u16().to_string());
    metrics::histogram!("pes_http_request_seconds", "method" => method, "route" => route.clone())
        .record(took.as_secs_f64());
    metrics::counter!("pes_http_requests_total", "method" => method, "route" => route, "status" => status).increment(1);
}

/// Clients may invent methods; labels may not grow with them.
fn known(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        _ => "other",
    }
}

/// Every sample of a histogram is kept until it is counted into its bucket: they would pile up in a server that nobody
/// scrapes.
const FOLD: Duration = Duration::from_secs(5);

/// Counts samples into their buckets from time to time, until `closing`.
pub(super) async fn fold(closing: CancellationToken) {
    while closing.run_until_cancelled(tokio::time::sleep(FOLD)).await.is_some() {
        recorder().run_upkeep();
    }
}

/// The text of `/metrics`. Gauges that belong to one server, not to the process, stand at its end.
pub(crate) fn render(active_threads: usize, providers: &[(&str, Vec<(String, usize)>)]) -> String {
    let handle = recorder();
    handle.run_upkeep();
    let gauge =
        "# HELP pes_active_threads Threads with a live actor.\n# TYPE pes_active_threads gauge\npes_active_threads";
    let mut text = format!("{}{gauge} {active_threads}\n", handle.render());
    for (name, values) in providers.iter().filter(|(_, values)| !values.is_empty()) {
        text.push_str(&format!("# TYPE {name} gauge\n"));
        for (provider, value) in values {
            text.push_str(&format!("{name}{{provider=\"{provider}\"}} {value}\n"));
        }
    }
    text
}
