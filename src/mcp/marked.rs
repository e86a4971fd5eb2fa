//! Finds and kills processes of a server's program that have left its process group (a daemon, `setsid`), by a marker
//! variable in their environment.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, thread};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// The environment variable that holds the marker.
const MARKER_VARIABLE: &str = "PES_MCP_PROCESS";

/// How long `/proc` is scanned repeatedly. A process may have started another before it was killed.
const MAX_SCAN_TIME: Duration = Duration::from_secs(2);
/// The pause between two scans.
const SCAN_PAUSE: Duration = Duration::from_millis(1);

/// The result of examining one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScanResult {
    Other,
    Killed,
    /// The process is in `exec`: its environment cannot be read at this moment.
    InExec,
}

/// Kills every process that was started with the marker. Processes that have changed user, or were started with another
/// environment, are not found.
pub(super) fn kill_marked(marker: &str) {
    kill_marked_in(Path::new("/proc"), marker);
}

fn kill_marked_in(processes: &Path, marker: &str) {
    let variable = format!("{MARKER_VARIABLE}={marker}");
    let began = Instant::now();
    while began.elapsed() < MAX_SCAN_TIME {
        let Ok(entries) = fs::read_dir(processes) else { return };
        let mut results = Vec::new();
        for entry in entries.flatten() {
            let pid = std::str::from_utf8(entry.file_name().as_bytes()).ok().and_then(|name| name.parse().ok());
            if let Some(pid) = pid.and_then(Pid::from_raw) {
                results.push(kill_if_marked(pid, &entry.path(), variable.as_bytes()));
            }
        }
        if results.iter().all(|result| *result == ScanResult::Other) {
            return;
        }
        #[expect(clippy::disallowed_methods, reason = "nobody tells when another process has its environment")]
        thread::sleep(SCAN_PAUSE);
    }
    tracing::warn!("processes that an MCP server started may be left: they could not be told from others in time");
}

/// Opens a pidfd before the check, so the signal cannot reach another process that got the same pid.
fn kill_if_marked(pid: Pid, folder: &Path, variable: &[u8]) -> ScanResult {
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return ScanResult::Other };
    let Ok(environment) = fs::read(folder.join("environ")) else { return ScanResult::Other };
    if environment.is_empty() {
        return if is_in_exec(folder) { ScanResult::InExec } else { ScanResult::Other };
    }
    let is_marked = environment.split(|byte| *byte == 0).any(|entry| entry == variable);
    if is_marked && pidfd_send_signal(process, Signal::KILL).is_ok() { ScanResult::Killed } else { ScanResult::Other }
}

/// Whether a process without a readable environment is in `exec`: it has memory (zombies and kernel threads have none),
/// and was not started with an empty environment. The field numbers are those of proc(5).
fn is_in_exec(folder: &Path) -> bool {
    const VSIZE: usize = 23;
    const ENV_START: usize = 50;
    const ENV_END: usize = 51;
    let stat = fs::read_to_string(folder.join("stat")).unwrap_or_default();
    // The second field is a name in parentheses, which may contain spaces.
    let Some((_, fields)) = stat.rsplit_once(") ") else { return false };
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - 3).copied().unwrap_or("0");
    let is_without = field(ENV_START) == field(ENV_END) && field(ENV_END) != "0";
    field(VSIZE) != "0" && !is_without
}

#[cfg(test)]
mod tests;
