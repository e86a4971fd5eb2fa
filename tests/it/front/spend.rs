//! `limits.spend` bounds the total cost of concurrent runs, whatever each run's budget.

use std::sync::Arc;
use std::time::Duration;

use pes::Instance;
use pes::config::{Config, ConfiguredKey, Provider, Synchronous};
use pes::domain::ids::TenantPk;
use pes::domain::spend::{Capped, Unit};
use pes::domain::usage::{Price, UsageGroup, nanos};
use pes::runtime::clock::{Clock, System};
use pes::store::sqlite::Sqlite;
use pes::store::{PageAsk, SpendKey, Spent, Store, UsageAsk};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::support::app::App;
use crate::support::http::{Ask, Said, soon};
use crate::support::metrics::value;
use crate::support::postgres::Database;
use crate::support::store::{fresh_store, store_on};
use crate::support::together;
use crate::support::wire::{Step, Wire, answer};

/// A model whose calls may cost 5 cents each and mostly cost 1, under a cap of this many dollars a month.
pub(super) fn capped(config: &mut Config, cap: f64) {
    let price = Price { input_per_million: 10.0, output_per_million: 10.0, ..Price::default() };
    config.prices.extend(["demo:*", "openai:*"].map(|of| (of.to_owned(), price)));
    config.limits.spend.tenant_month_usd = Some(cap);
}

pub(super) fn now() -> i64 {
    System::default().now()
}

pub(super) async fn tenant(store: &dyn Store) -> TenantPk {
    store.tenant("default", 1).await.unwrap()
}

/// The tenant's row of this month.
pub async fn this_month(store: &dyn Store) -> Spent {
    let (key, period) = (String::new(), Capped::TenantMonth.period(now()));
    let of = SpendKey { tenant: tenant(store).await, key_name: key, period, unit: Unit::Usd };
    store.spent(&[of]).await.unwrap().remove(0)
}

/// The cost of all model calls, by their own rows.
pub async fn taken(store: &dyn Store) -> i64 {
    let page = PageAsk { limit: 100, ..PageAsk::default() };
    let ask =
        UsageAsk { tenant: tenant(store).await, group: UsageGroup::Tenant, thread: None, from: 0, to: i64::MAX, page };
    store.usage(&ask).await.unwrap().items.iter().map(|sum| sum.cost_nanos).sum()
}

/// 32 concurrent runs, on a server for each of these stores; returns how many ended.
async fn all_at_once(stores: Vec<Arc<dyn Store>>, cap: f64) -> usize {
    let mut apps = Vec::new();
    for store in &stores {
        apps.push(App::of(store.clone(), |config| capped(config, cap)).await);
    }
    let asks = (0..32).map(|n| {
        let ask = apps[n % apps.len()].ask("POST", &format!("/threads/t{n}/process")).header("prefer", "wait=60");
        let ask = ask.json(&json!({ "query": "count" }));
        async move { tokio::time::timeout(Duration::from_secs(120), ask.send()).await.unwrap() }
    });
    let ended: Vec<Said> = together(asks).await;
    let spent = this_month(&*stores[0]).await;
    assert!(spent.used <= nanos(cap), "{spent:?}");
    assert!(spent.used > nanos(cap) * 3 / 4, "the cap is made use of: {spent:?}");
    assert_eq!((spent.used, spent.held), (taken(&*stores[0]).await, 0));
    let is_success = |said: &&Said| said.status == 200 && said.json()["metadata"]["status"] == "success";
    ended.iter().filter(is_success).count()
}

#[tokio::test]
async fn runs_side_by_side_never_pass_the_cap() {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(Sqlite::open(folder.path(), Synchronous::Normal).await.unwrap());
    let done = all_at_once(vec![store], 0.4).await;
    assert!((1..32).contains(&done), "{done}");
}

#[tokio::test]
async fn nor_do_those_of_two_replicas() {
    let database = Database::fresh().await;
    let one: Arc<dyn Store> = store_on(&database).await;
    let other: Arc<dyn Store> = store_on(&database).await;
    let done = all_at_once(vec![one, other], 0.4).await;
    assert!((1..32).contains(&done), "{done}");
}

