//! W5: the cost of a step on a young and on an old thread: 1,000 items of one plan, 10,000 observations, 100 follow-ups.
//! Reports the last tenth relative to the first, in time, CPU and bytes.

use memchr::memmem;
use serde_json::json;

use crate::Outcome;
use crate::bed::{Bed, Subject, Target};
use crate::load::socket::Socket;
use crate::load::{Connection, post};
use crate::model::script::Knobs;
use crate::report::Book;

/// One step at a time.
const ITEMS: &str = "[agent]\nexecution = { maxParallelItems = 1 }\n";
const REACT: &str = "[agent]\ncore = \"react\"\n";
const TENTHS: usize = 10;
/// Observations of one small run without a plan.
const OBSERVATIONS: usize = 12;

/// What was spent until this tenth of the steps was done.
#[derive(Clone, Copy)]
struct Mark {
    seconds: f64,
    cpu: f64,
    written: f64,
}

pub async fn measure(bed: &Bed, book: &mut Book) -> Outcome<()> {
    let part = if bed.is_quick { 5 } else { 1 };
    for subject in bed.servers(ITEMS).await? {
        let items = 1_000 / part;
        let marks = items_of_one_plan(bed, &subject, items).await?;
        tell(book, &format!("{items} items of a plan"), &subject.name, items, &marks);
        let runs = 100 / part;
        let marks = runs_of_one_thread(bed, &subject, runs, 3).await?;
        tell(book, &format!("{runs} follow-ups"), &subject.name, runs, &marks);
        subject.server.stop().await?;
    }
    for subject in bed.servers(REACT).await? {
        let runs = 10_000 / OBSERVATIONS / part;
        let marks = runs_of_one_thread(bed, &subject, runs, 0).await?;
        tell(book, &format!("{} observations", runs * OBSERVATIONS), &subject.name, runs, &marks);
        subject.server.stop().await?;
    }
    Ok(())
}

fn tell(book: &mut Book, case: &str, subject: &str, steps: usize, marks: &[Mark]) {
    let each = (steps / TENTHS) as f64;
    let spent = |nth: usize, of: &dyn Fn(&Mark) -> f64| of(&marks[nth + 1]) - of(&marks[nth]);
    let last = TENTHS - 1;
    let mut fact = |name: &str, of: &dyn Fn(&Mark) -> f64, scale: f64| {
        book.fact("W5", case, subject, &format!("{name} of a step, first tenth"), spent(0, of) * scale / each);
        book.fact(
            "W5",
            case,
            subject,
            &format!("{name} of a step, last to first"),
            spent(last, of) / spent(0, of).max(1e-9),
        );
    };
    fact("ms", &|mark| mark.seconds, 1e3);
    fact("CPU µs", &|mark| mark.cpu, 1e6);
    fact("KiB", &|mark| mark.written, 1.0 / 1024.0);
}

/// Reads what was spent so far.
async fn mark(bed: &Bed, subject: &Subject, began: std::time::Instant) -> Outcome<Mark> {
    let read = bed.read(&Target::Server(subject)).await?;
    Ok(Mark {
        seconds: began.elapsed().as_secs_f64(),
        cpu: read.subject.cpu.as_secs_f64() + read.database.cpu.as_secs_f64(),
        written: (read.subject.written + read.database.written) as f64,
    })
}

async fn items_of_one_plan(bed: &Bed, subject: &Subject, items: usize) -> Outcome<Vec<Mark>> {
    let mut asker = Connection::open(subject.server.address).await?;
    // The first request creates the thread.
    ask(&mut asker, "items", &Knobs { items: 1, ..Knobs::default() }, true).await?;
    let path = "/threads/items/events?after=latest&types=ITEM_STATUS_CHANGE&tokens=false";
    let mut socket = Socket::open(subject.server.address, path).await?;
    let began = std::time::Instant::now();
    ask(&mut asker, "items", &Knobs { items, round: 1, ..Knobs::default() }, false).await?;
    let mut marks = Vec::new();
    let mut done = 0;
    while marks.len() <= TENTHS {
        let frame = socket.next().await?;
        let has = |words: &[u8]| memmem::find(&frame, words).is_some();
        // The first item begins when the plan is complete.
        if has(br#""status":"in_progress""#) && marks.is_empty() {
            marks.push(mark(bed, subject, began).await?);
        } else if has(br#""status":"completed""#) {
            done += 1;
            if done == marks.len() * items / TENTHS {
                marks.push(mark(bed, subject, began).await?);
            }
        }
    }
    Ok(marks)
}

async fn runs_of_one_thread(bed: &Bed, subject: &Subject, runs: usize, items: usize) -> Outcome<Vec<Mark>> {
    let mut asker = Connection::open(subject.server.address).await?;
    let began = std::time::Instant::now();
    let mut marks = Vec::new();
    for round in 0..runs {
        if round == marks.len() * runs / TENTHS {
            marks.push(mark(bed, subject, began).await?);
        }
        ask(&mut asker, "follow-ups", &Knobs { items, round, ..Knobs::default() }, true).await?;
    }
    marks.push(mark(bed, subject, began).await?);
    Ok(marks)
}

async fn ask(asker: &mut Connection, thread: &str, knobs: &Knobs, waits: bool) -> Outcome<()> {
    let body = json!({ "query": format!("Go on, {}", knobs.words()) }).to_string();
    let (status, said) = asker.whole(&post(&format!("/threads/{thread}/process"), &body, waits)).await?;
    let is_well = memmem::find(&said, br#""status":"success""#).is_some() || !waits;
    if is_well && matches!(status, 200 | 202) {
        return Ok(());
    }
    Err(format!("{status} {}", String::from_utf8_lossy(&said)).into())
}
