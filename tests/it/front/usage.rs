//! `GET /usage`: tokens and cost of the caller's tenant.

use pes::domain::usage::Price;
use serde_json::json;

use crate::support::app::App;
use crate::support::store::{Mood, Moody};
use crate::support::wire::{Step, Wire, end, event, event_stream};

/// A model's reply of one word, with its usage.
pub(super) fn reply_of_120_tokens() -> Vec<Step> {
    let chunk = |delta, reason| event(json!({ "choices": [{ "delta": delta, "finish_reason": reason }] }));
    let (word, stop) = (chunk(json!({ "content": "ok" }), json!(null)), chunk(json!({}), json!("stop")));
    let usage = event(json!({ "choices": [], "usage": { "prompt_tokens": 100, "completion_tokens": 20 } }));
    vec![event_stream(), word, stop, usage, end()]
}

#[tokio::test]
async fn a_check_of_the_models_counts() {
    let mut cut = reply_of_120_tokens();
    cut.truncate(2);
    let wire = Wire::serve(vec![reply_of_120_tokens(), [cut, vec![Step::Cut]].concat()]).await;
    let price = Price { input_per_million: 1_000.0, output_per_million: 1_000.0, ..Price::default() };
    let app = App::with(|config| {
        config.prices.insert("openai:*".to_owned(), price);
        config.models.openai.base_url = Some(wire.url());
    })
    .await;
    let sums = async || app.get("/usage?groupBy=run,model").await.expect(200)["items"].clone();
    let checked = app.get("/models?check=true").await.expect(200);
    assert_eq!(checked["items"][0]["check"]["status"], "ok", "{checked:#}");
    let (all, one) = (sums().await, checked["items"].as_array().unwrap().len());
    assert_eq!((all.as_array().unwrap().len(), one), (1, 1), "{all:#}");
    assert_eq!(
        (&all[0]["runId"], &all[0]["provider"], &all[0]["calls"]),
        (&json!("check"), &json!("openai"), &json!(1))
    );
    assert_eq!((&all[0]["inputTokens"], &all[0]["outputTokens"]), (&json!(100), &json!(20)));
    assert_eq!(all[0]["costUsd"], 0.12);
    // A reply that breaks off before its usage is estimated: three tokens for the question, one for the word.
    app.get("/models?check=true").await.expect(200);
    let all = sums().await;
    assert_eq!((&all[0]["inputTokens"], &all[0]["outputTokens"]), (&json!(103), &json!(21)));
}

#[tokio::test]
async fn a_check_that_was_paid_for_is_answered_although_its_usage_cannot_be_stored() {
    let (wire, store) = (Wire::serve(vec![reply_of_120_tokens()]).await, Moody::fresh().await);
    let app = App::of(store.clone(), |config| config.models.openai.base_url = Some(wire.url())).await;
    store.set("add_usage", Mood::Fails);
    let checked = app.get("/models?check=true").await.expect(200);
    assert_eq!(checked["items"][0]["check"]["status"], "ok", "{checked:#}");
    assert_eq!(store.calls("add_usage"), 1);
}

/// A dollar per thousand tokens of the demo model.
async fn priced() -> App {
    let price = Price { input_per_million: 1_000.0, output_per_million: 1_000.0, ..Price::default() };
    App::with(|config| config.prices.extend([("demo:*".to_owned(), price)])).await
}

#[tokio::test]
async fn what_a_run_took_is_the_same_wherever_it_is_told() {
    let app = priced().await;
    let metadata = app.finish("t1", "count").await["metadata"].clone();
    let cost = metadata["llmCost"].as_f64().unwrap();
    let usage = &metadata["llmMetadata"];
    let tokens = usage["inputTokens"].as_f64().unwrap() + usage["outputTokens"].as_f64().unwrap();
    assert!((cost - tokens / 1_000.0).abs() < 1e-6 && cost > 0.0, "{metadata:#}");
    let sums = app.get("/usage").await.expect(200);
    let run = &sums["items"][0];
    assert_eq!((&run["runId"], &run["calls"]), (&metadata["runId"], &metadata["llmCalls"]));
    assert_eq!((&run["inputTokens"], &run["costUsd"]), (&usage["inputTokens"], &metadata["llmCost"]));
    let told = app.observed("t1", "RUN_FINISHED,LLM_STREAM_METADATA").await;
    let (last, figures) = told.split_last().unwrap();
    assert_eq!(last["content"]["costUsd"], metadata["llmCost"]);
    let summed: f64 = figures.iter().map(|it| it["content"]["costUsd"].as_f64().unwrap()).sum();
    assert!((summed - cost).abs() < 1e-6, "every call counts, not the last alone");
    assert!(figures.len() > 2);
}

