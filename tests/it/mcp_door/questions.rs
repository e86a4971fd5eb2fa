//! A question of a run goes to the person at the host, and the answer to the run, only for keys with `approve`.

use serde_json::{Value, json};

use super::host::{ALL, NEW, OLD, text};
use crate::support::app::App;
use crate::support::http::soon;
use crate::support::store::fresh_store;

/// The result of `ask`, by a host that can show forms to people; `more` are the members of a retry.
async fn asking(app: &App, arguments: &Value, more: Value) -> Value {
    let capabilities = json!({ "elicitation": { "form": {} } });
    let mut params = json!({ "name": "ask", "arguments": arguments });
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    NEW.say(app, "tools/call", params).await["result"].clone()
}

/// The forms by question, and the state.
fn asked(result: &Value) -> (Vec<(String, Value)>, Value) {
    assert_eq!(result["resultType"], "input_required", "{result:#}");
    let requests = result["inputRequests"].as_object().expect("questions");
    let forms = requests.iter().map(|(id, request)| {
        assert_eq!((&request["method"], &request["params"]["mode"]), (&json!("elicitation/create"), &json!("form")));
        (id.clone(), request["params"].clone())
    });
    (forms.collect(), result["requestState"].clone())
}

/// The members of a retry that gives every question this answer.
fn retry(result: &Value, response: &Value) -> Value {
    let (forms, state) = asked(result);
    let responses: Value =
        forms.into_iter().map(|(id, _)| (id, response.clone())).collect::<serde_json::Map<_, _>>().into();
    json!({ "inputResponses": responses, "requestState": state })
}

fn accept(content: Value) -> Value {
    json!({ "action": "accept", "content": content })
}

async fn runs(app: &App) -> usize {
    app.get("/runs").await.expect(200)["items"].as_array().unwrap().len()
}

async fn resolution(app: &App) -> Value {
    app.get("/suspensions?status=all").await.expect(200)["items"][0]["resolution"].clone()
}

#[tokio::test]
async fn an_approval_is_asked_and_the_same_run_goes_on() {
    let app = App::start().await;
    let query = json!({ "query": "send" });
    let first = asking(&app, &query, json!({})).await;
    let (forms, _) = asked(&first);
    let message = forms[0].1["message"].as_str().unwrap();
    assert!(message.contains("demo_send_email") && message.contains("a@example.com"), "{message}");
    assert_eq!(forms[0].1["requestedSchema"]["properties"]["approved"]["type"], "boolean");
    let retry = retry(&first, &accept(json!({ "approved": true })));
    let done = asking(&app, &query, retry.clone()).await;
    assert_eq!((text(&done), &done["resultType"]), ("The mail is dealt with.", &json!("complete")));
    assert_eq!(resolution(&app).await["decision"], "approved");
    assert_eq!(resolution(&app).await["decidedBy"], "local");
    // A client whose response was lost retries, and nothing is decided twice.
    let again = asking(&app, &query, retry).await;
    assert_eq!(again["structuredContent"], done["structuredContent"]);
    assert_eq!(runs(&app).await, 1);
}

#[tokio::test]
async fn to_decline_is_to_reject_and_to_cancel_is_to_leave_it_open() {
    let app = App::start().await;
    let query = json!({ "query": "send" });
    let first = asking(&app, &query, json!({})).await;
    let left = asking(&app, &query, retry(&first, &json!({ "action": "cancel" }))).await;
    assert_eq!((&left["resultType"], &left["structuredContent"]["status"]), (&json!("complete"), &json!("suspended")));
    assert!(text(&left).contains("A person is asked"), "{left:#}");
    assert_eq!(resolution(&app).await, Value::Null);

    let declined = asking(&app, &query, retry(&first, &json!({ "action": "decline" }))).await;
    assert_eq!(declined["structuredContent"]["status"], "completed");
    assert_eq!(resolution(&app).await["decision"], "rejected");
}

#[tokio::test]
async fn an_input_is_asked_until_it_is_one() {
    let app = App::start().await;
    let query = json!({ "query": "ask" });
    let first = asking(&app, &query, json!({})).await;
    assert_eq!(asked(&first).0[0].1["message"], "Which word?");
    let mut result = first.clone();
    for unclear in [json!({}), json!("yes"), accept(json!({})), accept(json!({ "value": 7 })), accept(json!([]))] {
        result = asking(&app, &query, retry(&result, &unclear)).await;
        assert_eq!(asked(&result).0, asked(&first).0, "{unclear}");
    }
    let left = asking(&app, &query, retry(&result, &json!({ "action": "decline" }))).await;
    assert_eq!(left["structuredContent"]["status"], "suspended", "an input that is declined stays open");
    let done = asking(&app, &query, retry(&result, &accept(json!({ "value": "blue" })))).await;
    assert_eq!(text(&done), "You were asked.");
}

