//! What the system reports about this process. Without `/proc` nothing is reported.

use std::fs;
use std::path::Path;

use super::MetricValue;

pub(super) fn values() -> Vec<MetricValue> {
    read(Path::new("/proc")).unwrap_or_default()
}

/// Reads the system's files below this folder, which is `/proc`. The time of the start is left out where `stat` cannot be
/// read, as in a mount that shows processes only (`subset=pid`).
fn read(proc: &Path) -> Option<Vec<MetricValue>> {
    // Read after the name in brackets, which may contain anything. The state is the third field.
    let stat = fs::read_to_string(proc.join("self/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    let files = fs::read_dir(proc.join("self/fd")).ok()?.count() as f64;
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let mut values = vec![
        ("process_cpu_seconds_total", Vec::new(), (field(14)? + field(15)?) / ticks),
        ("process_resident_memory_bytes", Vec::new(), field(24)? * rustix::param::page_size() as f64),
        ("process_open_fds", Vec::new(), files),
        ("process_max_fds", Vec::new(), limit.map_or(f64::INFINITY, |limit| limit as f64)),
    ];
    if let Some(booted) = booted(proc) {
        values.push(("process_start_time_seconds", Vec::new(), booted + field(22)? / ticks));
    }
    Some(values)
}

/// When the system was started, as Unix time.
fn booted(proc: &Path) -> Option<f64> {
    let stat = fs::read_to_string(proc.join("stat")).ok()?;
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests;
