//! `[limits]`

use super::section::{by_path, table};
use super::{Config, Error, Rate};
use crate::domain::spend::{Amount, Capped, SpendCaps, unsound};
use crate::domain::thread;
use crate::domain::usage::nanos;

section! {
    /// Bounds. Each has one documented error (docs/ERRORS.md).
    Limits {
        /// A request body, in bytes: body_too_large.
        body_bytes: usize = 1 << 20, by_path();
        /// Nesting of JSON in a request: malformed.
        json_depth: usize = 64, by_path();
        /// Length of an id that a client chooses: invalid.
        id_length: usize = 128, by_path();
        /// All headers of a request together, in bytes: headers_too_large.
        header_bytes: usize = 16_384, by_path();
        /// A message from a WebSocket client, in bytes; a larger one closes the socket with 1009.
        ws_message_bytes: usize = 65_536, by_path();
        /// Open connections: too_many_connections.
        connections: usize = 10_000, by_path();
        /// Data that waits for a slow reader, per socket, in bytes; more becomes a `gap`.
        socket_queue_bytes: usize = 256 * 1024, by_path();
        /// Timeout for a request's headers, in milliseconds: request_timeout.
        header_timeout_ms: u64 = 10_000, by_path();
        /// Timeout for a request's body, in milliseconds: request_timeout.
        body_timeout_ms: u64 = 30_000, by_path();
        /// Runs that wait on one thread: queue_full.
        queued_runs: usize = 32, by_path();
        /// Messages in the `history` of one request: invalid.
        history_messages: usize = 1000, by_path();
        /// Todo items of one plan: too_many_items.
        items_per_plan: usize = 1000, by_path();
        /// Tool calls of one model reply; further calls are not made, and the model is told so.
        calls_per_reply: usize = 32, by_path();
        /// A thread's application state as JSON, in bytes: state_too_large.
        state_bytes: usize = 1 << 20, by_path();
        /// A tool's output as JSON, in bytes; a larger one ends in the tool error output_too_large.
        tool_output_bytes: usize = 1 << 20, by_path();
        /// Requests that wait for one thread: too_many_requests.
        mailbox: usize = 64, by_path();
        /// Rate of requests with one key, including its sockets: too_many_requests. `600/60s` allows 600 at once, and 600
        /// in each further 60 s. Each process counts for itself.
        requests_per_key: Option<Rate> = None, by_path().example("\"600/60s\"");
        /// The same for all keys of a tenant together.
        requests_per_tenant: Option<Rate> = None, by_path().example("\"3000/60s\"");
        /// Concurrent requests of one key, including its open streams and sockets: too_many_requests. Each process
        /// counts for itself. Does not apply to an open server, whose callers have no keys.
        requests_at_once_per_key: usize = 5_000, by_path();
        /// Rate of wrong keys and failed sign-ins from one IPv4 address, or one IPv6 /64: too_many_requests beyond it.
        /// Behind a proxy, set `server.trusted_proxies`. Valid keys are not affected. A sign-in at an issuer counts while
        /// it is completed, so beyond the rate sign-ins that would succeed are refused, too.
        wrong_keys_per_address: Option<Rate> = None, by_path().example("\"30/60s\"");
        /// Documents of each kind that a tenant may create over the API: webhooks, HTTP tools, agents, MCP servers,
        /// schedules: too_many_documents.
        documents: usize = 100, by_path();
        /// Valid keys that a tenant may have in the store: too_many_documents. Configured, revoked and expired ones do
        /// not count.
        keys_per_tenant: usize = 1000, by_path();
        /// Entries on one page of a list, at most 1000; a larger `limit` is reduced to this, with a cursor to the rest.
        page: u32 = 1000, by_path();
        spend: Spend = Spend::default(), table::<Spend>();
        tenant: RunLimits = RunLimits::default(), table::<RunLimits>();
    }
}

section! {
    /// How many runs each tenant may have at the same time, so that tenants do not block each other. `PUT /limits/runs`
    /// changes the limits of a tenant.
    RunLimits {
        /// Active runs, counted per process. A further run is accepted and waits, `queued` with the reason
        /// `tenant_busy`, until another one ends, or waits for an answer or another agent. A run that receives its
        /// answer continues at once.
        running_runs: Option<usize> = None, by_path().example("50");
        /// Threads whose next run waits for that: queue_full beyond it.
        queued_runs: u32 = 1000, by_path();
    }
}

