//! Every family of `/metrics`, with its type and help text. docs/METRICS.md is the same list for people, and a test
//! compares them.

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Counter => "counter",
            Gauge => "gauge",
            Histogram => "histogram",
        }
    }
}

/// Name, type, help.
pub type Family = (&'static str, Kind, &'static str);

use Kind::{Counter, Gauge, Histogram};

/// Counted in this process where it happens.
pub const COUNTED: &[Family] = &[
    ("pes_http_requests_total", Counter, "Requests, by method, route (without `server.base_path`) and status."),
    (
        "pes_http_request_duration_seconds",
        Histogram,
        "How long requests took, by method and route; event streams and those that waited for a run are left out.",
    ),
    ("pes_http_in_flight", Gauge, "Requests that are not answered yet."),
    (
        "pes_rate_limited_total",
        Counter,
        "Requests beyond limits.requests_per_key, _per_tenant or requests_at_once_per_key, and wrong keys and failed sign-ins beyond wrong_keys_per_address, by limit.",
    ),
    ("pes_sockets_open", Gauge, "Event streams that are open: websocket, sse."),
    ("pes_socket_gaps_total", Counter, "Event streams that fell behind and had to begin anew."),
    ("pes_runs_started_total", Counter, "Runs that were begun."),
    (
        "pes_runs_finished_total",
        Counter,
        "Runs that ended: success, partial, error, cancelled. Those that were deleted with their thread do not count.",
    ),
    ("pes_run_duration_seconds", Histogram, "From the start of a run to its end."),
    ("pes_run_queue_wait_seconds", Histogram, "How long a run waited behind others of its thread."),
    (
        "pes_threads_went_back_total",
        Counter,
        "Threads that the database has in an earlier state than this process has seen, as after a failover that lost commits.",
    ),
    ("pes_threads_quarantined_total", Counter, "Threads that crashed the process too often and were set aside."),
    (
        "pes_recovered_total",
        Counter,
        "Calls whose outcome is not known, because the process stopped or the connection broke: model (asked again), tool (idempotent or only reading, called again), in_doubt (a person is asked).",
    ),
    ("pes_items_finished_total", Counter, "Todo items that ended: completed, failed, cancelled."),
    ("pes_suspensions_total", Counter, "Questions to people, by kind."),
    (
        "pes_suspensions_answered_total",
        Counter,
        "Questions that were answered, withdrawn or expired, by decision; a reminder is none. Those that were deleted with their thread do not count.",
    ),
    ("pes_suspension_wait_seconds", Histogram, "How long questions waited for their answer, by kind and decision."),
    ("pes_policy_decisions_total", Counter, "Decisions of the policy about calls of tools: auto, ask, deny."),
    ("pes_model_calls_total", Counter, "Attempts of model calls, by provider, model, phase and outcome."),
    ("pes_model_call_duration_seconds", Histogram, "How long attempts of model calls took."),
    ("pes_model_first_token_seconds", Histogram, "Until the first token of a model call came."),
    (
        "pes_model_tokens_total",
        Counter,
        "Tokens of all model calls that took any, as GET /usage counts them, by direction: input, output, thinking, cached_input.",
    ),
    ("pes_model_cost_usd_total", Counter, "The cost of the model calls whose price is known, in US dollars."),
    ("pes_model_unpriced_calls_total", Counter, "Model calls that took tokens and whose price is not known."),
    (
        "pes_spend_refused_total",
        Counter,
        "Runs that were not accepted because a cap is reached, by cap; not postponed times of schedules.",
    ),
    ("pes_tool_calls_total", Counter, "Tool calls, by tool (`tenant`: not the operator's) and outcome."),
    (
        "pes_tool_call_duration_seconds",
        Histogram,
        "The duration of tool calls, without those that failed before they ran.",
    ),
    ("pes_tool_schemas_compiled_total", Counter, "JSON Schemas of tools that were compiled."),
    ("pes_mcp_restarts_total", Counter, "MCP servers that went down and were started again."),
    ("pes_mcp_progress_total", Counter, "Reports of progress by MCP servers."),
    (
        "pes_outbox_deliveries_total",
        Counter,
        "Attempts to make a delivery, by kind and outcome: delivered, failed, dead.",
    ),
    (
        "pes_telemetry_spans_total",
        Counter,
        "Spans of traces that the collector took or refused, or that were not kept for it (of requests only): sent, refused, dropped.",
    ),
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
    ("pes_store_commit_queue_limit", Gauge, "How many commits may be queued before callers have to wait."),
    ("pes_store_committer_restarts_total", Counter, "Committers that broke and were started again."),
    ("pes_store_resends_total", Counter, "Transactions sent again because their end was not known."),
    ("pes_store_pool_wait_seconds", Histogram, "How long queries waited for a connection (PostgreSQL)."),
    ("pes_lease_renew_duration_seconds", Histogram, "How long renewing the lease took (PostgreSQL)."),
    ("pes_lease_margin_seconds", Gauge, "How long the lease still held when it was renewed last (PostgreSQL)."),
    (
        "pes_lease_lost_total",
        Counter,
        "Leases that ended before they were renewed, also while the process stood still.",
    ),
    (
        "pes_clock_skew_seconds",
        Gauge,
        "How far the clock of this machine is ahead of the database's, when the lease was renewed last; negative if it is behind (PostgreSQL).",
    ),
    (
        "pes_chore_deleted_total",
        Counter,
        "What was deleted in the background, because of its age or after its thread: thread, entry (of a log), row, answer, lookup, delivery, session, document (that was deleted), usage, spend, audit, key (that ended). What a request deletes itself does not count.",
    ),
    (
        "pes_schedule_fires_total",
        Counter,
        "Times of schedules: fired, skipped (a run before was not over), missed (too late), failed (refused), paused (a run before failed, or the key that wrote it came to its end).",
    ),
    ("pes_chore_lag_seconds", Gauge, "How long the oldest pending chore is overdue: threads, logs, erasure, audit."),
    ("pes_auth_failures_total", Counter, "Requests without a key, or with a wrong one: missing, refused, slowed."),
];

