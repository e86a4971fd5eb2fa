//! What a commit's records mean to those outside.

use serde_json::{Map, Value, json};

use super::Directory;
use crate::domain::Millis;
use crate::domain::ids::{Mint, TenantPk, ThreadId};
use crate::domain::observation::{ObservationType, Record};
use crate::domain::webhook::WebhookEvent;
use crate::store::outbox::{NewDelivery, TargetKind};

/// What of a question is told. Arguments and answers are not: whoever may see them asks the API.
const QUESTION: [&str; 7] = ["suspensionId", "kind", "callId", "toolName", "message", "riskLevel", "expiresAt"];
const RESOLUTION: [&str; 3] = ["suspensionId", "decision", "decidedBy"];
const END: [&str; 5] = ["status", "resultStatus", "totalDurationMs", "llmCalls", "toolCalls"];

impl Directory {
    /// The deliveries that a commit with these records leaves in the outbox: one for each webhook that wants to know.
    pub fn announce(
        &self,
        tenant: TenantPk,
        thread: &ThreadId,
        records: &[Record],
        mint: &mut Mint,
    ) -> Vec<NewDelivery> {
        let events: Vec<_> = records.iter().filter_map(|record| Some((record, event(record)?))).collect();
        if events.is_empty() {
            return Vec::new();
        }
        let webhooks = self.of(tenant);
        let mut deliveries = Vec::new();
        for (record, (event, told)) in events {
            let body = body(thread, record, event, told);
            for webhook in webhooks.iter().filter(|webhook| webhook.events.contains(&event)) {
                deliveries.push(NewDelivery {
                    id: mint.delivery(),
                    kind: TargetKind::Webhook,
                    target: webhook.id.clone(),
                    ordering_key: None,
                    event: event.as_str().to_owned(),
                    body: body.to_string(),
                });
            }
        }
        deliveries
    }
}

fn body(thread: &ThreadId, record: &Record, event: WebhookEvent, told: Map<String, Value>) -> Value {
    let mut data = Map::from_iter([
        ("threadId".to_owned(), thread.as_str().into()),
        ("runId".to_owned(), record.run_id.as_str().into()),
        ("traceId".to_owned(), record.trace_id.as_str().into()),
    ]);
    data.extend(told);
    json!({ "type": event.as_str(), "timestamp": written(record.timestamp), "data": data })
}

/// As Standard Webhooks have it: ISO 8601.
fn written(at: Millis) -> Option<String> {
    jiff::Timestamp::from_millisecond(at).ok().map(|at| at.to_string())
}

/// What those outside may want to know of a record, if it is something.
fn event(record: &Record) -> Option<(WebhookEvent, Map<String, Value>)> {
    let content = &record.content;
    match record.kind {
        ObservationType::RunFinished if content["status"] == "failed" => {
            Some((WebhookEvent::RunFailed, only(content, &END)))
        }
        ObservationType::RunFinished => Some((WebhookEvent::RunFinished, only(content, &END))),
        ObservationType::AgentSuspended => Some((WebhookEvent::SuspensionRequested, only(content, &QUESTION))),
        ObservationType::AgentResumed => Some((WebhookEvent::SuspensionResolved, only(content, &RESOLUTION))),
        // Whoever is reminded was told already, and still has time.
        ObservationType::SuspensionTimeout if content["policy"] == "remind" => None,
        ObservationType::SuspensionTimeout => {
            let mut told = only(content, &RESOLUTION);
            told.insert("decision".to_owned(), "expired".into());
            Some((WebhookEvent::SuspensionResolved, told))
        }
        ObservationType::RunStarted
        | ObservationType::Intent
        | ObservationType::Title
        | ObservationType::Plan
        | ObservationType::PlanUpdate
        | ObservationType::ItemStatusChange
        | ObservationType::LlmStreamStart
        | ObservationType::LlmStreamMetadata
        | ObservationType::LlmStreamEnd
        | ObservationType::LlmStreamError
        | ObservationType::Thoughts
        | ObservationType::ToolCall
        | ObservationType::ToolExecution
        | ObservationType::A2aTask
        | ObservationType::StateUpdate
        | ObservationType::Synthesis
        | ObservationType::FinalResponse
        | ObservationType::Error => None,
    }
}

fn only(content: &Value, members: &[&str]) -> Map<String, Value> {
    let told = members.iter().filter_map(|name| Some(((*name).to_owned(), content.get(*name)?.clone())));
    told.filter(|(_, value)| !value.is_null()).collect()
}
