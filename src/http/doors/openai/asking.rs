//! What both kinds of requests come to: a new run, or the answer to what a run asks.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::made::Made;
use super::models::NamedModel;
use super::refusal::Refusal;
use crate::domain::caller::{Caller, Scope};
use crate::domain::fault::{Code, Fault};
use crate::domain::hitl::{Answer, Suspension, SuspensionKind};
use crate::domain::ids::{RunId, SuspensionId, ThreadId};
use crate::domain::lookup::LookupKey;
use crate::domain::message::HistoryMessage;
use crate::domain::run::{OnBusy, RunStatus};
use crate::domain::settings::{CallOptions, ThreadConfig};
use crate::domain::which_thread::{self, Said};
use crate::http::app_state::AppState;
use crate::http::doors::{question, text_reply};
use crate::http::reply_preferences::ReplyPreferences;
use crate::service::feed::{self, After, EarlySubscription};
use crate::service::once::Idempotent;
use crate::service::runs::{self, ContinueAt, ProcessAsk, SaidAsk};
use crate::service::suspensions;
use crate::service::threads::NewThreadAsk;

/// What stands in the metadata of the message that a client of OpenAI asks with.
pub(super) const STORED: &str = "openai";

/// Who asks, and how it wants to be answered.
pub(super) struct Asker {
    pub(super) app: AppState,
    pub(super) caller: Caller,
    pub(super) preferences: ReplyPreferences,
}

/// Where an answer comes from.
pub(super) enum Follow {
    /// What happens from here on.
    Live(EarlySubscription),
    /// What happens after this place of the log.
    After(After),
    /// Nothing: what is asked is asked again.
    AskedAgain,
}

/// A run that was begun.
pub(super) struct Begun {
    pub(super) thread: ThreadId,
    pub(super) run: RunId,
    pub(super) follow: Follow,
    /// That thread, if it is erased when the answer is told.
    pub(super) throw_away: Option<Made>,
}

/// The questions that are open on a thread, oldest first; none where there is no such thread yet.
pub(super) async fn open_on(asker: &Asker, thread: &ThreadId) -> Result<Vec<Suspension>, Refusal> {
    match suspensions::open_on(&asker.app.service, &asker.caller, thread).await {
        Err(fault) if fault.code == Code::NotFound => Ok(Vec::new()),
        found => Ok(found?),
    }
}

/// The questions that a text may be for, the oldest first: people are asked them, and no approval of the request answers them.
pub(super) fn for_people<'o>(open: &'o [Suspension], approvals: &Approvals) -> Vec<&'o Suspension> {
    let is_asked = |open: &&Suspension| is_for_people(open) && !approvals.contains_key(&open.suspension_id);
    open.iter().filter(is_asked).collect()
}

pub(super) fn is_for_people(question: &Suspension) -> bool {
    question.kind != SuspensionKind::ClientTool
}

/// Whether a client that sends this conversation was shown the first of these open questions last, and none before it that was
/// answered since. One that sends no words of the agent is believed.
pub(super) async fn is_shown(
    asker: &Asker,
    said: &[Said],
    thread: &ThreadId,
    open: &[&Suspension],
) -> Result<bool, Refusal> {
    let urls = suspensions::urls(&asker.app.service);
    let text = |question: &Suspension| question::text(&question.asked(), urls.as_ref());
    let Some(run) = open.first().map(|question| &question.run_id) else { return Ok(true) };
    let open: Vec<String> = open.iter().map(|question| text(question)).collect();
    let answered = suspensions::past_of_run(&asker.app.service, &asker.caller, thread, run).await?;
    let answered: Vec<String> = answered.iter().filter(|one| is_for_people(one)).map(text).collect();
    Ok(which_thread::asks_first(said, &open, &answered).unwrap_or(true))
}

/// What a client says to questions by their ids, with its reasons.
pub(super) type Approvals = HashMap<SuspensionId, (bool, Option<String>)>;

/// A query that becomes a run.
pub(super) struct NewRun {
    pub(super) thread: ThreadId,
    pub(super) query: String,
    /// Of the user's message.
    pub(super) metadata: Option<Map<String, Value>>,
    pub(super) user: Option<String>,
    pub(super) on_busy: OnBusy,
    pub(super) options: CallOptions,
    /// What was said before, for a thread that begins with this.
    pub(super) history: Vec<HistoryMessage>,
    /// Where on the thread; `None`: at its end.
    pub(super) continue_at: Option<ContinueAt>,
    /// What the run is to be found under.
    pub(super) lookups: Vec<LookupKey>,
    /// That thread, if it was made for this.
    pub(super) made: Option<Made>,
}

impl NewRun {
    /// Where no run is begun nothing stays of a thread that was made for it.
    pub(super) async fn begin(
        mut self,
        asker: &Asker,
        model: &NamedModel,
        key: Option<Idempotent>,
    ) -> Result<Begun, Refusal> {
        let made = match self.made.take() {
            Some(copy) => Some(copy),
            None => give_core(asker, &self.thread, model).await?,
        };
        let begun = self.asked(asker, key).await;
        if let Some(made) = made {
            return made.settle(begun).await;
        }
        begun
    }

