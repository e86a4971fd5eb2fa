//! `pes doctor`

use std::io::Write;

use super::Error;
use crate::auth::OPEN_TENANT;
use crate::config::{self, Config};
use crate::provider::{self, CheckStatus, ModelInfo, Models};

/// A line per model; it failed if one of them does not answer.
pub(super) async fn doctor(config: &Config) -> Result<(), Error> {
    let models = Models::new(&config.models).map_err(|fault| Error::Config(config::Error(fault.detail)))?;
    let checked = provider::check(&models, OPEN_TENANT).await;
    let mut out = std::io::stdout();
    for model in &checked {
        // Whoever reads it may have gone.
        let _ = writeln!(out, "{}", line(model));
    }
    let silent =
        checked.iter().filter(|model| model.check.as_ref().is_some_and(|check| check.status != CheckStatus::Ok));
    match silent.count() {
        0 => Ok(()),
        count => Err(Error::Failed(format!("{count} of {} models do not answer", checked.len()))),
    }
}

fn line(model: &ModelInfo) -> String {
    let mark = if model.is_default { " (default)" } else { "" };
    let name = format!("{}:{}{mark}", model.provider, model.model);
    let Some(check) = &model.check else { return name };
    let status = match check.status {
        CheckStatus::Ok => "ok",
        CheckStatus::KeyRefused => "key refused",
        CheckStatus::ModelUnknown => "model unknown",
        CheckStatus::Unreachable => "unreachable",
        CheckStatus::Busy => "busy",
        CheckStatus::Failed => "failed",
    };
    let detail = check.detail.as_ref().map(|detail| format!(": {}", detail.replace('\n', " "))).unwrap_or_default();
    format!("{name}  {status} in {} ms{detail}", check.took_ms)
}
