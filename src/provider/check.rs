//! Checks whether models answer: a short call to each, all concurrently, in bounded time.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use serde_json::{Map, json};
use tokio::time::{Instant, timeout};

use super::{Catalog, ModelInfo};
use crate::domain::fault::Fault;
use crate::domain::model::{CallContext, FailureKind, ModelFailure, ModelRequest, Phase};
use crate::domain::prompt::PromptMessage;

/// The timeout for a model's first output: a local model may have to be loaded from disk.
const PATIENCE: Duration = Duration::from_secs(20);
/// Enough for a word; some models reject smaller values.
const MAX_TOKENS: u32 = 16;

/// What came of asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckStatus {
    Ok,
    KeyRefused,
    ModelUnknown,
    Unreachable,
    /// It is there, and has no time or no quota now.
    Busy,
    Failed,
}

/// Whether a model answers, and why not. It shows no secret.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelCheck {
    pub status: CheckStatus,
    /// What the provider said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// What is wrong although it may answer: its key stands in a file that holds none any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// Until the first word, or until it was clear that none comes.
    pub took_ms: u64,
}

/// Checks every listed model with the keys of this tenant.
pub async fn check(models: &dyn Catalog, tenant: &str) -> Vec<ModelInfo> {
    let asked = models.list().into_iter().map(|info| async move {
        let began = Instant::now();
        let (status, detail) = match timeout(PATIENCE, ask(models, tenant, &info)).await {
            Ok(Ok(())) => (CheckStatus::Ok, None),
            Ok(Err((status, detail))) => (status, Some(detail)),
            Err(_) => (CheckStatus::Unreachable, Some(format!("no answer within {} s", PATIENCE.as_secs()))),
        };
        let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let warning = models.model_of(tenant, &info.provider).ok().and_then(|client| client.warning());
        ModelInfo { check: Some(ModelCheck { status, detail, warning, took_ms }), ..info }
    });
    join_all(asked).await
}

async fn ask(models: &dyn Catalog, tenant: &str, info: &ModelInfo) -> Result<(), (CheckStatus, String)> {
    let refused = |fault: Fault| (CheckStatus::Failed, fault.detail);
    let client = models.model_of(tenant, &info.provider).map_err(refused)?;
    let mut params = Map::from_iter([("maxTokens".to_owned(), json!(MAX_TOKENS))]);
    if client.admit(&info.model, &params).is_err() {
        params.clear();
    }
    let request = ModelRequest {
        provider: info.provider.clone(),
        model: info.model.clone(),
        phase: Phase::Synthesis,
        messages: vec![PromptMessage::User { content: "Say ok.".to_owned() }],
        tools: Vec::new(),
        response_schema: None,
        params,
        trace_id: String::new(),
        trace: Default::default(),
        context: CallContext::default(),
    };
    let failed = |failure: ModelFailure| (status(&failure), failure.message);
    let mut deltas = client.call(request).await.map_err(failed)?;
    // The first delta is enough; the rest is not read.
    match deltas.next().await {
        Some(Ok(_)) => Ok(()),
        Some(Err(failure)) => Err(failed(failure)),
        None => Err((CheckStatus::Failed, "the reply was empty".to_owned())),
    }
}

fn status(failure: &ModelFailure) -> CheckStatus {
    let words = failure.message.to_lowercase();
    let is_of_key = ["api key not valid", "api_key_invalid", "invalid api key", "invalid x-api-key"];
    match (failure.http_status, failure.kind) {
        (Some(401 | 403), _) => CheckStatus::KeyRefused,
        (Some(400), _) if is_of_key.iter().any(|said| words.contains(said)) => CheckStatus::KeyRefused,
        (Some(404), _) => CheckStatus::ModelUnknown,
        (Some(400 | 422), _) if words.contains("model") && !words.contains("param") => CheckStatus::ModelUnknown,
        (Some(402 | 429 | 503 | 529), _) => CheckStatus::Busy,
        (Some(_), _) => CheckStatus::Failed,
        (None, FailureKind::Unreachable | FailureKind::Retry) => CheckStatus::Unreachable,
        (None, FailureKind::Saturated | FailureKind::BreakerOpen) => CheckStatus::Busy,
        (
            None,
            FailureKind::Refused
            | FailureKind::Broken
            | FailureKind::Incomplete
            | FailureKind::Interrupted
            | FailureKind::Overflow
            | FailureKind::TooLarge
            | FailureKind::TooLong,
        ) => CheckStatus::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::http::failure;

    #[test]
    fn the_reason_is_told_apart() {
        let table = [
            (Some(401), "no", CheckStatus::KeyRefused),
            (Some(400), "API key not valid. Please pass a valid API key.", CheckStatus::KeyRefused),
            (Some(404), "model `x` not found", CheckStatus::ModelUnknown),
            (Some(400), "x is not a valid model ID", CheckStatus::ModelUnknown),
            (Some(429), "slow down", CheckStatus::Busy),
            (Some(500), "oh", CheckStatus::Failed),
            (None, "cannot reach it", CheckStatus::Unreachable),
        ];
        for (http_status, message, expected) in table {
            let failure = ModelFailure { http_status, ..failure(FailureKind::Retry, message) };
            assert_eq!(status(&failure), expected, "{message}");
        }
    }
}
