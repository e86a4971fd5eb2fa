//! What `/metrics` and the lists report of a server whose runs fail.

mod models;

use std::collections::BTreeSet;

use pes::config::ConfiguredKey;
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::app::App;
use crate::support::demo;
use crate::support::http::{Ask, soon, until};
use crate::support::metrics::value;
use crate::support::process::{Place, Server};
use crate::support::wire::{Wire, answer};

/// The labels that any family may have.
const LABELS: [&str; 24] = [
    "cap",
    "check",
    "limit",
    "method",
    "route",
    "status",
    "result",
    "kind",
    "decision",
    "action",
    "provider",
    "model",
    "phase",
    "outcome",
    "direction",
    "tool",
    "server",
    "reason",
    "version",
    "what",
    "pool",
    "state",
    "store",
    "table",
];

struct Line<'a> {
    family: &'a str,
    labels: Vec<(&'a str, &'a str)>,
}

fn lines(text: &str) -> Vec<Line<'_>> {
    let samples = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let read = |line| {
        let (name, _) = str::rsplit_once(line, ' ').expect("a value");
        let (name, labels) = name.split_once('{').map_or((name, ""), |(name, rest)| (name, rest.trim_end_matches('}')));
        let labels = labels.split("\",").filter(|pair| !pair.is_empty());
        let labels = labels.map(|pair| pair.split_once("=\"").map(|(label, of)| (label, of.trim_end_matches('"'))));
        Line { family: name, labels: labels.map(|pair| pair.expect("label=\"value\"")).collect() }
    };
    samples.map(read).collect()
}

