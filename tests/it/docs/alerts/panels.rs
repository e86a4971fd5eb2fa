//! The dashboard over two replicas shows figures that match independent counts.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::faults::{BUSY, to_busy};
use super::series::{Expected, Instance, Scrape, evaluate};
use crate::support::demo;
use crate::support::process::{Address, Place, Server};

const MINUTES: u32 = 10;
/// Turns a rate per second into a whole number of hundredths per minute: no figure here is finer.
const FINE: f64 = 6_000.0;

/// The expressions of a panel, over four minutes where Grafana chooses the range.
fn panel(title: &str) -> String {
    let dashboard: Value = serde_json::from_str(include_str!("../../../../deploy/grafana/dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let panel = panels.iter().find(|panel| panel["title"] == title).unwrap_or_else(|| panic!("no panel `{title}`"));
    panel["targets"][0]["expr"].as_str().unwrap().replace("$__rate_interval", "4m")
}

/// The values of a panel: labels and figure.
fn shows(title: &str, figures: Vec<(String, f64)>) -> Expected {
    let samples = figures.into_iter().map(|(labels, figure)| (labels, (figure * FINE).round())).collect();
    Expected { expression: format!("round(({}) * {FINE})", panel(title)), minute: MINUTES - 1, samples }
}

async fn ask(address: Address, thread: &str, query: &str) {
    let ask = address.ask("POST", &format!("/threads/{thread}/process")).header("prefer", "wait=30");
    let said = ask.json(&json!({ "query": query })).send().await;
    assert!([200, 202].contains(&said.status), "{}", said.text());
}

/// The count for each value of this member in a list, with known values at zero.
fn counted(items: &Value, name: &str, known: &[&str]) -> BTreeMap<String, f64> {
    let mut counts: BTreeMap<String, f64> = known.iter().map(|word| ((*word).to_owned(), 0.0)).collect();
    for item in items["items"].as_array().expect("a list") {
        *counts.entry(item[name].as_str().expect("a word").to_owned()).or_default() += 1.0;
    }
    counts
}

fn labelled(label: &str, counts: impl IntoIterator<Item = (String, f64)>) -> Vec<(String, f64)> {
    counts.into_iter().map(|(word, count)| (format!("{{{label}=\"{word}\"}}"), count)).collect()
}

#[tokio::test]
#[ignore = "needs promtool: scripts/test --peers"]
async fn peer_prometheus_evaluates_the_panels_to_what_happened() {
    let place = Place::postgres(&[demo::SCRIPT, BUSY].concat()).await;
    let (one, other) = (Server::start(&place, None).await, Server::start(&place, None).await);
    for (server, thread, query) in [
        (&one, "a", "hello"),
        (&other, "b", "count"),
        (&one, "c", "count"),
        (&other, "d", "send"),
        (&one, "e", "fail"),
        (&other, "f", "fail"),
    ] {
        ask(server.address, thread, query).await;
    }
    other.address.ask("POST", "/threads/g/process").json(&to_busy()).send().await.expect(503);
    let scrape = async |server: &Server| Scrape::of(&server.address.ask("GET", "/metrics").send().await.text());
    let scrapes = (scrape(&one).await, scrape(&other).await);

    // Counted independently: by the lists, and by the test itself.
    let list = async |path: &str| one.address.ask("GET", path).send().await.expect(200);
    let runs = list("/runs").await;
    let by_status = counted(&runs, "status", &[]);
    let open = ["queued", "running", "suspended", "waiting"];
    let open = open.map(|status| (status.to_owned(), by_status.get(status).copied().unwrap_or(0.0)));
    let ended = [("success", "completed"), ("error", "failed"), ("cancelled", "cancelled"), ("partial", "partial")];
    let ended = ended.map(|(result, status)| (result.to_owned(), by_status.get(status).copied().unwrap_or(0.0)));
    assert_eq!((ended[0].1, ended[1].1, open[2].1), (3.0, 2.0, 1.0), "{runs:#}");
    let kinds: Vec<&str> = pes::domain::hitl::SuspensionKind::ALL.iter().map(|kind| kind.as_str()).collect();
    let questions = counted(&list("/suspensions").await, "kind", &kinds);
    let used = list("/usage?groupBy=model").await["items"][0].clone();
    let tokens = [
        ("input", "inputTokens"),
        ("output", "outputTokens"),
        ("thinking", "thinkingTokens"),
        ("cached_input", "cachedInputTokens"),
    ];
    let tokens = tokens.map(|(direction, name)| {
        (
            format!("{{model=\"demo-scripted\",direction=\"{direction}\"}}"),
            used[name].as_f64().expect("a number") / 60.0,
        )
    });
    assert!(tokens[0].1 > 0.0 && tokens[1].1 > 0.0, "{used:#}");
    let calls = used["calls"].as_f64().expect("a number") / 60.0;
    let requests = [("/threads/{thread}/process", 7.0), ("/healthz", 0.0)];
    let requests = requests.map(|(route, count)| (route.to_owned(), count / 60.0));

    let expected = [
        shows("Runs by status", labelled("status", open)),
        shows("Runs finished/min by result", labelled("result", ended)),
        shows("Open suspensions by kind", labelled("kind", questions)),
        shows("Tokens/s", tokens.to_vec()),
        shows(
            "Model calls by outcome",
            vec![("{provider=\"demo\",model=\"demo-scripted\",outcome=\"ok\"}".to_owned(), calls)],
        ),
        shows("Requests/s by route", labelled("route", requests)),
        shows("Errors (5xx) by route", labelled("route", [("/threads/{thread}/process".to_owned(), 1.0 / 60.0)])),
    ];
    let instances = [
        Instance { name: "one", phases: vec![(&scrapes.0, MINUTES)] },
        Instance { name: "other", phases: vec![(&scrapes.1, MINUTES)] },
    ];
    evaluate(place.folder(), &instances, &expected).unwrap_or_else(|said| panic!("{said}"));
    one.kill().await;
    other.kill().await;
}