#[tokio::test]
async fn a_call_waits_for_what_others_hold() {
    let stalls = || vec![Step::Stall(Arc::new(Notify::new()))];
    let mut wire = Wire::serve(vec![stalls(), stalls()]).await;
    let url = wire.url();
    let app = App::with(|config| {
        capped(config, 0.08);
        config.models.openai.base_url = Some(url);
        config.models.openai.api_key = Some("sk-test".into());
    })
    .await;
    let first = app.post("/threads/first/process", json!({ "query": "count" })).await.expect(202);
    soon(wire.request()).await;
    let next = app.post("/threads/next/process", json!({ "query": "count" })).await.expect(202);
    let waits = app.get(&format!("/runs/{}?wait=2", next["runId"].as_str().unwrap())).await.expect(200);
    assert_eq!(waits["status"], "running", "it is not over: what the other holds may become free");
    assert_eq!(wire.waiting(), 0);
    app.post(&format!("/runs/{}/cancel", first["runId"].as_str().unwrap()), json!({})).await;
    soon(wire.request()).await;
}

#[tokio::test]
async fn a_thread_that_is_deleted_gives_back_what_its_call_held() {
    let wire = Wire::serve(vec![vec![Step::Stall(Arc::new(Notify::new()))]]).await;
    let (url, store) = (wire.url(), fresh_store().await);
    let app = App::of(store.clone(), |config| {
        capped(config, 0.08);
        config.models.openai.base_url = Some(url);
        config.models.openai.api_key = Some("sk-test".into());
    })
    .await;
    app.post("/threads/t1/process", json!({ "query": "count" })).await.expect(202);
    let held = this_month(&*store).await.held;
    assert!(held > 0);
    assert_eq!(app.ask("DELETE", "/threads/t1").send().await.status, 204);
    let spent = this_month(&*store).await;
    assert_eq!(spent.held, 0);
    // The model was called, and its provider charges for the prompt.
    assert!((1..held).contains(&spent.used), "{} of {held}", spent.used);
}

/// The demo model's first call then costs more than is left.
pub(super) async fn spend_it_all(app: &App) -> Value {
    let said = app.ask("POST", "/threads/t1/process").header("prefer", "wait=30");
    said.json(&json!({ "query": "count" })).send().await.expect(200)
}

#[tokio::test]
async fn at_the_cap_a_run_ends_and_says_which_it_was() {
    let app = App::with(|config| capped(config, 0.03)).await;
    let said = spend_it_all(&app).await;
    let error = &said["metadata"]["error"];
    assert_eq!((&said["metadata"]["status"], &error["code"]), (&json!("partial"), &json!("budget_exceeded")));
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("the cap of 0.03 US dollars a month of the tenant is reached until 20"), "{message}");
}

#[tokio::test]
async fn at_the_cap_no_run_is_accepted() {
    let app = App::with(|config| capped(config, 0.02)).await;
    spend_it_all(&app).await;
    let refused = app.post("/threads/t2/process", json!({ "query": "count" })).await;
    let problem = refused.problem("spend_cap_reached");
    assert_eq!(problem["status"], 429);
    let wait: i64 = refused.header("retry-after").unwrap().parse().unwrap();
    let ends = Capped::TenantMonth.ends_at(now());
    assert!((wait * 1_000 - (ends - now())).abs() < 60_000, "{wait} seconds until the month ends");
    app.get("/threads/t2").await.problem("not_found");
}

#[tokio::test]
async fn each_key_has_its_own_cap() {
    let key = |text: &str| text.parse::<ConfiguredKey>().expect("a key");
    let app = App::with(|config| {
        capped(config, 100.0);
        config.limits.spend.key_day_usd = Some(0.02);
        config.auth.keys = vec![
            key("default/ann:admin:key-a-0123456789abcdef0123456789"),
            key("default/bob:admin:key-b-0123456789abcdef0123456789"),
        ];
    })
    .await
    .key("key-a-0123456789abcdef0123456789");
    spend_it_all(&app).await;
    app.post("/threads/t2/process", json!({ "query": "count" })).await.problem("spend_cap_reached");
    app.post("/schedules", json!({ "id": "s", "cron": "30 2 * * *", "query": "count" })).await.expect(201);
    app.ask("POST", "/schedules/s/trigger").send().await.problem("spend_cap_reached");
    let bob = app.key("key-b-0123456789abcdef0123456789");
    bob.post("/threads/t2/process", json!({ "query": "count" })).await.expect(202);
}

