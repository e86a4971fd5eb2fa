//! Accepts a request: its response is a new run, or a suspended run that goes on after answers.

use serde_json::{Map, Value};

use super::object::{ResponseHead, ResponseId};
use super::read;
use super::request::{ResponseRequest, no_previous, too_long};
use crate::domain::caller::Scope;
use crate::domain::fault::{Code, Fault};
use crate::domain::hitl::Suspension;
use crate::domain::ids::{SuspensionId, ThreadId};
use crate::domain::lookup::LookupKey;
use crate::domain::run::OnBusy;
use crate::domain::which_thread;
use crate::http::caller::permit;
use crate::http::doors::conversation::open_questions;
use crate::http::doors::openai::error::OpenAiError;
use crate::http::doors::openai::matched_thread::{MatchedThread, SentConversation};
use crate::http::doors::openai::models::NamedModel;
use crate::http::doors::openai::questions;
use crate::http::doors::openai::repeat::{self, EarlierRequest, RequestIdentity};
use crate::http::doors::openai::run_request::{
    METADATA_KEY, NewRun, RunReply, SubmittedReply, check_user, is_shown, questions_for_people,
};
use crate::http::doors::openai::temporary_thread::TemporaryThread;
use crate::http::doors::run_stream::RunStart;
use crate::http::doors::{DoorRequest, is_suspension_id};
use crate::http::ids::new_thread_id;
use crate::service::feed::{self, After};
use crate::service::once::Idempotent;
use crate::service::runs::ContinueAt;
use crate::service::{fork, runs, suspensions, threads};

/// A response that was started.
pub(super) struct AcceptedResponse {
    pub(super) thread: ThreadId,
    pub(super) id: ResponseId,
    /// From where its run is read, if it began with this request.
    pub(super) start: Option<RunStart>,
}

pub(super) async fn accept(
    ctx: &DoorRequest,
    identity: &RequestIdentity,
    model: &NamedModel,
    request: &ResponseRequest,
    key: Option<Idempotent>,
) -> Result<AcceptedResponse, OpenAiError> {
    let input = &request.input;
    if input.text.trim().is_empty() && input.answered == 0 {
        return last_shown(ctx, request).await;
    }
    questions::check_count(input.answered, "input")?;
    check_user(&ctx.app, request.user.as_deref())?;
    if let Some(first) = identity.earlier(ctx, key.as_ref()).await? {
        return repeat_earlier(ctx, request, first).await;
    }
    match attempt(ctx, identity, model, request, key.clone()).await {
        // Another request continued the thread first. The second attempt uses a copy as of the expected position.
        Err(error) if error.has_code(Code::PreconditionFailed) => attempt(ctx, identity, model, request, key).await,
        accepted => accepted,
    }
}

/// The response to a request that says nothing new: the one whose item it sends back last. Its client got only the
/// beginning of that response, as Codex does if a stream breaks off.
async fn last_shown(ctx: &DoorRequest, request: &ResponseRequest) -> Result<AcceptedResponse, OpenAiError> {
    let Some(id) = request.input.ours.last().and_then(|id| ResponseId::of_item(id)) else {
        let message = "It must say something that is new, or answer something.";
        return Err(OpenAiError::bad_request("invalid", "input", message));
    };
    permit(&ctx.caller, Scope::Read)?;
    Ok(AcceptedResponse { thread: read::thread_of(ctx, &id).await?, id, start: None })
}

/// The response to the first of the same requests.
async fn repeat_earlier(
    ctx: &DoorRequest,
    request: &ResponseRequest,
    first: EarlierRequest,
) -> Result<AcceptedResponse, OpenAiError> {
    let (found, start, answers) = match first {
        EarlierRequest::Began(found) => {
            let start = repeat::seq_before_run(ctx, &found).await?;
            (found, start, None)
        }
        EarlierRequest::Answered(found) => {
            let input = &request.input;
            let is_named =
                |id: &SuspensionId| input.approvals.contains_key(id) || input.results.contains_key(id.as_str());
            let at = repeat::locate_answers(ctx, &found, is_named).await?;
            (found, at.seq, Some(at.count))
        }
    };
    let id = ResponseId { run: found.run_id, start, answers };
    Ok(AcceptedResponse { thread: found.thread_id, id, start: None })
}

