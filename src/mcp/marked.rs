//! What a program started and what left its process group (a daemon, `setsid`): found by the mark in its environment.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// The variable that holds the mark.
const VARIABLE: &str = "PES_MCP_PROCESS";

/// How often all processes are looked at. One that is killed may have started another meanwhile.
const MOST_PASSES: usize = 20;

/// Kills every process that was started with the mark. One that has changed user, or was started with another environment,
/// is not found.
pub(super) fn kill_marked(mark: &str) {
    let variable = format!("{VARIABLE}={mark}");
    for _ in 0..MOST_PASSES {
        let Ok(entries) = fs::read_dir("/proc") else { return };
        let mut killed = 0;
        for entry in entries.flatten() {
            let pid = std::str::from_utf8(entry.file_name().as_bytes()).ok().and_then(|name| name.parse().ok());
            if let Some(pid) = pid.and_then(Pid::from_raw) {
                killed += usize::from(kill_if_marked(pid, &entry.path(), variable.as_bytes()));
            }
        }
        if killed == 0 {
            return;
        }
    }
}

/// The process is held by a descriptor before it is looked at, so nobody else can have got its number when it is killed.
fn kill_if_marked(pid: Pid, folder: &Path, variable: &[u8]) -> bool {
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
    let Ok(environment) = fs::read(folder.join("environ")) else { return false };
    let is_marked = environment.split(|byte| *byte == 0).any(|entry| entry == variable);
    is_marked && pidfd_send_signal(process, Signal::KILL).is_ok()
}
