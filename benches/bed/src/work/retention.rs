//! W11: the latency of acknowledgements and the rate of requests while the server deletes a million expired rows, compared
//! with the same server on the same rows, none of them expired.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::old_rows::{self, Amounts, TEMPLATE};
use crate::Outcome;
use crate::bed::{Bed, Slice, Subject, Target};
use crate::load::{Connection, Done, Limit, closed_loop, get, post};
use crate::model::script::Knobs;
use crate::report::Book;
use crate::server::{Place, Server};
use crate::stats::{percentile, sorted};

/// The kind of most rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backlog {
    /// Threads that were unused for longer than the retention of threads.
    Threads,
    /// Threads that were used since, with a log older than the retention of logs.
    Logs,
}

impl Backlog {
    /// The age of the threads: longer than the default retention of logs, or of threads.
    pub fn days(self) -> i64 {
        match self {
            Self::Threads => 500,
            Self::Logs => 100,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Threads => "old threads",
            Self::Logs => "old logs",
        }
    }

    /// Labels of the server's metric for what is deleted: most of the rows, and the others.
    fn kinds(self) -> [&'static str; 3] {
        match self {
            Self::Threads => ["thread", "answer", "row"],
            Self::Logs => ["entry", "answer", "row"],
        }
    }
}

const CLIENTS: [usize; 2] = [1, 32];

/// Slices are this many times longer than in other workloads, so that each contains many deletion batches.
const SLICES: u32 = 10;

/// The database of a stopped server, for the subject with this name.
struct Stopped {
    name: String,
    place: Place,
}

pub async fn measure(bed: &Bed, book: &mut Book) -> Outcome<()> {
    let part = if bed.is_quick { 4 } else { 1 };
    // A thread has about 25 rows and log entries.
    let amounts = Amounts { threads: 20_000 / part, answers: 250_000 / part, observations: 250_000 / part };
    for backlog in [Backlog::Threads, Backlog::Logs] {
        let (young, old) = (bed.servers("").await?, bed.servers("").await?);
        for (young, old) in young.into_iter().zip(old) {
            let young = filled(young, backlog, amounts, false).await?;
            let old = filled(old, backlog, amounts, true).await?;
            in_turns(bed, book, backlog, young, old).await?;
        }
    }
    Ok(())
}

async fn filled(subject: Subject, backlog: Backlog, amounts: Amounts, is_old: bool) -> Outcome<Stopped> {
    let knobs = Knobs { items: 1, tool: Some("calculator".to_owned()), ..Knobs::default() };
    let body = json!({ "query": format!("Multiply, {}", knobs.words()) }).to_string();
    let mut connection = Connection::open(subject.server.address).await?;
    let (status, said) = connection.whole(&post(&format!("/threads/{TEMPLATE}/process"), &body, true)).await?;
    if status != 200 {
        return Err(format!("no template: {status} {}", String::from_utf8_lossy(&said)).into());
    }
    let Subject { name, place, server } = subject;
    server.stop().await?;
    old_rows::insert(&place, backlog, amounts, is_old).await?;
    Ok(Stopped { name: if is_old { format!("{name}, deleting") } else { name }, place })
}

