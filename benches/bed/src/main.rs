//! The bench bed: measures a PES server and the physical limits of the same machine in one run.
//!
//! `scripts/bench` builds what it needs and starts it. Each module states its guarantees.

mod bed;
#[path = "../../../tests/it/support/postgres.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod cluster;
mod http;
mod load;
mod model;
mod process;
mod proxy;
mod raw;
mod report;
mod server;
mod stats;
mod work;

use std::path::PathBuf;

use bed::{Bed, Kind};

pub type Failure = Box<dyn std::error::Error + Send + Sync>;
pub type Outcome<T> = Result<T, Failure>;

const USAGE: &str =
    "pes-bed run --server PES [--against PES] [--parts PARTS] [--database sqlite|postgres|both] [--quick] [--save | --out FOLDER] [W1 …]
pes-bed model [EVERY]    a scripted model; with a number, every so many calls one fails
pes-bed proxy ADDRESS    a bare proxy to it";

/// What to measure, and how.
struct Wanted {
    server: PathBuf,
    against: Option<PathBuf>,
    parts: Option<PathBuf>,
    kinds: Vec<Kind>,
    is_quick: bool,
    out: PathBuf,
    workloads: Vec<String>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("model") => {
            process::end_with_parent()?;
            Ok(model::serve(arguments.get(1).map(|every| every.parse()).transpose()?).await?)
        }
        Some("proxy") => {
            process::end_with_parent()?;
            Ok(proxy::serve(arguments.get(1).ok_or(USAGE)?.parse()?).await?)
        }
        Some("run") => tokio::task::LocalSet::new().run_until(run(wanted(&arguments[1..])?)).await,
        Some(_) | None => Err(USAGE.into()),
    }
}

fn wanted(arguments: &[String]) -> Outcome<Wanted> {
    let (mut server, mut against, mut parts, mut is_quick, mut workloads) = (None, None, None, false, Vec::new());
    let (mut kinds, mut out) = (vec![Kind::Sqlite, Kind::Postgres], PathBuf::from("target/bench"));
    let mut left = arguments.iter();
    while let Some(argument) = left.next() {
        let mut value = || left.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--server" => server = Some(PathBuf::from(value()?)),
            "--against" => against = Some(PathBuf::from(value()?)),
            "--parts" => parts = Some(PathBuf::from(value()?)),
            "--out" => out = PathBuf::from(value()?),
            "--database" => {
                kinds = match value()?.as_str() {
                    "sqlite" => vec![Kind::Sqlite],
                    "postgres" => vec![Kind::Postgres],
                    "both" => kinds,
                    other => return Err(format!("no database {other}\n{USAGE}").into()),
                }
            }
            "--save" => out = PathBuf::from("docs/bench"),
            "--quick" => is_quick = true,
            name if name.starts_with('-') => return Err(format!("no flag {name}\n{USAGE}").into()),
            name => workloads.push(name.to_owned()),
        }
    }
    if workloads.is_empty() {
        workloads = work::ALL.map(str::to_owned).to_vec();
    }
    Ok(Wanted { server: server.ok_or(USAGE)?, against, parts, kinds, is_quick, out, workloads })
}

async fn run(wanted: Wanted) -> Outcome<()> {
    let bed = Bed::new(&wanted).await?;
    let mut book = report::Book::default();
    work::ceiling(&bed, &mut book).await?;
    print!("{book}");
    for workload in &wanted.workloads {
        eprintln!("{workload} …");
        work::measure(workload, &bed, &mut book).await?;
    }
    println!("{book}");
    std::fs::create_dir_all(&wanted.out)?;
    std::fs::write(wanted.out.join("bench.json"), format!("{:#}\n", book.json()))?;
    for (name, picture) in book.plots() {
        std::fs::write(wanted.out.join(format!("{name}.svg")), picture)?;
    }
    Ok(())
}
