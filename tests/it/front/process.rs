//! `POST /threads/{thread}/process`

use serde_json::{Value, json};

use crate::support::app::App;
use crate::support::http::{Event, Said};

async fn ask(app: &App, thread: &str, query: &str, on_busy: &str) -> Said {
    app.post(&format!("/threads/{thread}/process"), json!({ "query": query, "onBusy": on_busy })).await
}

#[tokio::test]
async fn a_query_is_accepted_and_its_answer_comes() {
    let app = App::start().await;
    let receipt = app.post("/threads/t1/process", json!({ "query": "count" })).await.expect(202);
    assert_eq!(receipt["threadId"], "t1");
    assert_eq!(receipt["eventsUrl"], format!("http://{}/threads/t1/events", app.address));
    let run = receipt["runId"].as_str().unwrap();
    assert_eq!(receipt["runUrl"], format!("http://{}/runs/{run}", app.address));
    let run = app.get(&format!("/runs/{run}?wait=20")).await.expect(200);
    assert_eq!(run["status"], "completed", "{run:#}");
    assert_eq!(run["result"]["response"]["content"], "Two and two are four.");
}

#[tokio::test]
async fn whoever_prefers_to_wait_gets_the_final_response() {
    let app = App::start().await;
    let asked = app.ask("POST", "/threads/t1/process").header("prefer", "wait=20");
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let asked = asked.header("traceparent", &format!("00-{trace}-00f067aa0ba902b7-01"));
    let said = asked.json(&json!({ "query": "count", "userId": "ana" })).send().await;
    let answer = said.expect(200);
    assert_eq!(said.header("preference-applied"), Some("wait=20"));
    assert_eq!(answer["response"]["role"], "AI");
    assert_eq!(answer["response"]["content"], "Two and two are four.");
    let metadata = &answer["metadata"];
    assert_eq!(metadata["status"], "success", "{answer:#}");
    assert_eq!(metadata["threadId"], "t1");
    assert_eq!(metadata["userId"], "ana");
    assert_eq!(metadata["traceId"], trace);
    assert_eq!(metadata["toolCalls"], 1);
    assert!(metadata["llmMetadata"]["inputTokens"].is_u64());
}

#[tokio::test]
async fn a_wait_that_is_too_short_gets_the_receipt() {
    let app = App::start().await;
    let asked = app.ask("POST", "/threads/t1/process").header("prefer", "wait=0");
    let said = asked.json(&json!({ "query": "hang" })).send().await;
    assert_eq!(said.expect(202)["status"], "running");
    assert_eq!(said.header("preference-applied"), Some("wait=0"));
}

#[tokio::test]
async fn a_wait_ends_when_a_person_is_asked() {
    let app = App::start().await;
    let suspension = app.suspend("t1", "send").await;
    assert_eq!(suspension["kind"], "approval");
    assert_eq!(suspension["toolName"], "demo_send_email");
    assert_eq!(suspension["toolInput"]["to"], "a@example.com");
    assert!(suspension["suspensionId"].as_str().unwrap().starts_with("sus_"));
    assert!(suspension["feedbackSchema"].is_object());
}