/// Only the measured server runs.
async fn in_turns(bed: &Bed, book: &mut Book, backlog: Backlog, mut young: Stopped, mut old: Stopped) -> Outcome<()> {
    let name = young.name.clone();
    let before = old_rows::left(&old.place, backlog).await?;
    for clients in CLIENTS {
        let case = format!("{}, {clients} clients", backlog.name());
        let (mut deleted, mut took) = ([0.0; 3], Duration::ZERO);
        for round in 0..bed.rounds() {
            let prefix = format!("w11-{round}-{clients}");
            let (idle, busy);
            (young, idle) = measured(bed, young, backlog, clients, &prefix).await?;
            (old, busy) = measured(bed, old, backlog, clients, &prefix).await?;
            let p99 = |slice: &Slice| percentile(&sorted(slice.done.latencies.clone()), 0.99);
            let ratio = p99(&busy.slice) / p99(&idle.slice);
            book.fact("W11", &case, &name, "p99 while it deletes to p99 without", ratio);
            book.add("W11", &case, "request", &young.name, idle.slice);
            book.add("W11", &case, "request", &old.name, busy.slice);
            if idle.deleted.iter().any(|count| *count > 0.0) {
                return Err(format!("what is not too old was deleted: {:?}", idle.deleted).into());
            }
            deleted.iter_mut().zip(busy.deleted).for_each(|(sum, more)| *sum += more);
            took += busy.took;
        }
        for (kind, count) in backlog.kinds().into_iter().zip(deleted) {
            book.fact("W11", &case, &name, &format!("deleted a second: {kind}"), count / took.as_secs_f64());
        }
    }
    let after = old_rows::left(&old.place, backlog).await?;
    for ((kind, before), after) in backlog.kinds().into_iter().zip(before).zip(after) {
        if after == 0 || after == before {
            return Err(format!("{}: {after} of {before} are left of kind `{kind}`", backlog.name()).into());
        }
    }
    Ok(())
}

/// A slice, the deletions in it, and their duration.
struct Measured {
    slice: Slice,
    deleted: [f64; 3],
    took: Duration,
}

/// Starts the server, and stops it afterwards.
async fn measured(
    bed: &Bed,
    stopped: Stopped,
    backlog: Backlog,
    clients: usize,
    prefix: &str,
) -> Outcome<(Stopped, Measured)> {
    let Stopped { name, place } = stopped;
    let server = Server::start(&place).await?;
    let subject = Subject { name, place, server };
    // Warms up pools and caches.
    acknowledged(&subject, clients, &format!("{prefix}-warm"), bed.slice_time()).await?;
    let target = Target::Server(&subject);
    let (began, before) = (Instant::now(), deleted(&subject, backlog).await?);
    let work = acknowledged(&subject, clients, prefix, bed.slice_time() * SLICES);
    let slice = bed.slice(&target, work).await?;
    let (took, after) = (began.elapsed(), deleted(&subject, backlog).await?);
    let deleted = std::array::from_fn(|nth| after[nth] - before[nth]);
    let Subject { name, place, server } = subject;
    server.stop().await?;
    Ok((Stopped { name, place }, Measured { slice, deleted, took }))
}

/// Deletions so far.
async fn deleted(subject: &Subject, backlog: Backlog) -> Outcome<[f64; 3]> {
    let mut counts = [0.0; 3];
    for (count, kind) in counts.iter_mut().zip(backlog.kinds()) {
        *count = subject.server.deleted(kind).await?;
    }
    Ok(counts)
}

/// Clients that start a run and wait for its end; the latency is that of the acknowledgement.
async fn acknowledged(subject: &Subject, clients: usize, prefix: &str, time: Duration) -> Outcome<Done> {
    let knobs = Knobs { items: 1, ..Knobs::default() };
    let body = json!({ "query": format!("Multiply, {}", knobs.words()) }).to_string();
    let waits: Rc<RefCell<Vec<f64>>> = Rc::default();
    let (taken, prefix) = (waits.clone(), prefix.to_owned());
    let limit = Limit::Time(time);
    let work = closed_loop(subject.server.address, clients, limit, async move |connection: &mut Connection, nth| {
        let at = Instant::now();
        let ask = post(&format!("/threads/{prefix}-{nth}/process"), &body, false);
        let (status, said) = connection.whole(&ask).await?;
        taken.borrow_mut().push(at.elapsed().as_secs_f64() * 1e3);
        let said: Value = serde_json::from_slice(&said)?;
        let run = said["runId"].as_str().filter(|_| status == 202).ok_or_else(|| format!("{status} {said}"))?;
        let (status, said) = connection.whole(&get(&format!("/runs/{run}?wait=60"))).await?;
        let said: Value = serde_json::from_slice(&said)?;
        if status == 200 && said["status"] == "completed" {
            return Ok(());
        }
        Err(format!("a run went wrong: {status} {said}").into())
    });
    let mut done = work.await?;
    done.latencies = waits.take();
    Ok(done)
}