async fn attempt(
    ctx: &DoorRequest,
    identity: &RequestIdentity,
    model: &NamedModel,
    request: &ResponseRequest,
    key: Option<Idempotent>,
) -> Result<AcceptedResponse, OpenAiError> {
    let input = &request.input;
    let conversation = SentConversation { ctx, said: &input.said, user: request.user.as_deref() };
    // A request that continues a response or a conversation contains only new messages.
    let is_whole = request.previous.is_none() && request.conversation.is_none();
    let lookups = |request: &LookupKey| {
        let conversation = is_whole.then(|| conversation.key());
        conversation.into_iter().chain([request.clone()]).collect::<Vec<_>>()
    };
    let ResponseTarget { thread, at, created } = match answered_thread(ctx, request).await? {
        Some(thread) => ResponseTarget::on(thread),
        None => target_of(ctx, request, &conversation).await?,
    };
    if let Some(thread) = &thread {
        let open = open_questions(ctx, thread).await?;
        if !open.is_empty() {
            let run = open[0].run_id.clone();
            let (results, approvals) = (&input.results, &input.approvals);
            let asked = questions_for_people(&open, approvals);
            let may_answer = asked.is_empty() || was_shown(ctx, request, thread, &asked).await?;
            let (open, text, lookups) = (&open, input.text.as_str(), &lookups(&identity.answers));
            let reply = RunReply { ctx, thread, open, results, approvals, text, may_answer, lookups };
            let SubmittedReply { after, given, .. } = reply.submit(key).await?;
            let id = ResponseId { run, start: seq(after), answers: Some(given) };
            return Ok(AcceptedResponse { thread: thread.clone(), id, start: None });
        }
    }
    if input.answered > 0 {
        let message = "It was answered already, or its run is over.";
        return Err(Fault::new(Code::AlreadyResolved, message).at("/input", message).into());
    }
    let new = NewRun {
        history: if thread.is_none() { which_thread::earlier(&input.said) } else { Vec::new() },
        thread: thread.unwrap_or_else(|| new_id(ctx)),
        query: input.text.clone(),
        metadata: Some(Map::from_iter([(METADATA_KEY.to_owned(), Value::Object(request.stored.clone()))])),
        user: request.user.clone(),
        // The previous response may still be running, which its client knows.
        on_busy: OnBusy::Enqueue,
        options: request.options.clone(),
        continue_at: at,
        lookups: lookups(&identity.begins),
        created,
    };
    begin(ctx, model, new, key).await
}

/// Whether the client's last shown question is the first of these open questions, and no question before it was
/// answered since. Decided by the response that the client continues, or by what it sends back. A client that names a
/// conversation and sends nothing back is trusted.
async fn was_shown(
    ctx: &DoorRequest,
    request: &ResponseRequest,
    thread: &ThreadId,
    open: &[&Suspension],
) -> Result<bool, OpenAiError> {
    let (input, question) = (&request.input, open[0]);
    let response = |ids: &[String]| ids.iter().rev().find_map(|id| ResponseId::of_item(id));
    let by_response = async |response: ResponseId| read::has_shown(ctx, &response, thread, question).await;
    match request.previous.clone().or_else(|| response(&input.shown_last)) {
        Some(response) => by_response(response).await,
        None => match (input.asked_last.first(), response(&input.ours)) {
            (Some(first), _) => Ok(*first == question.suspension_id),
            (None, Some(response)) => by_response(response).await,
            (None, None) => is_shown(ctx, &input.said, thread, open).await,
        },
    }
}

async fn begin(
    ctx: &DoorRequest,
    model: &NamedModel,
    new: NewRun,
    key: Option<Idempotent>,
) -> Result<AcceptedResponse, OpenAiError> {
    let begun = new.begin(ctx, model, key).await?;
    // The response to a repeated request begins where its run did.
    let id = ResponseId { run: begun.run, start: seq(begun.start.after()), answers: None };
    Ok(AcceptedResponse { thread: begun.thread, id, start: Some(begun.start) })
}

/// The thread of the questions that the request answers. A client that sends the whole conversation repeats the answers of
/// earlier turns, which answer nothing.
async fn answered_thread(ctx: &DoorRequest, request: &ResponseRequest) -> Result<Option<ThreadId>, OpenAiError> {
    let input = &request.input;
    if input.answered == 0 {
        return Ok(None);
    }
    let approvals = input.approvals.keys().map(SuspensionId::as_str);
    Ok(questions::thread_of(ctx, approvals.chain(input.results.keys().map(String::as_str))).await?)
}

/// The thread and the position that a request continues.
#[derive(Default)]
struct ResponseTarget {
    /// `None` if a new one begins.
    thread: Option<ThreadId>,
    /// The position in it. `None` means its end.
    at: Option<ContinueAt>,
    /// The thread, if it is a copy that was made for this request.
    created: Option<TemporaryThread>,
}

