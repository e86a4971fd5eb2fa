//! Caps in tokens and monthly caps of keys, how failed attempts count, and when webhooks are sent.

use std::sync::Arc;
use std::time::Duration;

use pes::config::{Config, ConfiguredKey, Provider};
use pes::domain::spend::{Capped, Unit};
use pes::store::{SpendKey, Store};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::spend::{capped, now, spend_it_all, tenant, this_month};
use super::usage::reply_of_120_tokens;
use crate::support::app::App;
use crate::support::http::{pass, soon};
use crate::support::postgres::Database;
use crate::support::store::{Mood, Moody, fresh_store, store_on};
use crate::support::wire::{Step, Wire, answer, end, event, event_stream};

#[tokio::test]
async fn a_cap_in_tokens_is_kept_to_and_needs_no_price() {
    let app = App::with(|config| config.limits.spend.tenant_day_tokens = Some(2_000)).await;
    let before = app.get("/limits").await.expect(200)["spend"].clone();
    let day = json!({ "cap": "tenantDayTokens", "period": Capped::TenantDay.period(now()), "capTokens": 2_000,
        "usedTokens": 0, "heldTokens": 0, "endsAt": Capped::TenantDay.ends_at(now()) });
    assert_eq!(before, json!([day]));
    let said = spend_it_all(&app).await;
    assert_eq!(said["metadata"]["status"], "partial", "{said:#}");
    let message = said["metadata"]["error"]["message"].as_str().unwrap();
    assert!(message.contains("the cap of 2000 tokens a day of the tenant is reached until 20"), "{message}");
    let after = app.get("/limits").await.expect(200)["spend"][0].clone();
    let took = app.get("/usage?groupBy=tenant").await.expect(200)["items"][0].clone();
    let total = took["inputTokens"].as_i64().unwrap() + took["outputTokens"].as_i64().unwrap();
    assert_eq!((after["usedTokens"].as_i64(), &after["heldTokens"]), (Some(total), &json!(0)));
    assert!((1..=2_000).contains(&total), "{total}");
    let problem = app.post("/threads/t2/process", json!({ "query": "count" })).await.problem("spend_cap_reached");
    assert!(problem["detail"].as_str().unwrap().contains("2000 tokens a day of the tenant"), "{problem}");
}

#[tokio::test]
async fn at_a_cap_no_model_is_checked() {
    let wire = Wire::serve(vec![reply_of_120_tokens(), reply_of_120_tokens()]).await;
    let app = App::with(|config| {
        config.limits.spend.tenant_day_tokens = Some(100);
        config.models.openai.base_url = Some(wire.url());
    })
    .await;
    app.get("/models?check=true").await.expect(200);
    let spent = app.get("/limits").await.expect(200)["spend"][0].clone();
    assert_eq!((&spent["usedTokens"], &spent["heldTokens"]), (&json!(120), &json!(0)));
    let problem = app.get("/models?check=true").await.problem("spend_cap_reached");
    assert!(problem["detail"].as_str().unwrap().contains("100 tokens a day of the tenant"), "{problem}");
    assert_eq!(wire.waiting(), 1, "only the first was asked");
    app.get("/models").await.expect(200);
}

#[tokio::test]
async fn each_key_has_a_cap_of_the_month_and_one_in_tokens() {
    let key = |text: &str| text.parse::<ConfiguredKey>().expect("a key");
    for is_in_tokens in [false, true] {
        let app = App::with(|config| {
            capped(config, 100.0);
            config.limits.spend.key_month_usd = (!is_in_tokens).then_some(0.02);
            config.limits.spend.key_month_tokens = is_in_tokens.then_some(2_000);
            config.auth.keys = vec![
                key("default/ann:admin:key-a-0123456789abcdef0123456789"),
                key("default/bob:admin:key-b-0123456789abcdef0123456789"),
            ];
        })
        .await
        .key("key-a-0123456789abcdef0123456789");
        spend_it_all(&app).await;
        let problem = app.post("/threads/t2/process", json!({ "query": "count" })).await.problem("spend_cap_reached");
        assert!(problem["detail"].as_str().unwrap().contains("a month of the key is reached"), "{problem}");
        let shown = app.get("/limits").await.expect(200)["spend"][1].clone();
        assert_eq!(shown["cap"], if is_in_tokens { "keyMonthTokens" } else { "keyMonth" });
        assert_eq!((&shown["key"], &shown["period"]), (&json!("ann"), &json!(Capped::KeyMonth.period(now()))));
        let bob = app.key("key-b-0123456789abcdef0123456789");
        bob.post("/threads/t2/process", json!({ "query": "count" })).await.expect(202);
    }
}

