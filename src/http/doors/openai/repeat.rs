//! A request that is sent again because its client got no answer in time: OpenAI's libraries do that by themselves, and count
//! it in a header. What came of the first is answered; nothing is done twice.

use axum::http::HeaderMap;
use serde_json::json;

use super::asking::{Asker, answer_key};
use crate::domain::Millis;
use crate::domain::digest;
use crate::domain::facts::Fact;
use crate::domain::fault::{Code, Fault};
use crate::domain::hitl::{AskedQuestion, ExpiryPolicy};
use crate::domain::ids::{RunId, SuspensionId, ThreadId};
use crate::domain::lookup::{FoundRun, LookupKey};
use crate::domain::message::MessageRole;
use crate::domain::observation::ObservationType;
use crate::domain::run::RunStatus;
use crate::http::doors::told::{Says, ToldFact};
use crate::service::feed::{self, After, FeedAsk};
use crate::service::once::{self, Idempotent};
use crate::service::{lookups, runs};

/// How often a request was sent before.
const COUNT: &str = "x-stainless-retry-count";

/// A request that is older is another one.
const FRESH: Millis = 10 * 60 * 1000;

/// Observations that are read at once.
const CHUNK: u32 = 200;

const HEARD: [ObservationType; 4] = [
    ObservationType::StateUpdate,
    ObservationType::AgentSuspended,
    ObservationType::AgentResumed,
    ObservationType::SuspensionTimeout,
];

/// A request by all that it says.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Whole {
    /// What a run that begins with it is found under.
    pub(super) begins: LookupKey,
    /// What a run that goes on with it is found under.
    pub(super) answers: LookupKey,
    is_again: bool,
}

/// What came of the same request before.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum First {
    Began(FoundRun),
    Answered(FoundRun),
}

impl Whole {
    /// `named` is the thread that the headers or the body name.
    pub(super) fn of(
        asker: &Asker,
        headers: &HeaderMap,
        key: Option<&Idempotent>,
        (path, fingerprint): (&str, &str),
        named: Option<&ThreadId>,
    ) -> Self {
        let caller = &asker.caller;
        let key = key.map(|key| &key.key);
        let digest = digest::of(&json!([caller.tenant.0, caller.name, path, fingerprint, named, key]));
        let count = headers.get(COUNT).and_then(|count| count.to_str().ok()?.trim().parse::<u32>().ok());
        Self {
            begins: LookupKey { kind: "request", digest: digest.clone() },
            answers: LookupKey { kind: "answering request", digest },
            is_again: count.is_some_and(|count| count > 0),
        }
    }

    /// A run that was cancelled meanwhile is begun anew, as its client has seen nothing of it; under a key nothing is.
    pub(super) async fn first(&self, asker: &Asker, key: Option<&Idempotent>) -> Result<Option<First>, Fault> {
        let (service, caller) = (&asker.app.service, &asker.caller);
        let is_again = match key {
            // A key is stored under itself by a query, and under `<key>.0` by the first answer of a request; either one means
            // that this request was taken before.
            Some(key) => {
                once::is_repeat(service, caller, key).await?
                    || once::is_repeat(service, caller, &answer_key(key, 0)).await?
            }
            None => self.is_again,
        };
        if !is_again {
            return Ok(None);
        }
        let newest =
            async |key: &LookupKey| lookups::find(service, caller, key, 1).await.map(|found| found.into_iter().next());
        let (began, answered) = (newest(&self.begins).await?, newest(&self.answers).await?);
        let found = began.map(First::Began).into_iter().chain(answered.map(First::Answered));
        let Some(first) = found.max_by_key(|first| first.found().created_at) else { return Ok(None) };
        let found = first.found();
        if key.is_none() && found.created_at + FRESH < service.now() {
            return Ok(None);
        }
        match runs::get(service, caller, &found.run_id).await {
            Err(fault) if fault.code == Code::NotFound => Ok(None),
            run => Ok((run?.status != RunStatus::Cancelled || key.is_some()).then_some(first)),
        }
    }
}

impl First {
    fn found(&self) -> &FoundRun {
        match self {
            First::Began(found) | First::Answered(found) => found,
        }
    }
}

