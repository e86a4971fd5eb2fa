//! Detects a request that is sent again because its client got no response in time. OpenAI's libraries retry by
//! themselves and count the attempts in a header. The response then shows what the first request led to, and nothing is
//! done twice.

use axum::http::HeaderMap;
use serde_json::json;

use super::run_request::answer_key;
use crate::domain::Millis;
use crate::domain::digest;
use crate::domain::facts::Fact;
use crate::domain::fault::{Code, Fault};
use crate::domain::hitl::AskedQuestion;
use crate::domain::ids::{RunId, SuspensionId, ThreadId};
use crate::domain::lookup::{FoundRun, LookupKey};
use crate::domain::observation::ObservationType;
use crate::domain::run::RunStatus;
use crate::http::doors::DoorRequest;
use crate::http::doors::conversation::{self, LogPages};
use crate::http::doors::frames::{DecodedObservation, ObservationContent};
use crate::service::feed::FeedAsk;
use crate::service::once::{self, Idempotent};
use crate::service::{lookups, runs};

/// The header that counts the earlier attempts.
const RETRY_COUNT_HEADER: &str = "x-stainless-retry-count";

/// The age after which a first request no longer counts as the same one.
const MAX_RETRY_AGE: Millis = 10 * 60 * 1000;

const OBSERVATION_TYPES: [ObservationType; 4] = [
    ObservationType::StateUpdate,
    ObservationType::AgentSuspended,
    ObservationType::AgentResumed,
    ObservationType::SuspensionTimeout,
];

/// Identifies a request by everything that it contains.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RequestIdentity {
    /// The key of a run that the request starts.
    pub(super) begins: LookupKey,
    /// The key of a run that the request answers.
    pub(super) answers: LookupKey,
    is_retry: bool,
}

/// What the same request led to before.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum EarlierRequest {
    Began(FoundRun),
    Answered(FoundRun),
}

impl RequestIdentity {
    /// `named` is the thread that the headers or the body name.
    pub(super) fn of(
        ctx: &DoorRequest,
        headers: &HeaderMap,
        key: Option<&Idempotent>,
        (path, fingerprint): (&str, &str),
        named: Option<&ThreadId>,
    ) -> Self {
        let caller = &ctx.caller;
        let key = key.map(|key| &key.key);
        let digest = digest::of(&json!([caller.tenant.0, caller.name, path, fingerprint, named, key]));
        let count = headers.get(RETRY_COUNT_HEADER).and_then(|count| count.to_str().ok()?.trim().parse::<u32>().ok());
        Self {
            begins: LookupKey { kind: "request", digest: digest.clone() },
            answers: LookupKey { kind: "answering request", digest },
            is_retry: count.is_some_and(|count| count > 0),
        }
    }

    /// What the first request led to. If its run was cancelled, a retry without an idempotency key starts a new run,
    /// because the client has seen nothing of the cancelled one.
    pub(super) async fn earlier(
        &self,
        ctx: &DoorRequest,
        key: Option<&Idempotent>,
    ) -> Result<Option<EarlierRequest>, Fault> {
        let (service, caller) = (&ctx.app.service, &ctx.caller);
        let is_retry = match key {
            // A query stores the key itself, and the first answer of a request stores `<key>.0`. Either one shows that
            // this request was accepted before.
            Some(key) => {
                once::is_repeat(service, caller, key).await?
                    || once::is_repeat(service, caller, &answer_key(key, 0)).await?
            }
            None => self.is_retry,
        };
        if !is_retry {
            return Ok(None);
        }
        let newest =
            async |key: &LookupKey| lookups::find(service, caller, key, 1).await.map(|found| found.into_iter().next());
        let (began, answered) = (newest(&self.begins).await?, newest(&self.answers).await?);
        let found = began.map(EarlierRequest::Began).into_iter().chain(answered.map(EarlierRequest::Answered));
        let Some(first) = found.max_by_key(|first| first.found().created_at) else { return Ok(None) };
        let found = first.found();
        if key.is_none() && found.created_at + MAX_RETRY_AGE < service.now() {
            return Ok(None);
        }
        match runs::get(service, caller, &found.run_id).await {
            Err(fault) if fault.code == Code::NotFound => Ok(None),
            run => Ok((run?.status != RunStatus::Cancelled || key.is_some()).then_some(first)),
        }
    }
}

impl EarlierRequest {
    fn found(&self) -> &FoundRun {
        match self {
            EarlierRequest::Began(found) | EarlierRequest::Answered(found) => found,
        }
    }
}

/// The last `seq` before the run was accepted.
pub(super) async fn seq_before_run(ctx: &DoorRequest, found: &FoundRun) -> Result<i64, Fault> {
    let types = vec![ObservationType::StateUpdate, ObservationType::RunStarted];
    let ask = FeedAsk { types, ..FeedAsk::default() };
    let mut pages = LogPages::new(&ctx.app, &ctx.caller, &found.thread_id, ask);
    while let Some(page) = pages.next().await? {
        if let Some(first) = page.items.iter().find(|observation| observation.timestamp >= found.created_at) {
            return Ok(first.seq - 1);
        }
    }
    Ok(0)
}

/// The answers that one request gave, located in the log.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct LocatedAnswers {
    /// The questions that were open before and are not among those answered, oldest first.
    pub(super) open: Vec<AskedQuestion>,
    /// The last `seq` before the answers.
    pub(super) seq: i64,
    pub(super) count: u32,
}

/// Locates the answers that a request gave, by these ids or by its text.
pub(super) async fn locate_answers(
    ctx: &DoorRequest,
    found: &FoundRun,
    is_named: impl Fn(&SuspensionId) -> bool,
) -> Result<LocatedAnswers, Fault> {
    let mut reader = AnswersReader {
        run: &found.run_id,
        since: found.created_at,
        last_user_seq: 0,
        is_begun: false,
        at: LocatedAnswers::default(),
    };
    let apply = |observation: DecodedObservation| reader.apply(&observation, &is_named);
    conversation::for_each_observation(&ctx.app, &ctx.caller, &found.thread_id, &OBSERVATION_TYPES, apply).await?;
    Ok(reader.at)
}

struct AnswersReader<'a> {
    run: &'a RunId,
    since: Millis,
    /// The `seq` of the last message of a user.
    last_user_seq: i64,
    is_begun: bool,
    at: LocatedAnswers,
}

impl AnswersReader<'_> {
    fn apply(&mut self, observation: &DecodedObservation, is_named: impl Fn(&SuspensionId) -> bool) {
        if observation.is_user_message() {
            self.last_user_seq = observation.seq;
        }
        let is_own = observation.run == *self.run;
        if let ObservationContent::Fact(Fact::AgentSuspended(asked)) = &observation.content
            && is_own
            && !self.is_begun
        {
            self.at.open.push(asked.clone());
        }
        let Some(closed) = observation.closes() else { return };
        let is_answer = observation.kind == ObservationType::AgentResumed && is_own && observation.at >= self.since;
        if is_answer {
            let is_said = self.last_user_seq + 1 == observation.seq;
            if !self.is_begun {
                (self.is_begun, self.at.seq) = (true, observation.seq - if is_said { 2 } else { 1 });
            }
            if self.at.count == 0 || is_named(closed) {
                self.at.count += 1;
                self.at.open.retain(|open| open.suspension_id != *closed);
            }
        } else if !self.is_begun {
            self.at.open.retain(|open| open.suspension_id != *closed);
        }
    }
}
