//! `POST /threads/{thread}/fork`

use serde_json::{Value, json};

use crate::support::app::App;

#[tokio::test]
async fn a_fork_goes_its_own_way() {
    let app = App::start().await;
    app.finish("t1", "count").await;
    let said = app.post("/threads/t1/fork", json!({ "threadId": "t2" })).await;
    let fork = said.expect(201);
    assert_eq!((&fork["threadId"], &fork["status"]), (&json!("t2"), &json!("idle")));
    assert_eq!(said.header("location").unwrap(), format!("http://{}/threads/t2", app.address));
    let state = app.get("/threads/t2/state").await.expect(200);
    assert_eq!(state["todoList"][0]["status"], "completed", "{state:#}");
    app.finish("t2", "hello").await;
    let original = app.get("/threads/t1/messages").await.expect(200);
    assert_eq!(original["items"].as_array().unwrap().len(), 2, "the original is as it was");
}

#[tokio::test]
async fn a_fork_begins_at_an_observation() {
    let app = App::start().await;
    app.finish("t1", "count").await;
    let plan = app.observed("t1", "PLAN").await;
    let fork = app.post("/threads/t1/fork", json!({ "at": plan[0]["seq"] })).await.expect(201);
    let path = format!("/threads/{}/state", fork["threadId"].as_str().unwrap());
    let state = app.get(&path).await.expect(200);
    assert_eq!(state["todoList"][0]["status"], "pending", "{state:#}");
}

#[tokio::test]
async fn a_fork_is_answered_with_its_items_and_the_title_of_its_place() {
    let app = App::start().await;
    app.finish("t1", "count").await;
    assert_ne!(app.get("/threads/t1").await.expect(200)["title"], "");
    let plan = app.observed("t1", "PLAN").await[0]["seq"].clone();
    let last = app.get("/threads/t1").await.expect(200)["lastSeq"].clone();
    for (id, at, done) in [("whole", last, true), ("planned", plan, false), ("bare", json!(0), false)] {
        let fork = app.post("/threads/t1/fork", json!({ "threadId": id, "at": at })).await.expect(201);
        let stored = app.get(&format!("/threads/{id}")).await.expect(200);
        for member in ["items", "title", "lastSeq"] {
            assert_eq!(fork[member], stored[member], "{id}: {member}");
        }
        assert_eq!(fork["items"]["total"] == 0, id == "bare", "{fork:#}");
        assert_eq!(fork["items"]["done"] != 0, done, "{fork:#}");
        assert_eq!(fork["title"] == "", id == "bare", "{fork:#}");
    }
    app.ask("PATCH", "/threads/t1").json(&json!({ "title": "mine" })).send().await.expect(200);
    let named = app.post("/threads/t1/fork", json!({ "at": 0 })).await.expect(201);
    assert_eq!(named["title"], "mine", "what a person called it");
}

/// As in the thread itself.
#[tokio::test]
async fn what_a_person_added_is_worked_on_in_a_fork_although_the_planner_answers_at_once() {
    let app = App::start().await;
    app.finish("t1", "count").await;
    let plan = app.get("/threads/t1/plan").await;
    let added = json!([{ "op": "add", "path": "/-", "value": { "id": "more", "description": "Do more" } }]);
    let edit = app.ask("PATCH", "/threads/t1/plan").header("if-match", plan.header("etag").unwrap());
    edit.typed("application/json-patch+json", &added.to_string()).send().await.expect(200);
    app.post("/threads/t1/fork", json!({ "threadId": "t2" })).await.expect(201);
    for thread in ["t1", "t2"] {
        app.finish(thread, "hello").await;
        let list = app.get(&format!("/threads/{thread}/plan")).await.expect(200);
        let more = list.as_array().unwrap().iter().find(|item| item["id"] == "more").unwrap();
        assert_ne!(more["status"], "pending", "{thread}: {more:#}");
    }
}

#[tokio::test]
async fn a_fork_needs_a_place_and_a_free_name() {
    let app = App::start().await;
    app.finish("t1", "hello").await;
    app.post("/threads/t1/fork", json!({ "threadId": "t1" })).await.problem("thread_exists");
    app.post("/threads/t1/fork", json!({ "at": -1 })).await.problem("invalid");
    app.post("/threads/t1/fork", json!({ "at": 1_000_000 })).await.problem("invalid");
    app.post("/threads/t1/fork", json!({ "threadId": "a b" })).await.problem("invalid");
    app.post("/threads/none/fork", json!({})).await.problem("not_found");
}

