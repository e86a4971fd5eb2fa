//! Each fault that can be caused here, at a real server, fires its alert once and no other.

use rstest::rstest;
use serde_json::{Value, json};

use super::series::{Expected, Instance, Scrape, evaluate};
use crate::support::demo;
use crate::support::http::soon;
use crate::support::process::{Place, Server};
use crate::support::wire::{Wire, answer};

/// How long the server is healthy, and how long the fault lasts: the slowest alert takes four hours.
const WELL: u32 = 90;
const ILL: u32 = 300;
/// The key of the scraper, for a server that has keys.
const OPERATOR: &str = "key-o-0123456789abcdef0123456789";

/// A model that takes no call.
pub const BUSY: &str = r#"
[[admission]]
model = "demo-busy"
code = "provider_saturated"
detail = "The queue is full."
"#;

/// A query for it.
pub fn to_busy() -> Value {
    let model = json!({ "providerName": "demo", "modelId": "demo-busy" });
    json!({ "query": "hello", "options": { "providerConfig": model } })
}

async fn scraped(server: &Server) -> Scrape {
    let said = server.address.ask("GET", "/metrics").key(OPERATOR).send().await;
    assert_eq!(said.status, 200, "{}", said.text());
    Scrape::of(&said.text())
}

async fn ask(server: &Server, thread: &str, query: &str) {
    let ask = server.address.ask("POST", &format!("/threads/{thread}/process")).header("prefer", "wait=30");
    let said = ask.json(&json!({ "query": query })).send().await;
    assert!([200, 202].contains(&said.status), "{}", said.text());
}

async fn stop(mut server: Server) {
    server.stop();
    server.ended().await;
}

/// The metrics of a healthy server.
async fn is_well(place: &Place) -> Scrape {
    let server = Server::start(place, None).await;
    for (thread, query) in [("a", "hello"), ("a", "hello"), ("b", "count")] {
        ask(&server, thread, query).await;
        server.address.ask("GET", "/threads").send().await.expect(200);
    }
    let scrape = scraped(&server).await;
    stop(server).await;
    scrape
}

/// Checks that no alert fires while the server is healthy, and exactly these at the end of the fault.
fn judge(place: &Place, well: &Scrape, ill: &Scrape, alerts: &[&str]) {
    let firing = |minute, alerts: &[&str]| Expected {
        expression: "count by (alertname) (ALERTS{alertstate=\"firing\"})".to_owned(),
        minute,
        samples: alerts.iter().map(|alert| (format!("{{alertname=\"{alert}\"}}"), 1.0)).collect(),
    };
    let instance = Instance { name: "a", phases: vec![(well, WELL), (ill, ILL)] };
    let expected = [firing(WELL - 1, &[]), firing(WELL + ILL - 1, alerts)];
    if let Err(said) = evaluate(place.folder(), &[instance], &expected) {
        panic!("{alerts:?}: {said}");
    }
}

