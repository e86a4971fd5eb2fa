//! A request becomes a run, or the answer to what a run asks.

use std::collections::HashMap;

use axum::http::HeaderMap;
use serde_json::{Map, Value};

use super::request::{ChatRequest, Said};
use super::thread::{named, news};
use crate::domain::caller::{Caller, Scope};
use crate::domain::fault::{Code, Fault};
use crate::domain::hitl::{Answer, AskedQuestion, Suspension, SuspensionKind};
use crate::domain::ids::{RunId, ThreadId};
use crate::domain::run::{OnBusy, RunStatus};
use crate::domain::settings::ThreadConfig;
use crate::http::app_state::AppState;
use crate::http::doors::openai::models::NamedModel;
use crate::http::doors::openai::refusal::Refusal;
use crate::http::doors::{question, text_reply};
use crate::http::reply_preferences::ReplyPreferences;
use crate::service::feed::{self, After, EarlySubscription};
use crate::service::once::{Answered, Idempotent};
use crate::service::runs::{self, ProcessAsk, Receipt, SaidAsk};
use crate::service::{suspensions, threads};

pub(super) struct Asker {
    pub(super) app: AppState,
    pub(super) caller: Caller,
    pub(super) preferences: ReplyPreferences,
}

/// Where the answer comes from.
pub(super) struct Accepted {
    pub(super) thread: ThreadId,
    pub(super) run: RunId,
    /// The questions that were open before.
    pub(super) open: Vec<AskedQuestion>,
    pub(super) follow: Follow,
    /// The run goes on without listeners: whoever named its thread finds it again.
    pub(super) is_found_again: bool,
}

pub(super) enum Follow {
    /// What happens from here on.
    Live(EarlySubscription),
    /// What happens after this place of the log.
    After(After),
    /// Nothing: what is asked is asked again.
    AskedAgain,
}

pub(super) async fn accept(
    asker: &Asker,
    headers: &HeaderMap,
    model: &NamedModel,
    request: &ChatRequest,
    key: Option<Idempotent>,
) -> Result<Accepted, Refusal> {
    let named = named(&asker.app, headers, request)?;
    let news = news(&request.said);
    if news.is_empty() {
        return Err(Refusal::wrong("invalid", "messages", "The last message must be the user's, or a tool's result."));
    }
    let results = results(news);
    let thread = match &named {
        Some(thread) => Some(thread.clone()),
        None => asked_by(asker, &results).await?,
    };
    let is_found_again = named.is_some();
    if let Some(thread) = &thread {
        let open = open_on(asker, thread).await?;
        if !open.is_empty() {
            let run = open[0].run_id.clone();
            let reply = Reply { asker, thread, run, open, results: &results, text: text(news), is_found_again };
            return reply.given(key).await;
        }
        if !results.is_empty() {
            let message = "The calls were answered already, or their run is over.";
            return Err(Fault::new(Code::AlreadyResolved, message).at("/messages", message).into());
        }
    } else if !results.is_empty() {
        return Err(Refusal::wrong("invalid", "messages", "No call of these ids waits for a result here."));
    } else if news.len() < request.said.len() {
        let message = "Earlier messages are not taken in: name the thread, which has them, with `X-PES-Thread`.";
        return Err(Refusal::unsupported("messages", message));
    }
    ask(asker, thread, model, request, text(news), key, is_found_again).await
}

/// Of the client's calls, by their ids.
fn results(news: &[Said]) -> HashMap<String, String> {
    let results = news.iter().filter_map(|said| match said {
        Said::ToolResult { call, text } => Some((call.clone(), text.clone())),
        Said::User(_) | Said::Assistant { .. } => None,
    });
    results.collect()
}

fn text(news: &[Said]) -> String {
    let texts = news.iter().filter_map(|said| match said {
        Said::User(text) => Some(text.as_str()),
        Said::ToolResult { .. } | Said::Assistant { .. } => None,
    });
    texts.collect::<Vec<_>>().join("\n\n")
}

/// The thread whose run made one of these calls: a call is known to its client by the id of the suspension.
async fn asked_by(asker: &Asker, results: &HashMap<String, String>) -> Result<Option<ThreadId>, Refusal> {
    for call in results.keys() {
        match suspensions::get(&asker.app.service, &asker.caller, &call.as_str().into()).await {
            Err(fault) if fault.code == Code::NotFound => {}
            found => return Ok(Some(found?.thread_id)),
        }
    }
    Ok(None)
}

/// Of the run that has a question open, oldest first; none where there is no such thread yet.
async fn open_on(asker: &Asker, thread: &ThreadId) -> Result<Vec<Suspension>, Refusal> {
    match suspensions::open_on(&asker.app.service, &asker.caller, thread).await {
        Err(fault) if fault.code == Code::NotFound => Ok(Vec::new()),
        found => Ok(found?),
    }
}

