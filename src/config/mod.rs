//! The operator's settings. Precedence: flag > environment > `--config FILE` (else `config/local.toml`) >
//! `config/default.toml` > the default beside each key here. An unknown key or `PES_*` name is an error.
//!
//! One file per section; `config/default.toml` is generated from them (`pes config --template`).

#![allow(
    rustdoc::bare_urls,
    rustdoc::broken_intra_doc_links,
    rustdoc::invalid_html_tags,
    reason = "the documentation of a setting is its comment in config/default.toml, too, which is no Markdown"
)]

#[macro_use]
mod section;

pub mod a2a;
pub mod agent;
pub mod auth;
mod bounds;
pub mod check;
pub mod cidr;
pub mod delegation;
pub mod doors;
pub mod egress;
pub mod env;
pub mod gate;
pub mod layers;
pub mod limits;
pub mod log;
pub mod mcp;
pub mod metrics;
pub mod models;
pub mod oidc;
pub mod outbox;
pub mod policy;
pub mod providers;
pub mod rate;
pub mod reference;
pub mod retention;
pub mod runtime;
mod secret;
pub mod server;
pub mod store;
pub mod telemetry;
pub mod template;
pub mod tools;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::domain::usage::Price;

pub use a2a::A2a;
pub use agent::Agent;
pub use auth::{Auth, ConfiguredKey};
pub use delegation::{Delegation, RemoteAgent};
pub use doors::Doors;
pub use egress::{Egress, EgressDefault};
pub use gate::Gate;
pub use limits::{Limits, RunLimits, Spend};
pub use log::{Log, LogFormat};
pub use mcp::{Mcp, McpServer};
pub use metrics::Metrics;
pub use models::{Anthropic, Demo, Facts, Gemini, ModelRef, Models, Ollama, OpenAi};
pub use oidc::{Algorithm, OidcIssuer};
pub use outbox::{Outbox, Webhook};
pub use policy::Policy;
pub use providers::Provider;
pub use rate::Rate;
pub use reference::Reference;
pub use retention::{Retention, TenantRetention};
pub use runtime::Runtime;
pub use secret::Key;
pub use server::Server;
pub use store::{Store, Synchronous};
pub use telemetry::Telemetry;
pub use tools::{HttpTool, Tools};

use section::{file_only, named, table};

section! {
    /// All settings, resolved.
    Config {
        /// `production` rejects the demo model and requires keys.
        env: Environment = Environment::Development, named("PES_ENV");
        /// What tokens cost in US dollars per million, by "provider:model" or "provider:*".
        prices: BTreeMap<String, Price> = BTreeMap::new(), file_only().example(
            "{ \"openai:gpt-4.1-mini\" = { input_per_million = 0.4, cached_input_per_million = 0.1, output_per_million = 1.6 } }");
        /// Receivers of events outside this server. Write them as [[webhooks]] tables.
        webhooks: Vec<Webhook> = Vec::new(), file_only().example(
            "[{ id = \"ops\", url = \"https://ops.example/pes\", events = [\"run.failed\"], \
             secrets = [\"env:OPS_SECRET\"] }]");
        /// Other agents that work can be delegated to. Write them as [[agents]] tables.
        agents: Vec<RemoteAgent> = Vec::new(), file_only().example(
            "[{ id = \"research\", card = \"https://research.example/.well-known/agent-card.json\", \
             token = \"env:RESEARCH_TOKEN\", dedupes = true }]");
        server: Server = Server::default(), table::<Server>();
        limits: Limits = Limits::default(), table::<Limits>();
        store: Store = Store::default(), table::<Store>();
        retention: Retention = Retention::default(), table::<Retention>();
        models: Models = Models::default(), table::<Models>();
        agent: Agent = Agent::default(), table::<Agent>();
        tools: Tools = Tools::default(), table::<Tools>();
        delegation: Delegation = Delegation::default(), table::<Delegation>();
        egress: Egress = Egress::default(), table::<Egress>();
        outbox: Outbox = Outbox::default(), table::<Outbox>();
        policy: Policy = Policy::default(), table::<Policy>();
        auth: Auth = Auth::default(), table::<Auth>();
        mcp: Mcp = Mcp::default(), table::<Mcp>();
        a2a: A2a = A2a::default(), table::<A2a>();
        doors: Doors = Doors::default(), table::<Doors>();
        runtime: Runtime = Runtime::default(), table::<Runtime>();
        log: Log = Log::default(), table::<Log>();
        metrics: Metrics = Metrics::default(), table::<Metrics>();
        telemetry: Telemetry = Telemetry::default(), table::<Telemetry>();
    }
}

/// The environment of the server: production rejects what is only convenient in development.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Environment {
    Development,
    Production,
}

/// Why the configuration cannot be used: one line with the place and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(pub String);
