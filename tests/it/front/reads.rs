//! Read-only routes: state, messages, runs, the inbox, tasks.

use serde_json::json;

use crate::support::app::App;

#[tokio::test]
async fn the_state_is_told_now_and_as_it_was() {
    let app = App::start().await;
    app.finish("t1", "count").await;
    let state = app.get("/threads/t1/state").await.expect(200);
    assert_eq!(state["threadId"], "t1");
    assert_eq!(state["title"], "Count");
    assert_eq!(state["todoList"][0]["status"], "completed");
    assert_eq!(state["isPaused"], false);
    assert_eq!(state["stepOutputs"]["sum"]["status"], "completed", "{state:#}");
    let plan = app.observed("t1", "PLAN").await;
    let at = plan[0]["seq"].as_i64().unwrap();
    let then = app.get(&format!("/threads/t1/state?at={at}")).await.expect(200);
    assert_eq!(then["todoList"][0]["status"], "pending", "{then:#}");
    app.get("/threads/t1/state?at=-1").await.problem("invalid");
    app.get("/threads/t1/state?at=x").await.problem("invalid");
    let beyond = app.get("/threads/t1/state?at=99999").await.problem("invalid");
    assert_eq!(beyond["errors"][0]["pointer"], "?at");
    app.get("/threads/none/state").await.problem("not_found");
}

#[tokio::test]
async fn a_thread_whose_last_run_failed_has_failed_now_and_as_of_its_last_observation() {
    let app = App::start().await;
    app.finish("t1", "fail").await;
    let state = app.get("/threads/t1/state").await.expect(200);
    let then = app.get(&format!("/threads/t1/state?at={}", state["lastSeq"])).await.expect(200);
    assert_eq!((&state["status"], &then["status"]), (&json!("failed"), &json!("failed")));
}

#[tokio::test]
async fn an_empty_thread_has_an_empty_state() {
    let app = App::start().await;
    app.post("/threads", json!({ "threadId": "t1" })).await.expect(201);
    let state = app.get("/threads/t1/state").await.expect(200);
    assert_eq!((&state["plan"], &state["todoList"], &state["currentStepId"]), (&json!(""), &json!([]), &json!(null)));
    assert_eq!(app.get("/threads/t1/plan").await.expect(200), json!([]));
    assert_eq!(app.get("/threads/t1/tasks").await.expect(200)["items"], json!([]));
    app.get("/tasks/task_none").await.problem("not_found");
    app.ask("POST", "/tasks/task_none/cancel").send().await.problem("not_found");
}

#[tokio::test]
async fn messages_and_runs_are_paged() {
    let app = App::start().await;
    app.finish("t1", "count").await;
    app.finish("t1", "hello").await;
    let first = app.get("/threads/t1/messages?limit=3").await.expect(200);
    let roles: Vec<_> = first["items"].as_array().unwrap().iter().map(|message| message["role"].clone()).collect();
    assert_eq!(roles, ["USER", "AI", "USER"]);
    let cursor = first["nextCursor"].as_str().unwrap();
    let rest = app.get(&format!("/threads/t1/messages?cursor={cursor}")).await.expect(200);
    assert_eq!(rest["items"].as_array().unwrap().len(), 1);
    let runs = app.get("/threads/t1/runs?limit=1").await.expect(200);
    assert_eq!(runs["items"].as_array().unwrap().len(), 1);
    assert!(runs["nextCursor"].is_string());
    app.get("/runs/run_none").await.problem("not_found");
    app.get("/runs/run_none?wait=soon").await.problem("invalid");
}

/// Each with its own answer.
#[tokio::test]
async fn lists_show_runs_as_they_are_shown_alone() {
    let app = App::start().await;
    app.finish("t1", "count").await;
    app.finish("t1", "hello").await;
    app.finish("t2", "hello").await;
    for (list, length) in [("/threads/t1/runs", 2), ("/runs", 3)] {
        let listed = app.get(list).await.expect(200)["items"].as_array().unwrap().clone();
        assert_eq!(listed.len(), length, "{list}");
        for run in listed {
            assert!(run["result"].is_object(), "{run}");
            assert_eq!(app.get(&format!("/runs/{}", run["runId"].as_str().unwrap())).await.expect(200), run);
        }
    }
}

#[tokio::test]
async fn the_inbox_spans_threads_oldest_first() {
    let app = App::start().await;
    let first = app.suspend("t1", "send").await;
    let second = app.suspend("t2", "ask").await;
    let inbox = app.get("/suspensions?status=pending").await.expect(200);
    let ids: Vec<_> = inbox["items"].as_array().unwrap().iter().map(|one| one["suspensionId"].clone()).collect();
    assert_eq!(ids, [first["suspensionId"].clone(), second["suspensionId"].clone()]);
    assert_eq!(inbox["items"][0]["threadId"], "t1");
    assert_eq!(app.get("/suspensions?status=resolved").await.expect(200)["items"], json!([]));
}
