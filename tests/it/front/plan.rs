//! `/threads/{thread}/plan`

use serde_json::{Value, json};

use crate::support::app::App;
use crate::support::http::Said;
use crate::support::ws::is;

async fn patch(app: &App, tag: &str, operations: Value) -> Said {
    let ask = app.ask("PATCH", "/threads/t1/plan").header("if-match", tag);
    ask.typed("application/json-patch+json", &operations.to_string()).send().await
}

/// A thread whose first item is in progress, and the ETag of its plan.
async fn stuck(app: &App) -> String {
    app.post("/threads/t1/process", json!({ "query": "stuck" })).await.expect(202);
    app.socket("/threads/t1/events").await.until(|frame| is(frame, "ITEM_STATUS_CHANGE")).await;
    tag(app).await
}

async fn tag(app: &App) -> String {
    app.get("/threads/t1/plan").await.header("etag").unwrap().to_owned()
}

#[tokio::test]
async fn a_pending_item_is_edited_while_it_runs() {
    let app = App::start().await;
    let tag = stuck(&app).await;
    let edit = json!([{ "op": "replace", "path": "/1/description", "value": "Draw it" }]);
    let said = patch(&app, &tag, edit.clone()).await;
    assert_eq!(said.expect(200)[1]["description"], "Draw it");
    assert_ne!(said.header("etag"), Some(tag.as_str()));
    patch(&app, &tag, edit).await.problem("precondition_failed");
    let page = app.observed("t1", "PLAN_UPDATE").await;
    let last = page.last().unwrap();
    assert_eq!(last["content"]["source"], "user");
    assert_eq!(last["content"]["todoList"][1]["description"], "Draw it", "{last:#}");
    let audit = app.get("/threads/t1/audit").await.expect(200);
    let line = audit["items"].as_array().unwrap().iter().find(|line| line["action"] == "edit plan").unwrap();
    let made = &last["content"]["planVersion"];
    let based_on = made.as_i64().unwrap() - 1;
    assert_eq!(line["detail"], json!({ "basedOn": based_on, "planVersion": made }));
}

/// nginx and HAProxy make the ETag of an answer that they compress a weak one, Apache and Caddy append the encoding.
#[tokio::test]
async fn a_plan_that_a_proxy_compressed_can_be_edited() {
    let app = App::start().await;
    let mut tag = stuck(&app).await;
    for (edit, by_proxy) in
        [("Draw it", "W/\"{}\""), ("Sing it", "\"{}-gzip\""), ("Dance it", "\"{}-br\""), ("Act it", "\"{}-zstd\"")]
    {
        let changed = by_proxy.replace("{}", tag.trim_matches('"'));
        let edit = json!([{ "op": "replace", "path": "/1/description", "value": edit }]);
        let said = patch(&app, &changed, edit.clone()).await;
        said.expect(200);
        tag = said.header("etag").unwrap().to_owned();
        patch(&app, &changed, edit).await.problem("precondition_failed");
    }
}

#[tokio::test]
async fn an_edit_that_is_sent_again_under_its_key_is_made_once() {
    let app = App::start().await;
    let tag = stuck(&app).await;
    let send = |description: &str| {
        let edit = json!([{ "op": "replace", "path": "/1/description", "value": description }]);
        let ask = app.ask("PATCH", "/threads/t1/plan").header("if-match", &tag).header("idempotency-key", "k1");
        ask.typed("application/json-patch+json", &edit.to_string()).send()
    };
    let (first, second) = (send("Draw it").await, send("Draw it").await);
    let replayed = [&first, &second].map(|said| said.header("idempotency-replayed"));
    assert_eq!(replayed, [None, Some("true")], "{}", second.text());
    assert_eq!((second.expect(200), second.header("etag")), (first.expect(200), first.header("etag")));
    send("Sing it").await.problem("idempotency_mismatch");
    let updates = app.observed("t1", "PLAN_UPDATE").await;
    assert_eq!(updates.iter().filter(|update| update["content"]["source"] == "user").count(), 1);
}

#[tokio::test]
async fn a_merge_patch_names_items_by_id() {
    let app = App::start().await;
    let tag = stuck(&app).await;
    let ask = app.ask("PATCH", "/threads/t1/plan").header("if-match", &tag);
    let body = r#"{"third": {"description": "Sing it"}}"#;
    let list = ask.typed("application/merge-patch+json", body).send().await.expect(200);
    assert_eq!(list[2]["description"], "Sing it", "{list:#}");
}

