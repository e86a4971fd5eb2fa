//! Accepts a request: it starts a run, or answers the questions of one.

use super::cursor::Cursor;
use super::interrupt;
use super::position::{self, QueryPosition};
use super::repeated_answers;
use super::request::{AguiQuery, AguiRequest, ClientRun, Resume, ToolMessage};
use crate::domain::digest;
use crate::domain::fault::{Code, Fault};
use crate::domain::hitl::{Answer, Suspension};
use crate::domain::ids::RunId;
use crate::domain::settings::CallOptions;
use crate::http::caller::permit;
use crate::http::doors::DoorRequest;
use crate::http::doors::conversation::open_questions;
use crate::http::doors::scope_to_answer;
use crate::service::feed::{self, After, EarlySubscription};
use crate::service::once::{self, Idempotent};
use crate::service::runs::{self, ProcessAsk, ReplyMessage};
use serde_json::json;

pub(super) enum AcceptOutcome {
    Streaming(RunId, StreamStart),
    /// Nothing was changed. The stream says why.
    Refused(Fault),
}

/// Which part of the run a stream sends.
pub(super) enum StreamStart {
    /// A subscription from before the run started: everything from there.
    Live(EarlySubscription),
    /// The whole run.
    Whole,
    /// Everything after this position of the log, where this request's answers begin. The number says how many answers
    /// it gave.
    AfterAnswers(After, u32),
    /// The rest of an earlier stream after this cursor.
    AfterCut(Cursor),
}

pub(super) async fn accept(ctx: &DoorRequest, sent: AguiRequest) -> Result<AcceptOutcome, Fault> {
    let query = sent.query.as_ref();
    // A repeated request is the same run, whether or not that run has open questions by now.
    if let Some(query) = query.filter(|_| sent.resume.is_empty())
        && once::is_repeat(&ctx.app.service, &ctx.caller, &once(ctx, &sent.run, query)).await?
    {
        return ask(ctx, &sent.run, query, QueryPosition::default(), sent.options).await;
    }
    let open = open_questions(ctx, &sent.run.thread).await?;
    let answers_nothing = open.iter().all(|open| answer_to(open, &sent).is_none());
    if answers_nothing && let Some(outcome) = repeated_answers::accepted_before(ctx, &sent).await? {
        return Ok(outcome);
    }
    if let Some(query) = query.filter(|_| answers_nothing && sent.resume.is_empty()) {
        let position = position::of_query(ctx, &sent.run.thread, query).await?;
        // A query that goes back in the conversation cancels what is asked there.
        if open.is_empty() || position.continue_at.is_some() {
            return ask_at(ctx, &sent.run, query, position, sent.options).await;
        }
    } else if open.is_empty() && sent.resume.is_empty() {
        let why = "must end with a message of the user, or with the result of a call that waits for it";
        return Err(Fault::invalid("/messages", why));
    }
    let answers = match answers(ctx, &open, &sent) {
        Ok(answers) => answers,
        Err(fault) => return Ok(AcceptOutcome::Refused(fault)),
    };
    // A client sends all its messages with its answers. One that the thread has says nothing new.
    let query = match query {
        Some(query) if position::is_in_thread(ctx, &sent.run.thread, query).await? => None,
        query => query,
    };
    answer(ctx, &sent.run, answers, query).await
}

async fn ask_at(
    ctx: &DoorRequest,
    run: &ClientRun,
    query: &AguiQuery,
    position: QueryPosition,
    options: CallOptions,
) -> Result<AcceptOutcome, Fault> {
    match ask(ctx, run, query, position, options.clone()).await {
        // Another request began the thread, or a run in it, since its messages were read. Or the thread has a state but
        // no message, and takes no earlier messages either.
        Err(fault) if matches!(fault.code, Code::ThreadExists | Code::ThreadBusy) => {
            let now = position::of_query(ctx, &run.thread, query).await?;
            let position = QueryPosition { history: Vec::new(), ..now };
            ask(ctx, run, query, position, options).await
        }
        asked => asked,
    }
}

/// Starts a run. The client's own run id is the idempotency key, so a repeated request is the same run.
async fn ask(
    ctx: &DoorRequest,
    run: &ClientRun,
    query: &AguiQuery,
    position: QueryPosition,
    options: CallOptions,
) -> Result<AcceptOutcome, Fault> {
    let (service, caller) = (&ctx.app.service, &ctx.caller);
    let QueryPosition { history, continue_at, on_busy } = position;
    let ask = ProcessAsk {
        query: query.text.clone(),
        metadata: Some(query.metadata()),
        trace: Some(ctx.preferences.trace.clone()),
        on_busy,
        history,
        continue_at,
        options,
        ..ProcessAsk::default()
    };
    let once = Some(once(ctx, run, query));
    let (answered, early) = runs::process_subscribed(service, caller, &run.thread, ask, once).await?;
    let run = answered.into_value()?.run_id;
    Ok(AcceptOutcome::Streaming(run, early.map_or(StreamStart::Whole, StreamStart::Live)))
}

fn once(ctx: &DoorRequest, run: &ClientRun, query: &AguiQuery) -> Idempotent {
    Idempotent {
        key: run.id.clone(),
        scope: format!("AG-UI {} {}", ctx.caller.name, run.thread),
        fingerprint: digest::of(&json!([query.text, query.message_id])),
    }
}

