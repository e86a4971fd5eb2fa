//! Follows a run of an embedded agent: the answer as it is written, what happened, and its questions, which are answered here.
//!
//! `cargo run --example watch`

use std::error::Error;

use pes::domain::frame::{Frame, TokenType};
use pes::domain::ids::ThreadId;
use pes::domain::observation::{Observation, ObservationType};
use pes::service::feed::{self, Encoded, FeedAsk};
use pes::service::once::Answered;
use pes::service::runs::{self, ProcessAsk};
use pes::{Config, Instance};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let answer = ask("Send the team an invitation to the dinner.").await?;
    println!("{}", answer.trim());
    Ok(())
}

/// Asks the demo model. Returns its answer.
pub async fn ask(query: &str) -> Result<String, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let mut config = Config::default();
    config.store.data_dir = folder.path().to_owned();
    config.models.demo.pace_ms = 0;
    let instance = Instance::build(config).open().await?;
    let answer = follow(&instance, &"my-thread".into(), query).await;
    instance.close().await;
    answer
}

async fn follow(instance: &Instance, thread: &ThreadId, query: &str) -> Result<String, Box<dyn Error>> {
    let (service, caller) = (instance.service(), instance.caller());
    let ask = ProcessAsk { query: query.to_owned(), ..ProcessAsk::default() };
    // Returns as soon as the query is stored; `Instance::process` would wait for the answer.
    let Answered::Fresh(receipt) = runs::process(service, caller, thread, ask, None).await? else {
        return Err("only a request with an idempotency key is answered twice".into());
    };
    let ask = FeedAsk { tokens: true, until: Some(receipt.run_id), ..FeedAsk::default() };
    let mut feed = feed::open(service, caller, thread, ask).await?;
    let mut run = None;
    while let Some(frame) = feed.next().await {
        match read(&frame)? {
            // The answer as it is written. A reader who comes late or is slow does not get all of it.
            Frame::Token(token) if token.token_type == TokenType::SynthesisResponse => print!("{}", token.data),
            Frame::Observation(seen) => {
                println!("{:>3} {}", seen.seq, seen.title);
                if seen.kind == ObservationType::AgentSuspended {
                    approve(instance, thread, &seen).await?;
                }
            }
            // The last frame is the run with its result.
            Frame::Run(changed) => run = Some(changed),
            Frame::Token(_) | Frame::ToolStarted(_) => {}
            Frame::CaughtUp { .. } | Frame::Gap { .. } | Frame::Draining { .. } => {}
        }
    }
    let result = run.and_then(|run| run.result).ok_or("the feed ended before the run had a result")?;
    Ok(result.response.content)
}

fn read(frame: &Encoded) -> serde_json::Result<Frame> {
    serde_json::from_slice(&frame.json())
}

/// Says yes to what the run asks. The digest binds the answer to what was shown.
async fn approve(instance: &Instance, thread: &ThreadId, question: &Observation) -> Result<(), Box<dyn Error>> {
    println!("    {} Yes.", question.content["message"]);
    let (suspension, digest) = (&question.content["suspensionId"], &question.content["digest"]);
    let answer = json!({ "suspensionId": suspension, "digest": digest, "approved": true });
    runs::resume(instance.service(), instance.caller(), thread, serde_json::from_value(answer)?, None).await?;
    Ok(())
}
