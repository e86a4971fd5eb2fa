use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::time::timeout;

use super::*;
use crate::config::McpServer;
use crate::domain::hitl::{Question, Reply};
use crate::domain::ids::TenantPk;
use crate::domain::thread::AgentState;
use crate::domain::trace::TraceOrigin;
use crate::mcp::beginning::{lifecycle, negotiate};
use crate::mcp::lines::{Limits, Pipes};
use crate::mcp::test_messages::PATIENCE;
use crate::tool::People;

/// What was seen by whom, and how many permits were free then.
#[derive(Debug)]
struct Watch {
    permits: CallPermits,
    /// Another call takes a permit while the person is asked, and keeps it.
    is_overtaken: bool,
    seen: Mutex<Vec<(&'static str, usize)>>,
}

/// The longest wait for a permit.
const MAX_WAIT: Duration = Duration::from_secs(2);

impl Watch {
    /// One permit is free.
    fn new(is_overtaken: bool) -> Arc<Self> {
        let permits = CallPermits::new(MAX_WAIT);
        permits.permits.forget_permits(MAX_CALLS - 1);
        Arc::new(Self { permits, is_overtaken, seen: Mutex::default() })
    }

    fn note(&self, what: &'static str) {
        self.seen.lock().push((what, self.permits.permits.available_permits()));
    }
}

#[async_trait]
impl People for Watch {
    async fn ask(&self, _: Question) -> Result<Reply, ToolError> {
        self.note("question");
        if self.is_overtaken {
            self.permits.permits.forget_permits(1);
        }
        Ok(Reply::Accepted { value: json!({}) })
    }
}

/// A server that replies to a call with a question, and to the same call with an answer with its result.
async fn serve(pipe: DuplexStream, watch: Arc<Watch>) {
    let (read, mut write) = tokio::io::split(pipe);
    let mut lines = BufReader::new(read).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        let asked: Value = serde_json::from_str(&line).unwrap();
        let result = match asked["method"].as_str() {
            Some("server/discover") => json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} },
                "ttlMs": 0, "cacheScope": "private",
            }),
            Some("tools/call") if asked["params"].get("inputResponses").is_none() => {
                watch.note("call");
                let schema = json!({ "type": "object", "properties": {} });
                let params = json!({ "mode": "form", "message": "Sure?", "requestedSchema": schema });
                let question = json!({ "method": "elicitation/create", "params": params });
                json!({ "resultType": "input_required", "inputRequests": { "sure": question } })
            }
            Some("tools/call") => {
                watch.note("call with the answer");
                let action = &asked["params"]["inputResponses"]["sure"]["action"];
                json!({ "resultType": "complete", "content": [{ "type": "text", "text": action }] })
            }
            Some(_) | None => continue,
        };
        let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result });
        write.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
    }
}

async fn connection(pipe: DuplexStream) -> Connection {
    let (read, write) = tokio::io::split(pipe);
    let (questions, reader) = (Arc::new(Questions::new(PATIENCE)), Reader::new("far".into()));
    let handler = || Handler {
        server: "far".into(),
        label: "far".to_owned(),
        changed: Arc::default(),
        questions: questions.clone(),
    };
    let limits = Limits { max_bytes: 1 << 20, write_timeout: PATIENCE };
    let running =
        negotiate(Pipes::new(write, read), handler, limits, &reader, lifecycle(&McpServer::default())).await.unwrap();
    Connection::of(running, None, questions, SessionEnd::default(), reader, Arc::default())
}

fn context(people: Arc<dyn People>) -> ToolContext {
    ToolContext {
        tenant: TenantPk(1),
        thread_id: "t".into(),
        run_id: "run_1".into(),
        item_id: None,
        call_id: "call_1".into(),
        user_id: None,
        trace: TraceOrigin::default().call("4bf92f3577b34da6a3ce929d0e0e4736", "key"),
        idempotency_key: "t/call_1".to_owned(),
        agent_state: AgentState::default(),
        now: 0,
        people,
    }
}

/// Makes the call, with the free permit.
async fn call(watch: &Arc<Watch>) -> Result<ToolOutput, ToolError> {
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    tokio::spawn(serve(theirs, watch.clone()));
    let call = async {
        let connection = connection(ours).await;
        let permit = watch.permits.acquire(Instant::now()).await.expect("one is free");
        connection.call("sure", Map::new(), &context(watch.clone()), &watch.permits, permit).await
    };
    timeout(PATIENCE, call).await.expect("it comes to an end")
}

