//! The measurements, and the report: a table, a JSON file, and a plot per workload.

mod plot;
mod table;

use std::time::Duration;

use serde_json::{Value, json};

use crate::bed::Slice;
use crate::stats::{median, percentile, sorted};

/// The case without sharing.
pub const ALONE: &str = "1 client";

/// All measurements of a run of the bed.
#[derive(Default)]
pub struct Book {
    rows: Vec<Row>,
    facts: Vec<Fact>,
}

/// One subject in one case, one slice per round.
struct Row {
    workload: &'static str,
    case: String,
    subject: String,
    /// What is counted: runs or tokens.
    unit: &'static str,
    slices: Vec<Slice>,
}

/// A value that is not a rate: one per round.
struct Fact {
    workload: &'static str,
    case: String,
    subject: String,
    name: String,
    values: Vec<f64>,
}

/// The reported figures of a row.
struct Figures {
    per_second: f64,
    p50_ms: f64,
    p99_ms: f64,
    /// CPU of the subject per unit.
    cpu_us: f64,
    database_cpu_us: f64,
    written_kib: f64,
    commits: f64,
    transactions: f64,
    rss_mib: f64,
    /// CPU per unit relative to the proxy in the same round: the median of the rounds.
    to_proxy: Option<f64>,
    /// The same relative to the proxy with one client, which shares no wake-up with others.
    to_proxy_alone: Option<f64>,
    /// CPU per unit, including the database's, relative to the parts by themselves in the same round.
    to_parts: Option<f64>,
    /// The rate relative to the older binary in the same round: the median of the rounds.
    to_older: Option<f64>,
    model_share: f64,
    load_share: f64,
}

impl Slice {
    fn rate(&self) -> f64 {
        self.done.count as f64 / self.done.took.as_secs_f64().max(1e-9)
    }

    pub fn cpu_us(&self) -> f64 {
        self.for_each(self.cpu)
    }

    fn database_cpu_us(&self) -> f64 {
        self.for_each(self.database_cpu)
    }

    fn for_each(&self, cpu: Duration) -> f64 {
        cpu.as_secs_f64() * 1e6 / self.done.count.max(1) as f64
    }
}

impl Book {
    pub fn add(&mut self, workload: &'static str, case: &str, unit: &'static str, subject: &str, slice: Slice) {
        let is_it = |row: &&mut Row| row.workload == workload && row.case == case && row.subject == subject;
        match self.rows.iter_mut().find(is_it) {
            Some(row) => row.slices.push(slice),
            None => {
                let (case, subject) = (case.to_owned(), subject.to_owned());
                self.rows.push(Row { workload, case, subject, unit, slices: vec![slice] });
            }
        }
    }

    pub fn fact(&mut self, workload: &'static str, case: &str, subject: &str, name: &str, value: f64) {
        let is_it = |fact: &&mut Fact| {
            fact.workload == workload && fact.case == case && fact.subject == subject && fact.name == name
        };
        match self.facts.iter_mut().find(is_it) {
            Some(fact) => fact.values.push(value),
            None => {
                let (case, subject, name) = (case.to_owned(), subject.to_owned(), name.to_owned());
                self.facts.push(Fact { workload, case, subject, name, values: vec![value] });
            }
        }
    }

    /// The number of units of a subject in all cases of a workload.
    pub fn count(&self, workload: &str, subject: &str) -> u64 {
        let rows = self.rows.iter().filter(|row| row.workload == workload && row.subject == subject);
        rows.flat_map(|row| &row.slices).map(|slice| slice.done.count).sum()
    }

    /// The row of another subject in the same case.
    fn beside(&self, row: &Row, subject: &str) -> Option<&Row> {
        let is_it = |other: &&Row| other.workload == row.workload && other.case == row.case && other.subject == subject;
        self.rows.iter().find(is_it)
    }