#[tokio::test]
async fn the_operator_gives_a_tenant_caps_in_tokens() {
    let app = App::with(|config| capped(config, 100.0)).await;
    let put = |caps: Value| app.ask("PUT", "/limits").json(&caps).send();
    for wrong in [json!({ "keyMonthTokens": 0 }), json!({ "keyMonthTokens": 1_000_000_000_000_001_i64 })] {
        let problem = put(wrong).await.problem("invalid");
        assert_eq!(problem["errors"][0]["pointer"], "/keyMonthTokens");
    }
    let caps = put(json!({ "tenantDayTokens": 1, "keyMonthUsd": 5.0 })).await.expect(200);
    assert_eq!(caps, json!({ "tenantDayTokens": 1, "keyMonthUsd": 5.0, "tenantMonthUsd": 100.0 }));
    let refused = app.post("/threads/t/process", json!({ "query": "count" })).await;
    let wait: i64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=86_400).contains(&wait), "until the day is over, although that does not help: {wait}");
    let problem = refused.problem("spend_cap_reached");
    let why = "No run is accepted: the cap of 1 tokens a day of the tenant is less than the first model call needs, which is ";
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.starts_with(why) && detail.ends_with(" tokens; raise it."), "{detail}");
    put(json!({ "tenantDayTokens": 1_000_000 })).await.expect(200);
    app.post("/threads/t/process", json!({ "query": "count" })).await.expect(202);
}

fn chunk(delta: Value, reason: Value) -> Step {
    event(json!({ "choices": [{ "delta": delta, "finish_reason": reason }] }))
}

/// The received part of a broken reply is charged, with the prompt; the next attempt has its own reservation.
#[tokio::test]
async fn a_reply_that_breaks_off_counts_what_arrived() {
    let plan = json!({ "title": "t", "intent": "i", "plan": "p", "answer": "done", "todoList": [] }).to_string();
    let long = "x".repeat(3_000);
    let broken = vec![event_stream(), chunk(json!({ "content": long }), Value::Null), Step::Cut];
    let usage = event(json!({ "choices": [], "usage": { "prompt_tokens": 100, "completion_tokens": 20 } }));
    let whole = vec![
        event_stream(),
        chunk(json!({ "content": plan }), Value::Null),
        chunk(json!({}), json!("stop")),
        usage,
        end(),
    ];
    let wire = Wire::serve(vec![broken, whole]).await;
    let (url, store) = (wire.url(), fresh_store().await);
    let app = App::of(store.clone(), |config| {
        capped(config, 10.0);
        config.models.choice = vec!["house:m".parse().unwrap()];
        config.models.providers.insert("house".to_owned(), Provider { base_url: Some(url), ..Provider::default() });
        config.prices.insert("house:*".to_owned(), config.prices["demo:*"]);
    })
    .await;
    let said = app.finish("t1", "hi").await;
    assert_eq!(said["response"]["content"], "done", "{said:#}");
    let sums = app.get("/usage?groupBy=tenant").await.expect(200)["items"][0].clone();
    assert_eq!(sums["calls"], 2, "{sums:#}");
    // Three letters count as a token.
    assert_eq!(sums["outputTokens"], 1_001 + 20, "{sums:#}");
    let input = sums["inputTokens"].as_i64().unwrap();
    assert!(input > 300, "the prompt of the first is estimated: {sums:#}");
    let spent = this_month(&*store).await;
    assert_eq!((spent.used, spent.held), ((input + 1_021) * 10_000, 0));
}

/// A model of this server, under a cap with room left.
fn at_house(config: &mut Config, url: String) {
    capped(config, 10.0);
    config.models.choice = vec!["house:m".parse().unwrap()];
    config.models.providers.insert("house".to_owned(), Provider { base_url: Some(url), ..Provider::default() });
    config.prices.insert("house:*".to_owned(), config.prices["demo:*"]);
}

