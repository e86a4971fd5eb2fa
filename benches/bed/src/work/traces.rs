//! W12: what it costs that a collector is told of every run: W1 by a server that does, beside one that does not, in turns.

use super::runs::{AT_ONCE, slice};
use crate::Outcome;
use crate::bed::{Bed, Target};
use crate::report::{ALONE, Book};

const CASES: [(&str, usize); 3] = [(ALONE, 1), ("16 clients", 16), ("64 clients", 64)];

pub async fn measure(bed: &Bed, book: &mut Book) -> Outcome<()> {
    let untold = bed.servers("").await?;
    let mut told = bed.servers(&format!("[telemetry]\nendpoint = \"http://{}\"\n", bed.model.address)).await?;
    told.iter_mut().for_each(|subject| subject.name += ", traces");
    for subject in untold.iter().chain(&told) {
        slice(bed, &Target::Server(subject), bed.rounds(), 16, AT_ONCE).await?;
    }
    for round in 0..bed.rounds() {
        for (case, clients) in CASES {
            for (without, with) in untold.iter().zip(&told) {
                let mut spent = Vec::new();
                for subject in [without, with] {
                    let target = Target::Server(subject);
                    let measured = bed.slice(&target, slice(bed, &target, round, clients, AT_ONCE)).await?;
                    spent.push(measured.cpu_us());
                    book.add("W12", case, "run", &subject.name, measured);
                }
                book.fact("W12", case, &without.name, "CPU of a run with traces to without", spent[1] / spent[0]);
            }
        }
    }
    for subject in untold.into_iter().chain(told) {
        subject.server.stop().await?;
    }
    Ok(())
}
