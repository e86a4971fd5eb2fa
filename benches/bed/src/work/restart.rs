//! W4: the time from start to ready, with an empty store and with many threads, after a stop and after a crash. W8: steps
//! without work, as usual for benchmarks of durable workflow engines, then a crash in the middle and the resumption.

use std::time::{Duration, Instant};

use memchr::memmem;
use serde_json::json;

use crate::Outcome;
use crate::bed::{Bed, Subject, Target};
use crate::load::{Connection, Done, Limit, closed_loop, get, post};
use crate::model::script::Knobs;
use crate::report::Book;

/// A stop does not wait for the model, and a restarted replica takes over its own work at once.
const SETTINGS: &str = "[agent]\ncore = \"react\"\n[runtime]\ndrain_ms = 500\nreplica = \"bed\"\n";
const STEPS: &str = "[runtime]\nreplica = \"bed\"\n";
/// Items of a plan without work.
const ITEMS: usize = 10;
const MINUTE_US: u64 = 60_000_000;

pub async fn start(bed: &Bed, book: &mut Book) -> Outcome<()> {
    let (threads, unfinished) = if bed.is_quick { (2_000, 200) } else { (100_000, 1_000) };
    let case = format!("{threads} threads");
    for mut subject in bed.servers(SETTINGS).await? {
        let name = subject.name.clone();
        let ready = |subject: &Subject| subject.server.ready_after.as_secs_f64() * 1e3;
        book.fact("W4", "empty", &name, "ms to ready, first start", ready(&subject));
        for _ in 0..3 {
            subject = subject.restart().await?;
            book.fact("W4", "empty", &name, "ms to ready", ready(&subject));
        }
        // Each has had one run of one model call.
        each(&subject, threads, &Knobs { tokens: 1, ..Knobs::default() }, true).await?;
        for _ in 0..3 {
            subject = subject.restart().await?;
            book.fact("W4", &case, &name, "ms to ready", ready(&subject));
        }
        // The model sends one token, and the next after a minute.
        let slow = Knobs { tokens: 2, delay_us: MINUTE_US, is_timed: true, ..Knobs::default() };
        each(&subject, unfinished, &slow, false).await?;
        for _ in 0..3 {
            subject = subject.crash().await?;
            book.fact(
                "W4",
                &case,
                &name,
                &format!("ms to ready after a crash, {unfinished} unfinished"),
                ready(&subject),
            );
        }
        subject.server.kill().await?;
    }
    Ok(())
}

async fn each(subject: &Subject, count: usize, knobs: &Knobs, waits: bool) -> Outcome<()> {
    let body = json!({ "query": format!("Say it, {}", knobs.words()) }).to_string();
    closed_loop(subject.server.address, 64, Limit::Count(count), async move |connection: &mut Connection, nth| {
        let ask = post(&format!("/threads/w4-{nth}/process"), &body, waits);
        match connection.ask(&ask, |_| {}).await? {
            200 | 202 => Ok(()),
            status => Err(format!("asked: {status}").into()),
        }
    })
    .await
    .map(drop)
}

pub async fn steps(bed: &Bed, book: &mut Book) -> Outcome<()> {
    let subjects = bed.servers(STEPS).await?;
    for round in 0..if bed.is_quick { 2 } else { 5 } {
        for clients in [4, 16, 64] {
            for subject in &subjects {
                let target = Target::Server(subject);
                let mut measured = bed.slice(&target, nothing(bed, subject, clients, round)).await?;
                measured.done.count *= ITEMS as u64;
                book.add("W8", &format!("{clients} at once"), "step", &subject.name, measured);
            }
        }
    }
    for subject in subjects {
        crash_and_resume(bed, book, subject).await?;
    }
    Ok(())
}

async fn nothing(bed: &Bed, subject: &Subject, clients: usize, round: usize) -> Outcome<Done> {
    let knobs = Knobs { items: ITEMS, tokens: 1, ..Knobs::default() };
    let body = json!({ "query": format!("Nothing, {}", knobs.words()) }).to_string();
    let limit = Limit::Time(bed.slice_time());
    closed_loop(subject.server.address, clients, limit, async move |connection: &mut Connection, nth| {
        let ask = post(&format!("/threads/w8-{round}-{clients}-{nth}/process"), &body, true);
        let (status, said) = connection.whole(&ask).await?;
        if status == 200 && memmem::find(&said, br#""status":"success""#).is_some() {
            return Ok(());
        }
        Err(format!("{status} {}", String::from_utf8_lossy(&said)).into())
    })
    .await
}

/// 64 threads of 100 steps: the process is killed in the middle.
async fn crash_and_resume(bed: &Bed, book: &mut Book, subject: Subject) -> Outcome<()> {
    const THREADS: usize = 64;
    let items = if bed.is_quick { 30 } else { 100 };
    let case = format!("{THREADS} threads of {items} steps");
    let name = subject.name.clone();
    let body =
        json!({ "query": format!("Nothing, {}", Knobs { items, tokens: 1, ..Knobs::default() }.words()) }).to_string();
    let mut connection = Connection::open(subject.server.address).await?;
    let half = subject.server.counted().await?.items + (THREADS * items / 2) as f64;
    let mut runs = Vec::new();
    for nth in 0..THREADS {
        let (_, said) = connection.whole(&post(&format!("/threads/w8-crash-{nth}/process"), &body, false)).await?;
        let said: serde_json::Value = serde_json::from_slice(&said)?;
        runs.push(said["runId"].as_str().ok_or("a run has an id")?.to_owned());
    }
    while subject.server.counted().await?.items < half {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let began = Instant::now();
    let subject = subject.crash().await?;
    book.fact("W8", &case, &name, "ms from the kill to ready", began.elapsed().as_secs_f64() * 1e3);
    let before = subject.server.counted().await?.commits;
    while subject.server.counted().await?.commits <= before {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    book.fact("W8", &case, &name, "ms from the kill to the next commit", began.elapsed().as_secs_f64() * 1e3);
    let mut connection = Connection::open(subject.server.address).await?;
    for run in runs {
        loop {
            let (_, said) = connection.whole(&get(&format!("/runs/{run}"))).await?;
            if memmem::find(&said, br#""status":"success""#).is_some() {
                break;
            }
            if memmem::find(&said, br#""status":"error""#).is_some() {
                return Err(format!("a run ended badly: {}", String::from_utf8_lossy(&said)).into());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    book.fact("W8", &case, &name, "ms from the kill to the end of all", began.elapsed().as_secs_f64() * 1e3);
    subject.server.stop().await
}