/// Every message shown is in the log: in a copy's log they come first, with their origin.
#[tokio::test]
async fn a_forks_log_begins_with_its_messages_and_names_its_origin() {
    let app = App::start().await;
    app.finish("t1", "count").await;
    let last = app.get("/threads/t1").await.expect(200)["lastSeq"].clone();
    for (of, id) in [("t1", "t2"), ("t2", "t3")] {
        let at = app.get(&format!("/threads/{of}")).await.expect(200)["lastSeq"].clone();
        app.post(&format!("/threads/{of}/fork"), json!({ "threadId": id })).await.expect(201);
        let log = app.get(&format!("/threads/{id}/events")).await.expect(200);
        assert_eq!(log["items"][0]["content"]["forkedFrom"], json!({ "threadId": of, "seq": at }));
        app.ask("PATCH", &format!("/threads/{id}")).json(&json!({ "title": "mine" })).send().await.expect(200);
        for shown in [
            app.get(&format!("/threads/{id}")).await.expect(200),
            app.get("/threads").await.expect(200)["items"][0].clone(),
        ] {
            assert_eq!(shown["forkedFrom"], json!({ "threadId": of, "seq": at }), "{shown:#}");
        }
        let messages = app.get(&format!("/threads/{id}/messages")).await.expect(200);
        let told: Vec<&Value> = (0..2).map(|at| &log["items"][at]["content"]["message"]).collect();
        assert_eq!(messages["items"].as_array().unwrap().iter().collect::<Vec<_>>(), told, "{log:#}");
    }
    assert_eq!(app.get("/threads/t1").await.expect(200).get("forkedFrom"), None);
    let bare = app.post("/threads/t1/fork", json!({ "threadId": "t4", "at": 0 })).await.expect(201);
    let log = app.get("/threads/t4/events").await.expect(200);
    assert_eq!(log["items"][0]["content"]["forkedFrom"], json!({ "threadId": "t1", "seq": 0 }), "{bare:#} {last}");
}

#[tokio::test]
async fn a_fork_that_is_asked_for_again_is_answered_the_same() {
    let app = App::start().await;
    app.finish("t1", "count").await;
    let fork = || app.ask("POST", "/threads/t1/fork").header("idempotency-key", "k").json(&json!({})).send();
    let first = fork().await.expect(201);
    let again = fork().await;
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(again.expect(201), first);
    let stored = app.get(&format!("/threads/{}", first["threadId"].as_str().unwrap())).await.expect(200);
    assert_eq!(first["lastSeq"], stored["lastSeq"]);
}

#[tokio::test]
async fn a_fork_knows_what_its_items_brought_and_what_they_are_for() {
    let app = App::start().await;
    app.finish("t1", "count").await;
    let fork = app.post("/threads/t1/fork", json!({ "threadId": "t2" })).await.expect(201);
    let original = app.get("/threads/t1/state").await.expect(200);
    assert!(!original["todoList"][0]["toolResults"].as_array().unwrap().is_empty(), "{original:#}");
    let now = app.get("/threads/t2/state").await.expect(200);
    let folded = app.get(&format!("/threads/t2/state?at={}", fork["lastSeq"])).await.expect(200);
    assert!(now["stepOutputs"].as_object().is_some_and(|outputs| !outputs.is_empty()), "{now:#}");
    assert_eq!(folded["stepOutputs"], now["stepOutputs"], "the log tells it as it is stored");
    for copy in [now, folded] {
        for field in ["intent", "title", "plan"] {
            assert_eq!(copy[field], original[field], "{field}");
        }
        for field in ["result", "toolCalls", "actualToolCalls", "toolResults"] {
            assert_eq!(copy["todoList"][0][field], original["todoList"][0][field], "{field}");
        }
    }
}

#[tokio::test]
async fn a_fork_has_the_applications_state_of_its_place() {
    let app = App::start().await;
    app.finish("t1", "hello").await;
    let put = |data: Value| app.ask("PUT", "/threads/t1/agent-state").json(&json!({ "data": data })).send();
    let large = json!({ "notes": "x".repeat(2_000) });
    put(large.clone()).await.expect(200);
    let then = app.get("/threads/t1").await.expect(200)["lastSeq"].clone();
    put(json!({ "notes": "later" })).await.expect(200);
    let copies = [("t2", "t1", json!({ "at": then })), ("t3", "t2", json!({})), ("t4", "t1", json!({}))];
    for (name, of, mut body) in copies {
        body["threadId"] = name.into();
        app.post(&format!("/threads/{of}/fork"), body).await.expect(201);
    }
    let state = async |id: &str| app.get(&format!("/threads/{id}/agent-state")).await.expect(200);
    assert_eq!(state("t2").await, json!({ "data": large, "version": 1 }));
    assert_eq!(state("t3").await, state("t2").await, "a copy of a copy");
    assert_eq!(state("t4").await, state("t1").await);
    let first = app.post("/threads/t1/fork", json!({ "threadId": "t5", "at": 1 })).await.expect(201);
    assert_eq!((&first["threadId"], &state("t5").await["version"]), (&json!("t5"), &json!(0)));
}
