//! Answers that a client sends again, because it was not told what came of them: under the same id of its run they are the same
//! answers, and what followed them is told once more.

use serde_json::json;

use super::accept::{Accepted, Asker, Follow, Said};
use super::request::{ClientRun, ResumeStatus, Sent};
use crate::domain::digest;
use crate::domain::facts::{AgentResumedBody, Fact};
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::{CallId, RunId, ThreadId};
use crate::domain::observation::ObservationType;
use crate::http::doors::told::{Says, ToldFact};
use crate::service::feed::{self, After, FeedAsk};
use crate::service::once::{self, Idempotent};
use crate::service::runs::Receipt;

/// So many answers of a request are looked for among those that were taken before.
const LOOKED_FOR: usize = 64;

/// Observations that are read at once.
const CHUNK: u32 = 200;

/// The key of one answer of a request.
pub(super) fn key(asker: &Asker, client: &ClientRun, said: Said<'_>) -> Idempotent {
    let answer = match said {
        Said::Resume(resume) => json!([resume.status == ResumeStatus::Resolved, resume.payload]),
        Said::Result(result) => json!([result.content, result.error]),
    };
    Idempotent {
        key: client.id.clone(),
        scope: format!("AG-UI {} {} {}", asker.caller.name, client.thread, said.about()),
        fingerprint: digest::of(&answer),
    }
}

/// The run that took answers of this very request when they came first, and what followed them; `None`: it took none.
pub(super) async fn taken_before(asker: &Asker, sent: &Sent) -> Result<Option<Accepted>, Fault> {
    let all = sent.resume.iter().map(Said::Resume).chain(sent.results.iter().map(Said::Result));
    let (mut taken, mut run) = (Vec::new(), None);
    for said in all.take(LOOKED_FOR) {
        match once::answered::<Receipt>(&asker.app.service, &asker.caller, &key(asker, &sent.run, said)).await {
            Ok(Some(answered)) => {
                run = Some(answered.into_value()?.run_id);
                taken.push(said.about());
            }
            Ok(None) => {}
            // It said something else: that is no repeat.
            Err(fault) if fault.code == Code::IdempotencyMismatch => {}
            Err(fault) => return Err(fault),
        }
    }
    let Some(run) = run else { return Ok(None) };
    let follow = follow(asker, &sent.run.thread, &run, &taken).await?;
    Ok(Some(Accepted::Told(run, follow)))
}

/// From where the first of the answers was taken.
async fn follow(asker: &Asker, thread: &ThreadId, run: &RunId, taken: &[&str]) -> Result<Follow, Fault> {
    let (service, caller) = (&asker.app.service, &asker.caller);
    let is_one = |body: &AgentResumedBody| {
        let call = body.call_id.as_ref().map(CallId::as_str);
        taken.iter().any(|about| *about == body.suspension_id.as_str() || Some(*about) == call)
    };
    let mut after = feed::before(service, caller, thread, run).await?;
    loop {
        let ask = FeedAsk { after, types: vec![ObservationType::AgentResumed], ..FeedAsk::default() };
        let page = feed::page(service, caller, thread, ask, CHUNK).await?;
        let last = page.items.last().map(|observation| observation.seq);
        for told in page.items.into_iter().filter_map(|observation| ToldFact::of(observation).ok()) {
            if let Says::Fact(Fact::AgentResumed(body)) = &told.says
                && told.run == *run
                && is_one(body)
            {
                return Ok(Follow::Behind(After::Seq(told.seq - 1), u32::try_from(taken.len()).unwrap_or(u32::MAX)));
            }
        }
        match (last, page.next_cursor) {
            (Some(last), Some(_)) => after = After::Seq(last),
            // That part of the log is gone.
            (_, _) => return Ok(Follow::Whole),
        }
    }
}