/// Looked up when `/metrics` is requested.
pub const LOOKED_UP: &[Family] = &[
    (
        "pes_ready",
        Gauge,
        "1 while a check of GET /readyz succeeds, 0 while it fails: draining (0: the server is stopping), store, lease.",
    ),
    ("pes_active_threads", Gauge, "Threads with a live actor."),
    ("pes_runs", Gauge, "Runs that are not over, of all replicas, by status."),
    ("pes_suspensions_open", Gauge, "Open questions to people, of all replicas, by kind."),
    ("pes_suspension_oldest_seconds", Gauge, "How long the oldest open question waits, by kind."),
    ("pes_run_no_progress_seconds", Gauge, "The longest time that a running thread has gone without a commit."),
    ("pes_threads_overdue", Gauge, "Threads whose timer is due, of all replicas."),
    ("pes_thread_overdue_seconds", Gauge, "How late the latest of them is."),
    ("pes_schedule_lag_seconds", Gauge, "How late the most overdue schedule is, postponed ones included."),
    ("pes_auth_key_expiry_seconds", Gauge, "The time until the next key expires; +Inf if none does."),
    ("pes_outbox_waiting", Gauge, "Deliveries that are not over, of all replicas."),
    ("pes_outbox_oldest_due_seconds", Gauge, "How late the oldest of them is."),
    ("pes_mcp_down_servers", Gauge, "MCP servers that are down, or refuse their credentials."),
    ("pes_mcp_changed_tools", Gauge, "Tools of MCP servers that are off because they changed."),
    ("pes_provider_running_calls", Gauge, "Calls under way, by provider."),
    ("pes_provider_waiting_calls", Gauge, "Calls that wait for a place, by provider."),
    (
        "pes_provider_breaker_open",
        Gauge,
        "1 while a provider gets no calls because it failed too often, and until one is answered; without calls at most eight times models.gate.breaker_ms after the last failure.",
    ),
    (
        "pes_spend_cap_used_ratio",
        Gauge,
        "The used part of the cap that is used most, of all tenants and keys, by cap: 1 is all of it.",
    ),
    ("pes_store_pool_connections", Gauge, "Database connections, by pool and state: busy, idle."),
    ("pes_store_pool_limit", Gauge, "How many connections a pool may have."),
    ("pes_store_bytes", Gauge, "What the store takes: by table on PostgreSQL, `all` on SQLite."),
    ("pes_store_free_bytes", Gauge, "What the disk of the data folder has left (SQLite)."),
    ("pes_store_wal_bytes", Gauge, "What the write-ahead log takes (SQLite)."),
    ("pes_tokio_alive_tasks", Gauge, "Tasks of the runtime that are not over."),
    ("pes_tokio_global_queue_depth", Gauge, "Tasks that wait for a thread of the runtime."),
    ("pes_build_info", Gauge, "1; its labels say which version serves, over which store."),
    ("process_cpu_seconds_total", Counter, "Processor time of the process."),
    ("process_resident_memory_bytes", Gauge, "Memory of the process that is in use."),
    ("process_open_fds", Gauge, "Files and sockets that are open."),
    ("process_max_fds", Gauge, "How many files and sockets may be open."),
    ("process_start_time_seconds", Gauge, "When the process began, as Unix time."),
];

/// Describes the families to the installed recorder.
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

/// The type and the help text of a family that is looked up.
pub(super) fn head(name: &str) -> (&'static str, &'static str) {
    LOOKED_UP.iter().find(|(known, ..)| *known == name).map_or(("untyped", ""), |(_, kind, help)| (kind.as_str(), help))
}