    async fn asked(self, asker: &Asker, key: Option<Idempotent>) -> Result<Begun, Refusal> {
        let (service, caller) = (&asker.app.service, &asker.caller);
        let trace = &asker.preferences.trace;
        let ask = ProcessAsk {
            query: self.query,
            metadata: self.metadata,
            user_id: self.user.filter(|user| !user.is_empty()),
            trace: Some((trace.0.clone(), trace.1.clone())),
            on_busy: self.on_busy,
            options: self.options,
            history: self.history,
            continue_at: self.continue_at,
            lookups: self.lookups,
            ..ProcessAsk::default()
        };
        let (answered, early) = runs::process_subscribed(service, caller, &self.thread, ask, key).await?;
        let receipt = answered.into_value()?;
        let follow = match early {
            Some(early) => Follow::Live(early),
            None => Follow::After(feed::before(service, caller, &receipt.thread_id, &receipt.run_id).await?),
        };
        Ok(Begun { thread: receipt.thread_id, run: receipt.run_id, follow, throw_away: None })
    }
}

/// A thread of another agent core than the server's own is made before it is asked; one that exists keeps what it has.
async fn give_core(asker: &Asker, thread: &ThreadId, model: &NamedModel) -> Result<Option<Made>, Refusal> {
    if model.core == asker.app.config.agent.core {
        return Ok(None);
    }
    let config = ThreadConfig { agent_core: Some(model.core.clone()), ..ThreadConfig::default() };
    Ok(Made::create(asker, thread.clone(), NewThreadAsk { config, ..NewThreadAsk::default() }).await?)
}

/// Refuses a name of a user that no run can have.
pub(super) fn check_user(app: &AppState, user: Option<&str>) -> Result<(), Refusal> {
    let user = user.unwrap_or_default();
    if user.len() > app.config.limits.id_length || user.contains(char::is_control) {
        let message = format!("It has at most {} bytes and no control characters.", app.config.limits.id_length);
        return Err(Refusal::wrong("invalid", "user", message));
    }
    Ok(())
}

/// The key of one of the answers that a request gives.
pub(super) fn answer_key(key: &Idempotent, at: usize) -> Idempotent {
    Idempotent { key: format!("{}.{at}", key.key), ..key.clone() }
}

/// What a client says to a run that asks.
pub(super) struct Reply<'a> {
    pub(super) asker: &'a Asker,
    pub(super) thread: &'a ThreadId,
    /// Oldest first.
    pub(super) open: &'a [Suspension],
    /// Of the client's functions, by the ids of the suspensions.
    pub(super) results: &'a HashMap<String, String>,
    pub(super) approvals: &'a Approvals,
    /// Empty where its client was not shown what it would answer.
    pub(super) text: &'a str,
    /// What the run is to be found under, too.
    pub(super) lookups: &'a [LookupKey],
}

impl Reply<'_> {
    /// Results answer the calls that they name, approvals their questions, a text the oldest question that it can answer.
    /// Where nothing is answered, what is asked is asked again, as is what refuses its answer behind one that was taken: that
    /// has moved the run. Returns where the log stood before, and how much was answered, too.
    pub(super) async fn given(self, key: Option<Idempotent>) -> Result<(Follow, After, u32), Refusal> {
        let (service, caller) = (&self.asker.app.service, &self.asker.caller);
        let early = feed::subscribe(service, caller, self.thread).await?;
        let after = early.after();
        let (mut status, mut given) = (None, 0);
        for (at, (open, answer)) in self.answers()?.into_iter().enumerate() {
            let key = key.as_ref().map(|key| answer_key(key, at));
            let is_said = open.kind != SuspensionKind::ClientTool && !self.approvals.contains_key(&open.suspension_id);
            let found = (open.run_id.clone(), self.lookups.to_vec());
            let answered = if is_said {
                let said = SaidAsk { content: self.text.to_owned(), found: Some(found), ..SaidAsk::default() };
                runs::reply(service, caller, self.thread, answer, said, key).await
            } else {
                runs::resume_found(service, caller, self.thread, answer, found, key).await
            };
            match answered {
                Ok(answered) => {
                    status = Some(answered.into_value()?.status);
                    given += 1;
                }
                Err(_) if given > 0 => {}
                Err(fault) => return Err(fault.into()),
            }
        }
        let follow = match status {
            None => Follow::AskedAgain,
            // It still asks, and says so in the log alone.
            Some(RunStatus::Suspended) => Follow::After(after),
            Some(_) => Follow::Live(early),
        };
        Ok((follow, after, given))
    }

    fn answers(&self) -> Result<Vec<(&Suspension, Answer)>, Refusal> {
        let mut answers: Vec<(&Suspension, Answer)> = self.open.iter().filter_map(|open| self.result(open)).collect();
        let may_approve = self.asker.caller.may(Scope::Approve);
        for open in self.open {
            let Some((approved, reason)) = self.approvals.get(&open.suspension_id) else { continue };
            if !may_approve {
                let detail = "This key may not approve: let somebody answer who may, in the page of this server.";
                return Err(Fault::new(Code::Forbidden, detail).into());
            }
            let answer = Answer { approved: Some(*approved), reason: reason.clone(), ..text_reply::blank(open) };
            answers.push((open, Answer { digest: open.digest.clone(), ..answer }));
        }
        let says_something = may_approve && !self.text.trim().is_empty();
        if let Some(open) = for_people(self.open, self.approvals).first().filter(|_| says_something) {
            answers.extend(question::answer(open, self.text).map(|answer| (*open, answer)));
        }
        Ok(answers)
    }

    /// What the client's function came to.
    fn result<'s>(&self, open: &'s Suspension) -> Option<(&'s Suspension, Answer)> {
        let text = self.results.get(open.suspension_id.as_str())?;
        let value = serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone()));
        let is_own = open.kind == SuspensionKind::ClientTool;
        is_own.then(|| (open, Answer { value: Some(value), ..text_reply::blank(open) }))
    }
}