/// The provider had the whole request. What answers with an error, or cannot be reached, is free.
#[rstest::rstest]
#[case(vec![Step::Cut], 2)]
#[case(vec![Step::Stall(Arc::new(Notify::new()))], 2)]
#[case(answer("503 Service Unavailable", "retry-after: 0\r\n", "busy"), 1)]
#[tokio::test]
async fn a_request_that_got_no_answer_counts_its_prompt(#[case] first: Vec<Step>, #[case] counted: i64) {
    let plan = json!({ "title": "t", "intent": "i", "plan": "p", "answer": "done", "todoList": [] }).to_string();
    let usage = event(json!({ "choices": [], "usage": { "prompt_tokens": 100, "completion_tokens": 20 } }));
    let content = chunk(json!({ "content": plan }), Value::Null);
    let whole = vec![event_stream(), content, chunk(json!({}), json!("stop")), usage, end()];
    let stalls = matches!(first[..], [Step::Stall(_)]);
    let mut wire = Wire::serve(vec![first, whole]).await;
    let (url, store) = (wire.url(), fresh_store().await);
    let app = App::of(store.clone(), |config| {
        at_house(config, url);
        config.models.header_timeout_ms = 20_000;
    })
    .await;
    let time_passes = async {
        wire.request().await;
        if stalls {
            pass(Duration::from_secs(20)).await;
        }
    };
    let (said, ()) = tokio::join!(app.finish("t1", "hi"), time_passes);
    assert_eq!(said["response"]["content"], "done", "{said:#}");
    let sums = app.get("/usage?groupBy=tenant").await.expect(200)["items"][0].clone();
    assert_eq!((&sums["calls"], &sums["outputTokens"]), (&json!(counted), &json!(20)), "{sums:#}");
    let input = sums["inputTokens"].as_i64().unwrap();
    assert_eq!(input > 300, counted == 2, "the prompt of the first is estimated: {sums:#}");
    let spent = this_month(&*store).await;
    assert_eq!((spent.used, spent.held), ((input + 20) * 10_000, 0));
}

/// A reply of 3,000 letters without an end.
struct Endless {
    goes_on: Arc<Notify>,
    hung_up: Arc<Notify>,
}

impl Endless {
    fn new() -> Self {
        Self { goes_on: Arc::new(Notify::new()), hung_up: Arc::new(Notify::new()) }
    }

    fn steps(&self) -> Vec<Step> {
        let content = chunk(json!({ "content": "x".repeat(3_000) }), Value::Null);
        vec![event_stream(), Step::Until(self.goes_on.clone()), content, Step::Stall(self.hung_up.clone())]
    }

    /// Returns once it has started to reply to a query on a thread.
    async fn answers(&self, app: &App) {
        app.post("/threads/t1/process", json!({ "query": "hi" })).await.expect(202);
        let mut socket = app.socket("/threads/t1/events").await;
        socket.until(|frame| frame["event"] == "caught_up").await;
        self.goes_on.notify_one();
        socket.until(|frame| frame["event"] == "token").await;
    }
}

/// A caller who stops a run just before its end pays for the received part, even if the thread is deleted with it.
#[rstest::rstest]
#[tokio::test]
async fn a_reply_that_is_stopped_counts_what_arrived(#[values("cancel", "delete")] how: &str) {
    let endless = Endless::new();
    let wire = Wire::serve(vec![endless.steps()]).await;
    let (url, store) = (wire.url(), fresh_store().await);
    let app = App::of(store.clone(), |config| at_house(config, url)).await;
    endless.answers(&app).await;
    if how == "cancel" {
        app.post("/threads/t1/cancel", json!({})).await.expect(202);
    } else {
        assert_eq!(app.ask("DELETE", "/threads/t1").send().await.status, 204);
    }
    soon(endless.hung_up.notified()).await;
    let sums = app.get("/usage?groupBy=tenant").await.expect(200)["items"][0].clone();
    assert_eq!((&sums["calls"], &sums["outputTokens"]), (&json!(1), &json!(1_001)), "{sums:#}");
    let input = sums["inputTokens"].as_i64().unwrap();
    assert!(input > 300, "and the prompt: {sums:#}");
    let spent = this_month(&*store).await;
    assert_eq!((spent.used, spent.held), ((input + 1_001) * 10_000, 0));
}

