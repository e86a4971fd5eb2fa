//! What is counted of model calls, in a process of its own, whose figures are of nothing else.

use serde_json::json;

use crate::front::usage::reply_of_120_tokens;
use crate::support::demo;
use crate::support::metrics::value;
use crate::support::process::{Place, Server};
use crate::support::wire::{Wire, end, event, event_stream};
use crate::support::ws::Socket;

/// Replies that were stopped are paid for as well.
#[tokio::test]
async fn what_models_took_is_what_the_usage_says() {
    let place = Place::sqlite(demo::SCRIPT);
    place.configure("prices = { \"demo:*\" = { input_per_million = 1000.0, output_per_million = 1000.0 } }\n");
    let server = Server::start(&place, None).await;
    let ask = |thread: &str, query: &str| {
        server.address.ask("POST", &format!("/threads/{thread}/process")).json(&json!({ "query": query }))
    };
    ask("done", "hello").header("prefer", "wait=30").send().await.expect(200);
    for thread in ["cancelled", "deleted"] {
        let run = ask(thread, "hang").send().await.expect(202)["runId"].as_str().unwrap().to_owned();
        let path = format!("/threads/{thread}/events");
        let mut socket =
            Socket::open(server.address.socket_addr(), &path, &[]).await.unwrap_or_else(|_| panic!("{path}"));
        socket.until(|frame| frame["event"] == "token").await;
        if thread == "deleted" {
            assert_eq!(server.address.ask("DELETE", "/threads/deleted").send().await.status, 204);
        } else {
            server.address.ask("POST", "/threads/cancelled/cancel").json(&json!({})).send().await.expect(202);
            let run = server.address.ask("GET", &format!("/runs/{run}?wait=30")).send().await.expect(200);
            assert_eq!(run["status"], "cancelled");
        }
    }
    let used = server.address.ask("GET", "/usage?groupBy=model").send().await.expect(200)["items"][0].clone();
    let text = server.address.ask("GET", "/metrics").send().await.text();
    let labels = "provider=\"demo\",model=\"demo-scripted\"";
    assert_eq!(used["calls"], 3, "{used:#}");
    assert_eq!(value(&text, "pes_recovered_total{what=\"model\"}"), 0.0, "no call is made again");
    for (direction, name) in [("input", "inputTokens"), ("output", "outputTokens")] {
        let counted = value(&text, &format!("pes_model_tokens_total{{{labels},direction=\"{direction}\"}}"));
        assert_eq!(Some(counted), used[name].as_f64(), "{used:#}");
    }
    let cost = value(&text, &format!("pes_model_cost_usd_total{{{labels}}}"));
    let expected = used["costUsd"].as_f64().unwrap();
    assert!(expected > 0.0 && (cost - expected).abs() < 1e-9, "{cost} is not {expected}");
    server.kill().await;
}

#[tokio::test]
async fn a_check_of_a_model_is_counted_in_the_metrics() {
    let wire = Wire::serve(vec![reply_of_120_tokens()]).await;
    let place = Place::sqlite("");
    place.configure(&format!("[models.openai]\nbase_url = \"{}\"\n", wire.url()));
    let server = Server::start(&place, None).await;
    let checked = server.address.ask("GET", "/models?check=true").send().await.expect(200);
    assert_eq!(checked["items"][0]["check"]["status"], "ok", "{checked:#}");
    let text = server.address.ask("GET", "/metrics").send().await.text();
    let counted = |direction: &str| -> f64 {
        let is_of =
            |line: &&str| line.starts_with("pes_model_tokens_total{provider=\"openai\"") && line.contains(direction);
        let values = text.lines().filter(is_of).map(|line| line.rsplit_once(' ').expect("a value").1);
        values.map(|value| value.parse::<f64>().expect("a number")).sum()
    };
    assert_eq!((counted("\"input\""), counted("\"output\"")), (100.0, 20.0), "{text}");
    server.kill().await;
}

/// The run fails with `model_refused`: the metric says the same.
#[tokio::test]
async fn an_answer_that_a_model_refuses_to_give_is_no_success() {
    let chunk = |delta, reason| event(json!({ "choices": [{ "delta": delta, "finish_reason": reason }] }));
    let refusal = vec![event_stream(), chunk(json!({}), json!("content_filter")), end()];
    let wire = Wire::serve(vec![refusal]).await;
    let place = Place::sqlite("");
    place.configure(&format!("[models.openai]\nbase_url = \"{}\"\n", wire.url()));
    let server = Server::start(&place, None).await;
    let ask = server.address.ask("POST", "/threads/t/process").header("prefer", "wait=30");
    let said = ask.json(&json!({ "query": "hello" })).send().await;
    let runs = server.address.ask("GET", "/runs").send().await.expect(200);
    assert_eq!(runs["items"][0]["status"], "failed", "{}", said.text());
    let text = server.address.ask("GET", "/metrics").send().await.text();
    let calls = text.lines().filter(|line| line.starts_with("pes_model_calls_total{provider=\"openai\""));
    let outcomes: Vec<&str> = calls.filter(|line| !line.ends_with(" 0")).collect();
    assert!(outcomes.len() == 1 && outcomes[0].contains("outcome=\"refused\""), "{outcomes:?}");
    server.kill().await;
}