#[tokio::test]
async fn a_call_whose_person_is_asked_between_two_requests_leaves_its_place_to_others() {
    let watch = Watch::new(false);
    assert_eq!(call(&watch).await.unwrap().output, "accept");
    assert_eq!(*watch.seen.lock(), [("call", 0), ("question", 1), ("call with the answer", 0)]);
    assert_eq!(watch.permits.permits.available_permits(), 1);
}

/// A server that answers each method and its parameters with this `error` or `result`.
async fn serve_answers(pipe: DuplexStream, answer: impl Fn(&str, &Value) -> (&'static str, Value)) {
    let (read, mut write) = tokio::io::split(pipe);
    let mut lines = BufReader::new(read).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        let asked: Value = serde_json::from_str(&line).unwrap();
        if asked.get("id").is_some() {
            let (member, said) = answer(asked["method"].as_str().unwrap_or_default(), &asked["params"]);
            let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], member: said });
            if write.write_all(format!("{answer}\n").as_bytes()).await.is_err() {
                return;
            }
        }
    }
}

fn no_method() -> (&'static str, Value) {
    ("error", json!({ "code": -32601, "message": "no such method" }))
}

/// A server of 2026-07-28 that takes no subscriptions, and has no tools.
fn silent_answer(method: &str, _: &Value) -> (&'static str, Value) {
    match method {
        "server/discover" => {
            let said = json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} },
                "ttlMs": 0, "cacheScope": "private",
            });
            ("result", said)
        }
        "tools/call" => ("error", json!({ "code": -32602, "message": "Unknown tool: 'gone'" })),
        _ => no_method(),
    }
}

/// When the tools of a server that refuses subscriptions with this code are listed again, in seconds.
async fn listings(code: i32) -> [u64; 3] {
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    tokio::spawn(serve_answers(theirs, move |method, params| match method {
        "subscriptions/listen" => ("error", json!({ "code": code, "message": "no" })),
        _ => silent_answer(method, params),
    }));
    let connection = connection(ours).await;
    let began = Instant::now();
    let listings = async {
        let mut seconds = [0; 3];
        for second in &mut seconds {
            connection.changed.notified().await;
            *second = began.elapsed().as_secs();
        }
        seconds
    };
    tokio::select! {
        () = connection.listen() => unreachable!("it listens for ever"),
        seconds = listings => seconds,
    }
}

#[tokio::test(start_paused = true)]
async fn the_tools_of_a_server_that_takes_no_subscriptions_are_listed_every_minute() {
    assert_eq!(listings(-32_601).await, [60, 120, 180]);
    assert_eq!(listings(-32_603).await, [63, 123, 183], "when a subscription is refused again");
}

#[tokio::test]
async fn denied_tools_take_no_room_of_those_that_are_allowed() {
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    tokio::spawn(serve_answers(theirs, |method, params| match method {
        "tools/list" => {
            let page: usize = params["cursor"].as_str().map_or(0, |cursor| cursor.parse().unwrap());
            let tool = |name: &str| json!({ "name": name, "description": "x".repeat(900 << 10), "inputSchema": { "type": "object" } });
            let mut said = json!({ "resultType": "complete", "ttlMs": 0, "cacheScope": "private" });
            match page {
                0..6 => (said["tools"], said["nextCursor"]) = (json!([tool("no")]), json!((page + 1).to_string())),
                _ => said["tools"] = json!([tool("yes")]),
            }
            ("result", said)
        }
        _ => silent_answer(method, params),
    }));
    let profile = Profile {
        name: "far".into(),
        owner: None,
        settings: McpServer { deny: vec!["no".to_owned()], ..McpServer::default() },
        start: PATIENCE,
        message_bytes: 1 << 20,
        most_tools: 10,
    };
    let listed = timeout(PATIENCE, connection(ours).await.definitions(&profile)).await.expect("it comes to an end");
    let (definitions, has_more) = listed.unwrap_or_else(|error| panic!("{}", error.why));
    let names: Vec<&str> = definitions.iter().map(|definition| &*definition.name).collect();
    assert_eq!((names, has_more), (vec!["no", "no", "no", "no", "yes"], false));
}

