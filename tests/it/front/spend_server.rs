//! Caps of the whole server limit what all tenants spend together.

use std::sync::Arc;
use std::time::Duration;

use pes::config::{Config, ConfiguredKey, Synchronous, Webhook};
use pes::domain::ids::TenantPk;
use pes::domain::spend::Capped;
use pes::domain::usage::{UsageGroup, nanos};
use pes::domain::webhook::WebhookEvent;
use pes::store::sqlite::Sqlite;
use pes::store::{PageAsk, SpendKey, Spent, Store, UsageAsk};
use serde_json::{Value, json};

use super::spend::{capped, now};
use crate::support::app::App;
use crate::support::http::{Said, soon};
use crate::support::metrics::value;
use crate::support::postgres::Database;
use crate::support::store::store_on;
use crate::support::together;
use crate::support::wire::{Wire, answer};

const ANN: &str = "key-a-0123456789abcdef0123456789";
const BOB: &str = "key-b-0123456789abcdef0123456789";
const OPS: &str = "key-o-0123456789abcdef0123456789";

/// Two tenants and an operator, under a common cap of this many dollars a month.
fn shared(config: &mut Config, cap: f64) {
    capped(config, 1_000.0);
    config.limits.spend.tenant_month_usd = None;
    config.limits.spend.server_month_usd = Some(cap);
    let keys = [format!("one/ann:admin:{ANN}"), format!("two/bob:admin:{BOB}"), format!("ops/ops:read+operator:{OPS}")];
    config.auth.keys = keys.iter().map(|text| text.parse::<ConfiguredKey>().expect("a key")).collect();
}

fn ask(app: &App, thread: &str, key: &str) -> impl Future<Output = Said> + use<> {
    let ask = app.ask("POST", &format!("/threads/{thread}/process")).key(key).header("prefer", "wait=60");
    ask.json(&json!({ "query": "count" })).send()
}

async fn limits(app: &App, key: &str) -> Value {
    app.ask("GET", "/limits").key(key).send().await.expect(200)["spend"].clone()
}

#[tokio::test]
async fn what_one_tenant_spends_another_cannot() {
    let app = App::with(|config| shared(config, 0.02)).await;
    ask(&app, "t1", ANN).await.expect(200);
    let problem = ask(&app, "t1", BOB).await.problem("spend_cap_reached");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("the cap of 0.02 US dollars a month of the server is reached until 20"), "{detail}");
    assert_eq!(
        (limits(&app, ANN).await, limits(&app, BOB).await),
        (json!([]), json!([])),
        "it is no tenant's business"
    );
    let shown = limits(&app, OPS).await;
    assert_eq!((&shown[0]["cap"], &shown[0]["capUsd"]), (&json!("serverMonth"), &json!(0.02)), "{shown}");
    let cost = app.ask("GET", "/usage?groupBy=tenant").key(ANN).send().await.expect(200)["items"][0]["costUsd"].clone();
    assert_eq!((&shown[0]["usedUsd"], &shown[0]["heldUsd"]), (&cost, &json!(0.0)), "{shown}");
    let put = app.ask("PUT", "/limits").key(OPS).json(&json!({ "serverMonthUsd": 5 })).send().await;
    put.problem("invalid");
    let metrics = app.ask("GET", "/metrics").key(OPS).send().await.text();
    let used = value(&metrics, r#"pes_spend_cap_used_ratio{cap="server_month"}"#);
    assert!((used - cost.as_f64().unwrap() / 0.02).abs() < 1e-9, "{used}");
}

/// What is set replaces all that was set before: so it can be read first, and the tenant's audit keeps each value.
#[tokio::test]
async fn the_operator_sees_the_caps_of_a_tenant_and_the_audit_keeps_them() {
    let app = App::with(|config| shared(config, 1_000.0)).await;
    let see = async |tenant: &str, key: &str| app.ask("GET", &format!("/limits?tenant={tenant}")).key(key).send().await;
    assert_eq!(see("one", ANN).await.problem("forbidden")["scope"], "operator");
    see("three", OPS).await.problem("not_found");
    assert_eq!(see("one", OPS).await.expect(200).get("set"), None);
    ask(&app, "t1", ANN).await.expect(200);
    let first = json!({ "tenantMonthTokens": 500_000, "keyMonthTokens": 400_000 });
    let second = json!({ "tenantDayTokens": 300_000 });
    let mut shown = Vec::new();
    for caps in [&first, &second] {
        app.ask("PUT", "/limits?tenant=one").key(OPS).json(caps).send().await.expect(200);
        let seen = see("one", OPS).await.expect(200);
        assert_eq!(&seen["set"], caps);
        let of = |cap: &Value| (cap["cap"].as_str().unwrap().to_owned(), cap["capTokens"].as_i64());
        shown.push(seen["spend"].as_array().unwrap().iter().map(of).collect::<Vec<_>>());
    }
    let caps = |tenant: &str, tokens| vec![(tenant.to_owned(), Some(tokens)), ("serverMonth".to_owned(), None)];
    assert_eq!(shown, [caps("tenantMonthTokens", 500_000), caps("tenantDayTokens", 300_000)]);
    let audit = app.ask("GET", "/audit").key(ANN).send().await.expect(200);
    let put = audit["items"].as_array().unwrap().iter().filter(|line| line["action"] == "put document");
    let put: Vec<_> =
        put.map(|line| (&line["actor"], &line["detail"]["actorTenant"], &line["detail"]["body"])).collect();
    let (ops, theirs) = (json!("ops"), json!("ops"));
    assert_eq!(put, [(&ops, &theirs, &second), (&ops, &theirs, &first)], "the newest first");
}