/// What a schedule costs counts against the caps of the key whose rights its runs have.
#[tokio::test]
async fn a_schedule_is_paid_by_the_key_that_wrote_it_last() {
    let key = |text: &str| text.parse::<ConfiguredKey>().expect("a key");
    let (ann, bob) = ("key-a-0123456789abcdef0123456789", "key-b-0123456789abcdef0123456789");
    let app = App::with(|config| {
        capped(config, 100.0);
        config.limits.spend.key_day_usd = Some(0.02);
        config.auth.keys = vec![key(&format!("default/ann:admin:{ann}")), key(&format!("default/bob:admin:{bob}"))];
    })
    .await
    .key(ann);
    app.post("/schedules", json!({ "id": "s", "cron": "30 2 * * *", "query": "count" })).await.expect(201);
    spend_it_all(&app).await;
    let ask = |by: &str, method: &str, path: &str| Ask::new(app.address, method, path).key(by);
    let used = async |by: &str| {
        let spend = ask(by, "GET", "/limits").send().await.expect(200)["spend"].clone();
        let of_key = spend.as_array().unwrap().iter().find(|spent| spent["cap"] == "keyDay").cloned();
        of_key.unwrap_or_else(|| panic!("{spend:#}"))["usedUsd"].as_f64().unwrap()
    };
    let spent = used(ann).await;
    let save = async |by: &str| {
        let query = json!({ "query": "count" });
        ask(by, "PATCH", "/schedules/s").json(&query).send().await.expect(200)["writtenBy"].clone()
    };
    assert_eq!([save(bob).await, save(ann).await], [json!(["ann", "bob"]), json!(["bob", "ann"])]);
    app.ask("POST", "/schedules/s/trigger").send().await.problem("spend_cap_reached");
    assert_eq!(save(bob).await, json!(["ann", "bob"]));
    let run = app.ask("POST", "/schedules/s/trigger").send().await.expect(202);
    app.get(&format!("/runs/{}?wait=30", run["runId"].as_str().unwrap())).await.expect(200);
    assert_eq!(used(ann).await, spent, "what Bob has changed costs Ann nothing");
    assert!(used(bob).await > 0.0);
}

#[tokio::test]
async fn a_cap_in_dollars_is_refused_while_a_model_has_no_price() {
    let app = App::start().await;
    let wrong = app.ask("PUT", "/limits").json(&json!({ "keyDayTokens": 9, "tenantDayUsd": 1.0 })).send().await;
    let problem = wrong.problem("invalid");
    let detail = problem["errors"][0]["detail"].as_str().unwrap();
    assert!(detail.contains("`prices`") && detail.contains("demo:demo-scripted costs"), "{problem}");
    assert_eq!(problem["errors"][0]["pointer"], "/tenantDayUsd");
    app.post("/threads/t1/process", json!({ "query": "count" })).await.expect(202);
}

/// A run may name a model that is not in the settings.
#[rstest::rstest]
#[tokio::test]
async fn a_model_without_a_price_is_refused_where_there_is_a_cap(#[values(true, false)] is_in_settings: bool) {
    let app = App::with(|config| {
        let (address, price) =
            ("http://127.0.0.1:9/v1".to_owned(), Price { input_per_million: 1.0, ..Price::default() });
        config.models.choice = vec!["house:m".parse().unwrap()];
        config.models.providers.insert("house".to_owned(), Provider { base_url: Some(address), ..Provider::default() });
        config.prices.extend(["house:m", "demo:*"].map(|of| (of.to_owned(), price)));
        config.limits.spend.tenant_day_usd = is_in_settings.then_some(1.0);
    })
    .await;
    if !is_in_settings {
        app.ask("PUT", "/limits").json(&json!({ "tenantDayUsd": 1.0 })).send().await.expect(200);
    }
    let options = json!({ "providerConfig": { "providerName": "house", "modelId": "other" } });
    let asked = app.post("/threads/t1/process", json!({ "query": "count", "options": options })).await;
    let problem = asked.problem("invalid");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("`prices`") && detail.contains("house:other"), "{detail}");
    assert_eq!(detail.contains("limits.spend.tenant_day_usd"), is_in_settings, "{detail}");
    assert_eq!(detail.contains("PUT /limits"), !is_in_settings, "{detail}");
}