    fn figures(&self, row: &Row) -> Figures {
        let sum = |of: &dyn Fn(&Slice) -> f64| row.slices.iter().map(of).sum::<f64>();
        let count = sum(&|slice| slice.done.count as f64).max(1.0);
        let mean = |of: &dyn Fn(&Slice) -> f64| sum(of) / row.slices.len().max(1) as f64;
        let latencies = sorted(row.slices.iter().flat_map(|slice| slice.done.latencies.iter().copied()).collect());
        let ratio = |other: Option<&Row>, of: &dyn Fn(&Slice) -> f64| {
            let rounds = row.slices.iter().zip(&other?.slices);
            Some(median(rounds.map(|(own, other)| of(own) / of(other)).collect()))
        };
        let proxy = self.beside(row, "proxy").filter(|_| row.subject != "proxy");
        let alone = self
            .rows
            .iter()
            .find(|other| other.workload == row.workload && other.case == ALONE && other.subject == "proxy");
        let parts = self.beside(row, &format!("{}, parts", row.subject));
        let older = self.beside(row, &format!("{}, older", row.subject));
        Figures {
            per_second: count / sum(&|slice| slice.done.took.as_secs_f64()).max(1e-9),
            p50_ms: percentile(&latencies, 0.5),
            p99_ms: percentile(&latencies, 0.99),
            cpu_us: sum(&|slice| slice.cpu.as_secs_f64()) * 1e6 / count,
            database_cpu_us: sum(&|slice| slice.database_cpu.as_secs_f64()) * 1e6 / count,
            written_kib: sum(&|slice| slice.written as f64) / 1024.0 / count,
            commits: sum(&|slice| slice.counted.commits) / count,
            transactions: sum(&|slice| slice.counted.transactions) / count,
            rss_mib: row.slices.iter().map(|slice| slice.rss).max().unwrap_or(0) as f64 / f64::from(1 << 20),
            to_proxy: ratio(proxy, &Slice::cpu_us),
            to_proxy_alone: ratio(proxy.and(alone), &Slice::cpu_us),
            to_parts: ratio(parts, &|slice| slice.cpu_us() + slice.database_cpu_us()),
            to_older: ratio(older, &Slice::rate),
            model_share: mean(&|slice| slice.model_share),
            load_share: mean(&|slice| slice.load_share),
        }
    }

    /// The content of `bench.json`.
    pub fn json(&self) -> Value {
        let rows: Vec<Value> = self.rows.iter().map(|row| row_json(row, &self.figures(row))).collect();
        let fact = |fact: &Fact| {
            json!({
                "workload": fact.workload, "case": fact.case, "subject": fact.subject, "name": fact.name,
                "median": median(fact.values.clone()), "values": fact.values,
            })
        };
        json!({ "rows": rows, "facts": self.facts.iter().map(fact).collect::<Vec<_>>() })
    }
}

fn row_json(row: &Row, told: &Figures) -> Value {
    json!({
        "workload": row.workload, "case": row.case, "subject": row.subject, "unit": row.unit,
        "rounds": row.slices.len(), "perSecond": told.per_second, "p50Ms": told.p50_ms, "p99Ms": told.p99_ms,
        "cpuUs": told.cpu_us, "cpuToProxy": told.to_proxy, "cpuToProxyAlone": told.to_proxy_alone, "cpuToParts": told.to_parts,
        "rateToOlder": told.to_older,
        "databaseCpuUs": told.database_cpu_us, "writtenKib": told.written_kib, "commits": told.commits,
        "transactions": told.transactions, "rssMib": told.rss_mib,
        "modelShare": told.model_share, "loadShare": told.load_share,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::load::Done;

    #[test]
    fn ratios_are_of_the_same_round() {
        let slice = |cpu: u64, count: u64| Slice {
            cpu: Duration::from_millis(cpu),
            done: Done { count, took: Duration::from_secs(1), latencies: Vec::new() },
            ..Slice::default()
        };
        let mut book = Book::default();
        // The machine was twice as fast in the second round.
        for (proxy, own, rate) in [(10, 40, 100), (5, 20, 200)] {
            book.add("W1", "64", "run", "proxy", slice(proxy, 10));
            book.add("W1", "64", "run", "sqlite", slice(own, 10));
            book.add("W1", "64", "run", "sqlite, older", slice(own, 5));
            book.add("W1", ALONE, "run", "proxy", slice(2 * proxy, 10));
            book.add("W1", ALONE, "run", "sqlite", slice(1, rate));
        }
        let told = book.figures(&book.rows[1]);
        assert_eq!((told.to_proxy, told.to_older), (Some(4.0), Some(2.0)));
        assert_eq!((told.cpu_us, told.per_second), (3_000.0, 10.0));
        assert_eq!(told.to_proxy_alone, Some(2.0));
        let (proxy, alone) = (book.figures(&book.rows[0]), book.figures(&book.rows[4]));
        assert_eq!((proxy.to_proxy, alone.to_proxy, alone.per_second), (None, Some(0.005), 150.0));
    }
}
