//! Checks whether models answer: a short call to each, all concurrently, in bounded time.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use serde_json::{Map, json};
use tokio::time::{Instant, timeout};

use super::gate::CallPass;
use super::{Catalog, ModelInfo};
use crate::domain::fault::Fault;
use crate::domain::model::{CallContext, Delta, FailureKind, ModelFailure, ModelRequest, Phase, Usage};
use crate::domain::prompt::PromptMessage;
use crate::domain::tokens;

/// The timeout for a model's first output.
const PATIENCE: Duration = Duration::from_secs(20);
/// The same for a local model, which may have to be loaded from disk.
const LOADING_PATIENCE: Duration = Duration::from_secs(60);
/// How long the rest of the reply is read, at whose end the usage is reported.
const REST_TIMEOUT: Duration = Duration::from_secs(10);
const QUESTION: &str = "Say ok.";
/// Enough for a word; some models reject smaller values.
const MAX_TOKENS: u32 = 16;

/// The outcome of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckStatus {
    /// It answered.
    Ok,
    /// The provider does not take the key.
    KeyRefused,
    /// The provider has no such model.
    ModelUnknown,
    /// The provider cannot be reached.
    Unreachable,
    /// It exists, but has no capacity or no quota at present.
    Busy,
    /// It failed otherwise; `detail` says how.
    Failed,
}

/// Whether a model answers, and why not. It shows no secret.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelCheck {
    /// Whether it answers.
    pub status: CheckStatus,
    /// What the provider said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// A problem that does not prevent answers: the file of its key no longer contains one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// Until the first word, or until it was clear that none comes.
    pub took_ms: u64,
}

/// A model that was checked.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckedModel {
    /// The model and its provider.
    pub info: ModelInfo,
    /// What its call used: as reported, else estimated. `None`: it did not begin to answer.
    pub usage: Option<Usage>,
}

/// Checks every listed model with the keys of this tenant. `acquire` gets the permission to call a provider.
pub async fn check<F>(models: &dyn Catalog, tenant: &str, acquire: impl Fn(String) -> F) -> Vec<CheckedModel>
where
    F: Future<Output = Result<CallPass, ModelFailure>>,
{
    let acquire = &acquire;
    let asked = models.list().into_iter().map(|info| async move {
        let (began, mut reply) = (Instant::now(), Reply::default());
        let pass = acquire(info.provider.clone());
        let (status, detail) = match ask(models, tenant, &info, pass, &mut reply).await {
            Ok(()) => (CheckStatus::Ok, None),
            Err((status, detail)) => (status, Some(detail)),
        };
        let took = reply.first_at.unwrap_or_else(Instant::now) - began;
        let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let warning = models.model_of(tenant, &info.provider).ok().and_then(|client| client.warning());
        let check = Some(ModelCheck { status, detail, warning, took_ms });
        CheckedModel { info: ModelInfo { check, ..info }, usage: reply.usage() }
    });
    join_all(asked).await
}

/// A reply as far as it was read.
#[derive(Default)]
struct Reply {
    first_at: Option<Instant>,
    text: String,
    reported: Usage,
    is_whole: bool,
}

impl Reply {
    fn take(&mut self, delta: Delta) {
        self.first_at.get_or_insert_with(Instant::now);
        match delta {
            Delta::Text(piece) | Delta::Thinking(piece) => self.text.push_str(&piece),
            Delta::Usage(usage) => self.reported = usage,
            Delta::Stop(_) => self.is_whole = true,
            Delta::WasThinking | Delta::ToolCall { .. } | Delta::Replay(_) => {}
        }
    }

    /// A call that failed reports its usage with the failure.
    fn failed(&mut self, failure: ModelFailure) -> (CheckStatus, String) {
        let status = status(&failure);
        self.reported = failure.usage.unwrap_or_default();
        (status, failure.message)
    }

    fn usage(&self) -> Option<Usage> {
        let reported = self.reported.clone();
        let is_reported = reported != Usage::default();
        if is_reported && self.is_whole {
            return Some(reported);
        }
        let input_tokens = if reported.input_tokens > 0 { reported.input_tokens } else { tokens::of_text(QUESTION) };
        let output_tokens =
            reported.output_tokens.max(if self.text.is_empty() { 0 } else { tokens::of_text(&self.text) });
        let has_begun = is_reported || self.first_at.is_some();
        has_begun.then_some(Usage { input_tokens, output_tokens, ..reported })
    }
}

async fn ask(
    models: &dyn Catalog,
    tenant: &str,
    info: &ModelInfo,
    pass: impl Future<Output = Result<CallPass, ModelFailure>>,
    reply: &mut Reply,
) -> Result<(), (CheckStatus, String)> {
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
        messages: vec![PromptMessage::User { content: QUESTION.to_owned() }],
        tools: Vec::new(),
        response_schema: None,
        params,
        trace_id: String::new(),
        trace: Default::default(),
        context: CallContext::default(),
    };
    let no_place =
        |_| (CheckStatus::Busy, format!("no place at this provider came free within {} s", PATIENCE.as_secs()));
    let pass = timeout(PATIENCE, pass).await.map_err(no_place)?.map_err(|failure| reply.failed(failure))?;
    let begin = async {
        let mut deltas = pass.call(&*client, request).await?;
        let first = deltas.next().await.transpose()?;
        Ok::<_, ModelFailure>((deltas, first))
    };
    let patience = if client.is_local() { LOADING_PATIENCE } else { PATIENCE };
    let late = |_| (CheckStatus::Unreachable, format!("no answer within {} s", patience.as_secs()));
    let begun = timeout(patience, begin).await.map_err(late)?;
    let (mut deltas, first) = begun.map_err(|failure| reply.failed(failure))?;
    reply.take(first.ok_or_else(|| (CheckStatus::Failed, "the reply was empty".to_owned()))?);
    let rest = async {
        while let Some(Ok(delta)) = deltas.next().await {
            reply.take(delta);
        }
    };
    // It answers, whatever becomes of the rest.
    let _ = timeout(REST_TIMEOUT, rest).await;
    Ok(())
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