/// The process interrupts it at the end of its drain, and the next one makes it again.
#[tokio::test]
async fn a_reply_that_a_stopping_process_interrupts_counts_what_arrived() {
    let plan = json!({ "title": "t", "intent": "i", "plan": "p", "answer": "done", "todoList": [] }).to_string();
    let usage = event(json!({ "choices": [], "usage": { "prompt_tokens": 100, "completion_tokens": 20 } }));
    let content = chunk(json!({ "content": plan }), Value::Null);
    let whole = vec![event_stream(), content, chunk(json!({}), json!("stop")), usage, end()];
    let endless = Endless::new();
    let wire = Wire::serve(vec![endless.steps(), whole]).await;
    let (url, store) = (wire.url(), fresh_store().await);
    let stopping = |config: &mut Config| {
        at_house(config, url.clone());
        config.runtime.drain_ms = 4_000;
    };
    let app = App::of(store.clone(), stopping).await;
    endless.answers(&app).await;
    app.stopped().await;
    let spent = this_month(&*store).await;
    let input = spent.used / 10_000 - 1_001;
    assert!(input > 300, "the prompt, and what arrived: {spent:?}");
    assert_eq!((spent.used, spent.held), ((input + 1_001) * 10_000, 0));
    let app = App::of(store.clone(), stopping).await;
    let run = app.get("/runs").await.expect(200)["items"][0]["runId"].clone();
    let ended = app.get(&format!("/runs/{}?wait=30", run.as_str().unwrap())).await.expect(200);
    assert_eq!((&ended["status"], &ended["llmCalls"]), (&json!("completed"), &json!(2)), "{ended:#}");
    let sums = app.get("/usage?groupBy=tenant").await.expect(200)["items"][0].clone();
    let counted = [&sums["calls"], &sums["inputTokens"], &sums["outputTokens"]];
    assert_eq!(counted, [&json!(2), &json!(input + 100), &json!(1_001 + 20)], "{sums:#}");
}

/// The process that makes the call does not report its model's usage to a thread that is gone.
#[tokio::test]
async fn a_call_of_another_process_counts_as_what_it_held_when_its_thread_is_deleted() {
    let database = Database::fresh().await;
    let store: Arc<dyn Store> = store_on(&database).await;
    let other: Arc<dyn Store> = store_on(&database).await;
    let endless = Endless::new();
    let wire = Wire::serve(vec![endless.steps()]).await;
    let url = wire.url();
    let owner = App::of(store.clone(), |config| at_house(config, url.clone())).await;
    let deleting = App::of(other, |config| at_house(config, url.clone())).await;
    endless.answers(&owner).await;
    let held = this_month(&*store).await.held;
    assert!(held > 0);
    assert_eq!(deleting.ask("DELETE", "/threads/t1").send().await.status, 204);
    soon(endless.hung_up.notified()).await;
    let spent = this_month(&*store).await;
    assert_eq!((spent.used, spent.held), (held, 0));
}

/// A new query arrives at another process, of which this one does not know when it deletes the thread.
#[tokio::test]
async fn a_call_is_not_made_again_for_a_thread_that_is_deleted() {
    let database = Database::fresh().await;
    let store = Moody::over(store_on(&database).await);
    let other: Arc<dyn Store> = store_on(&database).await;
    let endless = Endless::new();
    let wire = Wire::serve(vec![endless.steps()]).await;
    let url = wire.url();
    let owner = App::of(store.clone(), |config| at_house(config, url.clone())).await;
    let asking = App::of(other, |config| at_house(config, url.clone())).await;
    endless.answers(&owner).await;
    // From here on neither its sweeper nor its watch of other processes sees anything.
    store.set("due", Mood::Hangs);
    soon(store.holds_many("due", 2)).await;
    asking.post("/threads/t1/process", json!({ "query": "more", "onBusy": "enqueue" })).await.expect(202);
    assert_eq!(owner.ask("DELETE", "/threads/t1").send().await.status, 204);
    soon(endless.hung_up.notified()).await;
    let sums = owner.get("/usage?groupBy=tenant").await.expect(200)["items"][0].clone();
    assert_eq!((&sums["calls"], &sums["outputTokens"]), (&json!(1), &json!(1_001)), "{sums:#}");
    let input = sums["inputTokens"].as_i64().unwrap();
    let spent = this_month(&*store).await;
    assert_eq!((spent.used, spent.held, wire.connections()), ((input + 1_001) * 10_000, 0, 1));
}

