//! A server that is a program: it gets a process group of its own, a controlled environment and limits, and leaves no
//! processes behind.

use std::collections::VecDeque;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process_group};
use secrecy::ExposeSecret;
use tokio::io::{AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStderr, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::lines::Pipes;
use super::marked::kill_marked;
use crate::config::McpServer;
use crate::config::env::Variables;
use crate::domain::hex;

const GUARD: &str = include_str!("guard.sh");
/// The variables that a program inherits from our environment.
const INHERITED_VARIABLES: &[&str] = &["PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR"];
/// How much of a program's standard error is logged; the rest is read and discarded.
const MAX_LOGGED_BYTES: usize = 64 << 10;
/// How many bytes of a line are logged, and kept for error messages.
const MAX_LINE_BYTES: usize = 500;

/// How long to wait for the rest of standard error after a program has ended. A process that is not ours may keep the
/// pipe open.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// How many of the last lines of standard error are kept for error messages.
const MAX_LAST_LINES: usize = 3;

/// The newest first.
type LastLines = Arc<Mutex<VecDeque<String>>>;

/// A running program. Dropping it kills it and all its children.
pub(super) struct Process {
    /// `None`: it is being killed.
    running: Option<RunningProcess>,
    last_lines: LastLines,
    drained: JoinHandle<()>,
}

struct RunningProcess {
    child: Child,
    /// A marker in the environment of the program and all its children.
    marker: String,
}

impl Process {
    /// The error text contains no secrets.
    pub(super) fn start(name: &str, server: &McpServer) -> Result<(Self, Pipes), String> {
        let program = server.command.as_deref().unwrap_or_default();
        forbid_dumps()?;
        let variables = Variables::of_process();
        let mut command = Command::new("/bin/sh");
        let marker = marker()?;
        command.args(["-c", GUARD, "mcp", &marker, &server.open_files.to_string(), &kib(server.memory_mb)]);
        command.arg(std::process::id().to_string()).arg(program).args(&server.args);
        command.env_clear();
        command.envs(INHERITED_VARIABLES.iter().filter_map(|name| Some((name, variables.get(name)?))));
        for (name, reference) in &server.env {
            command.env(name, reference.resolve(&variables)?.expose_secret());
        }
        if let Some(folder) = &server.cwd {
            command.current_dir(folder);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0).kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| format!("it cannot be started: {error}"))?;
        let last_lines = LastLines::default();
        let (Some(input), Some(output), Some(errors)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err("it has no pipes".to_owned());
        };
        let drained = tokio::spawn(drain(name.to_owned(), errors, last_lines.clone()));
        Ok((Self { running: Some(RunningProcess { child, marker }), last_lines, drained }, Pipes::new(input, output)))
    }

    /// Kills it and all its children. Returns the last lines of its standard error.
    pub(super) async fn kill(mut self) -> String {
        if let Some(running) = self.running.take() {
            match tokio::task::spawn_blocking(move || running.kill_all()).await {
                Ok(mut child) => {
                    if let Err(error) = child.wait().await {
                        tracing::warn!(%error, "the end of an MCP server could not be waited for");
                    }
                }
                Err(error) => tracing::warn!(%error, "what an MCP server started could not be looked for"),
            }
        }
        // The last lines may still be in the pipe.
        let _: Result<_, tokio::time::error::Elapsed> = timeout(DRAIN_TIMEOUT, &mut self.drained).await;
        let lines = self.last_lines.lock();
        lines.iter().rev().cloned().collect::<Vec<_>>().join(" / ")
    }
}

impl RunningProcess {
    /// Kills the group and the processes that left it, which takes long on hosts with many processes. Returns the
    /// program to be reaped.
    fn kill_all(self) -> Child {
        // The child has not been reaped, so the pid still belongs to our group.
        let group = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(group) = group {
            // The program may have ended by itself.
            let _ = kill_process_group(group, Signal::KILL);
        }
        kill_marked(&self.marker);
        self.child
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // If this process ends before the thread runs, the guard shell kills the program when its standard input
        // closes.
        if let Some(running) = self.running.take()
            && let Err(error) = std::thread::Builder::new().spawn(move || drop(running.kill_all()))
        {
            tracing::warn!(%error, "no thread could be started to stop an MCP server; its guard process stops it");
        }
    }
}

fn marker() -> Result<String, String> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|error| format!("there are no random numbers: {error}"))?;
    Ok(hex::of(&random))
}

fn kib(megabytes: Option<u32>) -> String {
    (u64::from(megabytes.unwrap_or(0)) * 1_024).to_string()
}

/// The programs run as our user. While this process is dumpable, they could read its environment and memory in /proc.
/// (Root can always read them.)
fn forbid_dumps() -> Result<(), String> {
    #[cfg(target_os = "linux")]
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
        .map_err(|error| format!("this process cannot be hidden from it: {error}"))?;
    Ok(())
}

/// Reads all of standard error, so that the program never blocks on it, and logs the beginning.
async fn drain(server: String, errors: ChildStderr, last_lines: LastLines) {
    let mut errors = BufReader::new(errors);
    let (mut buffer, mut line, mut logged) = ([0; 4_096], Vec::new(), 0);
    while let Ok(read @ 1..) = errors.read(&mut buffer).await {
        for byte in &buffer[..read] {
            if *byte != b'\n' {
                if line.len() < MAX_LINE_BYTES {
                    line.push(*byte);
                }
                continue;
            }
            let text = String::from_utf8_lossy(&line).into_owned();
            if logged < MAX_LOGGED_BYTES {
                tracing::debug!(server, "{text}");
                logged += text.len() + 1;
            }
            let mut lines = last_lines.lock();
            lines.truncate(MAX_LAST_LINES - 1);
            lines.push_front(text);
            drop(lines);
            line.clear();
        }
    }
}

#[cfg(test)]
mod tests;
