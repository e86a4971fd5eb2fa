//! The gain of group commit: transitions per second and the raw commit rate of the same database, in the same run, with
//! their ratios.
//!
//! `cargo bench --features internals --bench committer [-- sqlite|postgres|chores]`, and with every fsync made 2 ms slower:
//! `scripts/slow-fsync cargo bench --features internals --bench committer -- slow [sqlite|postgres]`

mod chores;
mod load;
mod postgres;
mod sqlite;

use load::Rate;

/// The same allocator as in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A bound on the ratio of two results of this run.
struct Ratio {
    name: &'static str,
    value: f64,
    bound: Bound,
}

enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Ratio {
    fn at_least(name: &'static str, rate: &Rate, beside: &Rate, bound: f64) -> Self {
        Self { name, value: rate.per_second / beside.per_second, bound: Bound::AtLeast(bound) }
    }

    fn report(&self) {
        let (words, bound, is_kept) = match self.bound {
            Bound::AtLeast(bound) => ("at least", bound, self.value >= bound),
            Bound::AtMost(bound) => ("at most", bound, self.value <= bound),
        };
        let verdict = if is_kept { "" } else { "MISSED" };
        println!("{:<70}{:>8.2} ×  ({words} {bound}) {verdict}", self.name, self.value);
    }
}

/// The disk that a ratio applies to.
#[derive(Clone, Copy, PartialEq)]
enum Disk {
    AsItIs,
    /// Every fsync takes 2 ms longer.
    Slow,
}

#[tokio::main]
async fn main() {
    // Skips `--bench`, which Cargo passes.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let is_named = |name: &str| wanted.iter().any(|one| one == name);
    let disk = if is_named("slow") { Disk::Slow } else { Disk::AsItIs };
    let is_all = !["sqlite", "postgres", "chores"].into_iter().any(is_named);
    let mut ratios = Vec::new();
    println!("{:<44}{:>9}{:>12}{:>10}{:>10}", "", "threads", "per second", "p50 ms", "p99 ms");
    if is_all || is_named("sqlite") {
        ratios.extend(sqlite::measure(disk).await);
    }
    if is_all || is_named("postgres") {
        ratios.extend(postgres::measure(disk).await);
    }
    if is_named("chores") || (is_all && disk == Disk::AsItIs) {
        ratios.extend(chores::measure().await);
    }
    println!();
    ratios.iter().for_each(Ratio::report);
}

fn report(name: &str, threads: usize, rate: &Rate) {
    println!("{name:<44}{threads:>9}{:>12.0}{:>10.2}{:>10.2}", rate.per_second, rate.p50_ms, rate.p99_ms);
}
