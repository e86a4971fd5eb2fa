//! W6: idle sockets, and the cost of each. W7: sockets that disconnect and reconnect with `after`, during runs.

use std::rc::Rc;
use std::time::{Duration, Instant};

use memchr::memmem;
use rustix::process::{Resource, getrlimit};
use serde_json::json;
use tokio::task::JoinSet;

use super::runs::{AT_ONCE, slice};
use crate::Outcome;
use crate::bed::{Bed, Subject, Target};
use crate::load::socket::{Socket, seq};
use crate::load::{Connection, post};
use crate::model::script::Knobs;
use crate::process;
use crate::report::Book;
use crate::stats::median;

const SETTINGS: &str = "[limits]\nconnections = 20000\n";
/// Sockets that connect concurrently.
const AT_A_TIME: usize = 64;

pub async fn idle(bed: &Bed, book: &mut Book) -> Outcome<()> {
    // Some file descriptors are not sockets.
    let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX).saturating_sub(500) as usize;
    let count = most.min(if bed.is_quick { 2_000 } else { 10_000 });
    let case = format!("{count} idle sockets");
    for subject in bed.servers(SETTINGS).await? {
        threads(&subject, 100, 1, 0).await?;
        let before = process::usage(subject.server.pid)?;
        let began = Instant::now();
        let mut sockets = Vec::new();
        while sockets.len() < count {
            let mut opening = JoinSet::new();
            for nth in sockets.len()..count.min(sockets.len() + AT_A_TIME) {
                let (to, path) = (subject.server.address, format!("/threads/t-{}/events?after=latest", nth % 100));
                opening.spawn_local(async move {
                    let mut socket = Socket::open(to, &path).await.map_err(|error| error.to_string())?;
                    until_caught_up(&mut socket).await.map(|_| socket).map_err(|error| error.to_string())
                });
            }
            while let Some(opened) = opening.join_next().await {
                sockets.push(opened??);
            }
        }
        let rate = count as f64 / began.elapsed().as_secs_f64();
        let after = process::usage(subject.server.pid)?;
        let kib = after.rss.saturating_sub(before.rss) as f64 / 1024.0 / count as f64;
        let cpu = after.cpu.saturating_sub(before.cpu).as_secs_f64() * 1e6 / count as f64;
        book.fact("W6", &case, &subject.name, "KiB of memory for each", kib);
        book.fact("W6", &case, &subject.name, "opened per second", rate);
        book.fact("W6", &case, &subject.name, "CPU µs to open each", cpu);
        drop(sockets);
        subject.server.stop().await?;
    }
    Ok(())
}

pub async fn back(bed: &Bed, book: &mut Book) -> Outcome<()> {
    const THREADS: usize = 100;
    let count = if bed.is_quick { 200 } else { 1_000 };
    let case = format!("{count} sockets come back");
    let subjects = bed.servers(SETTINGS).await?;
    for subject in &subjects {
        threads(subject, THREADS, 2, 0).await?;
    }
    for round in 0..3 {
        for subject in &subjects {
            // The cursors before the disconnect.
            let mut heard = Vec::new();
            for thread in 0..THREADS {
                let path = format!("/threads/t-{thread}/events");
                heard.push(until_caught_up(&mut Socket::open(subject.server.address, &path).await?).await?.last);
            }
            threads(subject, THREADS, 1, round + 1).await?;
            let target = Target::Server(subject);
            let rounds = 1_000 + 2 * round;
            let alone = slice(bed, &target, rounds, 16, AT_ONCE).await?;
            let (beside, came) =
                tokio::join!(slice(bed, &target, rounds + 1, 16, AT_ONCE), all_back(subject, count, Rc::new(heard)));
            let (beside, came) = (beside?, came?);
            let rate = |done: &crate::load::Done| done.count as f64 / done.took.as_secs_f64();
            book.fact("W7", &case, &subject.name, "ms until all are caught up", came.took.as_secs_f64() * 1e3);
            book.fact("W7", &case, &subject.name, "ms until half are caught up", came.half_ms);
            book.fact("W7", &case, &subject.name, "observations missed", came.missed as f64);
            book.fact("W7", &case, &subject.name, "observations doubled", came.doubled as f64);
            book.fact(
                "W7",
                &case,
                &subject.name,
                "runs per second beside it, to without",
                rate(&beside) / rate(&alone),
            );
        }
    }
    for subject in subjects {
        subject.server.stop().await?;
    }
    Ok(())
}

/// What a socket received until it was caught up.
#[derive(Default)]
struct Told {
    first: u64,
    last: u64,
    missed: u64,
    doubled: u64,
}

struct Came {
    took: Duration,
    half_ms: f64,
    missed: u64,
    doubled: u64,
}

async fn all_back(subject: &Subject, count: usize, heard: Rc<Vec<u64>>) -> Outcome<Came> {
    let began = Instant::now();
    let mut coming = JoinSet::new();
    for nth in 0..count {
        let thread = nth % heard.len();
        let after = heard[thread];
        let (to, path) = (subject.server.address, format!("/threads/t-{thread}/events?after={after}"));
        coming.spawn_local(async move {
            let mut socket = Socket::open(to, &path).await.map_err(|error| error.to_string())?;
            let mut told = until_caught_up(&mut socket).await.map_err(|error| error.to_string())?;
            // The first must be the next after the cursor.
            told.missed += told.first.saturating_sub(after + 1);
            told.doubled += (after + 1).saturating_sub(told.first);
            Ok::<_, String>((told, began.elapsed().as_secs_f64() * 1e3))
        });
    }
    let (mut times, mut missed, mut doubled) = (Vec::new(), 0, 0);
    while let Some(came) = coming.join_next().await {
        let (told, at) = came??;
        missed += told.missed;
        doubled += told.doubled;
        times.push(at);
    }
    Ok(Came { took: began.elapsed(), half_ms: median(times), missed, doubled })
}

async fn until_caught_up(socket: &mut Socket) -> Outcome<Told> {
    let mut told = Told::default();
    loop {
        let frame = socket.next().await?;
        if frame.starts_with(br#"{"event":"caught_up""#) {
            return Ok(told);
        }
        let Some(seq) = seq(&frame) else { continue };
        if told.first == 0 {
            told.first = seq;
        } else {
            told.missed += seq.saturating_sub(told.last + 1);
            told.doubled += (told.last + 1).saturating_sub(seq);
        }
        told.last = seq;
    }
}

/// Starts this many runs on each thread; afterwards `t-0`, `t-1` and so on exist.
async fn threads(subject: &Subject, count: usize, times: usize, round: usize) -> Outcome<()> {
    let mut connection = Connection::open(subject.server.address).await?;
    let knobs = Knobs { items: 1, tool: Some(AT_ONCE.to_owned()), round, ..Knobs::default() };
    let body = json!({ "query": format!("Multiply, {}", knobs.words()) }).to_string();
    for thread in 0..count {
        for _ in 0..times {
            let ask = post(&format!("/threads/t-{thread}/process"), &body, true);
            let (status, said) = connection.whole(&ask).await?;
            if status != 200 || memmem::find(&said, br#""status":"success""#).is_none() {
                return Err(format!("{status} {}", String::from_utf8_lossy(&said)).into());
            }
        }
    }
    Ok(())
}
