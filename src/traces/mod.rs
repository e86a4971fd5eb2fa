//! Traces of runs for an OpenTelemetry collector.
//!
//! When a commit suspends or ends a run, and every so often during a long run, it puts a delivery into the outbox that names
//! a range of the log ([`LogRange`]). The process that claims it reads that range, [`Traces::spans`] turns it into spans, and
//! [`Traces::send`] sends the spans of several deliveries as OTLP. So a run that lasts days, restarts and moves between
//! processes is one trace. A repeated delivery sends the same spans under the same ids. The process in which a run began
//! need not read its log: it follows the run ([`FollowedRun`]) and gets the same spans. Requests are exported separately,
//! as they are answered ([`requests`]). Without an endpoint nothing of this happens.

mod followed;
mod names;
mod otlp;
mod partial_success;
mod project;
mod requests;
mod settings;
mod span;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde::{Deserialize, Serialize};

use crate::config::telemetry::{Content, Sampler, Telemetry};
use crate::domain::hex;
use crate::domain::ids::RunId;
use crate::domain::run::Run;
use crate::domain::trace::{TraceOrigin, is_trace_id};
use crate::egress::{Bounds, Destination, Egress, OutgoingRequest};
pub use followed::FollowedRun;
use partial_success::PartialSuccess;
pub use project::{is_no_work, needs_texts};
use requests::Ring;
pub use requests::{RequestInfo, RequestSpan};
use span::{Attributes, Span};

/// Bounds how much of an answer is read, and for how long.
const MAX_ANSWER_BYTES: usize = 16 * 1024;
const ANSWER_PATIENCE: Duration = Duration::from_secs(1);

/// A range of a thread's log. A delivery asks to export the spans of one run in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogRange {
    pub run_id: RunId,
    pub trace_id: String,
    /// The caller's span.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The last seq of the activation before this one; 0: this is the first.
    pub after: i64,
    /// The number of the activation, from 1.
    pub activation: i64,
    /// The last seq of the commit.
    pub until: i64,
    /// Spans that ended up to this seq were exported before.
    #[serde(default, rename = "told")]
    pub exported_until: i64,
    /// The activation has not ended: only those of its spans are exported that have.
    #[serde(default, rename = "goesOn")]
    pub is_open: bool,
}

/// Spans, ready to be exported.
pub struct Spans(Vec<(otlp::TraceId, Span)>);

impl Spans {
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// About how large they are when exported.
    pub fn bytes(&self) -> usize {
        self.0.iter().map(|(_, span)| span.bytes()).sum()
    }
}

/// How an attempt to export spans ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExportResult {
    /// The collector took the spans, without this many of them, which it rejects for good.
    Accepted { rejected: usize },
    /// Another attempt may succeed.
    Failed(String),
    /// The collector rejects these spans for good.
    Rejected(String),
}

pub struct Traces {
    to: Destination,
    headers: HeaderMap,
    resource: Attributes,
    sampler: Sampler,
    ratio: f64,
    with_content: bool,
    attempt_timeout: Duration,
    egress: Arc<Egress>,
    ring: Ring,
}

impl Traces {
    /// `None`: no collector is configured. The error says which setting is wrong, and how. `instance` tells the spans of
    /// this process from those of others.
    pub fn new(config: &Telemetry, instance: &str, egress: Arc<Egress>) -> Result<Option<Self>, String> {
        let Some(url) = settings::url(config)? else { return Ok(None) };
        if !(0.0..=1.0).contains(&config.sampler_arg) {
            return Err(format!("telemetry.sampler_arg is {}: it is a share from 0 to 1", config.sampler_arg));
        }
        Ok(Some(Self {
            to: Destination::Operator(url),
            headers: settings::headers(config)?,
            resource: settings::resource(config, instance)?,
            sampler: config.sampler,
            ratio: config.sampler_arg,
            with_content: config.content == Content::Spans,
            attempt_timeout: Duration::from_millis(config.timeout_ms),
            egress,
            ring: Ring::default(),
        }))
    }

    /// Whether spans contain texts of people, models and tools. Then they need the log with its payloads.
    pub fn has_content(&self) -> bool {
        self.with_content
    }

    fn is_sampled(&self, trace_id: &str, origin: &TraceOrigin) -> bool {
        is_sampled(self.sampler, self.ratio, trace_id, origin)
    }

    /// Sets the sampled flag of `origin` to whether the run is traced here. The run passes the flags on to what it calls.
    pub fn with_sampled_flag(&self, trace_id: &str, origin: TraceOrigin) -> TraceOrigin {
        let sampled = u8::from(self.is_sampled(trace_id, &origin));
        let others = origin.flags.as_deref().and_then(parse_flags).unwrap_or_default() & !1;
        TraceOrigin { flags: Some(format!("{:02x}", others | sampled)), ..origin }
    }

    /// The range to export for a run of which nothing was exported yet, and whose log ends at `until`; `None`: the run is not
    /// traced.
    pub fn log_range(&self, run: &Run, until: i64) -> Option<LogRange> {
        self.is_sampled(&run.trace_id, &run.trace).then(|| LogRange {
            run_id: run.run_id.clone(),
            trace_id: run.trace_id.clone(),
            parent: run.trace.parent.clone(),
            after: 0,
            activation: 1,
            until,
            exported_until: 0,
            is_open: false,
        })
    }