/// Polls until the metrics contain this.
async fn until(server: &Server, path: &str, is_so: impl Fn(&Value, &str) -> bool) {
    soon(async {
        loop {
            let said = server.address.ask("GET", path).key(OPERATOR).send().await;
            let text = said.text();
            if is_so(&serde_json::from_str(&text).unwrap_or_default(), &text) {
                return;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
}

fn script() -> Place {
    Place::sqlite(demo::SCRIPT)
}

#[tokio::test]
#[ignore = "needs promtool: scripts/test --peers"]
async fn peer_prometheus_is_told_of_a_server_that_is_gone() {
    let place = script();
    let well = is_well(&place).await;
    let server = Server::start(&place, None).await;
    let address = server.address.socket_addr();
    server.kill().await;
    tokio::net::TcpStream::connect(address).await.expect_err("nobody is there");
    judge(&place, &well, &Scrape::failed(), &["PesDown"]);
}

/// Another process took its name, and so its lease. The samples say that a lease is lost in each minute.
#[tokio::test]
#[ignore = "needs promtool: scripts/test --peers"]
async fn peer_prometheus_is_told_of_a_server_that_is_up_and_not_ready() {
    let place = Place::postgres(demo::SCRIPT).await.with_one_name("same");
    let well = is_well(&place).await;
    let (first, second) = (Server::start(&place, None).await, Server::start(&place, None).await);
    until(&first, "/readyz", |ready, _| ready["failing"].is_array()).await;
    judge(&place, &well, &scraped(&first).await, &["PesLeaseLost", "PesNotReady"]);
    first.kill().await;
    second.kill().await;
}

/// Faults that one request causes.
#[rstest]
#[case::nothing("count", "", &[])]
#[case::unanswered("send", "", &["PesSuspensionsOld"])]
#[case::stalled("hang", "", &["PesRunsStalled"])]
#[case::expensive("count", "[prices.\"demo:*\"]\ninput_per_million = 1000.0\noutput_per_million = 100000.0\n", &["PesSpendFast"])]
#[tokio::test]
#[ignore = "needs promtool: scripts/test --peers"]
async fn peer_prometheus_is_told_of_runs_that(#[case] query: &str, #[case] settings: &str, #[case] alerts: &[&str]) {
    let place = script();
    let well = is_well(&place).await;
    place.configure(settings);
    let server = Server::start(&place, None).await;
    if query == "hang" {
        server.address.ask("POST", "/threads/t/process").json(&json!({ "query": query })).send().await.expect(202);
        until(&server, "/runs?status=running", |runs, _| runs["items"].get(0).is_some()).await;
    } else {
        ask(&server, "t", query).await;
    }
    judge(&place, &well, &scraped(&server).await, alerts);
    server.kill().await;
}

#[tokio::test]
#[ignore = "needs promtool: scripts/test --peers"]
async fn peer_prometheus_is_told_of_a_cap_that_is_nearly_spent() {
    let place = script();
    let cap = |tokens: f64| {
        place.configure(&format!("[limits.spend]\nserver_month_tokens = {tokens:.0}\n"));
        tokens
    };
    let ample = cap(100_000_000.0);
    let well = is_well(&place).await;
    let spent = ample * well.value("pes_spend_cap_used_ratio{cap=\"server_month_tokens\"}");
    assert!(spent > 100.0, "{spent}");
    cap(spent / 0.9);
    let server = Server::start(&place, None).await;
    judge(&place, &well, &scraped(&server).await, &["PesSpendCapNear"]);
    server.kill().await;
}

#[tokio::test]
#[ignore = "needs promtool: scripts/test --peers"]
async fn peer_prometheus_is_told_of_requests_that_break() {
    let place = Place::sqlite(&[demo::SCRIPT, BUSY].concat());
    let well = is_well(&place).await;
    let server = Server::start(&place, None).await;
    server.address.ask("POST", "/threads/t/process").json(&to_busy()).send().await.expect(503);
    judge(&place, &well, &scraped(&server).await, &["PesErrorBudgetFast"]);
    server.kill().await;
}

/// While its breaker is open nobody calls it; before that, its calls fail.
#[rstest]
#[case::fails("400 Bad Request", &["PesModelErrors"])]
#[case::is_left_alone("500 Internal Server Error", &["PesModelErrors", "PesProviderDown"])]
#[tokio::test]
#[ignore = "needs promtool: scripts/test --peers"]
async fn peer_prometheus_is_told_of_a_provider_that(#[case] status: &str, #[case] alerts: &[&str]) {
    let place = script();
    let well = is_well(&place).await;
    let wire = Wire::serve((0..50).map(|_| answer(status, "", "")).collect()).await;
    // The next retry is late, so the run fails.
    place.configure(&format!(
        "[models]\nretry_ms = 1\n[models.openai]\nbase_url = \"{}\"\n[models.gate]\nbreaker_failures = 1\n\
         breaker_ms = 600000\n",
        wire.url()
    ));
    let server = Server::start(&place, None).await;
    ask(&server, "t", "hello").await;
    judge(&place, &well, &scraped(&server).await, alerts);
    server.kill().await;
}

#[tokio::test]
#[ignore = "needs promtool: scripts/test --peers"]
async fn peer_prometheus_is_told_of_deliveries_that_nobody_takes() {
    let place = script();
    let wire = Wire::serve((0..9).map(|_| answer("410 Gone", "", "")).collect()).await;
    place.configure(&format!("[egress]\nallow = [\"{}\"]\n[outbox]\nbackoff_ms = [1]\n", wire.address));
    let well = is_well(&place).await;
    let server = Server::start(&place, None).await;
    let spec = json!({ "url": format!("http://{}/", wire.address), "events": ["run.finished"] });
    let id = server.address.ask("POST", "/webhooks").json(&spec).send().await.expect(201)["webhookId"].clone();
    ask(&server, "t", "hello").await;
    let path = format!("/webhooks/{}/deliveries", id.as_str().unwrap());
    until(&server, &path, |deliveries, _| deliveries["items"][0]["status"] == "dead").await;
    judge(&place, &well, &scraped(&server).await, &["PesOutboxBehind"]);
    server.kill().await;
}

#[tokio::test]
#[ignore = "needs promtool: scripts/test --peers"]
async fn peer_prometheus_is_told_of_a_secret_that_cannot_be_opened() {
    let place = script();
    let configure = |key: &str| {
        place.configure(&format!("[egress]\nallow = [\"127.0.0.1:1\"]\n[auth]\nsealing_key = \"{key}\"\n"));
    };
    configure("the first of two sealing keys");
    let well = is_well(&place).await;
    let server = Server::start(&place, None).await;
    let spec = json!({ "url": "http://127.0.0.1:1/", "events": ["run.finished"], "secrets": ["s"] });
    server.address.ask("POST", "/webhooks").json(&spec).send().await.expect(201);
    stop(server).await;
    configure("the second of two sealing keys");
    let server = Server::start(&place, None).await;
    ask(&server, "t", "hello").await;
    // The delivery is tried again and again, and was due while it was tried.
    let is_counted = |text: &str| !text.contains("\npes_secrets_unreadable_total{kind=\"webhook\"} 0\n");
    let is_over = |text: &str| text.contains("\npes_outbox_oldest_due_seconds 0\n");
    until(&server, "/metrics", |_, text| is_counted(text) && is_over(text)).await;
    judge(&place, &well, &scraped(&server).await, &["PesSecretsUnreadable"]);
    server.kill().await;
}

#[tokio::test]
#[ignore = "needs promtool: scripts/test --peers"]
async fn peer_prometheus_is_told_of_a_thread_that_is_set_aside() {
    let place = script();
    let well = is_well(&place).await;
    for nth in 0..3 {
        let mut server = Server::start(&place, Some("model.replied@1")).await;
        let ask = server.address.ask("POST", "/threads/t/process").json(&json!({ "query": "hello" }));
        // The process may be held before it has answered.
        let asked = tokio::spawn(async move {
            if nth == 0 {
                ask.send().await;
            }
        });
        server.must_reach().await;
        asked.abort();
        server.kill().await;
    }
    let server = Server::start(&place, None).await;
    // The thread was overdue while no process ran.
    let is_over = |text: &str| text.contains("\npes_threads_overdue 0\n");
    until(&server, "/metrics", |_, text| text.contains("pes_threads_quarantined_total 1") && is_over(text)).await;
    judge(&place, &well, &scraped(&server).await, &["PesQuarantine"]);
    server.kill().await;
}

#[tokio::test]
#[ignore = "needs promtool: scripts/test --peers"]
async fn peer_prometheus_is_told_of_a_key_that_ends_soon() {
    let place = script();
    let well = is_well(&place).await;
    let made = place.run(&["keys", "new", "--tenant", "acme", "--expires", "3d"]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    place.configure(&format!("[auth]\nkeys = [\"ops/prometheus:operator:{OPERATOR}\"]\n"));
    let server = Server::start(&place, None).await;
    judge(&place, &well, &scraped(&server).await, &["PesKeyExpires"]);
    server.kill().await;
}