#[tokio::test]
async fn what_cannot_be_edited_is_refused() {
    let app = App::start().await;
    let tag = stuck(&app).await;
    let replace = |path: &str, value: Value| json!([{ "op": "replace", "path": path, "value": value }]);
    patch(&app, &tag, replace("/0/description", json!("No"))).await.problem("item_in_progress");
    patch(&app, &tag, replace("/1/dependencies", json!(["third"]))).await.problem("plan_invalid");
    patch(&app, &tag, replace("/1/dependencies", json!(["nobody"]))).await.problem("plan_invalid");
    patch(&app, &tag, json!([{ "op": "add", "path": "/1/requiredTools", "value": ["nothing"] }]))
        .await
        .problem("plan_invalid");
    patch(&app, &tag, replace("/9/description", json!("No"))).await.problem("invalid");
    patch(&app, &tag, json!({ "op": "replace" })).await.problem("invalid");
    let none = app.ask("PATCH", "/threads/t1/plan").typed("application/json-patch+json", "[]").send().await;
    none.problem("precondition_required");
    let wrong = app.ask("PATCH", "/threads/t1/plan").header("if-match", &tag).typed("application/json", "[]");
    wrong.send().await.problem("unsupported_media_type");
    let new = json!({ "id": "new/one", "description": "New", "dependencies": ["nobody"] });
    let added = json!([{ "op": "add", "path": "/-", "value": new }]);
    let error = json!({ "pointer": "/3/dependencies", "detail": "item `new/one`: there is no item nobody" });
    assert_eq!(patch(&app, &tag, added.clone()).await.problem("plan_invalid")["errors"], json!([error]));
    let foreseen = app.ask("POST", "/threads/t1/plan/forecast");
    let foreseen = foreseen.typed("application/json-patch+json", &added.to_string()).send().await;
    assert_eq!(foreseen.problem("plan_invalid")["errors"], json!([error]));
    for (change, code, pointer) in [
        (json!({ "third": { "dependencies": ["nobody"] } }), "plan_invalid", "/third/dependencies"),
        (json!({ "third": { "odd/name": 1 } }), "plan_invalid", "/third/odd~1name"),
        (json!({ "new/one": new }), "plan_invalid", "/new~1one/dependencies"),
        (json!({ "a~b": null }), "invalid", "/a~0b"),
        (json!([{ "id": "first" }]), "plan_invalid", "/0/description"),
    ] {
        let ask = app.ask("PATCH", "/threads/t1/plan").header("if-match", &tag);
        let said = ask.typed("application/merge-patch+json", &change.to_string()).send().await;
        assert_eq!(said.problem(code)["errors"][0]["pointer"], pointer, "{change}");
    }
    assert_eq!(self::tag(&app).await, tag, "nothing was changed");
}

#[tokio::test]
async fn a_refused_edit_names_every_mistake() {
    let app = App::start().await;
    let tag = stuck(&app).await;
    let new = |id: &str, need: &str, tools: Value| {
        let item = json!({ "id": id, "description": "New", "dependencies": [need], "requiredTools": tools });
        json!({ "op": "add", "path": "/-", "value": item })
    };
    let refused =
        patch(&app, &tag, json!([new("a b", "nobody", json!(["nothing"])), new("c", "noone", json!([]))])).await;
    let errors = refused.problem("plan_invalid")["errors"].as_array().unwrap().clone();
    let pointers: Vec<&str> = errors.iter().map(|error| error["pointer"].as_str().unwrap()).collect();
    assert_eq!(pointers, ["/3/id", "/3/dependencies", "/4/dependencies", "/3/requiredTools"], "{errors:#?}");
}

#[tokio::test]
async fn a_plan_in_the_making_is_left_alone() {
    let app = App::start().await;
    app.post("/threads/t1/process", json!({ "query": "hang" })).await.expect(202);
    let tag = tag(&app).await;
    patch(&app, &tag, json!([])).await.problem("plan_not_editable");
}

#[tokio::test]
async fn a_finished_item_stays_as_it_is() {
    let app = App::start().await;
    app.finish("t1", "count").await;
    let tag = tag(&app).await;
    let edit = json!([{ "op": "replace", "path": "/0/description", "value": "No" }]);
    patch(&app, &tag, edit).await.problem("finished_item");
}

