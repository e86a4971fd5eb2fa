//! The webhook deliveries that a commit's records cause.

use serde::Serialize;
use serde_json::Value;

use super::WebhookDirectory;
use crate::domain::Millis;
use crate::domain::console_urls::ConsoleUrls;
use crate::domain::facts::{Fact, RunFinishedBody};
use crate::domain::hitl::{AskedQuestion, Decision, ExpiryPolicy, RiskLevel, SuspensionKind};
use crate::domain::ids::{CallId, Mint, RunId, SuspensionId, TenantPk, ThreadId};
use crate::domain::observation::Record;
use crate::domain::run::{ResultStatus, Run, RunStatus};
use crate::domain::webhook::WebhookEvent;
use crate::store::outbox::{NewDelivery, TargetKind};

/// The data of a webhook event. It has no members for arguments and answers: they are read over the API, with a key. But the
/// text of a question may repeat them.
#[derive(Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
enum EventDetails<'a> {
    Question {
        suspension_id: &'a SuspensionId,
        kind: SuspensionKind,
        #[serde(skip_serializing_if = "Option::is_none")]
        call_id: Option<&'a CallId>,
        #[serde(skip_serializing_if = "Option::is_none")]
        tool_name: Option<&'a str>,
        message: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        risk_level: Option<RiskLevel>,
        #[serde(skip_serializing_if = "Option::is_none")]
        expires_at: Option<Millis>,
    },
    Resolution {
        suspension_id: &'a SuspensionId,
        decision: Decision,
        #[serde(skip_serializing_if = "Option::is_none")]
        decided_by: Option<&'a str>,
    },
    End {
        status: RunStatus,
        #[serde(skip_serializing_if = "Option::is_none")]
        result_status: Option<ResultStatus>,
        total_duration_ms: i64,
        llm_calls: u32,
        tool_calls: u32,
    },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EventData<'a> {
    thread_id: &'a ThreadId,
    run_id: &'a RunId,
    trace_id: &'a str,
    /// The flags of the run's trace, for the delivery's own `traceparent`.
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_flags: Option<&'a str>,
    /// Where a person can look at the run, or answer the question.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    /// Why the run failed, or ended early.
    #[serde(skip_serializing_if = "Option::is_none")]
    error_code: Option<&'a str>,
    #[serde(flatten)]
    details: EventDetails<'a>,
}

impl WebhookDirectory {
    /// The deliveries that a commit with these records puts into the outbox: one per record and subscribed webhook. `runs` are
    /// those of the records.
    pub fn announce<'r>(
        &self,
        (tenant, thread): (TenantPk, &ThreadId),
        records: &[Record],
        runs: impl Iterator<Item = &'r Run> + Clone,
        mint: impl FnOnce() -> Mint,
        urls: Option<&ConsoleUrls>,
    ) -> Vec<NewDelivery> {
        let subscribed = |record| {
            let (event, details) = event_of(record)?;
            let subscribers = self.subscribers(tenant, event);
            (!subscribers.is_empty()).then_some((record, event, details, subscribers))
        };
        let events: Vec<_> = records.iter().filter_map(subscribed).collect();
        if events.is_empty() {
            return Vec::new();
        }
        let (mut mint, mut deliveries) = (mint(), Vec::new());
        for (record, event, details, subscribers) in events {
            let run = runs.clone().find(|run| run.run_id == record.run_id);
            let trace_flags = run.and_then(|run| run.trace.flags.as_deref());
            let url = urls.map(|urls| url_of(urls, thread, record, &details));
            let (run_id, trace_id) = (&record.run_id, record.trace_id.as_str());
            let ended = run.filter(|_| matches!(details, EventDetails::End { .. }));
            let error_code = ended.and_then(|run| Some(run.outcome.as_ref()?.error.as_ref()?.code.as_str()));
            let data = EventData { thread_id: thread, run_id, trace_id, trace_flags, url, error_code, details };
            deliveries.extend(deliveries_to(&subscribers, event, data, record.timestamp, &mut mint));
        }
        deliveries
    }
}

/// The data of a `spend.threshold` event.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SpendThreshold<'a> {
    pub percent: i64,
    /// A [`SpentOfCap`](crate::domain::spend::SpentOfCap) as JSON.
    #[serde(flatten)]
    pub spent: &'a Value,
}

