//! What the tools do, and their results.

use serde_json::{Value, json};

use super::host::{ALL, Host, MIDDLE, NEW, OLD, text};
use crate::support::app::App;
use crate::support::store::Moody;

async fn listed(app: &App) -> Vec<Value> {
    let tools = MIDDLE.say(app, "tools/list", json!({})).await["result"]["tools"].clone();
    tools.as_array().expect("a list").clone()
}

fn names(tools: &[Value]) -> Vec<&str> {
    tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_key_is_shown_what_it_may_use() {
    let app = App::with_keys().await;
    let app = app.key("key-a-0123456789abcdef0123456789");
    let all = listed(&app).await;
    assert_eq!(names(&all), ["ask", "start", "status", "cancel", "answer"]);
    assert!(all[0]["description"].as_str().unwrap().contains("Answers questions and carries out tasks"));
    assert_eq!(all[2]["annotations"]["readOnlyHint"], true);
    for tool in &all {
        jsonschema::meta::validate(&tool["inputSchema"]).unwrap();
        jsonschema::meta::validate(&tool["outputSchema"]).unwrap();
    }
    let app = app.key("reader-0123456789abcdef0123456789");
    assert_eq!(names(&listed(&app).await), ["status"]);
    for tool in ["ask", "start", "cancel"] {
        let call = json!({ "name": tool, "arguments": { "query": "hello", "runId": "run_x" } });
        let refused = OLD.request(&app, "tools/call", call).send().await.expect(403);
        assert_eq!(refused["error"]["data"]["code"], "forbidden", "{tool}");
    }
    assert_eq!(app.get("/runs").await.expect(200)["items"], json!([]), "nothing was begun");
}

/// Two keys of one tenant.
async fn with_two(scopes: &str) -> App {
    let key = |name: &str, scopes: &str| format!("default/{name}:{scopes}:{name}-0123456789abcdef0123456789");
    App::with(|config| {
        config.auth.keys = vec![key("one", "read+run").parse().unwrap(), key("two", scopes).parse().unwrap()]
    })
    .await
}

const ONE: &str = "one-0123456789abcdef0123456789";
const TWO: &str = "two-0123456789abcdef0123456789";

#[tokio::test]
async fn who_may_use_no_tool_is_refused_the_list() {
    let app = with_two("approve").await.key(TWO);
    assert_eq!(names(&listed(&app).await), ["answer"]);
    let app = with_two("operator").await.key(TWO);
    let refused = OLD.request(&app, "tools/list", json!({})).send().await.expect(403);
    assert_eq!(refused["error"]["data"]["code"], "forbidden");
}

#[tokio::test]
async fn every_result_fits_what_was_promised() {
    let app = App::start().await;
    let schema = listed(&app).await[0]["outputSchema"].clone();
    let fits = jsonschema::validator_for(&schema).unwrap();
    let check = |result: Value| {
        let data = &result["structuredContent"];
        assert!(fits.is_valid(data), "{data:#}");
        assert!(!text(&result).is_empty());
        result
    };
    for host in ALL {
        for query in ["hello", "count", "send", "fail"] {
            check(host.call(&app, "ask", json!({ "query": query })).await);
        }
        let started = check(host.call(&app, "start", json!({ "query": "hang" })).await);
        let run = json!({ "runId": started["structuredContent"]["runId"] });
        check(host.call(&app, "status", run.clone()).await);
        check(host.call(&app, "cancel", run.clone()).await);
        check(host.call(&app, "cancel", run).await);
    }
}

#[tokio::test]
async fn ask_waits_for_the_answer() {
    let app = App::start().await;
    for host in ALL {
        let result = host.call(&app, "ask", json!({ "query": "count" })).await;
        let data = &result["structuredContent"];
        assert_eq!((text(&result), &data["answer"]), ("Two and two are four.", &json!("Two and two are four.")));
        assert_eq!((&data["status"], &result["isError"]), (&json!("completed"), &json!(false)));
        let plan = json!([{ "id": "sum", "description": "Add two and two", "status": "completed" }]);
        assert_eq!(data["plan"], plan, "{host:?}");
        let run = format!("/runs/{}", data["runId"].as_str().unwrap());
        assert_eq!(app.get(&run).await.expect(200)["threadId"], data["threadId"]);
    }
    assert_eq!(app.get("/threads").await.expect(200)["items"].as_array().unwrap().len(), 3, "each its own");
}

#[tokio::test]
async fn a_thread_goes_on_where_it_is_named() {
    let app = App::start().await;
    let first = OLD.data(&app, "ask", json!({ "query": "count", "thread": "mine" })).await;
    assert_eq!(first["threadId"], "mine");
    let second = NEW.data(&app, "ask", json!({ "query": "hello", "thread": "mine" })).await;
    assert_eq!(second["answer"], "Hello again.");
    assert!(second.get("plan").is_none(), "what is over there is of another run: {second:#}");
    let wrong = OLD.call(&app, "ask", json!({ "query": "hello", "thread": "a/b" })).await;
    assert_eq!(wrong["isError"], true);
    assert!(text(&wrong).contains("letters, digits"), "{wrong:#}");
}

#[tokio::test]
async fn what_takes_longer_goes_on_and_is_asked_for() {
    let app = App::of(Moody::fresh().await, |_| {}).await;
    // The time of a call passes once nothing else happens: when the first item thinks.
    tokio::time::pause();
    for host in ALL {
        let asked = host.call(&app, "ask", json!({ "query": "stuck", "wait": 1 })).await;
        let data = &asked["structuredContent"];
        assert_eq!((&data["status"], &asked["isError"]), (&json!("running"), &json!(false)));
        assert!(text(&asked).contains("`status`") && text(&asked).contains("0 of 3"), "{}", text(&asked));
        let run = data["runId"].clone();
        let status = host.data(&app, "status", json!({ "runId": run })).await;
        assert_eq!((&status["runId"], &status["status"]), (&run, &json!("running")));
        assert_eq!(status["plan"][0]["status"], "in_progress");
        let waited = host.data(&app, "status", json!({ "runId": run, "wait": 1 })).await;
        assert_eq!(waited["status"], "running");
        let cancelled = host.data(&app, "cancel", json!({ "runId": run })).await;
        assert_eq!(cancelled["status"], "cancelled");
        let again = host.data(&app, "cancel", json!({ "runId": run })).await;
        assert_eq!(again["status"], "cancelled");
    }
}

#[tokio::test]
async fn status_waits_for_the_end() {
    let app = App::start().await;
    let run = OLD.data(&app, "start", json!({ "query": "count" })).await["runId"].clone();
    let ended = OLD.call(&app, "status", json!({ "runId": run, "wait": 30 })).await;
    assert_eq!(text(&ended), "Two and two are four.");
    let over = OLD.data(&app, "cancel", json!({ "runId": run })).await;
    assert_eq!(over["status"], "completed", "it cannot be stopped any more, and says so");
}

#[tokio::test]
async fn what_a_person_is_asked_is_shown() {
    let app = App::start().await;
    for host in ALL {
        let result = host.call(&app, "ask", json!({ "query": "send" })).await;
        let data = &result["structuredContent"];
        assert_eq!(data["status"], "suspended");
        let open = &data["suspensions"][0];
        assert_eq!((&open["kind"], &open["toolName"]), (&json!("approval"), &json!("demo_send_email")));
        let url = open["url"].as_str().unwrap();
        assert!(text(&result).contains(url) && text(&result).contains("a@example.com"), "{}", text(&result));
        let listed = app.get("/suspensions").await.expect(200);
        assert!(listed["items"].to_string().contains(open["suspensionId"].as_str().unwrap()));
    }
}

#[tokio::test]
async fn a_run_that_failed_is_an_error_with_a_sentence() {
    let app = App::start().await;
    let failed = MIDDLE.call(&app, "ask", json!({ "query": "fail" })).await;
    assert_eq!((&failed["isError"], &failed["structuredContent"]["status"]), (&json!(true), &json!("failed")));
    assert!(failed["structuredContent"]["error"]["code"].is_string(), "{failed:#}");
}

async fn refused(app: &App, tool: &str, arguments: Value) -> String {
    let result = OLD.call(app, tool, arguments.clone()).await;
    assert_eq!(result["isError"], true, "{arguments}: {result:#}");
    assert!(result.get("structuredContent").is_none());
    text(&result).to_owned()
}

#[tokio::test]
async fn wrong_arguments_are_told_to_the_model() {
    let app = App::start().await;
    for (tool, arguments, says) in [
        ("ask", json!({}), "query: missing field"),
        ("ask", json!({ "query": " " }), "`query` must say something"),
        ("ask", json!({ "query": 7 }), "query: invalid type"),
        ("ask", json!([]), "The arguments: "),
        ("ask", json!({ "query": "hello", "wait": 301 }), "at most 300"),
        ("ask", json!({ "query": "hello", "wait": -1 }), "wait: "),
        ("ask", json!({ "query": "hello", "shout": true }), "shout: unknown field"),
        ("ask", json!({ "query": "hello", "idempotencyKey": "" }), "`idempotencyKey` must"),
        ("start", json!({ "query": "hello", "wait": 1 }), "`wait` is for `ask`"),
        ("status", json!({ "runId": "run_x", "wait": 46 }), "at most 45"),
        ("status", json!({ "runId": "run_x" }), "no such run"),
        ("status", json!({ "runId": "run_x", "wait": 5 }), "no such run"),
        ("cancel", json!({ "runId": "\u{e9}" }), "no such run"),
    ] {
        let said = refused(&app, tool, arguments.clone()).await;
        assert!(said.contains(says), "{tool} {arguments}: {said}");
    }
    assert_eq!(app.get("/runs").await.expect(200)["items"], json!([]), "nothing was begun");
}

#[tokio::test]
async fn nobody_learns_of_anothers_runs() {
    let app = App::with_keys().await.key("key-a-0123456789abcdef0123456789");
    let run = OLD.data(&app, "start", json!({ "query": "hang", "thread": "t" })).await["runId"].clone();
    let app = app.key("key-b-0123456789abcdef0123456789");
    for tool in ["status", "cancel"] {
        assert!(refused(&app, tool, json!({ "runId": run })).await.contains("no such run"), "{tool}");
    }
    let own = OLD.data(&app, "ask", json!({ "query": "hello", "thread": "t" })).await;
    assert_eq!(own["answer"], "Hello there.", "a thread of the same name is another");
    let app = app.key("key-a-0123456789abcdef0123456789");
    assert_eq!(OLD.data(&app, "status", json!({ "runId": run })).await["status"], "running");
}

#[tokio::test]
async fn the_same_call_with_a_key_is_the_same_run() {
    let app = App::start().await;
    let ask = json!({ "query": "count", "idempotencyKey": "once" });
    let first = OLD.data(&app, "ask", ask.clone()).await;
    let later = json!({ "query": "count", "idempotencyKey": "once", "wait": 3 });
    for (host, tool, arguments) in [(OLD, "ask", ask.clone()), (NEW, "ask", later), (MIDDLE, "start", ask.clone())] {
        assert_eq!(host.data(&app, tool, arguments).await["runId"], first["runId"], "{tool}");
    }
    assert_eq!(app.get("/runs").await.expect(200)["items"].as_array().unwrap().len(), 1);
    let other = json!({ "query": "hello", "idempotencyKey": "once" });
    assert!(refused(&app, "ask", other).await.contains("This idempotency key was used for another request"));
}

#[tokio::test]
async fn a_key_of_a_call_is_that_of_who_made_it() {
    let app = with_two("read+run").await.key(ONE);
    let ask = json!({ "query": "hello", "idempotencyKey": "once" });
    let first = OLD.data(&app, "ask", ask.clone()).await;
    let app = app.key(TWO);
    assert_ne!(OLD.data(&app, "ask", ask).await["runId"], first["runId"]);
}

#[tokio::test]
async fn who_waits_for_another_run_is_told_whether_that_waits_for_a_person() {
    let app = App::start().await;
    OLD.data(&app, "start", json!({ "query": "hang", "thread": "works" })).await;
    app.suspend("asks", "send").await;
    for (thread, says) in [("works", "`works`. "), ("asks", "`asks`, which goes on when a person has answered it. ")] {
        let result = OLD.call(&app, "start", json!({ "query": "hello", "thread": thread })).await;
        let run = result["structuredContent"]["runId"].as_str().unwrap();
        let later = format!("`status` with the runId `{run}` tells how it stands.");
        assert_eq!(text(&result), format!("It waits for the end of another run of its thread {says}{later}"));
    }
}

/// The model cannot fix a full queue.
#[tokio::test]
async fn what_the_host_must_know_is_no_result() {
    let app = App::with(|config| config.limits.queued_runs = 0).await;
    OLD.data(&app, "start", json!({ "query": "hang", "thread": "t" })).await;
    let second = json!({ "name": "ask", "arguments": { "query": "hello", "thread": "t" } });
    let said = Host("2025-11-25").request(&app, "tools/call", second).send().await;
    assert_eq!(said.header("retry-after"), Some("1"));
    let refused = said.expect(429);
    assert_eq!(refused["error"]["data"], json!({ "code": "queue_full", "retryable": true }), "{refused:#}");
}