#[tokio::test]
async fn a_few_operations_do_not_make_an_endless_list() {
    let app = App::start().await;
    let tag = stuck(&app).await;
    let doubled = |n: usize| json!({ "op": "copy", "from": "/3", "path": format!("/3/k{n}") });
    let nested =
        [json!({ "op": "add", "path": "/3", "value": {} }), json!({ "op": "move", "from": "/4", "path": "/3/k" })];
    let item = json!({ "op": "add", "path": "/-", "value": { "id": "x" } });
    let doubling: Vec<Value> = std::iter::once(item.clone()).chain((0..40).map(doubled)).collect();
    let nesting: Vec<Value> = std::iter::once(item).chain((0..200).flat_map(|_| nested.clone())).collect();
    for (operations, how) in [(doubling, "copies and moves more than"), (nesting, "nests deeper than 64")] {
        let problem = patch(&app, &tag, Value::Array(operations)).await.problem("invalid");
        let error = &problem["errors"][0];
        assert!(error["detail"].as_str().unwrap().starts_with(how), "{problem:#}");
        assert!(error["pointer"].as_str().unwrap()[1..].parse::<usize>().unwrap() > 10, "{problem:#}");
    }
    let problem = patch(&app, &tag, json!([{ "op": "remove", "path": "/2" }, { "op": "remove", "path": "/9" }])).await;
    assert_eq!(problem.problem("invalid")["errors"][0]["pointer"], "/1");
    assert_eq!(self::tag(&app).await, tag, "nothing was changed");
}

#[tokio::test]
async fn an_item_is_done_again_or_skipped_by_hand() {
    let app = App::start().await;
    stuck(&app).await;
    let step_in = |item: &str, verb: &str| {
        let path = format!("/threads/t1/items/{item}/{verb}");
        app.ask("POST", &path).header("idempotency-key", &format!("{item} {verb}").replace(' ', "-")).send()
    };
    let status = async |at: usize| app.get("/threads/t1/plan").await.expect(200)[at]["status"].clone();
    step_in("first", "retry").await.problem("item_in_progress");
    step_in("none", "skip").await.problem("not_found");
    step_in("second", "skip").await.expect(202);
    assert_eq!(status(1).await, "cancelled");
    let again = step_in("second", "skip").await;
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    step_in("second", "retry").await.expect(202);
    assert_eq!(status(1).await, "pending");

    let mut socket = app.socket("/threads/t1/events").await;
    step_in("first", "skip").await.expect(202);
    let frames = socket.until(|frame| is(frame, "RUN_FINISHED")).await;
    let skipped = frames.iter().rfind(|frame| frame["data"]["content"]["itemId"] == "first").unwrap();
    assert_eq!(skipped["data"]["content"]["reason"], "skipped by a person");
    assert_eq!(skipped["data"]["metadata"]["by"], "local");
    app.post("/threads/t1/items/first/retry", json!({})).await.problem("run_finished");
    let audit = app.get("/threads/t1/audit").await.expect(200);
    let told = audit["items"].as_array().unwrap().iter().filter(|line| line["detail"]["itemId"].is_string());
    let told: Vec<(&Value, &Value)> = told.map(|line| (&line["action"], &line["detail"]["itemId"])).collect();
    let line = |action: &'static str, item: &'static str| (json!(action), json!(item));
    let wanted = [line("skip item", "second"), line("retry item", "second"), line("skip item", "first")];
    let mut wanted: Vec<_> = wanted.iter().map(|(action, item)| (action, item)).collect();
    if told.first() != wanted.first() {
        wanted.reverse();
    }
    assert_eq!(told, wanted);
}

/// Many patches, each of which is small enough to be sent.
#[tokio::test]
async fn a_list_takes_so_many_bytes_and_no_more() {
    let app = App::start().await;
    let mut tag = stuck(&app).await;
    let long = "x".repeat(900_000);
    for n in 0..4 {
        let item = json!({ "id": format!("long-{n}"), "description": long });
        let said = patch(&app, &tag, json!([{ "op": "add", "path": "/-", "value": item }])).await;
        said.expect(200);
        tag = said.header("etag").unwrap().to_owned();
    }
    let item = json!({ "id": "one-more", "description": long });
    let refused = patch(&app, &tag, json!([{ "op": "add", "path": "/-", "value": item }])).await;
    assert!(refused.problem("too_many_items")["detail"].as_str().unwrap().contains("4194304 bytes"));
}