#[tokio::test]
async fn every_question_of_a_run_gets_its_own_answer() {
    let app = App::start().await;
    let query = json!({ "query": "two mails" });
    let mut result = asking(&app, &query, json!({})).await;
    let mut answered = 0;
    while result["resultType"] == "input_required" {
        answered += asked(&result).0.len();
        result = asking(&app, &query, retry(&result, &accept(json!({ "approved": true })))).await;
    }
    assert_eq!((answered, text(&result)), (2, "The mails are dealt with."));
}

/// A question that nobody answers here keeps the call waiting for the rest of the run, which the call does not own.
#[tokio::test]
async fn who_leaves_a_question_open_waits_for_the_rest() {
    let app = App::start().await;
    let query = json!({ "query": "early", "wait": 300 });
    let first = soon(asking(&app, &query, json!({}))).await;
    let mut params = retry(&first, &json!({ "action": "cancel" }));
    params["name"] = json!("ask");
    params["arguments"] = query;
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({ "elicitation": { "form": {} } });
    drop(NEW.request(&app, "tools/call", params.clone()).events().await);
    let waits = NEW.request(&app, "tools/call", params).events().await;
    let run = app.get("/runs").await.expect(200)["items"][0].clone();
    assert_eq!(run["status"], "running", "{run:#}");
    app.post(&format!("/runs/{}/cancel", run["runId"].as_str().unwrap()), json!({})).await.expect(202);
    let ended = waits.all().await;
    assert_eq!(ended.last().unwrap().data["result"]["structuredContent"]["status"], "cancelled", "{ended:#?}");
}

/// A person whom the rule does not name cannot answer; the question stays open for those named.
#[tokio::test]
async fn who_is_no_approver_of_it_leaves_a_question_open() {
    let app = App::start().await;
    let rule = json!({ "tool": "demo_*", "action": "ask", "approvers": ["somebody else"] });
    app.ask("PUT", "/policy").json(&json!({ "rules": [rule] })).send().await.expect(200);
    let query = json!({ "query": "send" });
    let first = asking(&app, &query, json!({})).await;
    let left = asking(&app, &query, retry(&first, &accept(json!({ "approved": true })))).await;
    assert_eq!(left["structuredContent"]["status"], "suspended", "{left:#}");
    assert_eq!(resolution(&app).await, Value::Null);
}

/// The person may be a model: a client without `approve` is shown the question and where it is answered.
#[tokio::test]
async fn only_who_may_approve_is_asked() {
    let app = App::with(|config| {
        let key = |text: &str| text.parse().unwrap();
        config.auth.keys = vec![
            key("one/runner:read+run:runner-0123456789abcdef0123456789"),
            key("one/approver:read+run+approve:approver-0123456789abcdef0123456789"),
        ];
    })
    .await;
    let (runner, approver) = ("runner-0123456789abcdef0123456789", "approver-0123456789abcdef0123456789");
    let app = app.key(approver);
    let query = json!({ "query": "send", "idempotencyKey": "k" });
    let retry = retry(&asking(&app, &query, json!({})).await, &accept(json!({ "approved": true })));
    for host in ALL {
        // A client that cannot show forms is told the other way to answer.
        let told = host.call(&app, "ask", query.clone()).await;
        assert_eq!(told["structuredContent"]["status"], "suspended");
        assert!(text(&told).contains("`answer`"), "{}", text(&told));
        assert!(host.say(&app, "tools/list", json!({})).await.to_string().contains("\"name\":\"answer\""));
    }
    let app = app.key(runner);
    let told = asking(&app, &json!({ "query": "send" }), json!({})).await;
    let question = &told["structuredContent"]["suspensions"][0];
    assert_eq!((&told["resultType"], &question["kind"]), (&json!("complete"), &json!("approval")), "{told:#}");
    assert!(!text(&told).contains("`answer`") && text(&told).contains("#/questions/"), "{}", text(&told));
    for host in ALL {
        assert!(!host.say(&app, "tools/list", json!({})).await.to_string().contains("\"name\":\"answer\""));
        let answer = json!({ "suspensionId": question["suspensionId"], "approved": true });
        let call = json!({ "name": "answer", "arguments": answer });
        let refused = host.request(&app, "tools/call", call).send().await.expect(403);
        assert_eq!(refused["error"]["data"]["code"], "forbidden");
    }
    // A state sealed for one key is invalid for another.
    let mut params = json!({ "name": "ask", "arguments": query });
    params.as_object_mut().unwrap().extend(retry.as_object().unwrap().clone());
    let refused = NEW.say(&app, "tools/call", params).await;
    assert_eq!(refused["error"]["code"], -32602, "{refused:#}");
    let app = app.key(approver);
    assert_eq!(resolution(&app).await, Value::Null, "nobody has answered anything");
}

