//! Checks the settings as a start would, without starting.

use super::{Components, Error, check_prices, outward};
use crate::auth::Issuers;
use crate::config::{self, Config};
use crate::provider;
use crate::runtime;
use crate::service;
use crate::tool::{Registry, builtin, policy};
use crate::traces::Traces;

/// Everything that is wrong with the loaded settings, except what only the store or the network can show.
pub(crate) fn check(config: &Config) -> Vec<Error> {
    let components = match Components::of(config) {
        Ok(components) => components,
        Err(fault) => return vec![fault.into()],
    };
    let egress = match outward::common_egress(config) {
        Ok(egress) => egress,
        Err(error) => return vec![error.into()],
    };
    let prices = check_prices(config, &*components.models);
    let core = runtime::find_core(&components.cores, &config.agent.core).map(|_| ()).map_err(Error::from);
    let tools = outward::http_tools(config, &egress).and_then(|http| {
        let tools = components.tools.into_iter().chain(builtin::calling_out(&egress)).chain(http).collect();
        Registry::new(tools, config.env).map(drop).map_err(Error::from)
    });
    let found = [
        prices,
        core,
        tools,
        provider::demo_script(&config.models).map(drop).map_err(Error::from),
        service::check_system_prompt(&config.agent).map_err(Error::from),
        service::check_execution(&config.agent).map_err(Error::from),
        policy::check_server(config).map_err(Error::from),
        outward::tenant_allows(config).map(drop).map_err(Error::from),
        outward::webhooks(config).map(drop).map_err(Error::from),
        outward::operator_agents(config).map(drop).map_err(Error::from),
        Issuers::new(&config.auth.oidc, &egress).map(drop).map_err(|why| config::Error(why).into()),
        Traces::new(&config.telemetry, "", egress.clone()).map(drop).map_err(|why| config::Error(why).into()),
    ];
    found.into_iter().filter_map(Result::err).collect()
}