#[tokio::test]
async fn usage_is_summed_by_what_is_asked_for() {
    let app = priced().await;
    app.finish("t1", "count").await;
    let by = |query: &'static str| {
        let app = &app;
        async move { app.get(&format!("/usage{query}")).await.expect(200)["items"].clone() }
    };
    let items = by("?groupBy=item").await;
    assert!(items.as_array().unwrap().len() > 1 && items[0].get("itemId").is_none(), "{items:#}");
    assert_eq!(by("?groupBy=model").await[0]["provider"], "demo");
    assert_eq!(by("?groupBy=tenant").await[0]["tenant"], "default");
    assert_eq!(by("?groupBy=day").await.as_array().unwrap().len(), 1);
    assert_eq!(by("?to=2020-01-01").await, json!([]));
    assert_eq!(by("?from=2020-01-01").await.as_array().unwrap().len(), 1);
    let of_run = by("?groupBy=run,model").await;
    assert_eq!(
        (&of_run[0]["provider"], &of_run[0]["model"]),
        (&json!("demo"), &by("?groupBy=model").await[0]["model"])
    );
    assert_eq!(of_run[0]["runId"], by("").await[0]["runId"]);
    app.finish("t2", "hello").await;
    let (first, second) = (by("?threadId=t1").await, by("?threadId=t2").await);
    assert_eq!((first.as_array().unwrap().len(), second.as_array().unwrap().len()), (1, 1));
    assert_ne!(first[0]["runId"], second[0]["runId"]);
    app.get("/usage?threadId=none").await.problem("not_found");
    app.get("/usage?groupBy=person").await.problem("invalid");
    app.get("/usage?from=yesterday").await.problem("invalid");
}

#[tokio::test]
async fn a_tenant_sees_its_own_usage_and_only_an_admin_sums_by_tenant() {
    let app = App::with_keys().await.key("key-a-0123456789abcdef0123456789");
    app.finish("t1", "count").await;
    assert!(app.get("/usage").await.expect(200)["items"][0]["unpricedCalls"].as_i64().unwrap() > 0);
    let app = app.key("reader-0123456789abcdef0123456789");
    app.get("/usage?groupBy=tenant").await.problem("forbidden");
    let app = app.key("key-b-0123456789abcdef0123456789");
    assert_eq!(app.get("/usage").await.expect(200)["items"], json!([]));
    assert_eq!(app.get("/usage?groupBy=tenant").await.expect(200)["items"], json!([]));
}

#[tokio::test]
async fn an_operator_sums_the_usage_of_all_tenants() {
    let key = |name: &str| name.repeat(4) + "-0123456789abcdef";
    let app = App::with(|config| {
        let keys = ["c", "a", "b"].map(|name| format!("{name}/of-{name}:admin:{}", key(name)));
        let operator = format!("ops/op:read+operator:{}", key("o"));
        config.auth.keys = keys.into_iter().chain([operator]).map(|key| key.parse().unwrap()).collect();
    })
    .await;
    let app = app.key(&key("a"));
    app.finish("t", "count").await;
    let app = app.key(&key("c"));
    app.finish("t", "count").await;
    let of = async |app: &App, query: &str| {
        let page = app.get(&format!("/usage?groupBy=tenant{query}")).await.expect(200);
        let tenants = page["items"].as_array().unwrap().iter().map(|sum| sum["tenant"].as_str().unwrap().to_owned());
        (tenants.collect::<Vec<_>>(), page["nextCursor"].as_str().map(str::to_owned))
    };
    assert_eq!(of(&app, "").await, (vec!["c".to_owned()], None), "an admin has its own");
    let app = app.key(&key("o"));
    assert_eq!(of(&app, "").await, (vec!["a".to_owned(), "c".to_owned()], None));
    let (first, next) = of(&app, "&limit=1").await;
    assert_eq!(first, ["a"]);
    let next = next.expect("there is another page");
    assert_eq!(of(&app, &format!("&limit=1&cursor={next}")).await, (vec!["c".to_owned()], None));
    app.get("/usage?groupBy=tenant&threadId=t").await.problem("forbidden");
}