impl ResponseTarget {
    fn on(thread: ThreadId) -> Self {
        Self { thread: Some(thread), ..Self::default() }
    }

    fn on_copy(created: TemporaryThread) -> Self {
        Self { thread: Some(created.thread.clone()), at: None, created: Some(created) }
    }
}

/// The thread of the response or conversation that the request names, or of an item of this server that it sends back.
async fn target_of(
    ctx: &DoorRequest,
    request: &ResponseRequest,
    conversation: &SentConversation<'_>,
) -> Result<ResponseTarget, OpenAiError> {
    if let Some(previous) = &request.previous {
        return continue_after(ctx, previous).await;
    }
    if let Some(named) = &request.conversation {
        let named = new_thread_id(named.as_str(), ctx.app.config.limits.id_length, "/conversation")?;
        return Ok(ResponseTarget::on(named));
    }
    let mut lookups_done = 0;
    for id in request.input.ours.iter().rev() {
        if let Some(response) = ResponseId::of_item(id) {
            return continue_after(ctx, &response).await;
        }
        if lookups_done == questions::MAX_LOOKUPS || !is_suspension_id(id) {
            continue;
        }
        lookups_done += 1;
        if let Ok(open) = suspensions::get(&ctx.app.service, &ctx.caller, &id.as_str().into()).await {
            return Ok(ResponseTarget::on(open.thread_id));
        }
    }
    Ok(match conversation.find().await? {
        Some(MatchedThread::Continue(thread, last, _)) => {
            ResponseTarget { at: last.map(ContinueAt::End), ..ResponseTarget::on(thread) }
        }
        Some(MatchedThread::AfterQuestion(thread)) => ResponseTarget::on(thread),
        Some(MatchedThread::Copy(thread, seq)) => conversation
            .copy(&thread, seq, new_id(ctx))
            .await?
            .map_or_else(ResponseTarget::default, ResponseTarget::on_copy),
        None => ResponseTarget::default(),
    })
}

fn new_id(ctx: &DoorRequest) -> ThreadId {
    format!("resp-{}", threads::new_id(&ctx.app.service)).into()
}

/// The thread that continues this response: its own thread, or a copy if that thread has gone on since.
async fn continue_after(ctx: &DoorRequest, response: &ResponseId) -> Result<ResponseTarget, OpenAiError> {
    let (service, caller) = (&ctx.app.service, &ctx.caller);
    let run = match runs::get(service, caller, &response.run).await {
        Err(fault) if fault.code == Code::NotFound => return Err(no_previous(&response.to_string())),
        found => found?,
    };
    let thread = threads::get(service, caller, &run.thread_id).await?;
    if !run.status.is_terminal() {
        return Ok(ResponseTarget::on(run.thread_id));
    }
    let is_last = thread.last_run.as_ref().is_none_or(|last| last.run_id == run.run_id);
    let end = match read::end_before_answers(ctx, response, &run.thread_id).await? {
        Some(end) => end,
        None if is_last => {
            // Another request may continue the thread first. A busy thread takes it after its active run.
            let at = thread.status.is_at_rest().then_some(ContinueAt::LogEnd(thread.last_seq));
            return Ok(ResponseTarget { at, ..ResponseTarget::on(run.thread_id) });
        }
        None => read::end_of(ctx, &run.thread_id, &run.run_id).await?,
    };
    match TemporaryThread::copy(ctx, &run.thread_id, end, new_id(ctx)).await {
        Err(fault) if fork::is_too_long(&fault) => Err(too_long(response)),
        copy => Ok(ResponseTarget::on_copy(copy?)),
    }
}

fn seq(after: After) -> i64 {
    match after {
        After::Seq(seq) => seq,
        After::Latest => 0,
    }
}

/// What is fixed from the beginning of a response.
pub(super) async fn head(ctx: &DoorRequest, id: &ResponseId) -> Result<ResponseHead, OpenAiError> {
    let (run, metadata) = runs::get_with_metadata(&ctx.app.service, &ctx.caller, &id.run).await?;
    Ok(ResponseHead::of(id.clone(), &run, metadata.as_ref()))
}

/// The position from which the log is read. A response after answers needs the whole run. Fails if the needed part of
/// the log was deleted.
pub(super) async fn read_from(ctx: &DoorRequest, id: &ResponseId, thread: &ThreadId) -> Result<After, OpenAiError> {
    let (service, caller) = (&ctx.app.service, &ctx.caller);
    let start = feed::after_seq(service, caller, thread, id.start).await?;
    Ok(if id.answers.is_some() { feed::before(service, caller, thread, &id.run).await? } else { start })
}
