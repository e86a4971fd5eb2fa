//! W3: each of many threads asks a person; then each question is answered. The cost of the waiting threads is read in between,
//! after a restart of the server.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use serde_json::{Value, json};

use super::runs::AT_ONCE;
use crate::Outcome;
use crate::bed::{Bed, Subject, Target};
use crate::load::{Connection, Done, Limit, closed_loop, post};
use crate::model::script::Knobs;
use crate::process;
use crate::raw::Raw;
use crate::report::Book;

const SETTINGS: &str = "[agent]\ntool_policy = { calculator = \"ask\" }\n";
const CLIENTS: usize = 32;
const ROUNDS: usize = 5;

/// Pairs of a thread and its question.
type Asked = Rc<RefCell<Vec<(String, String)>>>;

pub async fn measure(bed: &Bed, book: &mut Book) -> Outcome<()> {
    let threads = if bed.is_quick { 1_000 } else { 10_000 };
    let case = format!("{threads} threads, {CLIENTS} clients");
    let mut scenes: Vec<(Subject, Asked, u64, u64)> = Vec::new();
    for subject in bed.servers(SETTINGS).await? {
        let (rss, stored) = (process::usage(subject.server.pid)?.rss, subject.place.stored().await?);
        scenes.push((subject, Asked::default(), rss, stored));
    }
    let mut raw = Raw::open(bed).await?;
    for round in 0..ROUNDS {
        raw.measure(book).await?;
        for (subject, asked, ..) in &scenes {
            let target = Target::Server(subject);
            let work = suspend(&target, bed, round, threads / ROUNDS, asked.clone());
            let measured = bed.slice(&target, work).await?;
            book.add("W3", &format!("suspend {case}"), "thread", &subject.name, measured);
        }
    }
    // Threads leave memory after a tenth of a second.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut again = Vec::new();
    for (subject, asked, rss, stored) in scenes {
        let kept = process::usage(subject.server.pid)?.rss.saturating_sub(rss) as f64 / threads as f64;
        book.fact("W3", &case, &subject.name, "bytes of memory for each suspended thread", kept);
        let name = subject.name.clone();
        let subject = subject.restart().await?;
        let bytes = subject.place.stored().await?.saturating_sub(stored) as f64 / 1024.0 / threads as f64;
        book.fact("W3", &case, &name, "KiB in the store for each suspended thread", bytes);
        book.fact("W3", &case, &name, "ms to ready with all of them", subject.server.ready_after.as_secs_f64() * 1e3);
        again.push((subject, asked));
    }
    for _ in 0..ROUNDS {
        for (subject, asked) in &again {
            let target = Target::Server(subject);
            let measured = bed.slice(&target, resume(&target, bed, threads / ROUNDS, asked.clone())).await?;
            book.add("W3 resumed", &format!("resume {case}"), "thread", &subject.name, measured);
        }
    }
    for (subject, _) in again {
        subject.server.stop().await?;
    }
    Ok(())
}

async fn suspend(target: &Target<'_>, bed: &Bed, round: usize, count: usize, asked: Asked) -> Outcome<Done> {
    let knobs = Knobs { items: 1, tool: Some(AT_ONCE.to_owned()), ..Knobs::default() };
    let body = json!({ "query": format!("Multiply, {}", knobs.words()) }).to_string();
    closed_loop(target.address(bed), CLIENTS, Limit::Count(count), async move |connection: &mut Connection, nth| {
        let thread = format!("w3-{round}-{nth}");
        let (status, said) = connection.whole(&post(&format!("/threads/{thread}/process"), &body, true)).await?;
        let said: Value = serde_json::from_slice(&said)?;
        match said["suspensions"][0]["suspensionId"].as_str() {
            Some(question) => asked.borrow_mut().push((thread, question.to_owned())),
            None => return Err(format!("nobody is asked: {status} {said}").into()),
        }
        Ok(())
    })
    .await
}

async fn resume(target: &Target<'_>, bed: &Bed, count: usize, asked: Asked) -> Outcome<Done> {
    closed_loop(target.address(bed), CLIENTS, Limit::Count(count), async move |connection: &mut Connection, _| {
        let (thread, question) = asked.borrow_mut().pop().ok_or("as many are resumed as were suspended")?;
        let body = json!({ "suspensionId": question, "approved": true }).to_string();
        let (status, said) = connection.whole(&post(&format!("/threads/{thread}/resume"), &body, true)).await?;
        if status != 200 {
            return Err(format!("not resumed: {status} {}", String::from_utf8_lossy(&said)).into());
        }
        Ok(())
    })
    .await
}
