//! The workloads. Each measures its subjects in turns, in rounds, so that all of them see the same machine.

mod age;
mod doors;
mod fair;
mod old_rows;
mod restart;
mod retention;
mod runs;
mod sockets;
mod suspended;
mod tokens;
mod traces;

use crate::Outcome;
use crate::bed::Bed;
use crate::report::Book;

/// Names, in order of execution.
pub const ALL: [&str; 12] = ["W1", "W2", "W3", "W4", "W5", "W6", "W7", "W8", "W9", "W10", "W11", "W12"];

pub async fn measure(name: &str, bed: &Bed, book: &mut Book) -> Outcome<()> {
    match name {
        "W1" => runs::measure(bed, book).await,
        "W2" => tokens::measure(bed, book).await,
        "W3" => suspended::measure(bed, book).await,
        "W4" => restart::start(bed, book).await,
        "W5" => age::measure(bed, book).await,
        "W6" => sockets::idle(bed, book).await,
        "W7" => sockets::back(bed, book).await,
        "W8" => restart::steps(bed, book).await,
        "W9" => doors::measure(bed, book).await,
        "W10" => fair::measure(bed, book).await,
        "W11" => retention::measure(bed, book).await,
        "W12" => traces::measure(bed, book).await,
        _ => Err(format!("no workload {name}; there are {}", ALL.join(", ")).into()),
    }
}

/// The limits of the scripted model, measured first.
pub async fn ceiling(bed: &Bed, book: &mut Book) -> Outcome<()> {
    runs::ceiling(bed, book).await?;
    tokens::ceiling(bed, book).await
}
