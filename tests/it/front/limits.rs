//! Every limit of the configuration, and its error.

mod mailbox;

use std::collections::BTreeSet;
use std::pin::Pin;

use futures_util::future::join_all;
use pes::config::{Config, Limits, RunLimits, Spend};
use pes::domain::usage::Price;
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::support::app::App;
use crate::support::http::{Ask, Said, in_no_time, read_answer, soon, until};
use crate::support::ws::{Socket, is};

/// How a limit is lowered, and how a request reaches it.
struct Case {
    name: &'static str,
    lower: fn(&mut Limits),
    meet: for<'a> fn(&'a App) -> Pin<Box<dyn Future<Output = ()> + 'a>>,
}

macro_rules! case {
    ($name:ident = $value:expr, |$app:ident| $meet:expr) => {
        Case {
            name: stringify!($name),
            lower: |limits| limits.$name = $value,
            meet: |$app| Box::pin(async move { $meet }),
        }
    };
}

fn cases() -> Vec<Case> {
    vec![
        case!(body_bytes = 1000, |app| body(app).await),
        case!(json_depth = 8, |app| {
            let deep = format!(r#"{{"metadata":{{"a":{}{}}}}}"#, "[".repeat(7), "]".repeat(7));
            app.ask("POST", "/threads").typed("application/json", &deep).send().await.problem("malformed");
            let fits = format!(r#"{{"metadata":{{"a":{}{}}}}}"#, "[".repeat(6), "]".repeat(6));
            app.ask("POST", "/threads").typed("application/json", &fits).send().await.expect(201);
        }),
        // As long as the ids that the server makes.
        case!(id_length = 40, |app| {
            let (longest, longer) = ("x".repeat(40), "x".repeat(41));
            app.post("/threads", json!({ "threadId": longer })).await.problem("invalid");
            app.post(&format!("/threads/{longer}/process"), json!({ "query": "hello" })).await.problem("invalid");
            app.post("/threads", json!({ "threadId": longest })).await.expect(201);
            let made = app.post("/threads", json!({})).await.expect(201)["threadId"].as_str().unwrap().to_owned();
            assert_eq!(made.len(), 40);
            app.post(&format!("/threads/{made}/process"), json!({ "query": "hello" })).await.expect(202);
        }),
        case!(header_bytes = 2000, |app| headers(app).await),
        case!(ws_message_bytes = 100, |app| {
            app.post("/threads", json!({ "threadId": "t1" })).await.expect(201);
            let mut socket = app.socket("/threads/t1/events").await;
            socket.say(json!({ "op": "ping", "id": "x".repeat(100) })).await;
            assert_eq!(socket.closed().await, Some(1009));
        }),
        case!(connections = 2, |app| connections(app).await),
        case!(socket_queue_bytes = 4096, |app| socket_queue(app).await),
        case!(header_timeout_ms = 50, |app| late_headers(app).await),
        case!(body_timeout_ms = 50, |app| late_body(app).await),
        case!(history_messages = 1, |app| {
            let said = json!({ "role": "user", "content": "x" });
            let history = json!([said, said]);
            app.post("/threads/t1/process", json!({ "query": "hello", "history": history })).await.problem("invalid");
        }),
        case!(documents = 1, |app| documents(app).await),
        case!(keys_per_tenant = 2, |app| keys(app).await),
        case!(queued_runs = 1, |app| {
            app.post("/threads/t1/process", json!({ "query": "hang" })).await.expect(202);
            app.post("/threads/t1/process", json!({ "query": "hello" })).await.expect(202);
            app.post("/threads/t1/process", json!({ "query": "hello" })).await.problem("queue_full");
        }),
        case!(items_per_plan = 3, |app| items(app).await),
        case!(calls_per_reply = 1, |app| {
            app.finish("t1", "calls").await;
            let ended = tool_results(app).await;
            // The model is told that the others were not made.
            assert_eq!(ended.len(), 1, "{ended:#?}");
        }),
        case!(state_bytes = 100, |app| {
            app.post("/threads", json!({ "threadId": "t1" })).await.expect(201);
            let put = |data: Value| app.ask("PUT", "/threads/t1/agent-state").json(&json!({ "data": data })).send();
            put(json!("x".repeat(200))).await.problem("state_too_large");
            put(json!("x".repeat(20))).await.expect(200);
        }),
        case!(tool_output_bytes = 2, |app| {
            app.finish("t1", "calls").await;
            let ended = tool_results(app).await;
            let codes: Vec<&Value> = ended.iter().map(|result| &result["error"]["code"]).collect();
            assert_eq!(codes, ["output_too_large"; 2], "{ended:#?}");
        }),
        case!(mailbox = 1, |_app| mailbox::waits_for_a_while().await),
        case!(requests_per_key = Some("2/60s".parse().expect("a rate")), |app| rate(app, "key").await),
        case!(requests_per_tenant = Some("2/60s".parse().expect("a rate")), |app| rate(app, "tenant").await),
        case!(requests_at_once_per_key = 2, |app| at_once(app).await),
        case!(wrong_keys_per_address = Some("1/60s".parse().expect("a rate")), |app| wrong_keys(app).await),
        case!(spend = Spend { tenant_day_usd: Some(1.0), ..Spend::default() }, |app| {
            // At the cap, and without prices: `front::spend`.
            let told = app.get("/limits").await.expect(200);
            assert_eq!((&told["spend"][0]["cap"], &told["spend"][0]["capUsd"]), (&json!("tenantDay"), &json!(1.0)));
        }),
        case!(tenant = RunLimits { running_runs: Some(1), queued_runs: 1 }, |app| {
            app.post("/threads/t1/process", json!({ "query": "hang" })).await.expect(202);
            app.post("/threads/t2/process", json!({ "query": "hello" })).await.expect(202);
            app.post("/threads/t3/process", json!({ "query": "hello" })).await.problem("queue_full");
        }),
        case!(page = 2, |app| {
            for thread in ["t1", "t2", "t3"] {
                app.post("/threads", json!({ "threadId": thread })).await.expect(201);
            }
            let ids = |page: &Value| page["items"].as_array().expect("a list").len();
            let first = app.get("/threads?limit=1000").await.expect(200);
            let cursor = first["nextCursor"].as_str().expect("there is more");
            let rest = app.get(&format!("/threads?limit=1000&cursor={cursor}")).await.expect(200);
            assert_eq!((ids(&first), ids(&rest), rest.get("nextCursor")), (2, 1, None));
            app.get("/threads?limit=1001").await.problem("invalid");
        }),
    ]
}

/// The backlog of a client that does not read is bounded here and in the kernel. Of 100 observations, which exceed both
/// bounds and would fit the default, some are not sent. Each is far smaller than the limit: one that fills it alone
/// makes even a fast reader read the store.
async fn socket_queue(app: &App) {
    const OBSERVATIONS: i64 = 100;
    app.post("/threads", json!({ "threadId": "t1" })).await.expect(201);
    let mut slow = Socket::narrow(app.address, "/threads/t1/events?after=latest").await;
    slow.until(|frame| frame["event"] == "caught_up").await;
    let state = json!({ "data": "x".repeat(500) });
    // If the kernel takes more in between, the reader is not slow yet as the queue overflows: it reads the store, and gets all.
    for round in 1..=8 {
        for _ in 0..OBSERVATIONS {
            app.ask("PUT", "/threads/t1/agent-state").json(&state).send().await.expect(200);
        }
        app.outlast_a_frame().await;
        let is_last = |frame: &Value| frame["event"] == "gap" || frame["data"]["seq"] == round * OBSERVATIONS;
        if slow.until(is_last).await.last().is_some_and(|frame| frame["event"] == "gap") {
            return;
        }
    }
    panic!("all observations were sent");
}

/// While the clock stands still: the headers tell how many seconds are left.
async fn rate(app: &App, name: &str) {
    in_no_time(two_requests_a_minute(app, name)).await;
}

/// Two requests a minute, and the headers of their responses; a third over a socket is one too many.
async fn two_requests_a_minute(app: &App, name: &str) {
    let first = app.get("/threads").await;
    assert_eq!(first.header("ratelimit-policy"), Some(format!("\"{name}\";q=2;w=60").as_str()));
    assert_eq!(first.header("ratelimit"), Some(format!("\"{name}\";r=1;t=30").as_str()));
    // A socket is one request, and each of its ops another.
    let mut socket = app.socket("/events").await;
    socket.say(json!({ "op": "ping", "id": "1" })).await;
    let refused = socket.answer("1").await;
    assert_eq!(refused["data"]["problem"]["code"], "too_many_requests", "{refused}");
    let third = app.get("/threads").await;
    assert_eq!(third.header("retry-after"), Some("30"));
    assert_eq!(third.header("ratelimit-policy"), Some(format!("\"{name}\";q=2;w=60").as_str()));
    assert_eq!(third.header("ratelimit"), Some(format!("\"{name}\";r=0;t=60").as_str()));
    third.problem("too_many_requests");
    // Requests of monitoring do not count.
    app.get("/readyz").await.expect(200);
    assert_eq!(app.get("/metrics").await.status, 200);
}

/// A socket and a stream are two; another key is still admitted, and closing one frees its place.
async fn at_once(app: &App) {
    let minted = async |ask: Ask, name: &str| {
        let new = json!({ "tenant": "default", "name": name, "scopes": ["admin"] });
        ask.json(&new).send().await.expect(201)["key"].as_str().expect("a key").to_owned()
    };
    let one = minted(app.ask("POST", "/keys"), "one").await;
    let other = minted(app.ask("POST", "/keys").key(&one), "other").await;
    let with = async |key: &str| app.ask("GET", "/threads").key(key).send().await;
    let bearer = format!("Bearer {one}");
    let socket = app.try_socket("/events", &[("authorization", &bearer)]).await.expect("the first");
    let stream = app.ask("GET", "/events").key(&one).header("accept", "text/event-stream").events().await;
    let refused = with(&one).await;
    assert_eq!(refused.header("retry-after"), Some("1"));
    refused.problem("too_many_requests");
    with(&other).await.expect(200);
    drop(stream);
    until_served(async || with(&one).await, "too_many_requests").await;
    let stream = app.ask("GET", "/events").key(&one).header("accept", "text/event-stream").events().await;
    with(&one).await.problem("too_many_requests");
    drop(socket);
    until_served(async || with(&one).await, "too_many_requests").await;
    drop(stream);
}

/// A place is free once the server has seen the end of the connection.
pub(super) async fn until_served(ask: impl AsyncFn() -> Said, refusal: &str) {
    let is_served = async || {
        let said = ask().await;
        if said.status != 200 {
            said.problem(refusal);
        }
        said.status == 200
    };
    until("it is served", is_served).await;
}

/// A caller with a key is still admitted.
async fn wrong_keys(app: &App) {
    let new = json!({ "tenant": "default", "name": "boss", "scopes": ["admin"] });
    let right = app.post("/keys", new).await.expect(201)["key"].as_str().expect("a key").to_owned();
    let with = async |key: &str| app.ask("GET", "/threads").key(key).send().await;
    with("wrong").await.problem("unauthorized");
    let refused = with("wrong").await;
    // Of the minute, some seconds may have passed.
    let wait: u32 = refused.header("retry-after").expect("a time").parse().expect("seconds");
    assert!((30..=60).contains(&wait), "{wait}");
    refused.problem("too_many_requests");
    with(&right).await.expect(200);
}

#[tokio::test]
async fn each_has_its_error() {
    for case in cases() {
        eprintln!("{}", case.name);
        let app = App::with(|config: &mut Config| {
            (case.lower)(&mut config.limits);
            // Settings that a cap needs.
            config.prices.insert("demo:*".to_owned(), Price { input_per_million: 1.0, ..Price::default() });
        })
        .await;
        (case.meet)(&app).await;
    }
}

#[test]
fn none_is_left_out() {
    let all = serde_json::to_value(Limits::default()).unwrap();
    let all: BTreeSet<String> = all.as_object().unwrap().keys().cloned().collect();
    let tried: BTreeSet<String> = cases().iter().map(|case| case.name.to_owned()).collect();
    assert_eq!(tried, all);
}

async fn tool_results(app: &App) -> Vec<Value> {
    app.observed("t1", "TOOL_EXECUTION").await.iter().map(|item| item["content"].clone()).collect()
}

/// Refused by its declared length, or by its real length when none was declared.
async fn body(app: &App) {
    let large = json!({ "title": "x".repeat(2000) }).to_string();
    app.ask("POST", "/threads").typed("application/json", &large).send().await.problem("body_too_large");
    let head = "POST /threads HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    let announced = format!("{head}content-length: 9999999999\r\n\r\n{{\"title\":\"");
    exchange_open(app, announced.as_bytes()).await.problem("body_too_large");
    let chunk = format!("800\r\n{}\r\n", "x".repeat(0x800));
    let unannounced = format!("{head}transfer-encoding: chunked\r\n\r\n{}", chunk.repeat(500));
    exchange_open(app, unannounced.as_bytes()).await.problem("body_too_large");
    assert_eq!(app.get("/threads").await.expect(200)["items"], json!([]));
}

/// Sends, and leaves the connection open: the response must arrive all the same.
async fn exchange_open(app: &App, request: &[u8]) -> Said {
    let (reader, mut writer) = TcpStream::connect(app.address).await.unwrap().into_split();
    let sent = async {
        let _ = writer.write_all(request).await;
        writer
    };
    let mut reader = BufReader::new(reader);
    let (said, _writer) = tokio::join!(soon(read_answer(&mut reader)), sent);
    said.expect("an answer")
}

async fn headers(app: &App) {
    let with = |length: usize| app.ask("GET", "/healthz").header("x-long", &"x".repeat(length)).send();
    with(1000).await.expect(200);
    with(2000).await.problem("headers_too_large");
    app.get(&format!("/threads?q={}", "x".repeat(2000))).await.problem("headers_too_large");
    // Headers that are far too large are not read: hyper refuses them without a body.
    with(100_000).await.expect(431);
    app.get(&format!("/threads?q={}", "x".repeat(70_000))).await.expect(431);
}

async fn connections(app: &App) {
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(app.address).await.unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        let mut stream = BufReader::new(stream);
        soon(read_answer(&mut stream)).await.unwrap().expect(200);
        held.push(stream);
    }
    app.get("/threads").await.problem("too_many_connections");
    for path in ["/healthz", "/readyz?full"] {
        let asked =
            format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\nGET /threads HTTP/1.1\r\nhost: localhost\r\n\r\n");
        let mut stream = TcpStream::connect(app.address).await.unwrap();
        stream.write_all(asked.as_bytes()).await.unwrap();
        let mut stream = BufReader::new(stream);
        soon(read_answer(&mut stream)).await.unwrap().expect(200);
        assert!(
            soon(read_answer(&mut stream)).await.is_none(),
            "a full server is not a dead one, and no more than that"
        );
    }
    held.pop();
    until_served(async || app.get("/threads").await, "too_many_connections").await;
}

async fn late_headers(app: &App) {
    exchange_open(app, b"GET /healthz HTTP/1.1\r\nhost: loc").await.problem("request_timeout");
    let mut silent = BufReader::new(TcpStream::connect(app.address).await.unwrap());
    assert!(soon(read_answer(&mut silent)).await.is_none(), "who says nothing is told nothing");
}

async fn late_body(app: &App) {
    let request =
        b"POST /threads HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{";
    exchange_open(app, request).await.problem("request_timeout");
}

/// One of each kind is accepted, and a second is not.
async fn documents(app: &App) {
    let hook = |n: u32| json!({ "url": format!("https://example.com/{n}"), "events": ["run.finished"] });
    let tool = |n: u32| {
        let schema = json!({ "type": "object" });
        json!({ "name": format!("t{n}"), "description": "T", "url": "https://example.com/", "inputSchema": schema })
    };
    let server = |n: u32| json!({ "name": format!("s{n}"), "url": "https://example.com/mcp", "enabled": false });
    for (path, kind, first, second) in [
        ("/webhooks", "webhook", hook(1), hook(2)),
        ("/http-tools", "http_tool", tool(1), tool(2)),
        ("/mcp-servers", "mcp_server", server(1), server(2)),
    ] {
        app.post(path, first).await.expect(201);
        let problem = app.post(path, second).await.problem("too_many_documents");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(kind) && detail.contains("`limits.documents`"), "{detail}");
    }
    // Of many at once, too.
    let schedule = |n: u32| json!({ "id": format!("s{n}"), "cron": "30 2 * * *", "query": "hello" });
    let all = join_all((0..20).map(|n| app.post("/schedules", schedule(n)))).await;
    let (made, refused): (Vec<Said>, Vec<Said>) = all.into_iter().partition(|said| said.status == 201);
    assert_eq!(made.len(), 1);
    for said in refused {
        said.problem("too_many_documents");
    }
    assert_eq!(app.get("/schedules").await.expect(200)["items"].as_array().unwrap().len(), 1);
}

/// A rotated key is still one, and a revoked one is none. Of many at once, one is made.
async fn keys(app: &App) {
    let new = |name: &str| json!({ "tenant": "default", "name": name, "scopes": ["admin"] });
    let boss = app.post("/keys", new("boss")).await.expect(201)["key"].as_str().expect("a key").to_owned();
    let ask = |method: &str, path: &str| app.ask(method, path).key(&boss);
    let make = |name: &str| ask("POST", "/keys").json(&new(name)).send();
    let second = make("second").await.expect(201)["keyId"].as_str().expect("an id").to_owned();
    ask("POST", &format!("/keys/{second}/rotate")).json(&json!({})).send().await.expect(200);
    let problem = make("third").await.problem("too_many_documents");
    assert!(problem["detail"].as_str().unwrap().contains("`limits.keys_per_tenant`"), "{problem}");
    ask("DELETE", &format!("/keys/{second}")).send().await.expect(204);
    let all = join_all((0..20).map(|n| make(&format!("k{n}")))).await;
    let (made, refused): (Vec<Said>, Vec<Said>) = all.into_iter().partition(|said| said.status == 201);
    assert_eq!(made.len(), 1);
    for said in refused {
        said.problem("too_many_documents");
    }
}

/// A person gets an error; a model gets it too, and is asked to plan again.
async fn items(app: &App) {
    app.post("/threads/t1/process", json!({ "query": "stuck" })).await.expect(202);
    app.socket("/threads/t1/events").await.until(|frame| is(frame, "ITEM_STATUS_CHANGE")).await;
    let add = json!([{ "op": "add", "path": "/-", "value": { "id": "fourth", "description": "Burn it" } }]);
    let ask = app.ask("PATCH", "/threads/t1/plan").header("if-match", "*");
    ask.typed("application/json-patch+json", &add.to_string()).send().await.problem("too_many_items");
    let failed = app.finish("t2", "many").await;
    assert_eq!(failed["metadata"]["error"]["code"], "plan_unreadable", "{failed:#}");
}
