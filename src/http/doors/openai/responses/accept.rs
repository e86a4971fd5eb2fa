//! A request becomes a response: a new run, or a run that goes on with what was answered.

use serde_json::{Map, Value};

use super::object::{Head, ResponseId};
use super::read;
use super::request::{ResponseRequest, no_previous};
use crate::domain::fault::{Code, Fault};
use crate::domain::hitl::Suspension;
use crate::domain::ids::{RunId, SuspensionId, ThreadId};
use crate::domain::lookup::LookupKey;
use crate::domain::run::OnBusy;
use crate::domain::which_thread;
use crate::http::doors::openai::asking::{
    Asker, Follow, NewRun, Reply, STORED, check_user, for_people, is_shown, open_on,
};
use crate::http::doors::openai::conversation::{Conversation, Found};
use crate::http::doors::openai::made::Made;
use crate::http::doors::openai::models::NamedModel;
use crate::http::doors::openai::questions;
use crate::http::doors::openai::refusal::Refusal;
use crate::http::doors::openai::repeat::{self, First, Whole};
use crate::http::ids::new_thread_id;
use crate::service::a2a::tasks;
use crate::service::feed::{self, After};
use crate::service::once::Idempotent;
use crate::service::runs::ContinueAt;
use crate::service::{runs, suspensions, threads};

/// A response that has begun.
pub(super) struct Accepted {
    pub(super) thread: ThreadId,
    pub(super) id: ResponseId,
    pub(super) follow: Follow,
}

pub(super) async fn accept(
    asker: &Asker,
    whole: &Whole,
    model: &NamedModel,
    request: &ResponseRequest,
    key: Option<Idempotent>,
) -> Result<Accepted, Refusal> {
    let input = &request.input;
    if input.text.trim().is_empty() && input.results.is_empty() && input.approvals.is_empty() {
        return Err(Refusal::wrong("invalid", "input", "It must say something that is new, or answer something."));
    }
    questions::check_count(input.answered, "input")?;
    check_user(&asker.app, request.user.as_deref())?;
    if let Some(first) = whole.first(asker, key.as_ref()).await? {
        return again(asker, request, first).await;
    }
    match attempt(asker, whole, model, request, key.clone()).await {
        // Somebody else went on there first: what was said until then is copied.
        Err(refusal) if refusal.is(Code::PreconditionFailed) => attempt(asker, whole, model, request, key).await,
        accepted => accepted,
    }
}

/// The response to the first of the same requests.
async fn again(asker: &Asker, request: &ResponseRequest, first: First) -> Result<Accepted, Refusal> {
    let (found, start, answers) = match first {
        First::Began(found) => {
            let start = repeat::began_at(asker, &found).await?;
            (found, start, None)
        }
        First::Answered(found) => {
            let input = &request.input;
            let is_named =
                |id: &SuspensionId| input.approvals.contains_key(id) || input.results.contains_key(id.as_str());
            let at = repeat::answers_at(asker, &found, is_named).await?;
            (found, at.seq, Some(at.count))
        }
    };
    let id = ResponseId { run: found.run_id, start, answers };
    Ok(Accepted { thread: found.thread_id, follow: Follow::After(After::Seq(start)), id })
}

