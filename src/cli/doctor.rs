//! `pes doctor`: one line for each thing that a server with this configuration needs.

mod around;
mod folder;
mod mcp;

use std::future::ready;

use serde_json::json;

use super::Error;
use super::client::{line, print};
use crate::app::{self, checks};
use crate::auth::OPEN_TENANT;
use crate::config::env::Variables;
use crate::config::{self, Config};
use crate::provider::gate::CallPass;
use crate::provider::{self, CheckStatus, ModelInfo, Models};
use crate::telemetry;

/// The result of one check.
struct Finding {
    what: String,
    said: String,
    is_well: bool,
}

impl Finding {
    fn of(what: impl Into<String>, found: Result<String, String>) -> Self {
        let is_well = found.is_ok();
        let said = line(&found.unwrap_or_else(|why| why));
        Self { what: what.into(), said, is_well }
    }

    fn print(&self) -> Result<(), Error> {
        let Self { what, said, is_well } = self;
        print(&format!("{} {what}  {said}", if *is_well { "ok  " } else { "FAIL" }))
    }
}

fn document(findings: &[Finding]) -> String {
    let check = |Finding { what, said, is_well }: &Finding| json!({ "check": what, "ok": is_well, "detail": said });
    let is_well = findings.iter().all(|finding| finding.is_well);
    json!({ "ok": is_well, "checks": findings.iter().map(check).collect::<Vec<_>>() }).to_string()
}

/// Fails if any check fails. `json`: prints the results as one document.
pub(super) async fn doctor(config: &Config, variables: &Variables, json: bool) -> Result<(), Error> {
    let models = Models::new(&config.models).map_err(|fault| Error::Config(config::Error(fault.in_full())))?;
    let mut findings = settings(config);
    findings.extend(around::findings(config, variables).await);
    let checked = provider::check(&models, OPEN_TENANT, |_| ready(Ok(CallPass::without_gate()))).await;
    findings.extend(checked.iter().map(|model| Finding::of(name(&model.info), answers(&model.info))));
    let printed = if json { print(&document(&findings)) } else { findings.iter().try_for_each(Finding::print) };
    // The exit code stays correct if stdout is closed.
    match findings.iter().filter(|finding| !finding.is_well).count() {
        0 => printed,
        count => Err(Error::Failed(format!("{count} of {} checks failed", findings.len()))),
    }
}

/// Checks for settings that a start would refuse.
fn settings(config: &Config) -> Vec<Finding> {
    let filter = telemetry::check(&config.log).map_err(app::Error::from);
    let wrong: Vec<app::Error> = filter.err().into_iter().chain(checks::check(config)).collect();
    if wrong.is_empty() {
        return vec![Finding::of("settings", Ok("a server starts with them".to_owned()))];
    }
    wrong.into_iter().map(|error| Finding::of("settings", Err(error.to_string()))).collect()
}

fn name(model: &ModelInfo) -> String {
    let mark = if model.is_default { " (default)" } else { "" };
    format!("model {}:{}{mark}", model.provider, model.model)
}

fn answers(model: &ModelInfo) -> Result<String, String> {
    let Some(check) = &model.check else { return Ok("not asked".to_owned()) };
    let (is_well, status) = match check.status {
        CheckStatus::Ok => (true, "answers"),
        CheckStatus::KeyRefused => (false, "key refused"),
        CheckStatus::ModelUnknown => (false, "model unknown"),
        CheckStatus::Unreachable => (false, "unreachable"),
        CheckStatus::Busy => (false, "busy"),
        CheckStatus::Failed => (false, "failed"),
    };
    let said = check.detail.as_ref().or(check.warning.as_ref());
    let detail = said.map(|said| format!(": {said}")).unwrap_or_default();
    let line = format!("{status} in {} ms{detail}", check.took_ms);
    if is_well { Ok(line) } else { Err(line) }
}