impl RunLimits {
    pub(super) fn check(&self) -> Result<(), Error> {
        match self.running_runs {
            Some(0) => Err(Error("limits.tenant.running_runs: no run would ever begin; use 1 or more".to_owned())),
            Some(_) | None => Ok(()),
        }
    }
}

section! {
    /// Caps on the cost of model calls over all runs: in US dollars, by `prices`, and in tokens of prompts and replies.
    /// The server reserves a call's maximum cost before it is made. Days and months are in UTC. When a cap is reached,
    /// no run is accepted: spend_cap_reached; active runs end, or ask, as their `onBudget` says.
    Spend {
        /// For each tenant per day.
        tenant_day_usd: Option<f64> = None, by_path().example("20.0");
        /// For each tenant per month.
        tenant_month_usd: Option<f64> = None, by_path().example("200.0");
        /// For each key per day, for the runs that it requested.
        key_day_usd: Option<f64> = None, by_path().example("5.0");
        /// For each key per month.
        key_month_usd: Option<f64> = None, by_path().example("50.0");
        /// For each tenant per day, in tokens.
        tenant_day_tokens: Option<i64> = None, by_path().example("2_000_000");
        tenant_month_tokens: Option<i64> = None, by_path().example("20_000_000");
        key_day_tokens: Option<i64> = None, by_path().example("500_000");
        key_month_tokens: Option<i64> = None, by_path().example("5_000_000");
        /// For the whole server, all tenants together, per day. `PUT /limits` cannot change it.
        server_day_usd: Option<f64> = None, by_path().example("100.0");
        /// For the whole server per month.
        server_month_usd: Option<f64> = None, by_path().example("1000.0");
        /// For the whole server per day, in tokens.
        server_day_tokens: Option<i64> = None, by_path().example("10_000_000");
        server_month_tokens: Option<i64> = None, by_path().example("100_000_000");
    }
}

impl Spend {
    /// The value of this cap.
    pub fn of(&self, capped: Capped) -> Option<Amount> {
        match capped {
            Capped::ServerDay => self.server_day_usd.map(nanos),
            Capped::ServerMonth => self.server_month_usd.map(nanos),
            Capped::ServerDayTokens => self.server_day_tokens,
            Capped::ServerMonthTokens => self.server_month_tokens,
            Capped::TenantDay => self.tenant_day_usd.map(nanos),
            Capped::TenantMonth => self.tenant_month_usd.map(nanos),
            Capped::KeyDay => self.key_day_usd.map(nanos),
            Capped::KeyMonth => self.key_month_usd.map(nanos),
            Capped::TenantDayTokens => self.tenant_day_tokens,
            Capped::TenantMonthTokens => self.tenant_month_tokens,
            Capped::KeyDayTokens => self.key_day_tokens,
            Capped::KeyMonthTokens => self.key_month_tokens,
        }
    }

    /// Whether any cap is in US dollars.
    pub fn has_money(&self) -> bool {
        SpendCaps::new(|capped| self.of(capped)).has_money()
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        let usd = [
            ("server_day_usd", self.server_day_usd),
            ("server_month_usd", self.server_month_usd),
            ("tenant_day_usd", self.tenant_day_usd),
            ("tenant_month_usd", self.tenant_month_usd),
            ("key_day_usd", self.key_day_usd),
            ("key_month_usd", self.key_month_usd),
        ];
        let tokens = [
            ("server_day_tokens", self.server_day_tokens),
            ("server_month_tokens", self.server_month_tokens),
            ("tenant_day_tokens", self.tenant_day_tokens),
            ("tenant_month_tokens", self.tenant_month_tokens),
            ("key_day_tokens", self.key_day_tokens),
            ("key_month_tokens", self.key_month_tokens),
        ];
        match unsound(&usd, &tokens) {
            Some((key, why)) => Err(Error(format!("limits.spend.{key}: it {why}"))),
            None => Ok(()),
        }
    }
}

impl Config {
    /// The limits that the engine enforces.
    pub fn of_threads(&self) -> thread::Limits {
        let limits = &self.limits;
        thread::Limits {
            items_per_plan: limits.items_per_plan,
            calls_per_reply: limits.calls_per_reply,
            queued_runs: limits.queued_runs,
            state_bytes: limits.state_bytes,
            tool_output_bytes: limits.tool_output_bytes,
            retry_ms: self.models.retry_ms,
            connect_retry_ms: self.models.connect_retry_ms,
            ask_peer_ms: self.delegation.poll_ms,
            ask_peer_most_ms: self.delegation.poll_most_ms,
        }
    }
}
