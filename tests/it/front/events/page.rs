//! The log, page by page.

use serde_json::{Value, json};

use crate::support::app::App;

fn seqs(page: &Value) -> Vec<i64> {
    page["items"].as_array().unwrap().iter().map(|item| item["seq"].as_i64().unwrap()).collect()
}

#[tokio::test]
async fn the_log_is_contiguous_over_its_pages() {
    let app = App::start().await;
    app.finish("t1", "count").await;
    let mut all = Vec::new();
    let mut after = "0".to_owned();
    loop {
        let page = app.get(&format!("/threads/t1/events?after={after}&limit=7")).await.expect(200);
        assert_eq!(page["minSeq"], 1);
        all.extend(seqs(&page));
        let Some(next) = page["nextCursor"].as_str() else {
            assert_eq!(page["lastSeq"], *all.last().unwrap());
            break;
        };
        after = next.to_owned();
    }
    assert_eq!(all, (1..=all.len() as i64).collect::<Vec<_>>());
    assert!(all.len() > 10);
}

#[tokio::test]
async fn observations_come_whole() {
    let app = App::start().await;
    app.finish("t1", "count").await;
    let page = app.get("/threads/t1/events?limit=200").await.expect(200);
    for item in page["items"].as_array().unwrap() {
        assert!(item["id"].as_str().unwrap().starts_with("obs_"), "{item:#}");
        assert_eq!(item["threadId"], "t1");
        assert!(item["timestamp"].is_i64() && item["runId"].is_string() && item["title"].is_string(), "{item:#}");
        assert!(!item["content"].to_string().contains("$payload"), "{item:#}");
    }
    let kinds: Vec<&str> =
        page["items"].as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect();
    for kind in [
        "RUN_STARTED",
        "INTENT",
        "TITLE",
        "PLAN",
        "ITEM_STATUS_CHANGE",
        "LLM_STREAM_START",
        "LLM_STREAM_METADATA",
        "LLM_STREAM_END",
        "TOOL_CALL",
        "TOOL_EXECUTION",
        "SYNTHESIS",
        "FINAL_RESPONSE",
        "RUN_FINISHED",
    ] {
        assert!(kinds.contains(&kind), "{kind} is not among {kinds:?}");
    }
}

#[tokio::test]
async fn types_are_chosen_by_name() {
    let app = App::start().await;
    app.finish("t1", "count").await;
    let page = app.get("/threads/t1/events?types=PLAN,RUN_FINISHED").await.expect(200);
    let kinds: Vec<_> = page["items"].as_array().unwrap().iter().map(|item| item["type"].clone()).collect();
    assert_eq!(kinds, ["PLAN", "RUN_FINISHED"]);
    app.get("/threads/t1/events?types=NOISE").await.problem("invalid");
    for wrong in ["after=-1", "after=x", "limit=1001", "tokens=maybe", "unknown=1"] {
        app.get(&format!("/threads/t1/events?{wrong}")).await.problem("invalid");
    }
    app.get("/threads/none/events").await.problem("not_found");
}

/// As after a restore: the numbers that the client knows will be those of other observations.
#[tokio::test]
async fn a_place_beyond_the_end_of_the_log_is_refused() {
    let app = App::start().await;
    app.finish("t1", "count").await;
    let last = app.get("/threads/t1").await.expect(200)["lastSeq"].as_i64().unwrap();
    assert_eq!(app.get(&format!("/threads/t1/events?after={last}")).await.expect(200)["items"], json!([]));
    app.get(&format!("/threads/t1/events?after={}", last + 1)).await.problem("history_compacted");
}

#[tokio::test]
async fn a_page_of_large_observations_has_fewer_of_them() {
    let app = App::start().await;
    for _ in 0..4 {
        app.finish("t1", &format!("count {}", "x".repeat(400_000))).await;
    }
    let last = app.get("/threads/t1").await.expect(200)["lastSeq"].as_i64().unwrap();
    let (mut seen, mut pages, mut after) = (Vec::new(), 0, String::from("0"));
    loop {
        let said = app.get(&format!("/threads/t1/events?limit=200&after={after}")).await;
        assert!(said.text().len() < 3 << 20, "{}", said.text().len());
        let page = said.expect(200);
        seen.extend(seqs(&page));
        pages += 1;
        let Some(next) = page["nextCursor"].as_str() else { break };
        after = next.to_owned();
    }
    assert_eq!(seen, (1..=last).collect::<Vec<_>>());
    assert!(pages > 2 && last < 200, "{pages} pages of {last} observations");
    let mut socket = app.socket("/threads/t1/events").await;
    let frames = socket.until(|frame| frame["event"] == "caught_up").await;
    assert_eq!(crate::support::ws::seqs(&frames), seen);
}

#[tokio::test]
async fn a_page_knows_what_the_other_shapes_know() {
    let app = App::start().await;
    let first = app.finish("t1", "count").await["metadata"]["runId"].as_str().unwrap().to_owned();
    app.finish("t1", "count").await;
    let page = app.get(&format!("/threads/t1/events?limit=200&until={first}&tokens=false")).await.expect(200);
    let items = page["items"].as_array().unwrap();
    assert!(items.iter().all(|item| item["runId"] == first.as_str()), "{page:#}");
    assert_eq!(items.last().unwrap()["type"], "RUN_FINISHED");
    assert!(page.get("nextCursor").is_none() && page["lastSeq"].as_i64() > items.last().unwrap()["seq"].as_i64());
    let plans = format!("/threads/t1/events?limit=200&until={first}&types=PLAN");
    assert_eq!(seqs(&app.get(&plans).await.expect(200)).len(), 1);
    let other = app.finish("t2", "count").await["metadata"]["runId"].as_str().unwrap().to_owned();
    for unknown in ["run_none", &other] {
        app.get(&format!("/threads/t1/events?until={unknown}")).await.problem("not_found");
    }
    let later = app.ask("GET", "/threads/t1/events").header("last-event-id", "3").send().await.expect(200);
    assert_eq!(seqs(&later)[0], 4);
    assert_eq!(app.get("/threads/t1/events?after=latest").await.expect(200)["items"], serde_json::json!([]));
}

#[tokio::test]
async fn nothing_of_a_run_comes_after_its_end() {
    let app = App::start().await;
    app.finish("t1", "count").await;
    let tag = app.get("/threads/t1/agent-state").await.header("etag").unwrap().to_owned();
    let put = app
        .ask("PUT", "/threads/t1/agent-state")
        .header("if-match", &tag)
        .json(&serde_json::json!({ "data": { "k": 1 } }));
    put.send().await.expect(200);
    let page = app.get("/threads/t1/events?limit=200").await.expect(200);
    let last: Vec<_> = page["items"].as_array().unwrap().iter().rev().take(2).collect();
    assert_eq!((&last[0]["type"], &last[0]["runId"]), (&"STATE_UPDATE".into(), &"".into()));
    assert_eq!(last[1]["type"], "RUN_FINISHED");
}
