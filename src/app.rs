//! The composition root: builds every part of the server, each from those below it.

pub(crate) mod checks;
pub mod instance;
pub(crate) mod outward;

use std::net::SocketAddr;
use std::sync::Arc;

use crate::a2a::directory::Delegating;
use crate::auth::{Issuers, Keys};
use crate::config::{self, Config, Environment};
use crate::domain::fault::Fault;
use crate::domain::prices::Prices;
use crate::engine::{Core, cores};
use crate::http::{AppState, install_metrics, own_url};
use crate::live::Hub;
use crate::mcp;
use crate::provider::{self, Catalog, Models};
use crate::runtime::clock::{Clock, System, begin_at_stored_times};
use crate::runtime::{self, StartError};
use crate::service::{self, Service};
use crate::store::documents::{DocumentCache, Survey};
use crate::store::{self, Store};
use crate::tool::http_source::HttpTools;
use crate::tool::policy::Policies;
use crate::tool::{Registry, Tool, ToolSource, builtin};
use crate::traces::Traces;

/// Why the process cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database cannot be used; the message says what to do.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// Something that the configuration names cannot be built.
    #[error("{}", .0.in_full())]
    Config(#[from] Fault),
    /// Settings contradict each other, or the server may not run like this: it is public and has no keys.
    #[error(transparent)]
    InvalidConfig(#[from] config::Error),
}

impl Error {
    fn of_start(error: StartError) -> Self {
        match error {
            StartError::Store(error) => Self::Store(error),
            StartError::Config(fault) => Self::Config(fault),
        }
    }
}

/// A server without a listener. Its runtime works on threads already.
pub struct App {
    pub config: Config,
    pub store: Arc<dyn Store>,
    pub keys: Arc<Keys>,
    pub service: Service,
}

impl App {
    /// Opens the store of the configuration and builds everything on it. A store that cannot be used is left unchanged.
    #[cfg(feature = "internals")]
    pub async fn build(config: Config) -> Result<Self, Error> {
        Self::open(config, None).await
    }

    /// Opens the store of the configuration and builds everything on it, for a listener that is bound to `address`: messages about
    /// what the start itself does have the URLs of this server. A store that cannot be used is left unchanged.
    pub async fn build_at(config: Config, address: SocketAddr) -> Result<Self, Error> {
        Self::open(config, Some(address)).await
    }

    async fn open(config: Config, address: Option<SocketAddr>) -> Result<Self, Error> {
        install_metrics(&config);
        let components = Components { address, ..Components::of(&config)? };
        let store = store::open(&config.store).await?;
        Self::assemble_with_keys(config, components, store).await
    }

    /// Like [`build`](Self::build), on a store that is open already.
    #[cfg(feature = "internals")]
    pub async fn with_store(store: Arc<dyn Store>, config: Config) -> Result<Self, Error> {
        install_metrics(&config);
        let components = Components::of(&config)?;
        Self::assemble_with_keys(config, components, store).await
    }

    /// Checks first that a server which other machines can reach has keys.
    async fn assemble_with_keys(
        config: Config,
        mut components: Components,
        store: Arc<dyn Store>,
    ) -> Result<Self, Error> {
        config.check_keys(store.keys().await?.iter().any(|key| key.revoked_at.is_none()))?;
        components.store = Some(store);
        Self::assemble(config, components).await
    }

    pub(crate) async fn assemble(mut config: Config, mut components: Components) -> Result<Self, Error> {
        config.check()?;
        service::check_system_prompt(&config.agent)?;
        service::check_execution(&config.agent)?;
        check_prices(&config, &*components.models)?;
        let script = provider::demo_script(&config.models)?;
        config.a2a.reused_message_ids.extend_from_slice(script.reused_message_ids());
        let store = match components.store {
            Some(store) => store,
            None => store::open(&config.store).await?,
        };
        begin_at_stored_times(&*components.clock, &*store).await?;
        let egress = outward::egress(&config, &*store, components.clock.now()).await?;
        components.tools.extend(builtin::calling_out(&egress));
        components.tools.extend(outward::http_tools(&config, &egress)?);
        let documents = DocumentCache::open(store.clone()).await?;
        let sealer = Arc::new(outward::sealer(&config));
        Survey::of(documents.of_all(), &sealer).warn();
        let bytes = config.limits.tool_output_bytes;
        components.sources.push(Arc::new(HttpTools::new(documents.clone(), sealer.clone(), egress.clone(), bytes)));
        let clock = components.clock.clone();
        let time = components.clock.clone();
        let mcp = mcp::Catalog::start(mcp::Parts {
            config: config.mcp.clone(),
            documents: documents.clone(),
            egress: egress.clone(),
            now: Arc::new(move || time.now()),
        });
        components.sources.push(mcp.clone());
        let agents = outward::agents(&config, &documents, &sealer, &egress)?;
        components.sources.push(Arc::new(Delegating::new(agents.clone())));
        let issuers = Issuers::new(&config.auth.oidc, &egress).map_err(config::Error)?;
        let keys = Keys::open(&config.auth, store.clone(), Arc::new(move || clock.wall())).await?;
        let keys = keys.with_issuers(issuers).with_logins(sealer.clone()).with_documents(documents.clone());
        let keys = Arc::new(keys.with_max_keys(config.limits.keys_per_tenant));
        let policies = Policies::of_server(&config, documents.clone())?;
        let tools =
            Registry::new(components.tools, config.env)?.with_sources(components.sources).with_policies(policies);
        let own_url = components.address.map(|address| own_url(&config.server, address)).transpose()?;
        let instance = config.runtime.replica.clone().unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
        let parts = runtime::Parts {
            own_url,
            hub: Hub::new(config.limits.socket_queue_bytes),
            tools: Arc::new(tools),
            config: Arc::new(config.clone()),
            store: store.clone(),
            outbox: Arc::new(
                outward::outbox(&config, &*store, &documents, &sealer, &egress, components.clock.now()).await?,
            ),
            traces: Traces::new(&config.telemetry, &instance, egress.clone()).map_err(config::Error)?.map(Arc::new),
            agents,
            sealer,
            documents,
            models: components.models,
            cores: components.cores,
            clock: components.clock,
        };
        let service = Service::start(service::Parts { runtime: parts, mcp }).await.map_err(Error::of_start)?;
        Ok(Self { config, store, keys, service })
    }

    /// The state of the HTTP routes, for a listener bound to `address`.
    pub fn state(&self, address: SocketAddr) -> Result<AppState, Fault> {
        AppState::new(self.config.clone(), self.service.clone(), self.keys.clone(), address)
    }

    /// Ends the work under way, releases the leases and closes the store.
    pub async fn close(self) {
        self.service.close().await;
    }
}

/// If there is a cap on money, each model must have a price.
fn check_prices(config: &Config, models: &dyn Catalog) -> Result<(), Error> {
    if !config.limits.spend.has_money() {
        return Ok(());
    }
    let prices = Prices::new(config.prices.clone());
    let unpriced = service::limits::unpriced(models, |provider, model| prices.of(provider, model));
    if unpriced.is_empty() {
        return Ok(());
    }
    Err(config::Error(format!(
        "limits.spend: there is a cap, and `prices` does not say what {} costs; add it under `prices` (as provider:model or \
         provider:*), or remove the cap",
        unpriced.join(", ")
    ))
    .into())
}

/// The parts that a library user or a test may replace before the runtime starts.
pub(crate) struct Components {
    pub(crate) store: Option<Arc<dyn Store>>,
    pub(crate) models: Arc<dyn Catalog>,
    pub(crate) tools: Vec<Arc<dyn Tool>>,
    pub(crate) sources: Vec<Arc<dyn ToolSource>>,
    pub(crate) cores: Vec<Arc<dyn Core>>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Where the listener is bound, if it is bound already.
    pub(crate) address: Option<SocketAddr>,
}

impl Components {
    /// The parts that the configuration names. Opens nothing.
    pub(crate) fn of(config: &Config) -> Result<Self, Fault> {
        Ok(Self::with(config, Arc::new(Models::new(&config.models)?)))
    }

    pub(crate) fn with(config: &Config, models: Arc<dyn Catalog>) -> Self {
        let mut tools = builtin::all();
        if config.models.is_demo() && config.env == Environment::Development {
            tools.extend(builtin::demo());
        }
        let (sources, cores, clock) = (Vec::new(), cores::all(), Arc::<System>::default());
        Self { store: None, models, tools, sources, cores, clock, address: None }
    }
}

#[cfg(test)]
mod tests;