/// A new run.
async fn ask(
    asker: &Asker,
    thread: Option<ThreadId>,
    model: &NamedModel,
    request: &ChatRequest,
    query: String,
    key: Option<Idempotent>,
    is_found_again: bool,
) -> Result<Accepted, Refusal> {
    if query.trim().is_empty() {
        return Err(Refusal::wrong("invalid", "messages", "The user's message must say something."));
    }
    let (service, caller) = (&asker.app.service, &asker.caller);
    let thread = thread.unwrap_or_else(|| format!("chat-{}", threads::new_id(service)).into());
    begin(asker, &thread, model).await?;
    let trace = &asker.preferences.trace;
    let ask = ProcessAsk {
        query,
        metadata: request.metadata.clone().map(|sent| Map::from_iter([("openai".to_owned(), Value::Object(sent))])),
        user_id: user(&asker.app, request.user.as_deref())?,
        trace: Some((trace.0.clone(), trace.1.clone())),
        // Whoever asks anew has not seen what still runs: it would be in what he sends.
        on_busy: OnBusy::Interrupt,
        options: request.options.clone(),
        ..ProcessAsk::default()
    };
    let (answered, early) = runs::process_subscribed(service, caller, &thread, ask, key).await?;
    let receipt = receipt(answered)?;
    let follow = early.map_or(Follow::After(After::Seq(0)), Follow::Live);
    Ok(Accepted { thread: receipt.thread_id, run: receipt.run_id, open: Vec::new(), follow, is_found_again })
}

/// A thread of another agent core than the server's own is made before it is asked; one that exists keeps its core.
async fn begin(asker: &Asker, thread: &ThreadId, model: &NamedModel) -> Result<(), Refusal> {
    if model.core == asker.app.config.agent.core {
        return Ok(());
    }
    let config = ThreadConfig { agent_core: Some(model.core.clone()), ..ThreadConfig::default() };
    let new = threads::NewThreadAsk { thread_id: Some(thread.clone()), config, ..threads::NewThreadAsk::default() };
    match threads::create(&asker.app.service, &asker.caller, new, None).await {
        Err(fault) if fault.code != Code::ThreadExists => Err(fault.into()),
        Ok(_) | Err(_) => Ok(()),
    }
}

fn user(app: &AppState, user: Option<&str>) -> Result<Option<String>, Refusal> {
    let Some(user) = user.filter(|user| !user.is_empty()) else { return Ok(None) };
    if user.len() > app.config.limits.id_length || user.contains(char::is_control) {
        let message = format!("It has at most {} bytes and no control characters.", app.config.limits.id_length);
        return Err(Refusal::wrong("invalid", "user", message));
    }
    Ok(Some(user.to_owned()))
}

fn receipt(answered: Answered<Receipt>) -> Result<Receipt, Refusal> {
    match answered {
        Answered::Fresh(receipt) => Ok(receipt),
        Answered::Replayed { body, .. } => serde_json::from_str(&body)
            .map_err(|error| Fault::new(Code::Internal, format!("The stored answer is damaged: {error}.")).into()),
    }
}

/// What a client says to a run that asks.
struct Reply<'a> {
    asker: &'a Asker,
    thread: &'a ThreadId,
    run: RunId,
    /// Oldest first.
    open: Vec<Suspension>,
    results: &'a HashMap<String, String>,
    text: String,
    is_found_again: bool,
}

impl Reply<'_> {
    /// Results answer the calls that they name, a text the oldest question that it can answer. Where nothing is answered, what
    /// is asked is asked again.
    async fn given(self, key: Option<Idempotent>) -> Result<Accepted, Refusal> {
        let (service, caller) = (&self.asker.app.service, &self.asker.caller);
        let early = feed::subscribe(service, caller, self.thread).await?;
        let after = early.after();
        let mut answered = Vec::new();
        let mut status = None;
        for (at, (open, answer)) in self.answers().into_iter().enumerate() {
            let key = key.clone().map(|key| Idempotent { key: format!("{}.{at}", key.key), ..key });
            let receipt = if open.kind == SuspensionKind::ClientTool {
                runs::resume(service, caller, self.thread, answer, key).await?
            } else {
                let said = SaidAsk { content: self.text.clone(), ..SaidAsk::default() };
                runs::reply(service, caller, self.thread, answer, said, key).await?
            };
            status = Some(self::receipt(receipt)?.status);
            answered.push(open.suspension_id.clone());
        }
        let follow = match status {
            None => Follow::AskedAgain,
            // It still asks, and says so in the log alone.
            Some(RunStatus::Suspended) => Follow::After(after),
            Some(_) => Follow::Live(early),
        };
        let open = self.open.iter().filter(|open| open.run_id == self.run).map(Suspension::asked).collect();
        let (thread, is_found_again) = (self.thread.clone(), self.is_found_again);
        Ok(Accepted { thread, run: self.run, open, follow, is_found_again })
    }

    fn answers(&self) -> Vec<(&Suspension, Answer)> {
        let mut answers: Vec<(&Suspension, Answer)> = self.open.iter().filter_map(|open| self.result(open)).collect();
        let asks = |open: &&Suspension| open.kind != SuspensionKind::ClientTool;
        let may_answer = self.asker.caller.may(Scope::Approve) && !self.text.trim().is_empty();
        if let Some(open) = self.open.iter().find(asks).filter(|_| may_answer) {
            answers.extend(question::answer(open, &self.text).map(|answer| (open, answer)));
        }
        answers
    }

    /// What the client's function came to.
    fn result<'s>(&self, open: &'s Suspension) -> Option<(&'s Suspension, Answer)> {
        let text = self.results.get(open.suspension_id.as_str())?;
        let value = serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone()));
        let is_own = open.kind == SuspensionKind::ClientTool;
        is_own.then(|| (open, Answer { value: Some(value), ..text_reply::blank(open) }))
    }
}
