//! The process dies around a tool call: at every boundary, for every kind of tool, with every decision that a person
//! may take about a call in doubt. The effect is a request that a foreign service has counted, which no crash undoes.
//!
//! The boundaries next to the call always run; all of them with `scripts/test --all`.

use std::collections::BTreeSet;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::post;
use axum::{Json, Router};
use rstest::rstest;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Notify;

use crate::support::process::{Address, Place, Server};

const SCRIPT: &str = r#"
[[reply]]
when = { phase = "planning" }
json = { title = "T", intent = "I", plan = "P", todoList = [
    { id = "{{query}}", description = "Call it once", stepType = "tool" },
] }

[[reply]]
when = { item = "undeclared", phase = "execution", iteration = 1 }
calls = [{ tool = "count", arguments = {} }]

[[reply]]
when = { item = "idempotent", phase = "execution", iteration = 1 }
calls = [{ tool = "count_idempotent", arguments = {} }]

[[reply]]
when = { item = "read", phase = "execution", iteration = 1 }
calls = [{ tool = "count_read", arguments = {} }]

[[reply]]
when = { phase = "execution" }
text = "It said: {{tool_result}}"

[[reply]]
when = { phase = "synthesis" }
text = "That was it."
"#;

/// Failpoints around a call.
const BOUNDARIES: [&str; 6] =
    ["commit.before", "commit.after", "publish.before", "tool.before", "tool.sent", "tool.returned"];

/// One more, at the service: it has received the first request, and never answers it.
const IN_FLIGHT: &str = "in flight";

/// Boundaries at which the first call has been sent and no part of its result is stored.
const MAY_HAVE_BEEN_SENT: [&str; 3] = ["tool.sent@1", "tool.returned@1", IN_FLIGHT];

/// A service that counts its requests.
#[derive(Clone)]
struct Counter {
    address: SocketAddr,
    /// The idempotency key of every request.
    keys: Arc<Mutex<Vec<String>>>,
    holds_first: bool,
    held: Arc<Notify>,
}