/// The thread stays, and its run continues: the usage of the cancelled call counts beside that of the next one.
#[tokio::test]
async fn a_run_whose_thread_could_not_be_deleted_goes_on_and_counts_what_it_took() {
    let plan = json!({ "title": "t", "intent": "i", "plan": "p", "answer": "done", "todoList": [] }).to_string();
    let usage = event(json!({ "choices": [], "usage": { "prompt_tokens": 100, "completion_tokens": 20 } }));
    let content = chunk(json!({ "content": plan }), Value::Null);
    let whole = vec![event_stream(), content, chunk(json!({}), json!("stop")), usage, end()];
    let endless = Endless::new();
    let wire = Wire::serve(vec![endless.steps(), whole]).await;
    let (url, store) = (wire.url(), Moody::fresh().await);
    let app = App::of(store.clone(), |config| at_house(config, url)).await;
    endless.answers(&app).await;
    store.set("delete_thread", Mood::FailsOnce);
    assert_eq!(app.ask("DELETE", "/threads/t1").send().await.status, 503);
    let run = app.get("/runs").await.expect(200)["items"][0]["runId"].clone();
    let ended = app.get(&format!("/runs/{}?wait=30", run.as_str().unwrap())).await.expect(200);
    assert_eq!(ended["status"], "completed", "{ended:#}");
    let sums = app.get("/usage?groupBy=tenant").await.expect(200)["items"][0].clone();
    assert_eq!((&sums["calls"], &sums["outputTokens"]), (&json!(2), &json!(1_001 + 20)), "{sums:#}");
    let input = sums["inputTokens"].as_i64().unwrap();
    let spent = this_month(&*store).await;
    assert_eq!((spent.used, spent.held), ((input + 1_021) * 10_000, 0));
}

/// Calls to compatible servers that report no usage are not free.
#[tokio::test]
async fn a_reply_whose_usage_is_not_told_counts_as_it_is_estimated() {
    let long = "x".repeat(60_000);
    let plan = json!({ "title": "t", "intent": "i", "plan": "p", "answer": long, "todoList": [] }).to_string();
    let content = chunk(json!({ "content": plan }), Value::Null);
    let wire = Wire::serve(vec![vec![event_stream(), content, chunk(json!({}), json!("stop")), end()]]).await;
    let url = wire.url();
    let app = App::with(|config| {
        config.limits.spend.tenant_day_tokens = Some(20_000);
        config.models.choice = vec!["house:m".parse().unwrap()];
        config.models.providers.insert("house".to_owned(), Provider { base_url: Some(url), ..Provider::default() });
    })
    .await;
    let said = app.finish("t1", "hi").await;
    assert_eq!(said["response"]["content"], long, "{said:#}");
    let sums = app.get("/usage?groupBy=tenant").await.expect(200)["items"][0].clone();
    assert!(sums["inputTokens"].as_i64() > Some(300) && sums["outputTokens"].as_i64() > Some(20_000), "{sums:#}");
    app.post("/threads/t2/process", json!({ "query": "hi" })).await.problem("spend_cap_reached");
    assert_eq!(wire.connections(), 1);
}

/// The deliveries are stored in the commit that spends: a kill loses none, and no other step has to follow.
#[tokio::test]
async fn what_webhooks_are_told_is_there_as_soon_as_it_is_spent() {
    let store = fresh_store().await;
    let app = App::of(store.clone(), |config| {
        capped(config, 0.001);
        config.limits.spend.tenant_month_usd = None;
        config.limits.spend.tenant_month_tokens = Some(10_000);
        config.egress.allow.push("127.0.0.1:1".to_owned());
        config.auth.sealing_key = Some("a key that is long enough".to_owned().into());
    })
    .await;
    let hook = json!({ "url": "http://127.0.0.1:1/hook", "events": ["spend.threshold"],
        "secrets": ["whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODk="] });
    let hook = app.post("/webhooks", hook).await.expect(201)["webhookId"].clone();
    let most = 64;
    for n in 0..most {
        let ask = app.ask("POST", &format!("/threads/t{n}/process")).header("prefer", "wait=30");
        ask.json(&json!({ "query": "hello" })).send().await.expect(200);
        let used = app.get("/limits").await.expect(200)["spend"][0]["usedTokens"].as_i64().unwrap();
        let path = format!("/webhooks/{}/deliveries", hook.as_str().unwrap());
        let told = app.get(&path).await.expect(200)["items"].as_array().unwrap().len();
        assert_eq!(told, usize::from(used >= 8_000), "{used} tokens");
        if told > 0 {
            let (key, period, unit) = (String::new(), Capped::TenantMonth.period(now()), Unit::Tokens);
            let of = SpendKey { tenant: tenant(&*store).await, key_name: key, period, unit };
            assert_eq!(store.spent(&[of]).await.unwrap()[0].told, 80);
            return;
        }
        assert!(n + 1 < most, "80 % are reached at last");
    }
}