fn kinds(events: &[Event]) -> Vec<&str> {
    let observed = events.iter().filter(|event| event.event == "observation");
    observed.map(|event| event.data["type"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn events_of_the_run_come_until_it_ends() {
    let app = App::start().await;
    app.finish("t1", "hello").await;
    let asked = app.ask("POST", "/threads/t1/process").header("accept", "text/event-stream");
    let events = asked.json(&json!({ "query": "hello" })).events().await.all().await;
    assert_eq!(kinds(&events).first(), Some(&"RUN_STARTED"));
    assert_eq!(kinds(&events).last(), Some(&"RUN_FINISHED"));
    let run = &events.iter().find(|event| event.event == "observation").unwrap().data["runId"];
    assert!(events.iter().filter(|event| event.event == "observation").all(|event| &event.data["runId"] == run));
    assert!(events.iter().all(|event| (event.event == "observation") == event.id.is_some()));
}

#[tokio::test]
async fn tokens_of_the_run_come_too() {
    let app = App::start().await;
    app.post("/threads", json!({ "threadId": "t1" })).await.expect(201);
    let asked = app.ask("POST", "/threads/t1/process").header("accept", "text/event-stream");
    let mut events = asked.json(&json!({ "query": "hang" })).events().await;
    let mut said = String::new();
    while said != "one two three" {
        let event = events.next().await.unwrap();
        if event.event == "token" {
            said.push_str(event.data["data"].as_str().unwrap());
        }
    }
    app.post("/threads/t1/cancel", json!({})).await.expect(202);
    let rest = events.all().await;
    let [.., finished, run] = rest.as_slice() else { panic!("{rest:#?}") };
    assert_eq!((&finished.data["type"], &run.data["status"]), (&json!("RUN_FINISHED"), &json!("cancelled")));
}

#[tokio::test]
async fn events_of_the_run_come_until_it_suspends() {
    let app = App::start().await;
    let asked = app.ask("POST", "/threads/t1/process").header("accept", "text/event-stream");
    let events = asked.json(&json!({ "query": "send" })).events().await.all().await;
    assert!(kinds(&events).contains(&"AGENT_SUSPENDED"), "{:?}", kinds(&events));
    assert!(!kinds(&events).contains(&"RUN_FINISHED"));
}

#[tokio::test]
async fn a_busy_thread_enqueues_by_default() {
    let app = App::start().await;
    let first = app.post("/threads/t1/process", json!({ "query": "hang" })).await.expect(202);
    let second = app.post("/threads/t1/process", json!({ "query": "hello" })).await.expect(202);
    assert_eq!(second["status"], "queued");
    assert_ne!(first["runId"], second["runId"]);
    app.post(&format!("/runs/{}/cancel", first["runId"].as_str().unwrap()), json!({})).await.expect(202);
    let run = app.get(&format!("/runs/{}?wait=20", second["runId"].as_str().unwrap())).await.expect(200);
    assert_eq!(run["status"], "completed", "{run:#}");
}

#[tokio::test]
async fn a_busy_thread_can_refuse() {
    let app = App::start().await;
    ask(&app, "t1", "hang", "reject").await.expect(202);
    let problem = ask(&app, "t1", "hello", "reject").await.problem("thread_busy");
    assert_eq!(problem["retryable"], true);
    let runs = app.get("/threads/t1/runs").await.expect(200);
    assert_eq!(runs["items"].as_array().unwrap().len(), 1, "nothing is stored of what was refused");
}

#[tokio::test]
async fn a_busy_thread_can_be_interrupted() {
    let app = App::start().await;
    let first = ask(&app, "t1", "hang", "enqueue").await.expect(202);
    let second = ask(&app, "t1", "hello", "interrupt").await.expect(202);
    let run = app.get(&format!("/runs/{}?wait=20", second["runId"].as_str().unwrap())).await.expect(200);
    assert_eq!(run["status"], "completed", "{run:#}");
    let run = app.get(&format!("/runs/{}", first["runId"].as_str().unwrap())).await.expect(200);
    assert_eq!(run["status"], "cancelled");
    assert_eq!(run.get("result"), None);
}

#[tokio::test]
async fn a_busy_thread_can_be_steered() {
    let app = App::start().await;
    let first = ask(&app, "t1", "hang", "enqueue").await.expect(202);
    let second = ask(&app, "t1", "hello", "steer").await.expect(202);
    assert_eq!(first["runId"], second["runId"], "it is the same run");
    let page = app.observed("t1", "STATE_UPDATE").await;
    let messages: Vec<&Value> = page.iter().map(|item| &item["content"]["message"]).collect();
    assert!(messages.iter().any(|message| message["content"] == "hello"), "{page:#?}");
}

#[tokio::test]
async fn what_is_wrong_is_named_and_nothing_is_stored() {
    let app = App::start().await;
    for (body, pointer) in [
        (json!({}), "/query"),
        (json!({ "query": "" }), "/query"),
        (json!({ "query": 1 }), "/query"),
        (json!({ "query": "q", "quary": 1 }), "/quary"),
        (json!({ "query": "q", "onBusy": "panic" }), "/onBusy"),
        (json!({ "query": "q", "userId": "u".repeat(129) }), "/userId"),
        (
            json!({ "query": "q", "options": { "executionConfig": { "maxIterations": "5" } } }),
            "/options/executionConfig/maxIterations",
        ),
        (
            json!({ "query": "q", "options": { "executionConfig": { "suspensionTimeoutMs": i64::MAX } } }),
            "/options/executionConfig/suspensionTimeoutMs",
        ),
        (
            json!({ "query": "q", "options": { "executionConfig": { "delegationTimeoutMs": 0 } } }),
            "/options/executionConfig/delegationTimeoutMs",
        ),
        (json!({ "query": "q", "options": { "what": 1 } }), "/options/what"),
        (json!({ "query": "q", "options": [] }), "/options"),
        (json!(["q", null]), ""),
    ] {
        let problem = app.post("/threads/t1/process", body).await.problem("invalid");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem:#}");
    }
    app.post("/threads/--/process", json!({ "query": "hello" })).await.problem("invalid");
    app.get("/threads/t1").await.problem("not_found");
}

#[tokio::test]
async fn a_token_of_a_step_says_what_the_step_is() {
    let app = App::start().await;
    app.post("/threads", json!({ "threadId": "t1" })).await.expect(201);
    let mut events = app.ask("GET", "/threads/t1/events").header("accept", "text/event-stream").events().await;
    app.finish("t1", "count").await;
    let token = loop {
        let event = events.next().await.unwrap();
        if event.event == "token" && event.data["stepId"] == "sum" {
            break event.data;
        }
    };
    assert_eq!(token["stepDescription"], "Add two and two", "{token:#}");
}

#[tokio::test]
async fn whoever_asks_for_the_events_of_a_query_misses_no_word() {
    let app = App::start().await;
    for thread in ["t1", "t1", "t2"] {
        let asked = app.ask("POST", &format!("/threads/{thread}/process")).header("accept", "text/event-stream");
        let events = asked.json(&json!({ "query": "count" })).events().await.all().await;
        let of =
            |kind: &str| events.iter().position(|event| event.event == "observation" && event.data["type"] == kind);
        let (begun, ended) = (of("RUN_STARTED").unwrap(), of("RUN_FINISHED").unwrap());
        assert!(begun < ended, "{events:#?}");
        let mut said = std::collections::BTreeMap::<String, String>::new();
        for event in &events {
            let data = &event.data;
            match event.event.as_str() {
                "token" if data["tokenType"].as_str().unwrap().ends_with("RESPONSE") => {
                    let text = said.entry(data["streamId"].as_str().unwrap().to_owned()).or_default();
                    assert_eq!(data["offset"], text.len(), "every word in its place");
                    text.push_str(data["data"].as_str().unwrap());
                }
                "observation" if data["type"] == "LLM_STREAM_END" => {
                    let stream = data["content"]["streamId"].as_str().unwrap();
                    let heard = said.get(stream).map_or("", String::as_str);
                    assert_eq!(heard, data["content"]["text"], "before it is told whole");
                }
                _ => {}
            }
        }
    }
}

#[tokio::test]
async fn a_trace_id_that_is_none_is_the_clients_own_name_of_the_trace() {
    let app = App::start().await;
    let run = async |thread: &str, trace: &str| {
        let path = format!("/threads/{thread}/process");
        let receipt = app.post(&path, json!({ "query": "count", "traceId": trace })).await.expect(202);
        app.get(&format!("/runs/{}?wait=20", receipt["runId"].as_str().unwrap())).await.expect(200)
    };
    let free = run("free", "order 4711").await;
    let id = free["traceId"].as_str().unwrap();
    assert_eq!(free["clientTraceId"], "order 4711");
    assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
    let valid = run("valid", "4bf92f3577b34da6a3ce929d0e0e4736").await;
    assert_eq!(valid["traceId"], "4bf92f3577b34da6a3ce929d0e0e4736");
    assert!(valid.get("clientTraceId").is_none(), "{valid:#}");
}
