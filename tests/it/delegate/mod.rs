//! Delegation to other agents: over every dialect, with reports, polls, answers, cancels, and after kill -9.

mod agents;
mod both;
mod callbacks;
mod decisions;
mod dialects;
mod erased;
mod flow;
mod guarded;
mod kill;
mod library_peer;
mod many;
mod ours;
pub mod peer;
mod refused;
mod registered;
mod replicas;
mod stage;
mod streams;
mod view;

use pes::Config;
use pes::config::RemoteAgent;
use serde_json::Value;

use crate::support::app::App;
use crate::support::ws::{Socket, is};

use peer::Peer;

/// A server whose tenants know the agent `helper`; it is polled after `poll_ms`.
async fn app(peer: &Peer, poll_ms: i64) -> App {
    knowing(peer.card(), poll_ms).await
}

/// The same for the agent with this card.
async fn knowing(card: String, poll_ms: i64) -> App {
    App::with(|config| knows(config, card, poll_ms)).await
}

/// A script whose model calls this tool with these arguments, written as TOML, in its only item.
fn calling(tool: &str, arguments: &str) -> String {
    format!(
        r#"
        [[reply]]
        when = {{ phase = "planning" }}
        json = {{ title = "T", intent = "I", plan = "P", todoList = [
            {{ id = "it", description = "Do it", stepType = "tool", requiredTools = ["{tool}"] }},
        ] }}
        [[reply]]
        when = {{ phase = "execution", iteration = 1 }}
        calls = [{{ tool = "{tool}", arguments = {arguments} }}]
        [[reply]]
        when = {{ phase = "execution" }}
        text = "It is done."
        [[reply]]
        when = {{ phase = "synthesis" }}
        text = "All is done."
        "#
    )
}

/// The address of the server's card.
fn card(of: &App) -> String {
    format!("http://{}/.well-known/agent-card.json", of.address)
}

fn knows(config: &mut Config, card: String, poll_ms: i64) {
    config.delegation.poll_ms = poll_ms;
    config.delegation.poll_most_ms = poll_ms;
    let id = "helper".to_owned();
    config.agents.push(RemoteAgent { id, card, token: None, dedupes: false, timeout_ms: None });
}

/// Starts a delegation, and waits until the agent has it: the run's id and the task's.
pub async fn delegated(app: &App, thread: &str) -> (String, String) {
    let receipt = app.post(&format!("/threads/{thread}/process"), serde_json::json!({ "query": "delegate" })).await;
    let run = receipt.expect(202)["runId"].as_str().unwrap().to_owned();
    let mut socket = app.socket(&format!("/threads/{thread}/events")).await;
    let task = status(&mut socket, "working").await["taskId"].as_str().unwrap().to_owned();
    (run, task)
}

/// The next `A2A_TASK` with this status.
async fn status(socket: &mut Socket, status: &str) -> Value {
    let frames = socket.until(|frame| is(frame, "A2A_TASK") && frame["data"]["content"]["status"] == status).await;
    frames.last().unwrap()["data"]["content"].clone()
}

async fn ended(app: &App, run: &str) -> Value {
    app.get(&format!("/runs/{run}?wait=60")).await.expect(200)
}

async fn results(app: &App, thread: &str) -> Vec<Value> {
    app.observed(thread, "TOOL_EXECUTION").await.iter().map(|item| item["content"].clone()).collect()
}