async fn attempt(
    asker: &Asker,
    whole: &Whole,
    model: &NamedModel,
    request: &ResponseRequest,
    key: Option<Idempotent>,
) -> Result<Accepted, Refusal> {
    let input = &request.input;
    let conversation = Conversation { asker, said: &input.said, user: request.user.as_deref() };
    // What goes on from a response or a conversation says only what is new.
    let is_whole = request.previous.is_none() && request.conversation.is_none();
    let lookups = |request: &LookupKey| {
        let conversation = is_whole.then(|| conversation.key());
        conversation.into_iter().chain([request.clone()]).collect::<Vec<_>>()
    };
    let Place { thread, at, made } = match answered_thread(asker, request).await? {
        Some(thread) => Place::on(thread),
        None => place_of(asker, request, &conversation).await?,
    };
    if let Some(thread) = &thread {
        let open = open_on(asker, thread).await?;
        if !open.is_empty() {
            let run = open[0].run_id.clone();
            let (results, approvals) = (&input.results, &input.approvals);
            let asked = for_people(&open, approvals);
            let may_answer = asked.is_empty() || was_shown(asker, request, thread, &asked).await?;
            let text = if may_answer { &input.text } else { "" };
            let lookups = &lookups(&whole.answers);
            let reply = Reply { asker, thread, open: &open, results, approvals, text, lookups };
            let (follow, after, answers) = reply.given(key).await?;
            let id = ResponseId { run, start: seq(after), answers: Some(answers) };
            return Ok(Accepted { thread: thread.clone(), id, follow });
        }
    }
    if !input.results.is_empty() || !input.approvals.is_empty() {
        let message = "It was answered already, or its run is over.";
        return Err(Fault::new(Code::AlreadyResolved, message).at("/input", message).into());
    }
    let new = NewRun {
        history: if thread.is_none() { which_thread::earlier(&input.said) } else { Vec::new() },
        thread: thread.unwrap_or_else(|| new_id(asker)),
        query: input.text.clone(),
        metadata: Some(Map::from_iter([(STORED.to_owned(), Value::Object(request.stored.clone()))])),
        user: request.user.clone(),
        // The response before may still be written: its client knows it.
        on_busy: OnBusy::Enqueue,
        options: request.options.clone(),
        continue_at: at,
        lookups: lookups(&whole.begins),
        made,
    };
    begin(asker, model, new, key).await
}

/// Whether the client was shown the first of these open questions last, and none before it that was answered since: by the
/// response that it goes on from, or by what it sends back. One that names a conversation and sends nothing back is believed.
async fn was_shown(
    asker: &Asker,
    request: &ResponseRequest,
    thread: &ThreadId,
    open: &[&Suspension],
) -> Result<bool, Refusal> {
    let (input, question) = (&request.input, open[0]);
    let response = |ids: &[String]| ids.iter().rev().find_map(|id| ResponseId::of_item(id));
    let by_response = async |response: ResponseId| read::has_shown(asker, &response, thread, question).await;
    match request.previous.clone().or_else(|| response(&input.shown_last)) {
        Some(response) => by_response(response).await,
        None => match (input.asked_last.first(), response(&input.ours)) {
            (Some(first), _) => Ok(*first == question.suspension_id),
            (None, Some(response)) => by_response(response).await,
            (None, None) => is_shown(asker, &input.said, thread, open).await,
        },
    }
}

async fn begin(asker: &Asker, model: &NamedModel, new: NewRun, key: Option<Idempotent>) -> Result<Accepted, Refusal> {
    let begun = new.begin(asker, model, key).await?;
    let start = match &begun.follow {
        Follow::Live(early) => seq(early.after()),
        // A repetition: it begins where its run did.
        Follow::After(start) => seq(*start),
        Follow::AskedAgain => 0,
    };
    let id = ResponseId { run: begun.run, start, answers: None };
    Ok(Accepted { thread: begun.thread, id, follow: begun.follow })
}

/// An answer says itself where it belongs.
async fn answered_thread(asker: &Asker, request: &ResponseRequest) -> Result<Option<ThreadId>, Refusal> {
    let input = &request.input;
    let approvals = input.approvals.keys().map(SuspensionId::as_str);
    Ok(questions::thread_of(asker, approvals.chain(input.results.keys().map(String::as_str))).await?)
}

/// Where a request goes on.
#[derive(Default)]
struct Place {
    /// `None`: one begins.
    thread: Option<ThreadId>,
    /// Where on it; `None`: at its end.
    at: Option<ContinueAt>,
    /// That thread, if it is a copy that was made for this request.
    made: Option<Made>,
}

impl Place {
    fn on(thread: ThreadId) -> Self {
        Self { thread: Some(thread), ..Self::default() }
    }