/// An event as it is sent.
#[derive(Serialize)]
struct EventBody<D> {
    #[serde(rename = "type")]
    kind: &'static str,
    timestamp: Option<String>,
    data: D,
}

/// The deliveries of an event to its [`subscribers`](WebhookDirectory::subscribers).
pub fn deliveries_to(
    subscribers: &[String],
    event: WebhookEvent,
    data: impl Serialize,
    at: Millis,
    mint: &mut Mint,
) -> Vec<NewDelivery> {
    if subscribers.is_empty() {
        return Vec::new();
    }
    let body = EventBody { kind: event.as_str(), timestamp: iso_8601(at), data };
    let body = serde_json::to_string(&body).expect("an event is plain data");
    let delivery = |webhook: &String| NewDelivery {
        id: mint.delivery(),
        kind: TargetKind::Webhook,
        target: webhook.clone(),
        ordering_key: None,
        event: event.as_str().to_owned(),
        body: body.clone(),
    };
    subscribers.iter().map(delivery).collect()
}

fn url_of(urls: &ConsoleUrls, thread: &ThreadId, record: &Record, details: &EventDetails<'_>) -> String {
    match details {
        EventDetails::Question { suspension_id, .. } => urls.question(suspension_id),
        EventDetails::Resolution { .. } | EventDetails::End { .. } => urls.run(thread, &record.run_id),
    }
}

/// The time format of Standard Webhooks.
fn iso_8601(at: Millis) -> Option<String> {
    jiff::Timestamp::from_millisecond(at).ok().map(|at| at.to_string())
}

/// The webhook event that a record causes, if any.
fn event_of(record: &Record) -> Option<(WebhookEvent, EventDetails<'_>)> {
    match &record.fact {
        Fact::RunFinished(body) => {
            let is_failed = body.status == RunStatus::Failed;
            let event = if is_failed { WebhookEvent::RunFailed } else { WebhookEvent::RunFinished };
            Some((event, end_details(body)))
        }
        Fact::AgentSuspended(body) => Some((WebhookEvent::SuspensionRequested, question_details(body))),
        Fact::AgentResumed(body) => {
            let decided_by = Some(body.decided_by.as_str());
            let (suspension_id, decision) = (&body.suspension_id, body.decision);
            Some((WebhookEvent::SuspensionResolved, EventDetails::Resolution { suspension_id, decision, decided_by }))
        }
        Fact::SuspensionTimeout(body) => match body.policy {
            // The webhook got the request already, and the question is still open.
            ExpiryPolicy::Remind => None,
            ExpiryPolicy::Deny | ExpiryPolicy::Fail => {
                let (suspension_id, decision) = (&body.suspension_id, Decision::Expired);
                let details = EventDetails::Resolution { suspension_id, decision, decided_by: None };
                Some((WebhookEvent::SuspensionResolved, details))
            }
        },
        Fact::RunStarted(_)
        | Fact::Intent(_)
        | Fact::Title(_)
        | Fact::Plan(_)
        | Fact::PlanUpdate(_)
        | Fact::ItemStatusChange(_)
        | Fact::LlmStreamStart(_)
        | Fact::LlmStreamMetadata(_)
        | Fact::LlmStreamEnd(_)
        | Fact::LlmStreamError(_)
        | Fact::Thoughts(_)
        | Fact::ToolCall(_)
        | Fact::ToolExecution(_)
        | Fact::A2aTask(_)
        | Fact::StateUpdate(_)
        | Fact::Synthesis(_)
        | Fact::FinalResponse(_)
        | Fact::Error(_) => None,
    }
}

fn question_details(body: &AskedQuestion) -> EventDetails<'_> {
    EventDetails::Question {
        suspension_id: &body.suspension_id,
        kind: body.kind,
        call_id: body.call_id.as_ref(),
        tool_name: body.tool_name.as_deref(),
        message: &body.message,
        risk_level: body.risk_level,
        expires_at: body.expires_at,
    }
}

fn end_details(body: &RunFinishedBody) -> EventDetails<'_> {
    EventDetails::End {
        status: body.status,
        result_status: body.result_status,
        total_duration_ms: body.total_duration_ms,
        llm_calls: body.llm_calls,
        tool_calls: body.tool_calls,
    }
}