#[tokio::test]
async fn what_was_spent_is_shown_to_its_tenant() {
    let app = App::with(|config| {
        capped(config, 2.0);
        config.limits.spend.key_day_usd = Some(1.0);
    })
    .await;
    let before = app.get("/limits").await.expect(200)["spend"].clone();
    assert_eq!(before[0]["cap"], "tenantMonth", "no cap of a day is set");
    assert_eq!((&before[0]["usedUsd"], &before[0]["heldUsd"]), (&json!(0.0), &json!(0.0)));
    let cost = spend_it_all(&app).await["metadata"]["llmCost"].clone();
    assert!(cost.as_f64().unwrap() > 0.0);
    let after = app.get("/limits").await.expect(200)["spend"].clone();
    let month = json!({ "cap": "tenantMonth", "period": Capped::TenantMonth.period(now()), "capUsd": 2.0,
        "usedUsd": cost, "heldUsd": 0.0, "endsAt": Capped::TenantMonth.ends_at(now()) });
    let key = json!({ "cap": "keyDay", "key": "local", "period": Capped::KeyDay.period(now()), "capUsd": 1.0,
        "usedUsd": cost, "heldUsd": 0.0, "endsAt": Capped::KeyDay.ends_at(now()) });
    assert_eq!(after, json!([month, key]));
}

#[tokio::test]
async fn the_operator_gives_a_tenant_caps_of_its_own() {
    let key = |text: &str| text.parse::<ConfiguredKey>().expect("a key");
    let (ann, bob, ops) =
        ("key-a-0123456789abcdef0123456789", "key-b-0123456789abcdef0123456789", "key-o-0123456789abcdef0123456789");
    let app = App::with(|config| {
        capped(config, 100.0);
        let keys = [format!("one/ann:admin:{ann}"), format!("two/bob:admin:{bob}"), format!("ops/ops:operator:{ops}")];
        config.auth.keys = keys.iter().map(|text| key(text)).collect();
    })
    .await;
    let put = |path: &str, by: &str, caps: Value| app.ask("PUT", path).key(by).json(&caps).send();
    put("/limits", ann, json!({ "tenantDayUsd": 1_000 })).await.problem("forbidden");
    put("/limits?tenant=three", ops, json!({})).await.problem("not_found");
    let wrong = put("/limits?tenant=one", ops, json!({ "keyDayUsd": 0 })).await.problem("invalid");
    assert_eq!(wrong["errors"][0]["pointer"], "/keyDayUsd");
    let caps = put("/limits?tenant=one", ops, json!({ "tenantDayUsd": 0.000_001 })).await.expect(200);
    assert_eq!(caps, json!({ "tenantDayUsd": 0.000_001, "tenantMonthUsd": 100.0 }));
    let query = json!({ "query": "count" });
    let ask = |by: &str| app.ask("POST", "/threads/t1/process").key(by).json(&query).send();
    ask(ann).await.problem("spend_cap_reached");
    ask(bob).await.expect(202);
    put("/limits?tenant=one", ops, json!({})).await.expect(200);
    ask(ann).await.expect(202);
}