#[tokio::test]
async fn the_tools_of_a_server_that_does_not_know_one_are_listed_at_once() {
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    tokio::spawn(serve_answers(theirs, silent_answer));
    let (connection, watch) = (connection(ours).await, Watch::new(false));
    let permit = watch.permits.acquire(Instant::now()).await.expect("one is free");
    let error = connection.call("gone", Map::new(), &context(watch.clone()), &watch.permits, permit).await.unwrap_err();
    assert_eq!((error.code.as_str(), error.message.as_str()), ("failed", "Unknown tool: 'gone'"));
    timeout(PATIENCE, connection.changed.notified()).await.expect("they are listed");
}

#[tokio::test]
async fn a_call_whose_answer_is_too_long_is_lost_for_that_reason() {
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    tokio::spawn(serve_answers(theirs, |method, params| match method {
        "tools/call" => ("result", json!({ "content": [{ "type": "text", "text": "x".repeat(1 << 20) }] })),
        _ => silent_answer(method, params),
    }));
    let (connection, watch) = (connection(ours).await, Watch::new(false));
    let permit = watch.permits.acquire(Instant::now()).await.expect("one is free");
    let error = connection.call("long", Map::new(), &context(watch.clone()), &watch.permits, permit).await.unwrap_err();
    let why = "The connection to the server broke during the call: its output cannot be read: a message of more than 1048576 bytes";
    assert_eq!((error.is_lost(), error.message.as_str()), (true, why));
}

/// The protocol knows no such form.
#[tokio::test]
async fn a_call_whose_reply_asks_in_an_unknown_form_fails_and_names_the_form() {
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    tokio::spawn(serve_answers(theirs, |method, params| match method {
        "tools/call" => {
            let colour = json!({ "anyOf": [{ "type": "string" }, { "type": "null" }] });
            let schema = json!({ "type": "object", "properties": { "colour": colour } });
            let asked = json!({ "mode": "form", "message": "Your colour?", "requestedSchema": schema });
            let question = json!({ "method": "elicitation/create", "params": asked });
            ("result", json!({ "resultType": "input_required", "inputRequests": { "colour": question } }))
        }
        _ => silent_answer(method, params),
    }));
    let (connection, watch) = (connection(ours).await, Watch::new(false));
    let permit = watch.permits.acquire(Instant::now()).await.expect("one is free");
    let context = context(watch.clone());
    let call = connection.call("dye", Map::new(), &context, &watch.permits, permit);
    let error = timeout(PATIENCE, call).await.expect("it comes to an end").unwrap_err();
    let why = "The server asks in a form that the protocol does not know, so nobody was asked: ";
    let form = error.message.strip_prefix(why).unwrap_or_else(|| panic!("{error:?}"));
    let form: Value = serde_json::from_str(form).unwrap();
    assert_eq!((error.code.as_str(), &form["properties"]["colour"]["anyOf"][1]["type"]), ("failed", &json!("null")));
    assert!(watch.seen.lock().is_empty(), "nobody is asked");
}

/// Many servers answer with the version that they are asked for.
#[tokio::test]
async fn an_older_server_is_asked_for_a_version_that_begins_with_initialize() {
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    tokio::spawn(serve_answers(theirs, |method, params| match method {
        "initialize" => {
            let version = &params["protocolVersion"];
            let server = json!({ "name": "old", "version": "1" });
            ("result", json!({ "protocolVersion": version, "capabilities": {}, "serverInfo": server }))
        }
        _ => no_method(),
    }));
    assert_eq!(connection(ours).await.protocol().as_deref(), Some("2025-11-25"));
}

/// The server may have begun its work before it asked.
#[tokio::test(start_paused = true)]
async fn a_call_that_has_no_place_after_its_question_is_lost_after_half_of_its_own_time() {
    let (watch, began) = (Watch::new(true), Instant::now());
    let error = call(&watch).await.expect_err("the place is taken");
    assert!(error.is_lost() && error.message.contains("the reply was not sent"), "{error:?}");
    assert_eq!(began.elapsed().as_millis() / 100, 20);
    assert_eq!(*watch.seen.lock(), [("call", 0), ("question", 1)]);
}
