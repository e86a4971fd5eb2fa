//! What a request of either API leads to: a new run, or answers to the questions of a run.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::error::OpenAiError;
use super::models::NamedModel;
use super::temporary_thread::TemporaryThread;
use crate::domain::caller::Scope;
use crate::domain::digest;
use crate::domain::fault::{Code, Fault};
use crate::domain::hitl::{Answer, Suspension, SuspensionKind};
use crate::domain::ids::{RunId, SuspensionId, ThreadId};
use crate::domain::lookup::{LookupKey, RunLookups};
use crate::domain::message::HistoryMessage;
use crate::domain::run::OnBusy;
use crate::domain::settings::{CallOptions, ThreadConfig};
use crate::domain::which_thread::{self, Said};
use crate::http::app_state::AppState;
use crate::http::doors::DoorRequest;
use crate::http::doors::run_stream::RunStart;
use crate::http::doors::{function_result, question, scope_to_answer, text_reply};
use crate::service::feed::{self, After};
use crate::service::once::Idempotent;
use crate::service::runs::{self, ContinueAt, ProcessAsk, ReplyMessage};
use crate::service::suspensions;
use crate::service::threads::NewThreadAsk;

/// The metadata member of a user's message that holds what an OpenAI client sent with it.
pub(super) const METADATA_KEY: &str = "openai";

/// A run that was started.
pub(super) struct StartedRun {
    pub(super) thread: ThreadId,
    pub(super) run: RunId,
    /// From where its answer is read.
    pub(super) start: RunStart,
    /// The run's thread, if it is erased after the answer was sent.
    pub(super) temporary: Option<TemporaryThread>,
}

/// The questions that a text may answer, oldest first: those for people that the request does not answer by an
/// approval.
pub(super) fn questions_for_people<'o>(open: &'o [Suspension], approvals: &Approvals) -> Vec<&'o Suspension> {
    let is_asked = |open: &&Suspension| is_for_people(open) && !approvals.contains_key(&open.suspension_id);
    open.iter().filter(is_asked).collect()
}

pub(super) fn is_for_people(question: &Suspension) -> bool {
    question.kind != SuspensionKind::ClientTool
}

/// Whether the last question that the client was shown is the first of these open questions, and no question before it
/// was answered since. A client that sends back no text of the agent is trusted.
pub(super) async fn is_shown(
    ctx: &DoorRequest,
    said: &[Said],
    thread: &ThreadId,
    open: &[&Suspension],
) -> Result<bool, OpenAiError> {
    let urls = suspensions::urls(&ctx.app.service);
    let text = |question: &Suspension| question::text(&question.asked(), urls.as_ref());
    let Some(run) = open.first().map(|question| &question.run_id) else { return Ok(true) };
    let open: Vec<String> = open.iter().map(|question| text(question)).collect();
    let answered = suspensions::past_of_run(&ctx.app.service, &ctx.caller, thread, run, is_for_people).await?;
    let answered: Vec<String> = answered.iter().map(text).collect();
    Ok(which_thread::asks_first(said, &open, &answered).unwrap_or(true))
}

/// The client's decisions about questions, by suspension id, with their reasons.
pub(super) type Approvals = HashMap<SuspensionId, Approval>;

/// A decision of the client about a question.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Approval {
    pub(super) approved: bool,
    pub(super) reason: Option<String>,
}

/// A query that becomes a run.
pub(super) struct NewRun {
    pub(super) thread: ThreadId,
    pub(super) query: String,
    /// The metadata of the user's message.
    pub(super) metadata: Option<Map<String, Value>>,
    pub(super) user: Option<String>,
    pub(super) on_busy: OnBusy,
    pub(super) options: CallOptions,
    /// The earlier conversation, for a new thread.
    pub(super) history: Vec<HistoryMessage>,
    /// The position in the thread. `None` means its end.
    pub(super) continue_at: Option<ContinueAt>,
    /// The keys under which the run can be found.
    pub(super) lookups: Vec<LookupKey>,
    /// The thread, if it was created for this request.
    pub(super) created: Option<TemporaryThread>,
}

