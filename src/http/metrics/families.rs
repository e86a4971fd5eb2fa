//! Every family of `/metrics`: its type, and what it says. docs/METRICS.md is this list for people; a test compares them.

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// Name, type, help.
pub type Family = (&'static str, Kind, &'static str);

use Kind::{Counter, Gauge, Histogram};

/// Counted where it happens, in this process.
pub const COUNTED: &[Family] = &[
    ("pes_http_requests_total", Counter, "Requests, by method, route and status."),
    ("pes_http_request_duration_seconds", Histogram, "How long requests took, by method and route."),
    ("pes_runs_started_total", Counter, "Runs that were begun."),
    ("pes_runs_finished_total", Counter, "Runs that ended: success, partial, error, cancelled."),
    ("pes_run_duration_seconds", Histogram, "From the start of a run to its end."),
    ("pes_run_queue_wait_seconds", Histogram, "How long a run waited behind others of its thread."),
    ("pes_items_finished_total", Counter, "Todo items that ended: completed, failed, cancelled."),
    ("pes_suspensions_total", Counter, "Questions to people, by kind."),
    ("pes_suspensions_answered_total", Counter, "Questions that were answered or timed out, by decision."),
    ("pes_policy_decisions_total", Counter, "What policy said of calls that it stands with: auto, ask, deny."),
    ("pes_model_calls_total", Counter, "Attempts of model calls, by provider, model, phase and outcome."),
    ("pes_model_call_duration_seconds", Histogram, "How long attempts of model calls took."),
    ("pes_model_first_token_seconds", Histogram, "Until the first token of a model call came."),
    ("pes_model_tokens_total", Counter, "Tokens, by direction: input, output, thinking, cached_input."),
    ("pes_model_cost_usd_total", Counter, "What model calls cost whose price is known, in US dollars."),
    ("pes_model_unpriced_calls_total", Counter, "Answered model calls whose price is not known."),
    ("pes_tool_calls_total", Counter, "Tool calls, by tool (`tenant`: not the operator's) and outcome."),
    ("pes_tool_call_duration_seconds", Histogram, "How long tool calls took."),
    ("pes_tool_schemas_compiled_total", Counter, "JSON Schemas of tools that were compiled."),
    ("pes_mcp_restarts_total", Counter, "MCP servers that went down and were started again."),
    ("pes_mcp_progress_total", Counter, "Reports of progress by MCP servers."),
    ("pes_outbox_deliveries_total", Counter, "Attempts to tell somebody outside: delivered, failed, dead."),
    ("pes_secrets_unreadable_total", Counter, "What was not sent because its sealed secret cannot be opened, by kind."),
    (
        "pes_documents_illegible_total",
        Counter,
        "What was left out because what is stored of it cannot be read, by kind.",
    ),
    ("pes_store_commit_duration_seconds", Histogram, "How long transactions of the committer took."),
    ("pes_store_commit_batch_size", Histogram, "Commits in one transaction."),
    ("pes_store_commits_total", Counter, "Transactions of the committer: done, refused, lost, unavailable, panicked."),
    ("pes_store_commit_queue_depth", Gauge, "Commits that are not answered yet."),
    ("pes_store_committer_restarts_total", Counter, "Committers that broke and were started again."),
    ("pes_store_resends_total", Counter, "Transactions sent again because their end was not known."),
    ("pes_auth_failures_total", Counter, "Requests without a key, or with a wrong one: missing, refused, slowed."),
];

/// Looked up when somebody asks.
pub const LOOKED_UP: &[Family] = &[
    ("pes_active_threads", Gauge, "Threads with a live actor."),
    ("pes_runs", Gauge, "Runs that are not over, of all replicas, by status."),
    ("pes_suspensions_open", Gauge, "Open questions to people, of all replicas, by kind."),
    ("pes_suspension_oldest_seconds", Gauge, "How long the oldest open question waits, by kind."),
    ("pes_outbox_waiting", Gauge, "Deliveries that are not over, of all replicas."),
    ("pes_outbox_oldest_due_seconds", Gauge, "How late the oldest of them is."),
    ("pes_mcp_changed_tools", Gauge, "Tools of MCP servers that are off because they changed."),
    ("pes_provider_running_calls", Gauge, "Calls under way, by provider."),
    ("pes_provider_waiting_calls", Gauge, "Calls that wait for a place, by provider."),
    ("pes_provider_breaker_open", Gauge, "1 while a provider is left alone because it failed too often."),
    ("pes_build_info", Gauge, "1; its label says which version serves."),
];

/// Says it to the recorder that is installed.
pub(super) fn describe() {
    for (name, kind, help) in COUNTED {
        let unit = if name.ends_with("_seconds") { Unit::Seconds } else { Unit::Count };
        match kind {
            Counter => describe_counter!(*name, unit, *help),
            Gauge => describe_gauge!(*name, unit, *help),
            Histogram => describe_histogram!(*name, unit, *help),
        }
    }
}

/// The help of a family that is looked up.
pub(super) fn help(name: &str) -> &'static str {
    LOOKED_UP.iter().find(|(known, ..)| *known == name).map_or("", |(.., help)| help)
}
