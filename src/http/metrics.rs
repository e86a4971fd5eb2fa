//! Metrics for Prometheus. No label names a tenant, a thread or a person.

use std::sync::OnceLock;
use std::time::Duration;

use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio_util::sync::CancellationToken;

use super::accept::wants_events;
use super::events::route::asks_for_socket;
use super::prefer;
use crate::config::Config;

mod families;
mod known_labels;
mod look_up;
mod process;

pub(crate) use look_up::values;

#[cfg(feature = "internals")]
pub use families::{COUNTED, Family, Kind, LOOKED_UP};

const SECONDS: [f64; 10] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0];
const COMMIT_SECONDS: [f64; 10] = [0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.2, 0.5, 2.0];
const CALL_SECONDS: [f64; 10] = [0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0];
const RUN_SECONDS: [f64; 9] = [0.1, 1.0, 5.0, 15.0, 60.0, 300.0, 1_800.0, 7_200.0, 86_400.0];
const WAIT_SECONDS: [f64; 9] = [1.0, 10.0, 60.0, 300.0, 1_800.0, 3_600.0, 14_400.0, 86_400.0, 604_800.0];
const COMMITS: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 64.0, 256.0, 512.0];

/// The buckets of families whose values are not in the default range.
const BUCKETS: [(&str, &[f64]); 7] = [
    ("pes_suspension_wait_seconds", &WAIT_SECONDS),
    ("pes_store_commit_duration_seconds", &COMMIT_SECONDS),
    ("pes_store_commit_batch_size", &COMMITS),
    ("pes_model_call_duration_seconds", &CALL_SECONDS),
    ("pes_model_first_token_seconds", &CALL_SECONDS),
    ("pes_run_duration_seconds", &RUN_SECONDS),
    ("pes_run_queue_wait_seconds", &RUN_SECONDS),
];

/// Counters hold integers, so this one counts billionths.
const COST_PREFIX: &str = "pes_model_cost_usd_total{";

/// One recorder per process, as the crate `metrics` requires.
fn recorder() -> &'static PrometheusHandle {
    static RECORDER: OnceLock<PrometheusHandle> = OnceLock::new();
    RECORDER.get_or_init(|| {
        let named = BUCKETS.map(|(name, buckets)| (Matcher::Full(name.to_owned()), buckets));
        let all = (Matcher::Suffix("_seconds".to_owned()), &SECONDS[..]);
        let builder = std::iter::once(all).chain(named).fold(PrometheusBuilder::new(), |builder, (of, buckets)| {
            builder.set_buckets_for_metric(of, buckets).expect("the list of buckets is not empty")
        });
        let recorder = builder.build_recorder();
        let handle = recorder.handle();
        if metrics::set_global_recorder(recorder).is_err() {
            tracing::warn!("another metrics recorder is installed; /metrics shows this server's own numbers only");
        }
        families::describe();
        handle
    })
}

/// Starts counting: from now on every family exists, at zero. Earlier values are not counted, so this is called before
/// anything is opened.
pub(crate) fn install(config: &Config) {
    recorder();
    known_labels::initialise_at_zero(config);
}

/// Counts a request. `took` is `None` if the caller wanted to wait.
pub(crate) fn request(method: &Method, route: &str, status: StatusCode, took: Option<Duration>) {
    let (method, route, status) = (method_label(method), route.to_owned(), status.as_u16().to_string());
    if let Some(took) = took {
        metrics::histogram!("pes_http_request_duration_seconds", "method" => method, "route" => route.clone())
            .record(took.as_secs_f64());
    }
    metrics::counter!("pes_http_requests_total", "method" => method, "route" => route, "status" => status).increment(1);
}

/// Whether a request is expected to stay open: for events, or for a run.
pub(crate) fn is_patient(headers: &HeaderMap) -> bool {
    wants_events(headers) || asks_for_socket(headers) || prefer::wait(headers).is_some()
}

/// Marks a response that was delayed until a run ended or was suspended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitedForRun;

/// Whether the response's duration depends on a run and says nothing about this server.
pub(crate) fn is_run_response(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("text/event-stream"))
        || response.extensions().get::<WaitedForRun>().is_some()
}

/// Counts a request as in flight until it is dropped.
pub(crate) struct InFlight;

impl InFlight {
    pub(crate) fn begin() -> Self {
        metrics::gauge!("pes_http_in_flight").increment(1.0);
        Self
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        metrics::gauge!("pes_http_in_flight").decrement(1.0);
    }
}

/// Counts an event stream as open until it is dropped.
pub(crate) struct OpenStream(&'static str);

impl OpenStream {
    pub(crate) fn begin(kind: &'static str) -> Self {
        metrics::gauge!("pes_sockets_open", "kind" => kind).increment(1.0);
        Self(kind)
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        metrics::gauge!("pes_sockets_open", "kind" => self.0).decrement(1.0);
    }
}

/// Counts an event stream that has fallen behind.
pub(crate) fn gap() {
    metrics::counter!("pes_socket_gaps_total").increment(1);
}

/// Clients may invent methods, which must not add label values.
pub(super) fn method_label(method: &Method) -> &'static str {
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

/// The exporter keeps every histogram sample until upkeep counts it into its bucket. Without this the samples would
/// pile up in a server that nobody scrapes.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// Runs the recorder's upkeep at this interval, until `closing`.
pub(super) async fn run_upkeep(closing: CancellationToken) {
    while closing.run_until_cancelled(tokio::time::sleep(UPKEEP_INTERVAL)).await.is_some() {
        recorder().run_upkeep();
    }
}

/// A looked-up value of a family, with its labels.
pub(crate) type MetricValue = (&'static str, Vec<(&'static str, String)>, f64);

/// The text of `/metrics`: this process's counters, then the looked-up values.
pub(crate) fn render(values: &[MetricValue]) -> String {
    let handle = recorder();
    handle.run_upkeep();
    let mut text: String = handle.render().lines().map(|line| in_dollars(line) + "\n").collect();
    let mut last = "";
    for (name, labels, value) in values {
        if *name != last {
            let (kind, help) = families::head(name);
            text.push_str(&format!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
            last = name;
        }
        let labels: Vec<String> = labels.iter().map(|(label, of)| format!("{label}=\"{of}\"")).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let value = if value.is_infinite() { "+Inf".to_owned() } else { value.to_string() };
        text.push_str(&format!("{name}{labels} {value}\n"));
    }
    text
}

fn in_dollars(line: &str) -> String {
    let cost = line.strip_prefix(COST_PREFIX).and_then(|rest| rest.rsplit_once(' '));
    match cost.and_then(|(labels, billionths)| Some((labels, billionths.parse::<f64>().ok()?))) {
        Some((labels, billionths)) => format!("{COST_PREFIX}{labels} {}", billionths / 1e9),
        None => line.to_owned(),
    }
}