/// The family of a sample: a histogram has samples with further names.
fn family(name: &str, known: &BTreeSet<&'static str>) -> Option<&'static str> {
    let ends = ["", "_bucket", "_sum", "_count"];
    ends.iter().find_map(|end| known.get(name.strip_suffix(end)?).copied())
}

/// A run that calls a tool of the caller, who answers and then cancels the rest.
async fn carry_out_a_tool_of_its_own(app: &App, thread: &str) {
    let tool =
        json!({ "name": "get_location", "description": "Where the user is.", "inputSchema": { "type": "object" } });
    let ask = app.ask("POST", &format!("/threads/{thread}/process")).header("prefer", "wait=30");
    ask.json(&json!({ "query": "locate", "options": { "clientTools": [tool] } })).send().await.expect(202);
    let open = app.get("/suspensions").await.expect(200);
    let asked = open["items"].as_array().unwrap().iter().find(|open| open["kind"] == "client_tool").unwrap();
    let resume = app.ask("POST", &format!("/threads/{thread}/resume")).header("prefer", "wait=30");
    resume.json(&json!({ "suspensionId": asked["suspensionId"], "value": "Rome" })).send().await.expect(202);
    app.post(&format!("/threads/{thread}/cancel"), json!({})).await.expect(202);
}

#[tokio::test]
async fn every_family_is_explained_and_no_label_is_a_tenants_word() {
    let key = |text: &str| text.parse::<ConfiguredKey>().expect("a key");
    let mule = key("zebra-corp/mule:admin+operator:key-a-0123456789abcdef");
    let app = App::with(|config| config.auth.keys = vec![mule]).await;
    let app = app.key("key-a-0123456789abcdef");
    app.finish("giraffe", "fail").await;
    app.finish("okapi", "count").await;
    app.suspend("heron", "send").await;
    let own = json!({ "name": "walrus", "url": "https://walrus.example/mcp" });
    app.post("/mcp-servers", own).await.expect(201);
    carry_out_a_tool_of_its_own(&app, "lynx").await;
    Ask::new(app.address, "GET", "/threads/giraffe").key("wrong").send().await.problem("unauthorized");
    let _socket = app.socket("/events").await;
    let text = app.get("/metrics").await.text();

    let known: BTreeSet<&'static str> =
        [pes::http::COUNTED, pes::http::LOOKED_UP].concat().iter().map(|of| of.0).collect();
    for line in lines(&text) {
        let family = family(line.family, &known).unwrap_or_else(|| panic!("{} is in no list", line.family));
        for head in [format!("# HELP {family} "), format!("# TYPE {family} ")] {
            assert!(text.contains(&head), "{head}");
        }
        for (label, of) in line.labels {
            assert!(LABELS.contains(&label) || label == "le", "{label} of {family}");
            assert!(
                !["zebra-corp", "mule", "giraffe", "okapi", "heron", "walrus", "lynx", "get_location"]
                    .iter()
                    .any(|word| of.contains(word)),
                "{of}"
            );
        }
    }
    for family in [
        "pes_runs_finished_total{result=\"error\"}",
        "pes_items_finished_total{status=\"completed\"}",
        "pes_tool_calls_total{tool=\"calculator\",outcome=\"success\"}",
        "pes_tool_calls_total{tool=\"tenant\",outcome=\"success\"}",
        "pes_suspensions_total{kind=\"approval\"}",
        "pes_auth_failures_total{reason=\"refused\"}",
        "pes_store_commits_total{outcome=\"done\"}",
        "pes_runs_started_total",
        "pes_suspension_wait_seconds_count{kind=\"client_tool\",decision=\"answered\"}",
        "pes_sockets_open{kind=\"websocket\"}",
        "pes_http_in_flight",
        "pes_store_pool_limit{pool=\"engine\"}",
        "pes_store_commit_queue_limit",
        "pes_store_bytes{table=\"all\"}",
        "pes_store_free_bytes",
        "pes_tokio_alive_tasks",
        "process_resident_memory_bytes",
        "process_start_time_seconds",
        "pes_store_commit_duration_seconds_count",
    ] {
        assert!(value(&text, family) > 0.0, "{family}");
    }
    assert!(text.contains(
        "pes_model_calls_total{provider=\"demo\",model=\"demo-scripted\",phase=\"planning\",outcome=\"ok\"}"
    ));
    assert_eq!(value(&text, "pes_runs{status=\"suspended\"}"), 1.0);
    assert_eq!(value(&text, "pes_suspensions_open{kind=\"approval\"}"), 1.0);
    assert!(value(&text, "pes_suspension_oldest_seconds{kind=\"approval\"}") < 600.0);
}

#[tokio::test]
async fn threads_and_runs_are_found_by_how_they_ended() {
    let app = App::start().await;
    app.finish("good", "hello").await;
    app.finish("bad", "fail").await;
    app.suspend("asked", "send").await;
    let ids = |list: &Value, name: &str| -> Vec<String> {
        list["items"].as_array().unwrap().iter().map(|it| it[name].as_str().unwrap().to_owned()).collect()
    };
    let failed = app.get("/threads?status=failed").await.expect(200);
    assert_eq!(ids(&failed, "threadId"), ["bad"]);
    assert_eq!(failed["items"][0]["status"], "failed");
    for (ask, expected) in [
        ("/runs", vec!["asked", "bad", "good"]),
        ("/runs?status=failed", vec!["bad"]),
        ("/runs?status=completed", vec!["good"]),
        ("/runs?status=completed&limit=1", vec!["good"]),
        ("/runs?status=suspended", vec!["asked"]),
        ("/runs?status=running", vec![]),
        ("/runs?threadId=good", vec!["good"]),
        ("/runs?threadId=good&status=failed", vec![]),
    ] {
        assert_eq!(ids(&app.get(ask).await.expect(200), "threadId"), expected, "{ask}");
    }
    let first = app.get("/runs?limit=1").await.expect(200);
    let next = app.get(&format!("/runs?limit=2&cursor={}", first["nextCursor"].as_str().unwrap())).await.expect(200);
    assert_eq!(
        (ids(&first, "threadId"), ids(&next, "threadId")),
        (vec!["asked".into()], vec!["bad".into(), "good".into()])
    );
    app.get("/runs?threadId=none").await.problem("not_found");
    app.get("/runs?status=broken").await.problem("invalid");
    assert_eq!(app.get("/tasks").await.expect(200)["items"], json!([]));

    // Other changes keep its failure; the next run clears it.
    app.ask("PUT", "/threads/bad/agent-state").json(&json!({ "data": {} })).send().await.expect(200);
    assert_eq!(app.get("/threads/bad").await.expect(200)["status"], "failed");
    app.finish("bad", "hello").await;
    assert_eq!(app.get("/threads?status=failed").await.expect(200)["items"], json!([]));
}

#[tokio::test]
async fn every_answer_says_what_it_is_and_where_it_may_stand() {
    let app = App::start().await;
    let answers = [
        app.get("/healthz").await,
        app.get("/docs").await,
        app.get("/metrics").await,
        app.get("/nothing").await,
        app.ask("POST", "/threads").typed("application/json", "{").send().await,
    ];
    for said in answers {
        assert_eq!(said.header("x-content-type-options"), Some("nosniff"), "{}", said.text());
        let policy = said.header("content-security-policy").unwrap_or_default();
        assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
    }
}

/// A metric missing for one database must be missing on purpose.
#[tokio::test]
async fn every_family_is_there_from_the_start_over_both_databases() {
    for (place, untold) in
        [(Place::sqlite(""), vec![]), (Place::postgres("").await, vec!["pes_store_free_bytes", "pes_store_wal_bytes"])]
    {
        let server = Server::start(&place, None).await;
        let text = server.address.ask("GET", "/metrics").send().await.text();
        let missing: Vec<&str> = [pes::http::COUNTED, pes::http::LOOKED_UP]
            .concat()
            .iter()
            .map(|family| family.0)
            .filter(|name| !text.contains(&format!("# TYPE {name} ")))
            .collect();
        assert_eq!(missing, untold, "{text}");
        for sample in
            ["pes_runs_finished_total{result=\"error\"}", "pes_run_duration_seconds_count{result=\"success\"}"]
        {
            assert_eq!(value(&text, sample), 0.0, "{sample}");
        }
        // Set as soon as the store is open: an alert divides by it.
        assert!(value(&text, "pes_store_commit_queue_limit") > 0.0);
        server.kill().await;
    }
}

/// In a process of its own, whose figures are of nothing else. The second of two deliveries fails.
#[rstest]
#[tokio::test]
async fn everything_is_counted_as_often_as_it_happens(#[values(false, true)] is_priced: bool) {
    let mut wire =
        Wire::serve(["204 No Content", "500 Internal Server Error"].map(|it| answer(it, "", "")).into()).await;
    let place = Place::sqlite(demo::SCRIPT);
    let prices =
        if is_priced { "[prices.\"demo:*\"]\ninput_per_million = 10.0\noutput_per_million = 20.0\n" } else { "" };
    place.configure(&format!(
        "outbox = {{ backoff_ms = [3600000] }}\n\
         [[webhooks]]\nid = \"ops\"\nurl = \"http://{}/\"\nevents = [\"run.finished\"]\n{prices}",
        wire.address
    ));
    let server = Server::start(&place, None).await;
    let ask = |path: &str, body: Value| server.address.ask("POST", path).header("prefer", "wait=30").json(&body).send();
    ask("/threads/t1/process", json!({ "query": "hello" })).await.expect(200);
    soon(wire.request()).await;
    let asked = ask("/threads/t2/process", json!({ "query": "send" })).await.expect(202);
    let approved = json!({ "suspensionId": asked["suspensions"][0]["suspensionId"], "approved": true });
    ask("/threads/t2/resume", approved).await.expect(200);

    let model = "provider=\"demo\",model=\"demo-scripted\"";
    let happened = [
        ("pes_runs_finished_total{result=\"success\"}", 2.0),
        ("pes_outbox_deliveries_total{kind=\"webhook\",outcome=\"delivered\"}", 1.0),
        ("pes_outbox_deliveries_total{kind=\"webhook\",outcome=\"failed\"}", 1.0),
    ];
    // These are counted after the response. What is looked up of the store is kept for a while, so it is not read before
    // the first delivery is over.
    let one_is_over = async || {
        let deliveries = server.address.ask("GET", "/webhooks/ops/deliveries").send().await.expect(200);
        deliveries["items"].as_array().unwrap().iter().any(|one| one["status"] == "delivered")
    };
    until("a delivery is over", one_is_over).await;
    let text = soon(async {
        loop {
            let text = server.address.ask("GET", "/metrics").send().await.text();
            if happened.iter().all(|(sample, count)| value(&text, sample) == *count) {
                return text;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    let used = server.address.ask("GET", "/usage?groupBy=tenant").send().await.expect(200)["items"][0].clone();
    let used = |name: &str| used[name].as_f64().unwrap_or_else(|| panic!("{name}: {used:#}"));
    let unpriced = if is_priced { 0.0 } else { used("calls") };
    assert!(used("inputTokens") > 0.0 && used("outputTokens") > 0.0 && used("calls") > 1.0);
    for (sample, count) in [
        ("pes_runs_started_total".to_owned(), 2.0),
        ("pes_run_queue_wait_seconds_count".to_owned(), 2.0),
        ("pes_outbox_waiting".to_owned(), 1.0),
        ("pes_policy_decisions_total{action=\"ask\"}".to_owned(), 1.0),
        ("pes_suspensions_answered_total{decision=\"approved\"}".to_owned(), 1.0),
        (format!("pes_model_tokens_total{{{model},direction=\"input\"}}"), used("inputTokens")),
        (format!("pes_model_tokens_total{{{model},direction=\"output\"}}"), used("outputTokens")),
        (format!("pes_model_unpriced_calls_total{{{model}}}"), unpriced),
    ] {
        assert_eq!(value(&text, &sample), count, "{sample}");
    }
    let cost = value(&text, &format!("pes_model_cost_usd_total{{{model}}}"));
    let expected = if is_priced { (used("inputTokens") * 10.0 + used("outputTokens") * 20.0) / 1e6 } else { 0.0 };
    // Each call is rounded to billionths.
    assert!((cost - expected).abs() < 1e-7, "{cost} instead of {expected}");
    server.kill().await;
}

/// A request that waits for a run takes as long as the run: that is not the server's latency.
#[tokio::test]
async fn what_waits_for_a_run_is_no_latency() {
    let place = Place::sqlite(demo::SCRIPT);
    let server = Server::start(&place, None).await;
    let ask = |path: &str, body: Value| server.address.ask("POST", path).json(&body).send();
    let messages = json!([{ "role": "user", "content": "hello" }]);
    ask("/v1/chat/completions", json!({ "model": "pes", "messages": messages })).await.expect(200);
    let streamed = ask("/v1/chat/completions", json!({ "model": "pes", "messages": messages, "stream": true })).await;
    assert!(streamed.text().trim_end().ends_with("[DONE]"), "{}", streamed.text());
    ask("/v1/responses", json!({ "model": "pes", "input": "hello" })).await.expect(200);
    let message = json!({ "messageId": "m1", "role": "user", "parts": [{ "kind": "text", "text": "hello" }] });
    let sent = json!({ "jsonrpc": "2.0", "id": 1, "method": "message/send", "params": { "message": message } });
    let task = ask("/a2a", sent).await.expect(200);
    assert_eq!(task["result"]["status"]["state"], "completed", "{task}");
    // A request that does not wait.
    ask("/v1/chat/completions", json!({ "model": "none", "messages": messages })).await.expect(404);

    let text = server.address.ask("GET", "/metrics").send().await.text();
    let took = |route: &str| {
        let sample = format!("pes_http_request_duration_seconds_count{{method=\"POST\",route=\"{route}\"}}");
        text.contains(&sample).then(|| value(&text, &sample))
    };
    assert_eq!(took("/v1/chat/completions"), Some(1.0), "{text}");
    assert_eq!((took("/v1/responses"), took("/a2a")), (None, None), "{text}");
    let answered = "pes_http_requests_total{method=\"POST\",route=\"/v1/chat/completions\",status=\"200\"}";
    assert_eq!(value(&text, answered), 2.0);
    server.kill().await;
}

/// The alerts leave out `/readyz` and `/healthz`.
#[tokio::test]
async fn a_route_is_named_without_the_base_path() {
    let app = App::with(|config| config.server.base_path = "/mounted".to_owned()).await;
    for (path, status) in [("/readyz", 200), ("/threads/none", 404)] {
        assert_eq!(app.get(&format!("/mounted{path}")).await.status, status, "{path}");
    }
    let text = app.get("/mounted/metrics").await.text();
    assert!(!text.contains("route=\"/mounted"), "{text}");
    for (route, status) in [("/readyz", 200), ("/threads/{thread}", 404)] {
        let sample = format!("pes_http_requests_total{{method=\"GET\",route=\"{route}\",status=\"{status}\"}}");
        assert!(value(&text, &sample) >= 1.0, "{sample}");
    }
}

/// Figures of the whole server are not shown to tenants.
#[tokio::test]
async fn where_keys_are_needed_the_metrics_are_the_operators() {
    let key = |text: &str| text.parse::<ConfiguredKey>().expect("a key");
    let (admin, operator) = ("key-a-0123456789abcdef0123456789", "key-o-0123456789abcdef0123456789");
    let app = App::with(|config| {
        config.auth.keys = vec![key(&format!("one:admin:{admin}")), key(&format!("ops:operator:{operator}"))];
    })
    .await;
    app.get("/metrics").await.problem("unauthorized");
    let app = app.key(admin);
    assert_eq!(app.get("/metrics").await.problem("forbidden")["scope"], "operator");
    let new = json!({ "tenant": "one", "name": "scrape", "scopes": ["operator"] });
    let refused = app.post("/keys", new).await.problem("invalid");
    assert!(refused["detail"].as_str().unwrap().contains("PES_API_KEYS"), "{refused:#}");
    let app = app.key(operator);
    assert!(app.get("/metrics").await.text().contains("pes_build_info"));
    app.get("/threads").await.problem("forbidden");
}
