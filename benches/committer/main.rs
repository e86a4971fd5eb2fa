//! What grouping commits is worth: transitions per second beside the raw commit rate of the same database, in the same
//! run, and the ratios between them.
//!
//! `cargo bench --bench committer [-- sqlite|postgres]`

mod load;
mod postgres;
mod sqlite;

use load::Rate;

/// The binary's own.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A floor under a ratio of two rates of this run.
struct Floor {
    name: &'static str,
    rate: f64,
    beside: f64,
    at_least: f64,
}

#[tokio::main]
async fn main() {
    // Cargo passes `--bench`.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|one| one == name);
    let mut floors = Vec::new();
    println!("{:<44}{:>9}{:>12}{:>10}{:>10}", "", "threads", "per second", "p50 ms", "p99 ms");
    if is_wanted("sqlite") {
        floors.extend(sqlite::measure().await);
    }
    if is_wanted("postgres") {
        floors.extend(postgres::measure().await);
    }
    println!();
    for Floor { name, rate, beside, at_least } in &floors {
        let ratio = rate / beside;
        println!("{name:<70}{ratio:>8.2} ×  (at least {at_least}) {}", if ratio >= *at_least { "" } else { "MISSED" });
    }
}

fn report(name: &str, threads: usize, rate: &Rate) {
    println!("{name:<44}{threads:>9}{:>12.0}{:>10.2}{:>10.2}", rate.per_second, rate.p50_ms, rate.p99_ms);
}