    fn on_copy(made: Made) -> Self {
        Self { thread: Some(made.thread.clone()), at: None, made: Some(made) }
    }
}

/// What the request names: a response, a conversation, or something of ours that it sends back.
async fn place_of(asker: &Asker, request: &ResponseRequest, conversation: &Conversation<'_>) -> Result<Place, Refusal> {
    if let Some(previous) = &request.previous {
        return after(asker, previous).await;
    }
    if let Some(named) = &request.conversation {
        let named = new_thread_id(named.as_str(), asker.app.config.limits.id_length, "/conversation")?;
        return Ok(Place::on(named));
    }
    let mut sought = 0;
    for id in request.input.ours.iter().rev() {
        if let Some(response) = ResponseId::of_item(id) {
            return after(asker, &response).await;
        }
        if sought == questions::MOST_SOUGHT || !questions::may_be_one(id) {
            continue;
        }
        sought += 1;
        if let Ok(open) = suspensions::get(&asker.app.service, &asker.caller, &id.as_str().into()).await {
            return Ok(Place::on(open.thread_id));
        }
    }
    Ok(match conversation.find().await? {
        Some(Found::At(thread, last, _)) => Place { at: last.map(ContinueAt::End), ..Place::on(thread) },
        Some(Found::AfterQuestion(thread)) => Place::on(thread),
        Some(Found::Copy(thread, seq)) => {
            conversation.copy(&thread, seq, new_id(asker)).await?.map_or_else(Place::default, Place::on_copy)
        }
        None => Place::default(),
    })
}

fn new_id(asker: &Asker) -> ThreadId {
    format!("resp-{}", threads::new_id(&asker.app.service)).into()
}

/// Where it goes on behind this response: on its own thread, or on a copy where that went on since.
async fn after(asker: &Asker, response: &ResponseId) -> Result<Place, Refusal> {
    let (service, caller) = (&asker.app.service, &asker.caller);
    let run = match runs::get(service, caller, &response.run).await {
        Err(fault) if fault.code == Code::NotFound => return Err(no_previous(&response.to_string())),
        found => found?,
    };
    let thread = threads::get(service, caller, &run.thread_id).await?;
    let is_last = thread.last_run.as_ref().is_none_or(|last| last.run_id == run.run_id);
    if is_last || !run.status.is_terminal() {
        return Ok(Place::on(run.thread_id));
    }
    let end = read::end_of(asker, &run.thread_id, &run.run_id).await?;
    Ok(Place::on_copy(Made::copy(asker, &run.thread_id, end, new_id(asker)).await?))
}

fn seq(after: After) -> i64 {
    match after {
        After::Seq(seq) => seq,
        After::Latest => 0,
    }
}

/// What is known of a response from its beginning on.
pub(super) async fn head(asker: &Asker, id: &ResponseId) -> Result<Head, Refusal> {
    let run = runs::get(&asker.app.service, &asker.caller, &id.run).await?;
    let metadata = stored(asker, &id.run).await?;
    Ok(Head::of(id.clone(), &run, metadata.as_ref()))
}

async fn stored(asker: &Asker, run: &RunId) -> Result<Option<Map<String, Value>>, Refusal> {
    let snapshot = tasks::get(&asker.app.service, &asker.caller, run, true).await?;
    let asked = snapshot.messages.into_iter().find(|message| message.message_id == snapshot.run.message_id);
    Ok(asked.and_then(|message| message.metadata))
}

/// From where its log is read: a response that goes on needs what its run did before. Fails where that is no longer kept.
pub(super) async fn from(asker: &Asker, id: &ResponseId, thread: &ThreadId) -> Result<After, Refusal> {
    let (service, caller) = (&asker.app.service, &asker.caller);
    let start = feed::behind(service, caller, thread, id.start).await?;
    Ok(if id.answers.is_some() { feed::before(service, caller, thread, &id.run).await? } else { start })
}
