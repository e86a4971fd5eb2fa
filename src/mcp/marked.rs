//! What a program started and what left its process group (a daemon, `setsid`): found by the mark in its environment.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, thread};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// The variable that holds the mark.
const VARIABLE: &str = "PES_MCP_PROCESS";

/// How long all processes are looked at again and again. One that is killed may have started another meanwhile.
const LONGEST: Duration = Duration::from_secs(2);
/// Before they are looked at again.
const PAUSE: Duration = Duration::from_millis(1);

/// What looking at one process came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Other,
    Killed,
    /// It is becoming another program: its environment cannot be read at this moment.
    TooEarly,
}

/// Kills every process that was started with the mark. One that has changed user, or was started with another environment,
/// is not found.
pub(super) fn kill_marked(mark: &str) {
    kill_marked_in(Path::new("/proc"), mark);
}

fn kill_marked_in(processes: &Path, mark: &str) {
    let variable = format!("{VARIABLE}={mark}");
    let began = Instant::now();
    while began.elapsed() < LONGEST {
        let Ok(entries) = fs::read_dir(processes) else { return };
        let mut looks = Vec::new();
        for entry in entries.flatten() {
            let pid = std::str::from_utf8(entry.file_name().as_bytes()).ok().and_then(|name| name.parse().ok());
            if let Some(pid) = pid.and_then(Pid::from_raw) {
                looks.push(kill_if_marked(pid, &entry.path(), variable.as_bytes()));
            }
        }
        if looks.iter().all(|look| *look == Look::Other) {
            return;
        }
        #[expect(clippy::disallowed_methods, reason = "nobody tells when another process has its environment")]
        thread::sleep(PAUSE);
    }
    tracing::warn!("processes that an MCP server started may be left: they could not be told from others in time");
}

/// The process is held by a descriptor before it is looked at, so nobody else can have got its number when it is killed.
fn kill_if_marked(pid: Pid, folder: &Path, variable: &[u8]) -> Look {
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return Look::Other };
    let Ok(environment) = fs::read(folder.join("environ")) else { return Look::Other };
    if environment.is_empty() {
        return if is_being_made(folder) { Look::TooEarly } else { Look::Other };
    }
    let is_marked = environment.split(|byte| *byte == 0).any(|entry| entry == variable);
    if is_marked && pidfd_send_signal(process, Signal::KILL).is_ok() { Look::Killed } else { Look::Other }
}

/// Whether a process that showed no environment has one now, or will have: it has memory (what has ended has none, nor has
/// a thread of the kernel), and was not started with an empty environment. See proc(5) for the numbers of the fields.
fn is_being_made(folder: &Path) -> bool {
    const VSIZE: usize = 23;
    const ENV_START: usize = 50;
    const ENV_END: usize = 51;
    let stat = fs::read_to_string(folder.join("stat")).unwrap_or_default();
    // The second field is a name in parentheses, which may hold blanks.
    let Some((_, fields)) = stat.rsplit_once(") ") else { return false };
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - 3).copied().unwrap_or("0");
    let is_without = field(ENV_START) == field(ENV_END) && field(ENV_END) != "0";
    field(VSIZE) != "0" && !is_without
}

#[cfg(test)]
mod tests;