impl NewRun {
    /// Starts the run. If that fails, a thread that was created for it is erased.
    pub(super) async fn begin(
        mut self,
        ctx: &DoorRequest,
        model: &NamedModel,
        key: Option<Idempotent>,
    ) -> Result<StartedRun, OpenAiError> {
        let created = match self.created.take() {
            Some(copy) => Some(copy),
            None => create_with_core(ctx, &self.thread, model).await?,
        };
        let begun = self.process(ctx, key).await;
        if let Some(created) = created {
            return created.settle(begun).await;
        }
        begun
    }

    async fn process(mut self, ctx: &DoorRequest, key: Option<Idempotent>) -> Result<StartedRun, OpenAiError> {
        let (service, caller) = (&ctx.app.service, &ctx.caller);
        // The newest ones, as many as a thread may begin with.
        let most = ctx.app.config.limits.history_messages;
        self.history.drain(..self.history.len().saturating_sub(most));
        let ask = ProcessAsk {
            query: self.query,
            metadata: self.metadata,
            user_id: self.user.filter(|user| !user.is_empty()),
            trace: Some(ctx.preferences.trace.clone()),
            on_busy: self.on_busy,
            options: self.options,
            history: self.history,
            continue_at: self.continue_at,
            lookups: self.lookups,
            ..ProcessAsk::default()
        };
        let (answered, early) = runs::process_subscribed(service, caller, &self.thread, ask, key).await?;
        let receipt = answered.into_value()?;
        let (thread, run) = (receipt.thread_id, receipt.run_id);
        let start = RunStart::whole(ctx, &thread, &run, early).await?;
        Ok(StartedRun { thread, run, start, temporary: None })
    }
}

/// Creates the thread if it needs another agent core than the server's default. An existing thread keeps its core.
async fn create_with_core(
    ctx: &DoorRequest,
    thread: &ThreadId,
    model: &NamedModel,
) -> Result<Option<TemporaryThread>, OpenAiError> {
    if model.core == ctx.app.config.agent.core {
        return Ok(None);
    }
    let config = ThreadConfig { agent_core: Some(model.core.clone()), ..ThreadConfig::default() };
    Ok(TemporaryThread::create(ctx, thread.clone(), NewThreadAsk { config, ..NewThreadAsk::default() }).await?)
}

/// Refuses a user id that no run can have.
pub(super) fn check_user(app: &AppState, user: Option<&str>) -> Result<(), OpenAiError> {
    let user = user.unwrap_or_default();
    if user.len() > app.config.limits.id_length || user.contains(char::is_control) {
        let message = format!("It has at most {} bytes and no control characters.", app.config.limits.id_length);
        return Err(OpenAiError::bad_request("invalid", "user", message));
    }
    Ok(())
}

/// The idempotency key of one answer of a request.
pub(super) fn answer_key(key: &Idempotent, at: usize) -> Idempotent {
    Idempotent { key: format!("{}.{at}", key.key), ..key.clone() }
}

/// The key of the run that a client's approval or rejection of this call resumed. The log does not say whether it was
/// given by a request to this API or elsewhere.
pub(super) fn approval_key(ctx: &DoorRequest, id: &SuspensionId) -> LookupKey {
    LookupKey { kind: "approval", digest: digest::of(&json!([ctx.caller.tenant.0, id])) }
}

/// The client's answers to a suspended run.
pub(super) struct RunReply<'a> {
    pub(super) ctx: &'a DoorRequest,
    pub(super) thread: &'a ThreadId,
    /// Oldest first.
    pub(super) open: &'a [Suspension],
    /// The results of the client's functions, by suspension id.
    pub(super) results: &'a HashMap<String, String>,
    pub(super) approvals: &'a Approvals,
    pub(super) text: &'a str,
    /// Whether the client was shown the question that the text would answer.
    pub(super) may_answer: bool,
    /// Further keys under which the run can be found.
    pub(super) lookups: &'a [LookupKey],
}

/// What a reply led to.
pub(super) struct SubmittedReply {
    /// From where the run's answer is read. `None` if nothing was answered.
    pub(super) start: Option<RunStart>,
    /// The position of the log before the answers.
    pub(super) after: After,
    /// The number of answers.
    pub(super) given: u32,
}