    /// Sends all of them together, in one attempt.
    pub async fn send(&self, groups: &[Spans]) -> ExportResult {
        self.send_spans(groups.iter().flat_map(|spans| &spans.0), self.attempt_timeout).await
    }

    /// `timeout` bounds each request.
    async fn send_spans<'s>(
        &self,
        spans: impl Iterator<Item = &'s (otlp::TraceId, Span)>,
        timeout: Duration,
    ) -> ExportResult {
        let mut all_rejected = 0;
        for request in otlp::requests(&self.resource, spans) {
            match self.post(request, timeout).await {
                ExportResult::Accepted { rejected } => all_rejected = rejected.saturating_add(all_rejected),
                failed @ (ExportResult::Failed(_) | ExportResult::Rejected(_)) => return failed,
            }
        }
        ExportResult::Accepted { rejected: all_rejected }
    }

    async fn post(&self, body: Vec<u8>, timeout: Duration) -> ExportResult {
        let mut headers = self.headers.clone();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        let bounds = Bounds { headers: timeout, stall: timeout, total: timeout, bytes: MAX_ANSWER_BYTES };
        let request =
            OutgoingRequest { method: Method::POST, to: self.to.clone(), headers, body: Bytes::from(body), bounds };
        match self.egress.send(request).await {
            Ok(mut answer) => {
                let status = answer.status();
                // Reading it to its end also lets the connection be used again.
                let body = tokio::time::timeout(ANSWER_PATIENCE, answer.read_up_to(MAX_ANSWER_BYTES)).await;
                match status {
                    status if status.is_success() => accepted(answer.headers(), &body.unwrap_or_default()),
                    // The statuses after which OTLP allows a retry.
                    StatusCode::TOO_MANY_REQUESTS
                    | StatusCode::BAD_GATEWAY
                    | StatusCode::SERVICE_UNAVAILABLE
                    | StatusCode::GATEWAY_TIMEOUT => ExportResult::Failed(status.to_string()),
                    status => ExportResult::Rejected(status.to_string()),
                }
            }
            Err(error) => ExportResult::Failed(error.to_string()),
        }
    }
}

/// What a collector accepted, by its response.
fn accepted(headers: &HeaderMap, body: &[u8]) -> ExportResult {
    let media_type = headers.get(CONTENT_TYPE).and_then(|of| of.to_str().ok()).unwrap_or_default();
    if !media_type.starts_with("application/x-protobuf") {
        return ExportResult::Accepted { rejected: 0 };
    }
    let PartialSuccess { rejected, why } = PartialSuccess::read(body);
    if rejected > 0 {
        tracing::warn!(rejected, why, "the collector did not take all spans of a request");
    } else if !why.is_empty() {
        tracing::warn!(why, "the collector took all spans of a request, with a warning");
    }
    ExportResult::Accepted { rejected: usize::try_from(rejected).unwrap_or(usize::MAX) }
}

/// Counts spans whose export has this outcome.
pub(crate) fn count_spans(outcome: &'static str, spans: usize) {
    metrics::counter!("pes_telemetry_spans_total", "outcome" => outcome).increment(spans as u64);
}

/// A pure function of the trace and of the caller's flags, so that every process and every activation decides alike.
fn is_sampled(sampler: Sampler, ratio: f64, trace_id: &str, origin: &TraceOrigin) -> bool {
    let is_within = || {
        let last = trace_id.get(16..).and_then(|half| u64::from_str_radix(half, 16).ok()).unwrap_or_default();
        // Like OpenTelemetry's own sampler by ratio, which uses the last eight bytes.
        #[allow(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share is from 0 to 1, and not exact to the last bit"
        )]
        let bound = (ratio * (1_u64 << 63) as f64) as u64;
        last >> 1 < bound
    };
    let parent = || {
        let flags = origin.flags.as_deref().filter(|_| origin.parent.is_some())?;
        parse_flags(flags).map(|flags| flags & 1 == 1)
    };
    is_trace_id(trace_id)
        && match sampler {
            Sampler::AlwaysOn => true,
            Sampler::AlwaysOff => false,
            Sampler::TraceIdRatio => is_within(),
            Sampler::ParentbasedAlwaysOn => parent().unwrap_or(true),
            Sampler::ParentbasedAlwaysOff => parent().unwrap_or(false),
            Sampler::ParentbasedTraceIdRatio => parent().unwrap_or_else(is_within),
        }
}

fn parse_flags(text: &str) -> Option<u8> {
    match hex::read(text)?[..] {
        [flags] => Some(flags),
        _ => None,
    }
}

fn parse_trace_id(trace_id: &str) -> Option<otlp::TraceId> {
    is_trace_id(trace_id).then(|| u128::from_str_radix(trace_id, 16).ok()).flatten().map(u128::to_be_bytes)
}

#[cfg(test)]
mod tests;