/// The client's answer to an open question.
struct KeyedAnswer<'o> {
    open: &'o Suspension,
    /// `None` means that the question stays open.
    answer: Option<Answer>,
    key: Idempotent,
}

/// The client's answers to all open questions. A question without an answer is an error, since it would stay open
/// unnoticed. Answers to closed questions are ignored if the request answers an open one as well.
fn answers<'o>(ctx: &DoorRequest, open: &'o [Suspension], sent: &AguiRequest) -> Result<Vec<KeyedAnswer<'o>>, Fault> {
    let client_answer: Vec<(&Suspension, Option<ClientAnswer<'_>>)> =
        open.iter().map(|open| (open, answer_to(open, sent))).collect();
    let is_open = |id: &str| open.iter().any(|open| open.suspension_id.as_str() == id);
    if let Some(past) = sent.resume.iter().find(|resume| !is_open(&resume.interrupt_id))
        && client_answer.iter().all(|(_, client_answer)| client_answer.is_none())
    {
        let detail = format!("Nothing of the id `{}` is open here.", past.interrupt_id);
        return Err(Fault::new(Code::AlreadyResolved, detail));
    }
    let mut answers = Vec::with_capacity(client_answer.len());
    for (open, client_answer) in client_answer {
        let Some(client_answer) = client_answer else {
            return Err(Fault::new(Code::ThreadBusy, unanswered(open)));
        };
        let answer = match client_answer {
            ClientAnswer::Resume(resume) => interrupt::answer(open, resume)?,
            ClientAnswer::Result(result) => Some(interrupt::answer_of_result(open, result)?),
        };
        answers.push(KeyedAnswer { open, answer, key: repeated_answers::key(ctx, &sent.run, client_answer) });
    }
    Ok(answers)
}

/// Says which answer a request lacks.
fn unanswered(open: &Suspension) -> String {
    match (&open.call_id, &open.tool_name) {
        (Some(call), Some(tool)) if interrupt::takes_result(open.kind) => {
            format!("The run waits for the result of the call `{call}` of `{tool}`; send all results together.")
        }
        (_, _) => {
            let id = &open.suspension_id;
            format!("The run waits for an answer to the interrupt `{id}`; resume it with all answers together.")
        }
    }
}

/// The form in which a client answers a question.
#[derive(Clone, Copy)]
pub(super) enum ClientAnswer<'s> {
    Resume(&'s Resume),
    Result(&'s ToolMessage),
}

impl<'s> ClientAnswer<'s> {
    /// The id of the question, or of its call.
    pub(super) fn target_id(self) -> &'s str {
        match self {
            ClientAnswer::Resume(resume) => &resume.interrupt_id,
            ClientAnswer::Result(result) => &result.call,
        }
    }
}

fn answer_to<'s>(open: &Suspension, sent: &'s AguiRequest) -> Option<ClientAnswer<'s>> {
    let by_id = sent.resume.iter().find(|resume| resume.interrupt_id == open.suspension_id.as_str());
    let result = || sent.results.iter().find(|result| interrupt::is_of_call(open, &result.call));
    by_id.map(ClientAnswer::Resume).or_else(|| result().map(ClientAnswer::Result))
}

/// Each answer has its own idempotency key, derived from the client's run id. A message of the user joins the
/// conversation with the first answer, and the run takes it into account.
async fn answer(
    ctx: &DoorRequest,
    client: &ClientRun,
    answers: Vec<KeyedAnswer<'_>>,
    query: Option<&AguiQuery>,
) -> Result<AcceptOutcome, Fault> {
    let (service, caller, thread) = (&ctx.app.service, &ctx.caller, &client.thread);
    let Some(first) = answers.first() else {
        return Ok(AcceptOutcome::Refused(Fault::new(Code::AlreadyResolved, "Nothing is open here any more.")));
    };
    if query.is_some() && answers.iter().all(|given| given.answer.is_none()) {
        return Ok(AcceptOutcome::Refused(Fault::new(Code::ThreadBusy, unanswered(first.open))));
    }
    let run = first.open.run_id.clone();
    for given in &answers {
        permit(caller, scope_to_answer(given.open.kind))?;
    }
    let after = feed::subscribe(service, caller, thread).await?.after();
    let (mut given, mut first_fault) = (0, None);
    for KeyedAnswer { answer, key, .. } in answers {
        let Some(answer) = answer else { continue };
        let resumed = match query.filter(|_| given == 0) {
            Some(query) => {
                let (content, metadata) = (query.text.clone(), Some(query.metadata()));
                let message = ReplyMessage { content, metadata, steers: true, ..ReplyMessage::default() };
                runs::reply(service, caller, thread, answer, message, Some(key)).await
            }
            None => runs::resume(service, caller, thread, answer, Some(key)).await,
        };
        match resumed {
            Ok(_) => given += 1,
            Err(fault) => first_fault = first_fault.or(Some(fault)),
        }
    }
    match first_fault {
        Some(fault) if given == 0 && fault.code == Code::Forbidden => Err(fault),
        Some(fault) if given == 0 => Ok(AcceptOutcome::Refused(fault)),
        // The accepted answers have changed the run. Its remaining questions are asked again.
        Some(_) | None => Ok(AcceptOutcome::Streaming(run, StreamStart::AfterAnswers(after, given))),
    }
}
