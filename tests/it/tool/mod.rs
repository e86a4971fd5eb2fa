//! Tools: the policy before they run, and the results of the built-in ones.

mod answers;
mod at_once;
mod builtins;
mod conditions;
mod many;
mod policy;
mod registry;
mod sources;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::FutureExt;
use pes::config::Environment;
use pes::domain::ids::{TenantPk, ThreadId};
use pes::domain::settings::{PolicyAction, RunSettings};
use pes::domain::tool::{Proposal, Verdict};
use pes::engine::Toolbox;
use pes::tool::{Registry, Toolset, builtin};
use serde_json::Value;

pub fn everything(environment: Environment) -> Arc<Toolset> {
    let tools = builtin::all().into_iter().chain(builtin::demo()).collect();
    own_tools(Registry::new(tools, environment).unwrap())
}

/// The toolset of a registry without sources and policies, which needs no build.
pub fn own_tools(registry: Registry) -> Arc<Toolset> {
    Arc::new(registry).toolset(TenantPk(1)).now_or_never().expect("nothing is to be built")
}

/// The outcome of a call on the thread `t`.
pub fn judge(tools: &Toolset, settings: &RunSettings, tool: &str, arguments: &Value) -> Verdict {
    let thread = ThreadId::from("t");
    tools.judge(&Proposal { thread: &thread, settings, tool, arguments }).verdict
}

pub fn settings(enabled: Option<&[&str]>, policy: &[(&str, PolicyAction)]) -> RunSettings {
    RunSettings {
        enabled_tools: enabled.map(|names| names.iter().map(|name| (*name).to_owned()).collect()),
        tool_policy: policy.iter().map(|(name, action)| ((*name).to_owned(), *action)).collect::<BTreeMap<_, _>>(),
        ..RunSettings::default()
    }
}
