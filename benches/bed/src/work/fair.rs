//! W10: a tenant has thousands of active runs; another starts one run after the other. Compares the duration of the latter
//! with that on an otherwise idle server.

use std::net::SocketAddr;
use std::time::Instant;

use serde_json::{Value, json};

use crate::Outcome;
use crate::bed::Bed;
use crate::load::{Connection, Limit, closed_loop, get, post, with_key};
use crate::model::script::Knobs;
use crate::report::Book;
use crate::stats::{percentile, sorted};

const BUSY: &str = "key-of-the-busy-tenant-0123456789";
const OTHER: &str = "key-of-the-other-tenant-012345678";
const CLIENTS: usize = 32;
/// Runs of the other tenant, in sequence.
const ASKED: usize = 20;

/// The default gate, except that its queue holds all calls of the busy tenant.
fn settings() -> String {
    let keys = format!("keys = [\"busy:read+run:{BUSY}\", \"other:read+run:{OTHER}\"]");
    format!("[auth]\n{keys}\n[models.gate]\nqueue = 65536\n")
}

pub async fn measure(bed: &Bed, book: &mut Book) -> Outcome<()> {
    let runs = if bed.is_quick { 1_000 } else { 10_000 };
    for subject in bed.servers_with_gate(&settings()).await? {
        let to = subject.server.address;
        let alone = others(to, "alone").await?;
        let begun = fill(to, runs).await?;
        let beside = others(to, "beside").await?;
        if !is_busy(to).await? {
            return Err("the busy tenant's runs were over too soon: nothing was measured".into());
        }
        let case = format!("{runs} runs of another tenant");
        let mut tell = |name: &str, value: f64| book.fact("W10", &case, &subject.name, name, value);
        tell("runs a second that were accepted", begun);
        for (name, share) in [("median", 0.5), ("p95", 0.95)] {
            let (alone, beside) = (percentile(&alone, share), percentile(&beside, share));
            tell(&format!("ms of a run alone, {name}"), alone);
            tell(&format!("ms that it takes longer, {name}"), beside - alone);
        }
        subject.server.kill().await?;
    }
    Ok(())
}

/// Latencies in milliseconds, sorted, of sequential runs with three model calls each.
async fn others(to: SocketAddr, name: &'static str) -> Outcome<Vec<f64>> {
    let knobs = Knobs { items: 1, ..Knobs::default() };
    let body = json!({ "query": format!("Multiply, {}", knobs.words()) }).to_string();
    let mut connection = Connection::open(to).await?;
    let mut took = Vec::new();
    for nth in 0..ASKED {
        let ask = with_key(&post(&format!("/threads/w10-{name}-{nth}/process"), &body, true), OTHER);
        let at = Instant::now();
        let (status, said) = connection.whole(&ask).await?;
        took.push(at.elapsed().as_secs_f64() * 1e3);
        if status != 200 {
            return Err(format!("no answer: {status} {}", String::from_utf8_lossy(&said)).into());
        }
    }
    Ok(sorted(took))
}

/// Starts this many runs of the busy tenant, each on its own thread with an answer that takes two seconds. Returns the number
/// accepted per second.
async fn fill(to: SocketAddr, runs: usize) -> Outcome<f64> {
    let knobs =
        Knobs { items: 1, tokens: 100, item_tokens: Some(4), delay_us: 20_000, is_timed: true, ..Knobs::default() };
    let body = json!({ "query": format!("Multiply slowly, {}", knobs.words()) }).to_string();
    let done = closed_loop(to, CLIENTS, Limit::Count(runs), async move |connection: &mut Connection, nth| {
        let ask = with_key(&post(&format!("/threads/w10-busy-{nth}/process"), &body, false), BUSY);
        let (status, said) = connection.whole(&ask).await?;
        if status != 202 {
            return Err(format!("not accepted: {status} {}", String::from_utf8_lossy(&said)).into());
        }
        Ok(())
    })
    .await?;
    Ok(done.count as f64 / done.took.as_secs_f64())
}

/// Whether the busy tenant has active runs.
async fn is_busy(to: SocketAddr) -> Outcome<bool> {
    let ask = with_key(&get("/runs?status=running&limit=1"), BUSY);
    let (_, said) = Connection::open(to).await?.whole(&ask).await?;
    let page: Value = serde_json::from_slice(&said)?;
    let items = page["items"].as_array().ok_or_else(|| format!("no list of runs: {page}"))?;
    Ok(!items.is_empty())
}