#[tokio::test]
async fn webhooks_are_told_once_of_each_part_of_a_cap() {
    let told = || answer("204 No Content", "", "");
    let mut wire = Wire::serve((0..8).map(|_| told()).collect()).await;
    let address = wire.address.to_string();
    let app = App::with(|config| {
        capped(config, 0.1);
        config.limits.spend.tenant_day_usd = Some(100.0);
        config.egress.allow.push(address);
    })
    .await;
    let url = format!("http://{}/hook", wire.address);
    let hook =
        json!({ "url": url, "events": ["spend.threshold"], "secrets": ["whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODk="] });
    let hook = app.post("/webhooks", hook).await.expect(201)["webhookId"].clone();
    let most = 32;
    for n in 0..most {
        let ask = app.ask("POST", &format!("/threads/t{n}/process")).header("prefer", "wait=30");
        if ask.json(&json!({ "query": "hello" })).send().await.status == 429 {
            break;
        }
        assert!(n + 1 < most, "the cap is reached at last");
    }
    let mut percents = Vec::new();
    for _ in 0..2 {
        let data = soon(wire.request()).await.body["data"].clone();
        assert_eq!((&data["cap"], &data["capUsd"]), (&json!("tenantMonth"), &json!(0.1)), "{data}");
        assert!(data["usedUsd"].as_f64().unwrap() >= 0.08 && data["endsAt"].is_i64(), "{data}");
        percents.push(data["percent"].as_i64().unwrap());
    }
    percents.sort_unstable();
    assert_eq!(percents, [80, 100]);
    let sent = app.get(&format!("/webhooks/{}/deliveries", hook.as_str().unwrap())).await.expect(200);
    assert_eq!(sent["items"].as_array().unwrap().len(), 2, "{sent:#}");
    // After a cap is raised, reaching the warning level sends a new warning.
    app.ask("PUT", "/limits").json(&json!({ "tenantMonthUsd": 0.11 })).send().await.expect(200);
    app.post("/threads/next/process", json!({ "query": "hello" })).await.expect(202);
    let data = soon(wire.request()).await.body["data"].clone();
    assert_eq!((&data["percent"], &data["capUsd"]), (&json!(80), &json!(0.11)), "{data}");
}

#[tokio::test]
async fn a_server_with_a_cap_and_a_model_without_a_price_does_not_start() {
    let mut config = Config::default();
    config.models.choice = ["openai:gpt-5", "openai:gpt-5-mini"].map(|of| of.parse().unwrap()).to_vec();
    config.models.openai.base_url = Some("http://127.0.0.1:9/v1".to_owned());
    config.prices.insert("openai:gpt-5".to_owned(), Price { input_per_million: 1.0, ..Price::default() });
    let start = async |config: &Config| Instance::build(config.clone()).store(fresh_store().await).open().await;
    start(&config).await.expect("nothing is capped").close().await;
    config.limits.spend.key_day_usd = Some(5.0);
    let why = start(&config).await.err().expect("what it would spend is not known").to_string();
    assert!(why.contains("limits.spend") && why.contains("openai:gpt-5-mini costs"), "{why}");
    assert!(!why.contains("openai:gpt-5,"), "only those without a price are named: {why}");
    config.prices.insert("openai:*".to_owned(), Price { input_per_million: 2.0, ..Price::default() });
    start(&config).await.expect("each has one").close().await;
}

async fn metric(app: &App, sample: &str) -> f64 {
    value(&app.get("/metrics").await.text(), sample)
}

#[tokio::test]
async fn metrics_tell_how_much_of_the_caps_is_used_and_what_was_refused() {
    let app = App::with(|config| capped(config, 0.02)).await;
    assert_eq!(metric(&app, r#"pes_spend_cap_used_ratio{cap="tenant_day"}"#).await, 0.0, "no such cap is set");
    let refused = r#"pes_spend_refused_total{cap="tenant_month"}"#;
    let before = metric(&app, refused).await;
    let app = App::with(|config| capped(config, 0.02)).await;
    spend_it_all(&app).await;
    app.post("/threads/t9/process", json!({ "query": "count" })).await.problem("spend_cap_reached");
    // Other tests add to the counter as well.
    assert!(metric(&app, refused).await > before);
    let used = metric(&app, r#"pes_spend_cap_used_ratio{cap="tenant_month"}"#).await;
    assert!(used > 0.0 && used <= 1.0, "{used}");
}