impl Counter {
    async fn start(holds_first: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let counter = Self { address, keys: Arc::default(), holds_first, held: Arc::default() };
        let routes = Router::new().route("/count", post(count)).with_state(counter.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        counter
    }

    fn keys(&self) -> Vec<String> {
        self.keys.lock().expect("nobody panics").clone()
    }

    /// Its tools, as the operator of the server under test configures them.
    fn config(&self) -> String {
        let tool = |name: &str, class: &str, idempotent: bool| {
            format!(
                "[[tools.http]]\nname = \"{name}\"\ndescription = \"Counts.\"\nurl = \"http://{}/count\"\n\
                 input_schema = {{ type = \"object\" }}\nclass = \"{class}\"\nidempotent = {idempotent}\n",
                self.address
            )
        };
        tool("count", "write", false) + &tool("count_idempotent", "write", true) + &tool("count_read", "read", true)
    }
}

async fn count(State(counter): State<Counter>, headers: HeaderMap) -> Json<Value> {
    let key = headers["idempotency-key"].to_str().expect("a text").to_owned();
    let nth = {
        let mut keys = counter.keys.lock().expect("nobody panics");
        keys.push(key);
        keys.len()
    };
    if counter.holds_first && nth == 1 {
        counter.held.notify_one();
        std::future::pending::<()>().await;
    }
    Json(json!({ "counted": nth }))
}

/// What a person decides about a call in doubt.
const DECISIONS: [&str; 4] = ["retry", "done", "skip", "abort"];

/// The outcome.
struct Told {
    run: Value,
    execution: Option<Value>,
    /// How often the effect had happened when a person was asked.
    doubted: Option<usize>,
}

/// Asks for one call and answers its questions. `None`: the process died.
async fn tell(address: Address, counter: &Counter, tool: &str, decision: &str) -> Told {
    let ask =
        address.ask("POST", "/threads/t/process").header("idempotency-key", "once").json(&json!({ "query": tool }));
    let receipt = ask.send().await.expect(202);
    let run = receipt["runId"].as_str().expect("an id");
    let mut doubted = None;
    loop {
        let seen = address.ask("GET", &format!("/runs/{run}?wait=30")).send().await.expect(200);
        if seen["status"] != "suspended" {
            let log = address.ask("GET", "/threads/t/events?types=TOOL_EXECUTION").header("accept", "application/json");
            let log = log.send().await.expect(200);
            assert!(log["items"].as_array().expect("a list").len() <= 1, "one result: {log:#}");
            return Told { run: seen, execution: log["items"].get(0).cloned(), doubted };
        }
        let inbox = address.ask("GET", "/suspensions").send().await.expect(200);
        let asked = &inbox["items"][0];
        assert_eq!((&asked["kind"], doubted), (&json!("in_doubt"), None), "asked once: {asked:#}");
        doubted = Some(counter.keys().len());
        let answer = json!({ "suspensionId": asked["suspensionId"], "action": decision, "value": "by hand" });
        address.ask("POST", "/threads/t/resume").json(&answer).send().await.expect(202);
    }
}

/// Kills the process at the boundary, starts it again, and runs to the end. `false`: the boundary was never reached.
async fn survives(place: Place, boundary: &str, tool: &str, decision: &str) -> bool {
    let counter = Counter::start(boundary == IN_FLIGHT).await;
    place.configure(&counter.config());
    let mut server = Server::start(&place, Some(boundary).filter(|place| *place != IN_FLIGHT)).await;
    let told = tokio::select! {
        told = tell(server.address, &counter, tool, decision) => Some(told),
        () = server.reached() => None,
        () = counter.held.notified() => None,
    };
    let is_reached = told.is_none();
    let told = match told {
        Some(told) => told,
        None => {
            server.kill().await;
            server = Server::start(&place, None).await;
            tell(server.address, &counter, tool, decision).await
        }
    };
    server.kill().await;
    judge(&told, &counter.keys(), tool, decision, boundary);
    is_reached
}

fn judge(told: &Told, lines: &[String], tool: &str, decision: &str, boundary: &str) {
    let scene = format!("{tool}, {decision}, {boundary}: {lines:?} {:#}", told.run);
    let keys: BTreeSet<&String> = lines.iter().collect();
    assert!(keys.len() <= 1, "one key for all attempts; {scene}");
    assert_eq!(told.run["status"], "completed", "{scene}");
    let status = told.execution.as_ref().map(|told| told["content"]["status"].as_str().unwrap_or_default().to_owned());
    let is_declared = tool != "undeclared";
    match (told.doubted, decision) {
        (Some(_), _) if is_declared => panic!("nobody needs to be asked: {scene}"),
        (None, _) if is_declared => assert!(!lines.is_empty(), "{scene}"),
        (None, _) => {
            assert!(!MAY_HAVE_BEEN_SENT.contains(&boundary), "a person is asked about it: {scene}");
            assert_eq!(lines.len(), 1, "{scene}");
        }
        (Some(before), _) if before != 1 && MAY_HAVE_BEEN_SENT.contains(&boundary) => {
            panic!("it happened once before anybody was asked: {scene}")
        }
        (Some(before), "retry") => {
            assert!(before <= 1, "{scene}");
            assert_eq!((lines.len(), status.as_deref()), (before + 1, Some("success")), "{scene}");
        }
        (Some(before), decision) => {
            assert!(before <= 1 && lines.len() == before, "never again: {scene}");
            let expected = if decision == "done" { "success" } else { "error" };
            assert_eq!(status.as_deref(), Some(expected), "{scene}");
        }
    }
}

#[rstest]
#[case("tool.before@1", "undeclared", "retry")]
#[case(IN_FLIGHT, "undeclared", "retry")]
#[case(IN_FLIGHT, "undeclared", "skip")]
#[case(IN_FLIGHT, "idempotent", "none")]
#[case("tool.sent@1", "undeclared", "retry")]
#[case("tool.sent@1", "undeclared", "done")]
#[case("tool.sent@1", "undeclared", "skip")]
#[case("tool.returned@1", "undeclared", "abort")]
#[case("tool.sent@1", "idempotent", "none")]
#[case("tool.returned@1", "idempotent", "none")]
#[case("tool.sent@1", "read", "none")]
#[tokio::test]
async fn a_call_that_may_have_been_sent_is_never_repeated_unless_its_tool_or_a_person_says_so(
    #[case] boundary: &str,
    #[case] tool: &str,
    #[case] decision: &str,
) {
    assert!(survives(Place::sqlite(SCRIPT), boundary, tool, decision).await, "{boundary} must be passed");
}

/// The metrics count each call whose result was lost once, by its outcome.
#[rstest]
#[case("tool.sent@1", "idempotent", "tool")]
#[case("tool.sent@1", "undeclared", "in_doubt")]
#[case("model.replied@1", "idempotent", "model")]
#[tokio::test]
async fn what_is_recovered_is_counted(#[case] boundary: &str, #[case] tool: &str, #[case] what: &str) {
    let (place, counter) = (Place::sqlite(SCRIPT), Counter::start(false).await);
    place.configure(&counter.config());
    let mut server = Server::start(&place, Some(boundary)).await;
    tokio::select! {
        _ = tell(server.address, &counter, tool, "retry") => panic!("{boundary} is never passed"),
        () = server.reached() => {}
    }
    server.kill().await;
    let server = Server::start(&place, None).await;
    tell(server.address, &counter, tool, "retry").await;
    let told = server.address.ask("GET", "/metrics").send().await.text();
    let expected = ["model", "tool", "in_doubt"]
        .map(|known| format!("pes_recovered_total{{what=\"{known}\"}} {}\n", u8::from(known == what)));
    assert!(expected.iter().all(|line| told.contains(line)), "{expected:?} in {told}");
    server.kill().await;
}

#[tokio::test]
async fn nor_on_postgresql() {
    assert!(survives(Place::postgres(SCRIPT).await, "tool.sent@1", "undeclared", "done").await);
}

/// Every passage of every boundary × every kind of tool × every decision.
#[tokio::test]
#[ignore = "takes long: scripts/test --all"]
async fn every_boundary_around_a_call() {
    for tool in ["read", "idempotent", "undeclared"] {
        let decisions = if tool == "undeclared" { &DECISIONS[..] } else { &DECISIONS[..1] };
        for decision in decisions {
            println!("{IN_FLIGHT} {tool} {decision}");
            assert!(survives(Place::sqlite(SCRIPT), IN_FLIGHT, tool, decision).await);
        }
        for (boundary, decision) in BOUNDARIES.iter().flat_map(|place| decisions.iter().map(move |made| (place, made)))
        {
            for passage in 1.. {
                let held = format!("{boundary}@{passage}");
                println!("{held} {tool} {decision}");
                let is_reached = survives(Place::sqlite(SCRIPT), &held, tool, decision).await;
                assert!(passage > 1 || is_reached, "{boundary} is never passed");
                if !is_reached {
                    break;
                }
            }
        }
    }
}
