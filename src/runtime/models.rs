//! The models that runs may use: as whom each tenant calls them, how much they can take now, what is known about them, and the
//! metrics of the calls.

use std::collections::HashMap;
use std::sync::Arc;

use super::model_meters::ModelMeters;
use crate::config::Config;
use crate::domain::Millis;
use crate::domain::fault::Fault;
use crate::domain::ids::TenantPk;
use crate::domain::prices::Prices;
use crate::domain::usage::Price;
use crate::engine::ModelBook;
use crate::provider::gate::{CallOwner, Gates};
use crate::provider::{Catalog, ChatModel};
use crate::store::{self, Store};

pub(super) struct ModelAccess {
    catalog: Arc<dyn Catalog>,
    config: Arc<Config>,
    /// The names of the tenants that have keys of their own at providers.
    with_own_keys: HashMap<TenantPk, String>,
    prices: Prices,
    /// Bound the calls to each provider.
    pub(super) gates: Gates,
    pub(super) meters: ModelMeters,
}

impl ModelAccess {
    /// Reads from the store which tenants have keys of their own.
    pub(super) async fn open(
        config: Arc<Config>,
        catalog: Arc<dyn Catalog>,
        store: &dyn Store,
        now: Millis,
    ) -> store::Result<Self> {
        let mut with_own_keys = HashMap::new();
        for name in config.models.tenant_keys.keys() {
            with_own_keys.insert(store.tenant(name, now).await?, name.clone());
        }
        let (gates, meters) = (Gates::new(&config.models.gate), ModelMeters::new(config.models.chosen()));
        Ok(Self { catalog, with_own_keys, prices: Prices::new(config.prices.clone()), gates, meters, config })
    }

    /// The provider's client, with the tenant's own key where it has one.
    pub(super) fn client(&self, tenant: TenantPk, provider: &str) -> Result<Arc<dyn ChatModel>, Fault> {
        match self.with_own_keys.get(&tenant) {
            Some(name) => self.catalog.model_of(name, provider),
            None => self.catalog.model(provider),
        }
    }

    /// For whom the provider's gate counts a tenant's calls.
    pub(super) fn call_owner(&self, tenant: TenantPk, provider: &str) -> CallOwner {
        let keys = self.with_own_keys.get(&tenant).and_then(|name| self.config.models.tenant_keys.get(name));
        CallOwner { tenant, has_own_key: keys.is_some_and(|keys| keys.contains_key(provider)) }
    }
}

/// The facts about models that the engine may use, from the configuration and the catalog.
impl ModelBook for ModelAccess {
    fn window(&self, provider: &str, model: &str) -> Option<u64> {
        self.catalog.facts(provider, model).context_window
    }

    fn max_output(&self, provider: &str, model: &str) -> Option<u64> {
        self.catalog.facts(provider, model).max_output
    }

    fn price(&self, provider: &str, model: &str) -> Option<Price> {
        self.prices.of(provider, model)
    }
}