/// The state is of the name; what the name may do is that of the request.
#[tokio::test]
async fn a_state_lets_nobody_answer_who_may_not_approve_any_more() {
    const KEY: &str = "ann-0123456789abcdef0123456789abcdef";
    let store = fresh_store().await;
    let start = async |scopes: &str| {
        let key = format!("one/ann:{scopes}:{KEY}").parse().unwrap();
        let app = App::of(store.clone(), |config| {
            config.auth.sealing_key = Some("a key for secrets".to_owned().into());
            config.auth.keys = vec![key];
        });
        app.await.key(KEY)
    };
    let query = json!({ "query": "send" });
    let first = start("read+run+approve").await;
    let retry = retry(&asking(&first, &query, json!({})).await, &accept(json!({ "approved": true })));
    first.stopped().await;
    let mut params = json!({ "name": "ask", "arguments": query });
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({ "elicitation": { "form": {} } });
    params.as_object_mut().unwrap().extend(retry.as_object().unwrap().clone());
    let second = start("read+run").await;
    let refused = NEW.request(&second, "tools/call", params.clone()).send().await.expect(403);
    assert_eq!(refused["error"]["data"]["code"], "forbidden", "{refused:#}");
    assert_eq!(resolution(&second).await, Value::Null, "nobody has answered");
    // Without answers the call still waits for its run.
    params.as_object_mut().unwrap().remove("inputResponses");
    let waited = NEW.say(&second, "tools/call", params).await;
    assert_eq!(waited["result"]["structuredContent"]["status"], "suspended", "{waited:#}");
}

#[tokio::test]
async fn a_state_that_was_not_given_is_refused() {
    let app = App::start().await;
    let query = json!({ "query": "send" });
    let given = asking(&app, &query, json!({})).await["requestState"].as_str().unwrap().to_owned();
    let mut bent = given.clone().into_bytes();
    let last = bent.len() - 1;
    bent[last] = if bent[last] == b'A' { b'B' } else { b'A' };
    let bent = String::from_utf8(bent).unwrap();
    let plain = json!({ "run": "run_1", "asked": [], "left": [] }).to_string();
    for state in [json!(bent), json!(plain), json!(""), json!(7), json!(null), json!({}), json!("v1.x.y")] {
        let params = json!({ "name": "ask", "arguments": query, "requestState": state });
        let refused = NEW.say(&app, "tools/call", params).await;
        assert_eq!(refused["error"]["code"], -32602, "{state}: {refused:#}");
    }
    assert_eq!(runs(&app).await, 1, "nothing else was begun");
}

/// The state is complete: another process accepts the answer.
#[tokio::test]
async fn the_rounds_of_a_call_may_go_to_different_processes() {
    let store = fresh_store().await;
    let start = async || {
        App::of(store.clone(), |config| config.auth.sealing_key = Some("a key for secrets".to_owned().into())).await
    };
    let query = json!({ "query": "send" });
    let first = start().await;
    let result = asking(&first, &query, json!({})).await;
    first.stopped().await;
    let second = start().await;
    let done = asking(&second, &query, retry(&result, &accept(json!({ "approved": true })))).await;
    assert_eq!(text(&done), "The mail is dealt with.");
    assert_eq!(runs(&second).await, 1);
}

#[tokio::test]
async fn a_host_without_forms_hands_over_what_the_person_said() {
    let app = App::start().await;
    for (host, query, answer, said) in [
        (OLD, "send", json!({ "approved": true }), "The mail is dealt with."),
        (NEW, "send", json!({ "approved": false, "reason": "Not now." }), "The mail is dealt with."),
        (OLD, "ask", json!({ "value": "blue" }), "You were asked."),
    ] {
        let told = host.data(&app, "ask", json!({ "query": query })).await;
        let mut answer = answer;
        answer["suspensionId"] = told["suspensions"][0]["suspensionId"].clone();
        let after = host.data(&app, "answer", answer.clone()).await;
        assert_eq!(after["runId"], told["runId"]);
        let ended = host.call(&app, "status", json!({ "runId": told["runId"], "wait": 30 })).await;
        assert_eq!(text(&ended), said);
        let again = host.call(&app, "answer", answer).await;
        assert_eq!((&again["isError"], text(&again)), (&json!(true), "Somebody answered it first."));
    }
    let told = OLD.data(&app, "ask", json!({ "query": "send" })).await;
    let id = &told["suspensions"][0]["suspensionId"];
    for (answer, says) in [
        (json!({}), "suspensionId: missing field"),
        (json!({ "suspensionId": "sus_x", "approved": true }), "no such suspension"),
        (json!({ "suspensionId": id }), "`approved` "),
        (json!({ "suspensionId": id, "approved": true, "digest": "0" }), ""),
    ] {
        let refused = OLD.call(&app, "answer", answer.clone()).await;
        assert_eq!(refused["isError"], true, "{answer}");
        assert!(text(&refused).contains(says), "{answer}: {}", text(&refused));
    }
    assert_eq!(OLD.data(&app, "status", json!({ "runId": told["runId"] })).await["status"], "suspended");
}

#[tokio::test]
async fn nobody_answers_anothers_question() {
    let app = App::with_keys().await.key("key-a-0123456789abcdef0123456789");
    let told = OLD.data(&app, "ask", json!({ "query": "send" })).await;
    let answer = json!({ "suspensionId": told["suspensions"][0]["suspensionId"], "approved": true });
    let app = app.key("key-b-0123456789abcdef0123456789");
    let refused = OLD.call(&app, "answer", answer).await;
    assert!(text(&refused).contains("no such suspension"), "{refused:#}");
}