#[tokio::test]
async fn a_cap_in_tokens_is_of_all_tenants_too() {
    let app = App::with(|config| {
        shared(config, 1_000.0);
        config.limits.spend.server_day_tokens = Some(2_000);
    })
    .await;
    let said = ask(&app, "t1", ANN).await.expect(200);
    assert_eq!(said["metadata"]["error"]["code"], "budget_exceeded", "{said:#}");
    let problem = ask(&app, "t1", BOB).await.problem("spend_cap_reached");
    assert!(problem["detail"].as_str().unwrap().contains("2000 tokens a day of the server"), "{problem}");
}

/// The cost of all model calls of a tenant, by their own rows.
async fn taken(store: &dyn Store, tenant: &str) -> i64 {
    let tenant = store.tenant(tenant, 1).await.unwrap();
    let page = PageAsk { limit: 100, ..PageAsk::default() };
    let ask = UsageAsk { tenant, group: UsageGroup::Tenant, thread: None, from: 0, to: i64::MAX, page };
    store.usage(&ask).await.unwrap().items.iter().map(|sum| sum.cost_nanos).sum()
}

/// The server's row of this month.
async fn this_month(store: &dyn Store) -> Spent {
    let of = SpendKey::of(Capped::ServerMonth, TenantPk::NONE, None, now()).unwrap();
    store.spent(&[of]).await.unwrap().remove(0)
}

/// 32 concurrent runs of two tenants, on a server for each of these stores.
async fn all_at_once(stores: Vec<Arc<dyn Store>>, cap: f64) {
    let mut apps = Vec::new();
    for store in &stores {
        apps.push(App::of(store.clone(), |config| shared(config, cap)).await);
    }
    let asks = (0..32).map(|n| {
        let ask = ask(&apps[n % apps.len()], &format!("t{n}"), if n % 4 < 2 { ANN } else { BOB });
        async move { tokio::time::timeout(Duration::from_secs(120), ask).await.unwrap() }
    });
    let ended = together(asks).await;
    let spent = this_month(&*stores[0]).await;
    assert!(spent.used <= nanos(cap), "{spent:?}");
    assert!(spent.used > nanos(cap) * 3 / 4, "the cap is made use of: {spent:?}");
    let each = (taken(&*stores[0], "one").await, taken(&*stores[0], "two").await);
    assert!(each.0 > 0 && each.1 > 0, "{each:?}");
    assert_eq!((spent.used, spent.held), (each.0 + each.1, 0));
    assert!(ended.iter().any(|said| said.status == 200 && said.json()["metadata"]["status"] == "success"));
}

#[tokio::test]
async fn runs_of_all_tenants_side_by_side_never_pass_the_cap() {
    let folder = tempfile::tempdir().unwrap();
    all_at_once(vec![Arc::new(Sqlite::open(folder.path(), Synchronous::Normal).await.unwrap())], 0.4).await;
}

#[tokio::test]
async fn nor_do_those_of_two_replicas() {
    let database = Database::fresh().await;
    let one: Arc<dyn Store> = store_on(&database).await;
    let other: Arc<dyn Store> = store_on(&database).await;
    all_at_once(vec![one, other], 0.4).await;
}

/// Events go to the operator's webhooks that belong to no tenant, and to no others.
#[tokio::test]
async fn only_the_operator_is_told_of_the_servers_cap() {
    let told = || answer("204 No Content", "", "");
    let mut wire = Wire::serve((0..8).map(|_| told()).collect()).await;
    let address = wire.address.to_string();
    let app = App::with(|config| {
        shared(config, 0.02);
        let hook = |id: &str, tenant: Option<&str>| Webhook {
            id: id.to_owned(),
            url: format!("http://{address}/{id}"),
            events: vec![WebhookEvent::SpendThreshold],
            secrets: Vec::new(),
            tenant: tenant.map(str::to_owned),
        };
        config.webhooks.extend([hook("all", None), hook("one", Some("one"))]);
        config.egress.allow.push(address.clone());
    })
    .await;
    let own = json!({ "url": format!("http://{address}/own"), "events": ["spend.threshold"],
        "secrets": ["whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODk="] });
    app.ask("POST", "/webhooks").key(ANN).json(&own).send().await.expect(201);
    ask(&app, "t1", ANN).await.expect(200);
    ask(&app, "t2", ANN).await.problem("spend_cap_reached");
    let mut percents = Vec::new();
    for _ in 0..2 {
        let request = soon(wire.request()).await;
        assert!(request.line.starts_with("POST /all "), "{}", request.line);
        let data = &request.body["data"];
        assert_eq!((&data["cap"], &data["capUsd"]), (&json!("serverMonth"), &json!(0.02)), "{data}");
        percents.push(data["percent"].as_i64().unwrap());
    }
    percents.sort_unstable();
    assert_eq!(percents, [80, 100]);
    assert_eq!(wire.waiting(), 0);
    for path in ["/deliveries", "/webhooks/all/deliveries"] {
        let sent = app.ask("GET", path).key(ANN).send().await.expect(200);
        assert_eq!(sent["items"], json!([]), "{path}");
    }
}
