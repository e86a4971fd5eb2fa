//! Traces of runs for an OpenTelemetry collector.
//!
//! A commit in which a run comes to stand still, or ends, or has gone on for long, leaves a delivery in the outbox that names the
//! part of the log ([`Part`]); whoever claims it reads that part, [`Traces::spans`] projects it, and [`Traces::send`] sends what several
//! of them came to as OTLP. So a run that lasts
//! days, restarts and moves between processes is one trace. A delivery that is repeated sends the same spans under the same
//! ids. The process in which a run began need not read its log: it follows the run ([`FollowedRun`]), and comes to the same spans.
//! Requests are told as they are answered, beside all of that ([`requests`]). Without an endpoint nothing of this happens.

mod followed;
mod names;
mod otlp;
mod project;
mod requests;
mod settings;
mod span;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::{Deserialize, Serialize};

use crate::config::telemetry::{Content, Sampler, Telemetry};
use crate::domain::ids::RunId;
use crate::domain::run::Run;
use crate::domain::trace::{TraceOrigin, is_trace_id};
use crate::egress::{Bounds, Destination, Egress, Post};
pub use followed::FollowedRun;
use requests::Ring;
pub use requests::{Asked, RequestSpan};
use span::{Attributes, Span};

/// How much of an answer is read: nobody needs it.
const ANSWER: usize = 16 * 1024;

/// The part of a thread's log that a delivery stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Part {
    pub run_id: RunId,
    pub trace_id: String,
    /// The span of whoever asked for the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Before the commit, and after it.
    pub after: i64,
    pub until: i64,
    /// Spans that ended up to this seq were sent before, while their activation still went on.
    #[serde(default)]
    pub told: i64,
    /// The current activation has not ended: only those of its spans are sent that have.
    #[serde(default)]
    pub goes_on: bool,
}

/// What parts of logs say, as it is sent.
pub struct Spans(Vec<(otlp::TraceId, Span)>);

impl Spans {
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// About how large they are, as they are sent.
    pub fn bytes(&self) -> usize {
        self.0.iter().map(|(_, span)| span.bytes()).sum()
    }
}

/// What became of an attempt to send spans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sent {
    Taken,
    /// Another attempt may come to more.
    Failed(String),
    Refused(String),
}

pub struct Traces {
    to: Destination,
    headers: HeaderMap,
    resource: Attributes,
    sampler: Sampler,
    ratio: f64,
    with_content: bool,
    attempt: Duration,
    egress: Arc<Egress>,
    ring: Ring,
}

impl Traces {
    /// `None`: nobody wants them. The error says which setting is wrong, and how.
    pub fn new(config: &Telemetry, egress: Arc<Egress>) -> Result<Option<Self>, String> {
        let Some(url) = settings::url(config)? else { return Ok(None) };
        if !(0.0..=1.0).contains(&config.sampler_arg) {
            return Err(format!("telemetry.sampler_arg is {}: it is a share from 0 to 1", config.sampler_arg));
        }
        Ok(Some(Self {
            to: Destination::Operator(url),
            headers: settings::headers(config)?,
            resource: settings::resource(config)?,
            sampler: config.sampler,
            ratio: config.sampler_arg,
            with_content: config.content == Content::Spans,
            attempt: Duration::from_millis(config.timeout_ms),
            egress,
            ring: Ring::default(),
        }))
    }

    /// Whether spans hold what was said: then the log is needed with its payloads.
    pub fn has_content(&self) -> bool {
        self.with_content
    }

    /// The same, with flags that say whether the run is traced here: what the run calls reads them.
    pub fn marked(&self, trace_id: &str, origin: TraceOrigin) -> TraceOrigin {
        let sampled = u8::from(is_sampled(self.sampler, self.ratio, trace_id, &origin));
        let others = origin.flags.as_deref().and_then(flags_of).unwrap_or_default() & !1;
        TraceOrigin { flags: Some(format!("{:02x}", others | sampled)), ..origin }
    }

    /// What is to be sent of a run whose log grew so; `None`: it is not traced.
    pub fn part(&self, run: &Run, after: i64, until: i64) -> Option<Part> {
        is_sampled(self.sampler, self.ratio, &run.trace_id, &run.trace).then(|| Part {
            run_id: run.run_id.clone(),
            trace_id: run.trace_id.clone(),
            parent: run.trace.parent.clone(),
            after,
            until,
            told: 0,
            goes_on: false,
        })
    }

    /// Sends all of them together, and tries once.
    pub async fn send(&self, parts: &[Spans]) -> Sent {
        self.send_spans(parts.iter().flat_map(|part| &part.0), self.attempt).await
    }

    /// Each request may take so long.
    async fn send_spans<'s>(&self, spans: impl Iterator<Item = &'s (otlp::TraceId, Span)>, at_most: Duration) -> Sent {
        for request in otlp::requests(&self.resource, spans) {
            match self.post(request, at_most).await {
                Sent::Taken => {}
                failed => return failed,
            }
        }
        Sent::Taken
    }

    async fn post(&self, body: Vec<u8>, time: Duration) -> Sent {
        let mut headers = self.headers.clone();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        let bounds = Bounds { headers: time, stall: time, total: time, bytes: ANSWER };
        let post = Post { to: self.to.clone(), headers, body: Bytes::from(body), bounds };
        match self.egress.post(post).await {
            Ok(answer) => {
                let status = answer.status();
                answer.let_go(Duration::from_secs(1)).await;
                match status {
                    status if status.is_success() => Sent::Taken,
                    // What OTLP allows to be sent again.
                    StatusCode::TOO_MANY_REQUESTS
                    | StatusCode::BAD_GATEWAY
                    | StatusCode::SERVICE_UNAVAILABLE
                    | StatusCode::GATEWAY_TIMEOUT => Sent::Failed(status.to_string()),
                    status => Sent::Refused(status.to_string()),
                }
            }
            Err(error) => Sent::Failed(error.to_string()),
        }
    }
}

/// A pure function of the trace and of what the caller says of it, so that every process and every activation decides alike.
fn is_sampled(sampler: Sampler, ratio: f64, trace_id: &str, origin: &TraceOrigin) -> bool {
    let is_within = || {
        let last = trace_id.get(16..).and_then(|half| u64::from_str_radix(half, 16).ok()).unwrap_or_default();
        // As OpenTelemetry's own sampler by ratio: of the last eight bytes.
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
        flags_of(flags).map(|flags| flags & 1 == 1)
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

fn flags_of(text: &str) -> Option<u8> {
    u8::from_str_radix(text, 16).ok()
}

fn trace_bytes(trace_id: &str) -> Option<otlp::TraceId> {
    is_trace_id(trace_id).then(|| u128::from_str_radix(trace_id, 16).ok()).flatten().map(u128::to_be_bytes)
}

#[cfg(test)]
mod tests;
