//! Processes: their resource usage as the kernel counts it, and the bed's own child processes.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::time::{ClockId, clock_gettime};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::Outcome;

/// The unit of times in `/proc/PID/stat`: part of the kernel's interface, 100 on all supported platforms.
const USER_HZ: u64 = 100;

/// Microseconds of the clock that all processes of this machine share.
pub fn monotonic_us() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1_000
}

/// The resources a process has used since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub cpu: Duration,
    /// Bytes handed to the disk.
    pub written: u64,
    /// Resident memory at the moment of the reading.
    pub rss: u64,
}

/// Usage of one process.
pub fn usage(pid: u32) -> Outcome<Usage> {
    let of = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}"));
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"))?.count();
    // The kernel has nanoseconds for each thread, but not for threads that ended.
    let cpu = match (threads, of("schedstat")) {
        (1, Ok(text)) => Duration::from_nanos(text.split(' ').next().unwrap_or_default().parse()?),
        _ => times(&of("stat")?)?.own,
    };
    Ok(Usage { cpu, written: labelled(&of("io")?, "write_bytes:"), rss: labelled(&of("status")?, "VmRSS:") * 1024 })
}

/// Usage of the PostgreSQL that listens on this socket and has its data in the same folder.
pub fn cluster(socket: &Path) -> Outcome<Usage> {
    let folder = socket.parent().ok_or("a socket stands in a folder")?;
    let text = std::fs::read_to_string(folder.join("data/postmaster.pid"))?;
    family(text.lines().next().unwrap_or_default().parse()?)
}

/// Usage of a process and its children, including ended ones.
fn family(pid: u32) -> Outcome<Usage> {
    let stat = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/stat"));
    let parent = times(&stat(pid)?)?;
    let mut sum = Usage { cpu: parent.own + parent.gone, ..usage(pid)? };
    for entry in std::fs::read_dir("/proc")? {
        let Some(child) = entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // The process may end during the reading.
        let Some(seen) = stat(child).ok().and_then(|text| times(&text).ok()).filter(|seen| seen.parent == pid) else {
            continue;
        };
        let of_child = usage(child).unwrap_or_default();
        sum.cpu += seen.own;
        sum.written += of_child.written;
    }
    Ok(sum)
}

struct Times {
    parent: u32,
    own: Duration,
    /// Time of children that were waited for.
    gone: Duration,
}

/// Parses `/proc/PID/stat`. Its second field, in parentheses, may contain anything.
fn times(stat: &str) -> Outcome<Times> {
    let rest = stat.rsplit_once(") ").ok_or("a process has a name in brackets")?.1;
    let fields: Vec<&str> = rest.split(' ').collect();
    let ticks = |nth: usize| fields.get(nth).and_then(|text| text.trim().parse::<u64>().ok()).ok_or("a short stat");
    let time = |ticks: u64| Duration::from_millis(ticks * 1_000 / USER_HZ);
    Ok(Times { parent: ticks(1)? as u32, own: time(ticks(11)? + ticks(12)?), gone: time(ticks(13)? + ticks(14)?) })
}

/// The number after this label in a file of `/proc`; 0 if it is missing.
fn labelled(text: &str, label: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(label));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// A child process of the bed, which prints its address.
pub struct Own {
    pub address: SocketAddr,
    pub pid: u32,
    // Killed when this is dropped.
    _child: Child,
}

impl Own {
    pub async fn start(binary: &Path, arguments: &[String]) -> Outcome<Self> {
        let mut command = Command::new(binary);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let out = child.stdout.take().ok_or("its output is piped")?;
        let line = BufReader::new(out).lines().next_line().await?.ok_or("it ended at once")?;
        let pid = child.id().ok_or("it ended at once")?;
        Ok(Self { address: line.parse()?, pid, _child: child })
    }
}

/// Prints this process's address for the parent.
pub fn announce(address: SocketAddr) {
    println!("{address}");
    // A failure means that the parent is gone.
    let _ = io::stdout().flush();
}

/// Kills this process when its parent ends, for whatever reason.
pub fn end_with_parent() -> io::Result<()> {
    Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
}

/// The bytes of all files below a folder.
pub fn size_of(folder: &Path) -> io::Result<u64> {
    let mut sum = 0;
    for entry in std::fs::read_dir(folder)? {
        let (path, kind) = entry.and_then(|entry| Ok((entry.path(), entry.metadata()?)))?;
        sum += if kind.is_dir() { size_of(&path)? } else { kind.len() };
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_is_read_behind_any_name() {
        let stat = "42 (a) (b c) S 7 42 42 0 -1 4194560 1 2 3 4 150 50 30 20 20 0 1 0 99";
        let times = times(stat).unwrap();
        let ticks = |count: u64| Duration::from_millis(count * 10);
        assert_eq!((times.parent, times.own, times.gone), (7, ticks(200), ticks(50)));
        assert!(super::times("42 nothing").is_err());
    }

    #[test]
    fn a_number_is_found_behind_its_label() {
        let io = "wchar: 9\nread_bytes: 1\nwrite_bytes: 8192\ncancelled_write_bytes: 4\n";
        assert_eq!(
            (labelled(io, "write_bytes:"), labelled("VmRSS:\t   12 kB\n", "VmRSS:"), labelled("", "x")),
            (8192, 12, 0)
        );
    }

    #[test]
    fn a_process_that_works_has_spent_time() {
        let before = usage(std::process::id()).unwrap();
        let begun = std::time::Instant::now();
        while begun.elapsed() < Duration::from_millis(50) {}
        let after = usage(std::process::id()).unwrap();
        assert!(after.cpu > before.cpu, "{before:?} {after:?}");
        assert!(after.rss > 0);
    }
}
