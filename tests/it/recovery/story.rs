//! The scenario that every process runs: four runs on different threads, each driven to its end. Repeating it after a
//! crash asks nothing twice, because every request carries its key.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::process::{Accepted, Address, Place};

pub const SCRIPT: &str = include_str!("story.toml");

/// Drives every run to its end.
pub async fn tell(address: Address, place: &Place) {
    accepted(address, place, "in-tool", "tool").await;
    accepted(address, place, "asking", "question").await;
    let question = suspended(address, "asking").await;
    let diamond = accepted(address, place, "diamond", "diamond").await;
    let queued = accepted(address, place, "diamond", "afterwards").await;
    for run in [&diamond, &queued] {
        assert_eq!(ended(address, place, run).await["status"], "completed");
    }
    let answer = json!({ "suspensionId": question["suspensionId"], "value": "green" });
    let said = address.ask("POST", "/threads/asking/resume").header("idempotency-key", "answer").json(&answer);
    let receipt = said.send().await.expect(202);
    let run = receipt["runId"].as_str().expect("an id").to_owned();
    assert_eq!(ended(address, place, &run).await["result"]["metadata"]["status"], "success");
    let said = address.ask("POST", "/threads/in-tool/cancel").send().await;
    assert!(matches!(said.status, 200 | 202), "{}", said.text());
}

/// The result is as without a crash: nothing is missing or doubled.
pub async fn check(address: Address, place: &Place) {
    for (thread, runs) in [("in-tool", 1), ("asking", 1), ("diamond", 2)] {
        each_step_once(address, thread, runs).await;
    }
    counted_once(place, &log(address, "diamond").await, 5);
}

/// The log of a thread has no gap and no duplicate.
pub async fn each_step_once(address: Address, thread: &str, runs: usize) {
    let log = log(address, thread).await;
    let seqs: Vec<i64> = log.iter().map(|seen| seen["seq"].as_i64().expect("a seq")).collect();
    assert_eq!(seqs, (1..=seqs.len() as i64).collect::<Vec<_>>(), "{thread}: contiguous");
    let of = |kind: &str| log.iter().filter(|seen| seen["type"] == kind).collect::<Vec<_>>();
    let finished: BTreeSet<&str> = of("RUN_FINISHED").iter().filter_map(|seen| seen["runId"].as_str()).collect();
    assert_eq!((finished.len(), of("RUN_FINISHED").len()), (runs, runs), "{thread}: one end for each run");
    assert_eq!(of("RUN_STARTED").len(), runs, "{thread}: each run starts once");
    nothing_is_repeated(thread, &log);
}

/// A thread on which only the diamond plan ran.
pub async fn check_diamond(address: Address, place: &Place, thread: &str) {
    each_step_once(address, thread, 1).await;
    counted_once(place, &log(address, thread).await, 4);
}

/// A finished item stays finished: it ends once, and no model is called for it any more.
fn nothing_is_repeated(thread: &str, log: &[Value]) {
    let mut done = BTreeSet::new();
    let mut results = BTreeSet::new();
    for seen in log {
        let item = seen["parentId"].as_str().unwrap_or_default();
        assert!(!done.contains(item), "{thread}: {item} goes on after its end: {seen:#}");
        if seen["type"] == "ITEM_STATUS_CHANGE" && seen["content"]["status"] == "completed" {
            done.insert(item);
        }
        if seen["type"] == "TOOL_EXECUTION" {
            assert!(results.insert(seen["content"]["callId"].as_str()), "{thread}: a second result: {seen:#}");
        }
    }
}

/// Every call of this log ran exactly once; an idempotent one may have run again under the same key.
fn counted_once(place: &Place, log: &[Value], calls: usize) {
    let lines = place.lines();
    let seen = log.iter().filter(|seen| seen["type"] == "TOOL_EXECUTION").collect::<Vec<_>>();
    assert_eq!(seen.len(), calls, "{lines:?}");
    for call in seen {
        let (id, tool) = (call["content"]["callId"].as_str().expect("an id"), &call["content"]["toolName"]);
        let times = lines.iter().filter(|line| line.contains(id)).count();
        match tool.as_str() {
            Some("test_count") => assert_eq!(times, 1, "{id}: {lines:?}"),
            _ => assert!(times >= 1, "{id}: {lines:?}"),
        }
    }
}

/// Asks, and notes the run that was answered.
async fn accepted(address: Address, place: &Place, thread: &str, query: &str) -> String {
    let run = ask(address, thread, query).await;
    place.note(Accepted { thread: thread.to_owned(), query: query.to_owned(), run: run.clone() });
    run
}

/// Every run that was answered is there after a crash, and the repeated request is answered with it.
pub async fn check_accepted(address: Address, place: &Place) {
    for Accepted { thread, query, run } in place.accepted() {
        let seen = address.ask("GET", &format!("/runs/{run}")).send().await.expect(200);
        assert_eq!((&seen["runId"], &seen["threadId"]), (&json!(run), &json!(thread)));
        assert_eq!(ask(address, &thread, &query).await, run, "{thread}: the repeated request began another run");
    }
}

pub async fn ask(address: Address, thread: &str, query: &str) -> String {
    let ask = address.ask("POST", &format!("/threads/{thread}/process")).header("idempotency-key", query);
    let receipt = ask.json(&json!({ "query": query })).send().await.expect(202);
    receipt["runId"].as_str().expect("an id").to_owned()
}

async fn waited(address: Address, run: &str) -> Value {
    address.ask("GET", &format!("/runs/{run}?wait=30")).send().await.expect(200)
}

/// The first question on this thread, even if it is already answered.
async fn suspended(address: Address, thread: &str) -> Value {
    let runs = address.ask("GET", &format!("/threads/{thread}/runs")).send().await.expect(200);
    let run = runs["items"][0]["runId"].as_str().expect("an id");
    waited(address, run).await;
    let log = log(address, thread).await;
    let asked = log.iter().find(|seen| seen["type"] == "AGENT_SUSPENDED").expect("it asks");
    asked["content"].clone()
}

/// The run at its end. For a call that a crash left in doubt, a person checks whether it ran, and decides.
pub async fn ended(address: Address, place: &Place, run: &str) -> Value {
    loop {
        let seen = waited(address, run).await;
        if seen["status"] != "suspended" {
            return seen;
        }
        let inbox = address.ask("GET", "/suspensions").send().await.expect(200);
        let doubts = inbox["items"].as_array().expect("a list").iter().filter(|asked| asked["kind"] == "in_doubt");
        for doubt in doubts {
            let call = doubt["callId"].as_str().expect("a doubt is about a call");
            let thread = doubt["threadId"].as_str().expect("a doubt is on a thread");
            let happened = place.lines().iter().any(|line| line.contains(call));
            let answer = if happened {
                json!({ "suspensionId": doubt["suspensionId"], "action": "done", "value": "counted" })
            } else {
                json!({ "suspensionId": doubt["suspensionId"], "action": "retry" })
            };
            address.ask("POST", &format!("/threads/{thread}/resume")).json(&answer).send().await.expect(202);
        }
    }
}

async fn log(address: Address, thread: &str) -> Vec<Value> {
    let (mut log, mut after) = (Vec::new(), 0);
    loop {
        let page = address.ask("GET", &format!("/threads/{thread}/events?after={after}&limit=200"));
        let page = page.header("accept", "application/json").send().await.expect(200);
        let items = page["items"].as_array().expect("a list");
        let Some(last) = items.last() else { return log };
        after = last["seq"].as_i64().expect("a seq");
        log.extend(items.iter().cloned());
    }
}
