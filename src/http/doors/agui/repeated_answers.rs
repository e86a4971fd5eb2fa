//! Handles answers that a client sends again because it lost the response. Under the same client run id they are the
//! same answers, and the events after them are sent again.

use serde_json::json;

use super::accept::{AcceptOutcome, ClientAnswer, StreamStart};
use super::request::{AguiRequest, ClientRun, ResumeStatus};
use crate::domain::digest;
use crate::domain::facts::{AgentResumedBody, Fact};
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::{CallId, RunId, ThreadId};
use crate::domain::observation::ObservationType;
use crate::http::doors::DoorRequest;
use crate::http::doors::conversation::LogPages;
use crate::http::doors::frames::{DecodedObservation, ObservationContent};
use crate::service::feed::{self, After, FeedAsk};
use crate::service::once::{self, Idempotent};
use crate::service::runs::Receipt;

/// How many answers of a request are looked up.
const MAX_LOOKUPS: usize = 64;

/// The idempotency key of one answer of a request.
pub(super) fn key(ctx: &DoorRequest, client: &ClientRun, client_answer: ClientAnswer<'_>) -> Idempotent {
    let answer = match client_answer {
        ClientAnswer::Resume(resume) => json!([resume.status == ResumeStatus::Resolved, resume.payload]),
        ClientAnswer::Result(result) => json!([result.content, result.error]),
    };
    Idempotent {
        key: client.id.clone(),
        scope: format!("AG-UI {} {} {}", ctx.caller.name, client.thread, client_answer.target_id()),
        fingerprint: digest::of(&answer),
    }
}

/// The run that accepted answers of this same request before, and from where to stream it. `None` if no run did.
pub(super) async fn accepted_before(ctx: &DoorRequest, sent: &AguiRequest) -> Result<Option<AcceptOutcome>, Fault> {
    let all = sent.resume.iter().map(ClientAnswer::Resume).chain(sent.results.iter().map(ClientAnswer::Result));
    let (mut taken, mut run) = (Vec::new(), None);
    for client_answer in all.take(MAX_LOOKUPS) {
        match once::answered::<Receipt>(&ctx.app.service, &ctx.caller, &key(ctx, &sent.run, client_answer)).await {
            Ok(Some(answered)) => {
                run = Some(answered.into_value()?.run_id);
                taken.push(client_answer.target_id());
            }
            Ok(None) => {}
            // The content differs, so this is a new answer.
            Err(fault) if fault.code == Code::IdempotencyMismatch => {}
            Err(fault) => return Err(fault),
        }
    }
    let Some(run) = run else { return Ok(None) };
    let from = start_before_answers(ctx, &sent.run.thread, &run, &taken).await?;
    Ok(Some(AcceptOutcome::Streaming(run, from)))
}

/// The position just before the first of these answers.
async fn start_before_answers(
    ctx: &DoorRequest,
    thread: &ThreadId,
    run: &RunId,
    taken: &[&str],
) -> Result<StreamStart, Fault> {
    let is_sent_answer = |body: &AgentResumedBody| {
        let call = body.call_id.as_ref().map(CallId::as_str);
        taken.iter().any(|target_id| *target_id == body.suspension_id.as_str() || Some(*target_id) == call)
    };
    let after = feed::before(&ctx.app.service, &ctx.caller, thread, run).await?;
    let ask = FeedAsk { after, types: vec![ObservationType::AgentResumed], ..FeedAsk::default() };
    let mut pages = LogPages::new(&ctx.app, &ctx.caller, thread, ask);
    while let Some(page) = pages.next().await? {
        for observation in page.items.into_iter().flat_map(DecodedObservation::decode) {
            if let ObservationContent::Fact(Fact::AgentResumed(body)) = &observation.content
                && observation.run == *run
                && is_sent_answer(body)
            {
                return Ok(StreamStart::AfterAnswers(
                    After::Seq(observation.seq - 1),
                    u32::try_from(taken.len()).unwrap_or(u32::MAX),
                ));
            }
        }
    }
    // That part of the log was deleted.
    Ok(StreamStart::Whole)
}
