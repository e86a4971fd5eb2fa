//! The table: one line for each subject of each case.

use std::fmt::{self, Display};

use super::{Book, Fact, Row};
use crate::stats::{median, percentile, sorted};

const NAMES: [&str; 15] = [
    "per s",
    "p50 ms",
    "p99 ms",
    "CPU µs",
    "× proxy",
    "× alone",
    "db CPU µs",
    "KiB",
    "commits",
    "trans.",
    "RSS MiB",
    "× parts",
    "× older",
    "model",
    "load",
];

impl Display for Book {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rows: Vec<&Row> = self.rows.iter().collect();
        // Groups rows by workload, in the order in which the workloads began.
        let began = |row: &Row| self.rows.iter().position(|other| other.workload == row.workload);
        rows.sort_by_key(|row| began(row));
        let mut workload = "";
        for row in rows {
            if row.workload != workload {
                workload = row.workload;
                write!(out, "\n{:<36}{:<18}", format!("{workload}, per {}", row.unit), "")?;
                NAMES.iter().try_for_each(|name| write!(out, "{name:>11}"))?;
                writeln!(out)?;
            }
            self.line(row, out)?;
        }
        self.facts.iter().try_for_each(|fact| tell(fact, out))
    }
}

impl Book {
    fn line(&self, row: &Row, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told = self.figures(row);
        let cells = [
            Some(told.per_second),
            Some(told.p50_ms),
            Some(told.p99_ms),
            Some(told.cpu_us),
            told.to_proxy,
            told.to_proxy_alone,
            Some(told.database_cpu_us),
            Some(told.written_kib),
            Some(told.commits),
            Some(told.transactions),
            Some(told.rss_mib),
            told.to_parts,
            told.to_older,
        ];
        write!(out, "{:<36}{:<18}", row.case, row.subject)?;
        cells.iter().try_for_each(|cell| write!(out, "{:>11}", cell.map(short).unwrap_or_default()))?;
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        writeln!(out, "{:>11}{:>11}", percent(told.model_share), percent(told.load_share))
    }
}

fn tell(fact: &Fact, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let values = sorted(fact.values.clone());
    let range = match values.len() {
        0 | 1 => String::new(),
        _ => format!("  ({} to {})", short(percentile(&values, 0.0)), short(percentile(&values, 1.0))),
    };
    let middle = short(median(values));
    writeln!(out, "{:<4}{:<36}{:<18}{:<40}{middle:>11}{range}", fact.workload, fact.case, fact.subject, fact.name)
}

/// Formats with about three digits.
pub fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        large if large >= 100.0 => format!("{value:.0}"),
        middle if middle >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