/// The last place of the log before the run was accepted.
pub(super) async fn began_at(asker: &Asker, found: &FoundRun) -> Result<i64, Fault> {
    let (mut after, types) = (0, vec![ObservationType::StateUpdate, ObservationType::RunStarted]);
    loop {
        let ask = FeedAsk { after: After::Seq(after), types: types.clone(), ..FeedAsk::default() };
        let page = feed::page(&asker.app.service, &asker.caller, &found.thread_id, ask, CHUNK).await?;
        if let Some(first) = page.items.iter().find(|told| told.timestamp >= found.created_at) {
            return Ok(first.seq - 1);
        }
        match (page.items.last(), page.next_cursor) {
            (Some(last), Some(_)) => after = last.seq,
            (_, _) => return Ok(0),
        }
    }
}

/// Where answers came in that were given in one request.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct AnswersAt {
    /// What was open before, oldest first.
    pub(super) open: Vec<AskedQuestion>,
    /// The last place of the log before.
    pub(super) seq: i64,
    pub(super) count: u32,
}

/// The answers that a request gave: by these ids, or by its text.
pub(super) async fn answers_at(
    asker: &Asker,
    found: &FoundRun,
    is_named: impl Fn(&SuspensionId) -> bool,
) -> Result<AnswersAt, Fault> {
    let mut reader =
        Reader { run: &found.run_id, since: found.created_at, said_at: 0, is_begun: false, at: AnswersAt::default() };
    let mut after = 0;
    loop {
        let ask = FeedAsk { after: After::Seq(after), types: HEARD.to_vec(), ..FeedAsk::default() };
        let page = feed::page(&asker.app.service, &asker.caller, &found.thread_id, ask, CHUNK).await?;
        for observation in page.items {
            after = observation.seq;
            if let Ok(told) = ToldFact::of(observation) {
                reader.told(&told, &is_named);
            }
        }
        if page.next_cursor.is_none() {
            return Ok(reader.at);
        }
    }
}

struct Reader<'a> {
    run: &'a RunId,
    since: Millis,
    /// Where somebody said something last.
    said_at: i64,
    is_begun: bool,
    at: AnswersAt,
}

impl Reader<'_> {
    fn told(&mut self, told: &ToldFact, is_named: impl Fn(&SuspensionId) -> bool) {
        let Says::Fact(fact) = &told.says else { return };
        match fact {
            Fact::StateUpdate(body) => {
                if body.message.as_ref().is_some_and(|message| message.role == MessageRole::User) {
                    self.said_at = told.seq;
                }
            }
            Fact::AgentSuspended(asked) if told.run == *self.run && !self.is_begun => self.at.open.push(asked.clone()),
            Fact::AgentSuspended(_) => {}
            Fact::AgentResumed(body) if told.run == *self.run && told.at >= self.since => {
                let is_said = self.said_at + 1 == told.seq;
                if !self.is_begun {
                    (self.is_begun, self.at.seq) = (true, told.seq - if is_said { 2 } else { 1 });
                }
                let is_first = self.at.count == 0;
                self.at.count += u32::from(is_first || is_named(&body.suspension_id));
            }
            Fact::AgentResumed(body) => self.closed(&body.suspension_id),
            Fact::SuspensionTimeout(body) if body.policy != ExpiryPolicy::Remind => self.closed(&body.suspension_id),
            Fact::SuspensionTimeout(_)
            | Fact::RunStarted(_)
            | Fact::RunFinished(_)
            | Fact::FinalResponse(_)
            | Fact::Intent(_)
            | Fact::Title(_)
            | Fact::Plan(_)
            | Fact::PlanUpdate(_)
            | Fact::ItemStatusChange(_)
            | Fact::LlmStreamStart(_)
            | Fact::LlmStreamEnd(_)
            | Fact::LlmStreamMetadata(_)
            | Fact::LlmStreamError(_)
            | Fact::Thoughts(_)
            | Fact::ToolCall(_)
            | Fact::ToolExecution(_)
            | Fact::A2aTask(_)
            | Fact::Synthesis(_)
            | Fact::Error(_) => {}
        }
    }

    fn closed(&mut self, id: &SuspensionId) {
        if !self.is_begun {
            self.at.open.retain(|open| open.suspension_id != *id);
        }
    }
}