impl RunReply<'_> {
    /// Submits the answers: results go to the calls that they name, approvals to their questions, a text to the oldest
    /// question that it can answer, if the caller may. A text that answers nothing joins the conversation with the first
    /// of the other answers, and the run takes it into account. If nothing is answered, the questions are asked again.
    /// If an answer is refused after another one was accepted, its question is asked again too, since the accepted
    /// answer has changed the run.
    pub(super) async fn submit(self, key: Option<Idempotent>) -> Result<SubmittedReply, OpenAiError> {
        let (service, caller) = (&self.ctx.app.service, &self.ctx.caller);
        let after = feed::subscribe(service, caller, self.thread).await?.after();
        let mut given = 0;
        let answers = self.answers()?;
        let is_text_answer = answers.iter().any(|(open, _)| self.is_answered_by_text(open));
        for (at, (open, answer)) in answers.into_iter().enumerate() {
            let key = key.as_ref().map(|key| answer_key(key, at));
            let is_approval = self.approvals.contains_key(&open.suspension_id);
            let approval = is_approval.then(|| approval_key(self.ctx, &open.suspension_id));
            let keys = self.lookups.iter().cloned().chain(approval).collect();
            let found = RunLookups { run: open.run_id.clone(), keys };
            let says_more = given == 0 && !is_text_answer && self.says_something();
            let answered = if says_more || self.is_answered_by_text(open) {
                let message = ReplyMessage {
                    content: self.text.to_owned(),
                    steers: says_more,
                    lookups: Some(found),
                    ..ReplyMessage::default()
                };
                runs::reply(service, caller, self.thread, answer, message, key).await
            } else {
                runs::resume_with_lookups(service, caller, self.thread, answer, found, key).await
            };
            match answered {
                Ok(_) => given += 1,
                Err(_) if given > 0 => {}
                Err(fault) => return Err(fault.into()),
            }
        }
        // Read from the log: a subscription from before the answers may have received that the run was still suspended
        // after one of them, which would end the answer before the run goes on.
        let start = (given > 0).then_some(RunStart::After(after));
        Ok(SubmittedReply { start, after, given })
    }

    fn answers(&self) -> Result<Vec<(&Suspension, Answer)>, OpenAiError> {
        let mut answers: Vec<(&Suspension, Answer)> = self.open.iter().filter_map(|open| self.result(open)).collect();
        let may_approve = self.ctx.caller.may(Scope::Approve);
        for open in self.open {
            let Some(Approval { approved, reason }) = self.approvals.get(&open.suspension_id) else { continue };
            if !may_approve {
                let detail = "This key may not approve: let somebody answer who may, in the page of this server.";
                return Err(Fault::new(Code::Forbidden, detail).into());
            }
            let answer = Answer {
                approved: Some(*approved),
                reason: reason.clone(),
                ..text_reply::empty_answer(&open.suspension_id)
            };
            answers.push((open, Answer { digest: open.digest.clone(), ..answer }));
        }
        let says_something = self.may_answer && self.says_something();
        let may_answer = |open: &Suspension| says_something && self.ctx.caller.may(scope_to_answer(open.kind));
        if let Some(open) = questions_for_people(self.open, self.approvals).first().filter(|open| may_answer(open)) {
            answers.extend(question::answer(open, self.text).map(|answer| (*open, answer)));
        }
        Ok(answers)
    }

    fn says_something(&self) -> bool {
        !self.text.trim().is_empty()
    }

    /// Whether an answer to this question is the text.
    fn is_answered_by_text(&self, open: &Suspension) -> bool {
        is_for_people(open) && !self.approvals.contains_key(&open.suspension_id)
    }

    /// The result of the client's function for this question.
    fn result<'s>(&self, open: &'s Suspension) -> Option<(&'s Suspension, Answer)> {
        let text = self.results.get(open.suspension_id.as_str())?;
        let is_own = open.kind == SuspensionKind::ClientTool;
        is_own.then(|| {
            (open, Answer { value: Some(function_result::read(text)), ..text_reply::empty_answer(&open.suspension_id) })
        })
    }
}
