//! Every refusal is a problem document.

use serde_json::json;

use crate::support::app::App;
use crate::support::http::exchange;
use crate::support::unused_address::unused_address;

#[tokio::test]
async fn what_is_not_there_is_a_problem() {
    let app = App::start().await;
    let problem = app.get("/nothing/here").await.problem("not_found");
    assert_eq!(problem["instance"], "/nothing/here");
    assert_eq!(problem["type"], format!("http://{}/docs#not_found", app.address));
    assert_eq!(problem["retryable"], false);
    let said = app.ask("DELETE", "/threads").send().await;
    said.problem("method_not_allowed");
    let allowed = said.header("allow").unwrap();
    assert!(allowed.contains("GET") && allowed.contains("POST"), "{allowed}");
}

#[tokio::test]
async fn the_trace_of_the_caller_is_the_trace_of_the_problem() {
    let app = App::start().await;
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let asked = app.ask("GET", "/threads/none").header("traceparent", &format!("00-{trace}-00f067aa0ba902b7-01"));
    assert_eq!(asked.send().await.problem("not_found")["traceId"], trace);
    let asked = app.ask("GET", "/threads/none").header("traceparent", "00-0-0-0");
    assert_eq!(asked.send().await.problem("not_found")["traceId"].as_str().unwrap().len(), 32);
}

#[tokio::test]
async fn a_body_that_is_no_json_is_malformed() {
    let app = App::start().await;
    for body in ["", "{", "[1,]", "{\"query\":\"q\"} x", "{\"query\":\"a\",\"query\":\"b\"}", "\u{feff}{}", "nul"] {
        app.ask("POST", "/threads/t1/process").typed("application/json", body).send().await.problem("malformed");
    }
    let twice = app.ask("POST", "/threads").typed("application/json", r#"{"metadata":{"a":[{"b":1,"b":2}]}}"#);
    let problem = twice.send().await.problem("malformed");
    assert_eq!(problem["errors"][0]["pointer"], "/metadata/a/0/b");
    let request =
        b"POST /threads HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 3\r\n\
                    connection: close\r\n\r\n\"\xff\"";
    exchange(app.address, request).await.problem("malformed");
    let nul = app.ask("POST", "/threads").typed("application/json", r#"{"title":"\u0000"}"#).send().await;
    assert_eq!(nul.problem("invalid")["errors"][0]["pointer"], "/title");
}

#[tokio::test]
async fn a_body_of_another_kind_is_not_read() {
    let app = App::start().await;
    for media_type in ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin1", "json"] {
        app.ask("POST", "/threads").typed(media_type, "{}").send().await.problem("unsupported_media_type");
    }
    let zipped = app.ask("POST", "/threads").header("content-encoding", "gzip").typed("application/json", "{}");
    zipped.send().await.problem("unsupported_media_type");
    app.ask("POST", "/threads").send().await.problem("unsupported_media_type");
    app.ask("POST", "/threads").typed("Application/JSON; charset=\"UTF-8\"", "{}").send().await.expect(201);
}

#[tokio::test]
async fn what_is_not_http_is_refused_without_a_body() {
    let app = App::start().await;
    for request in ["nonsense\r\n\r\n", "GET / HTTP/1.1\r\nbad header\r\n\r\n", "G\u{1}T / HTTP/1.1\r\n\r\n"] {
        let refused = exchange(app.address, request.as_bytes()).await;
        assert_eq!((refused.status, refused.text().as_str()), (400, ""), "{request:?}");
    }
    let with = |headers: usize| {
        let others: String = (1..headers).map(|nth| format!("x-{nth}: 1\r\n")).collect();
        format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\n{others}\r\n")
    };
    exchange(app.address, with(100).as_bytes()).await.expect(200);
    let refused = exchange(app.address, with(101).as_bytes()).await;
    assert_eq!((refused.status, refused.text().as_str()), (431, ""));
}

#[tokio::test]
async fn ids_that_nobody_has_are_not_found() {
    let app = App::start().await;
    for path in
        ["/threads/%20", "/threads/a%2Fb", "/threads/%ff", "/threads/..%2f..", "/runs/%00", "/threads/a%0ab/state"]
    {
        app.get(path).await.problem("not_found");
    }
    app.post("/threads/a%20b/process", json!({ "query": "hello" })).await.problem("invalid");
}

#[tokio::test]
async fn a_model_that_cannot_be_reached_is_named_with_the_cause() {
    let (address, _held) = unused_address();
    let app = App::with(|config| {
        config.models.openai.base_url = Some(format!("http://{address}/v1"));
        config.models.choice = vec!["openai:any".parse().unwrap()];
        config.models.connect_retry_ms = 0;
    })
    .await;
    let ended = app.finish("t1", "hello").await;
    assert_eq!(ended["metadata"]["error"]["code"], "model_failed", "{ended:#}");
    let log = app.observed("t1", "ERROR").await;
    let error = &log[0]["content"];
    let said = error["message"].as_str().unwrap();
    assert_eq!(said, format!("openai cannot be reached at {address}: connection refused"));
    assert_eq!((&error["provider"], &error["model"]), (&json!("openai"), &json!("any")));
    assert_eq!((&error["attempts"], &error["retryable"]), (&json!(1), &json!(true)));
}

#[tokio::test]
async fn whoever_only_asks_for_the_head_gets_the_head() {
    let app = App::start().await;
    let said = exchange(app.address, b"HEAD /healthz HTTP/1.0\r\nhost: localhost\r\n\r\n").await;
    assert_eq!((said.status, said.body.len()), (200, 0));
}
