//! Initialises every family at zero: an alert on a rate then sees the first failure, and no panel is empty.

use metrics::{Label, counter, gauge, histogram};

use super::families::{COUNTED, Kind};
use crate::config::Config;
use crate::domain::hitl::{Decision, SuspensionKind};
use crate::domain::spend::Capped;
use crate::store::documents::DocumentKind;
use crate::store::outbox::TargetKind;

const PHASES: [&str; 3] = ["planning", "execution", "synthesis"];
const DIRECTIONS: [&str; 4] = ["input", "output", "thinking", "cached_input"];

/// Labels whose values are known in advance.
type KnownLabels = Vec<(&'static str, Vec<String>)>;

/// Initialises every counted family at zero, for all known labels.
pub(super) fn initialise_at_zero(config: &Config) {
    for (name, kind, _) in COUNTED {
        for labels in combined(&known(name, config)) {
            match kind {
                Kind::Counter => counter!(*name, labels).increment(0),
                Kind::Gauge => gauge!(*name, labels).increment(0.0),
                Kind::Histogram => drop(histogram!(*name, labels)),
            }
        }
    }
}

fn known(family: &str, config: &Config) -> KnownLabels {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let one = |label: &'static str, of: &[&str]| vec![(label, words(of))];
    let kinds: Vec<&str> = SuspensionKind::ALL.iter().map(|kind| kind.as_str()).collect();
    let decisions: Vec<&str> = Decision::ALL.iter().map(|decision| decision.as_str()).collect();
    let chosen = config.models.chosen();
    let models = || -> KnownLabels {
        let first = chosen.first();
        let named =
            |name: fn(&crate::config::models::ModelRef) -> &String| first.map(name).cloned().into_iter().collect();
        vec![("provider", named(|of| &of.provider)), ("model", named(|of| &of.model))]
    };
    match family {
        "pes_http_requests_total" => {
            [one("method", &["GET"]), one("route", &["/healthz"]), one("status", &["200"])].concat()
        }
        "pes_http_request_duration_seconds" => [one("method", &["GET"]), one("route", &["/healthz"])].concat(),
        "pes_sockets_open" => one("kind", &["websocket", "sse"]),
        "pes_runs_finished_total" | "pes_run_duration_seconds" => {
            one("result", &["success", "partial", "error", "cancelled"])
        }
        "pes_recovered_total" => one("what", &["model", "tool", "in_doubt"]),
        "pes_items_finished_total" => one("status", &["completed", "failed", "cancelled"]),
        "pes_suspensions_total" => one("kind", &kinds),
        "pes_suspensions_answered_total" => one("decision", &decisions),
        "pes_suspension_wait_seconds" => [one("kind", &["approval"]), one("decision", &["approved"])].concat(),
        "pes_policy_decisions_total" => one("action", &["auto", "ask", "deny"]),
        "pes_model_calls_total" => [models(), one("phase", &PHASES), one("outcome", &["ok"])].concat(),
        "pes_model_tokens_total" => [models(), one("direction", &DIRECTIONS)].concat(),
        "pes_model_call_duration_seconds"
        | "pes_model_first_token_seconds"
        | "pes_model_cost_usd_total"
        | "pes_model_unpriced_calls_total" => models(),
        "pes_tool_calls_total" => [one("tool", &["tenant"]), one("outcome", &["success"])].concat(),
        "pes_tool_call_duration_seconds" => one("tool", &["tenant"]),
        "pes_mcp_restarts_total" | "pes_mcp_progress_total" => one("server", &["tenant"]),
        "pes_outbox_deliveries_total" => {
            let kinds: Vec<&str> = TargetKind::ALL.iter().map(|kind| kind.as_str()).collect();
            [one("kind", &kinds), one("outcome", &["delivered", "failed", "dead"])].concat()
        }
        "pes_rate_limited_total" => one("limit", &["key", "tenant", "address", "at_once"]),
        "pes_telemetry_spans_total" => one("outcome", &["sent", "refused", "dropped"]),
        "pes_secrets_unreadable_total" | "pes_documents_illegible_total" => {
            one("kind", &DocumentKind::ALL.iter().map(|kind| kind.as_str()).collect::<Vec<_>>())
        }
        "pes_store_commits_total" => one("outcome", &["done", "refused", "lost", "unavailable", "panicked"]),
        "pes_chore_deleted_total" => one(
            "kind",
            &[
                "thread", "entry", "row", "answer", "lookup", "delivery", "session", "document", "usage", "spend",
                "audit", "key",
            ],
        ),
        "pes_chore_lag_seconds" => one("kind", &["threads", "logs", "erasure", "audit"]),
        "pes_spend_refused_total" => one("cap", &Capped::ALL.map(Capped::as_str)),
        "pes_schedule_fires_total" => one("outcome", &["fired", "skipped", "missed", "failed", "paused"]),
        "pes_auth_failures_total" => one("reason", &["missing", "refused", "slowed"]),
        _ => KnownLabels::new(),
    }
}

/// All combinations of the values.
fn combined(known: &KnownLabels) -> Vec<Vec<Label>> {
    known.iter().fold(vec![Vec::new()], |before, (label, values)| {
        let with = |labels: &Vec<Label>, value: &String| {
            labels.iter().cloned().chain([Label::new(*label, value.clone())]).collect()
        };
        before.iter().flat_map(|labels| values.iter().map(move |value| with(labels, value))).collect()
    })
}
