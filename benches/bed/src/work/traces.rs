//! W12: the cost of exporting traces of every run: W1 with and without the export, in turns. A slice ends when the collector
//! has the traces of all its runs.

use std::cell::Cell;
use std::time::Duration;

use super::runs::{AT_ONCE, slice};
use crate::Outcome;
use crate::bed::{Bed, Subject, Target};
use crate::load::Done;
use crate::report::{ALONE, Book};

/// Poll interval for the collector's count.
const LOOK: Duration = Duration::from_millis(100);

const CASES: [(&str, usize); 3] = [(ALONE, 1), ("16 clients", 16), ("64 clients", 64)];

pub async fn measure(bed: &Bed, book: &mut Book) -> Outcome<()> {
    let untold = bed.servers("").await?;
    let mut told = bed.servers(&format!("[telemetry]\nendpoint = \"http://{}\"\n", bed.model.address)).await?;
    told.iter_mut().for_each(|subject| subject.name += ", traces");
    let runs = vec![Cell::new(0); told.len()];
    for subject in &untold {
        slice(bed, &Target::Server(subject), bed.rounds(), 16, AT_ONCE).await?;
    }
    for (subject, runs) in told.iter().zip(&runs) {
        slice_and_told(bed, subject, bed.rounds(), 16, runs).await?;
    }
    for round in 0..bed.rounds() {
        for (case, clients) in CASES {
            for ((without, with), runs) in untold.iter().zip(&told).zip(&runs) {
                let target = Target::Server(without);
                let alone = bed.slice(&target, slice(bed, &target, round, clients, AT_ONCE)).await?;
                let target = Target::Server(with);
                let traced = bed.slice(&target, slice_and_told(bed, with, round, clients, runs)).await?;
                let ratio = traced.cpu_us() / alone.cpu_us();
                book.fact("W12", case, &without.name, "CPU of a run with traces to without", ratio);
                book.add("W12", case, "run", &without.name, alone);
                book.add("W12", case, "run", &with.name, traced);
            }
        }
    }
    for subject in untold.into_iter().chain(told) {
        subject.server.stop().await?;
    }
    Ok(())
}

/// `runs` counts all runs of this server so far.
async fn slice_and_told(bed: &Bed, subject: &Subject, round: usize, clients: usize, runs: &Cell<u64>) -> Outcome<Done> {
    let done = slice(bed, &Target::Server(subject), round, clients, AT_ONCE).await?;
    runs.set(runs.get() + done.count);
    while subject.server.delivered("collector").await? < runs.get() as f64 {
        tokio::time::sleep(LOOK).await;
    }
    Ok(done)
}
