//! A server that is a program: it gets a process group of its own, a controlled environment and limits, and leaves no
//! processes behind.

use std::collections::VecDeque;
use std::io;
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
use tokio_util::sync::CancellationToken;

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

/// How long a program may go on after its input has ended.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// How `guard.sh` begins the line that it writes when the program has ended.
const END: &str = "it ended with status ";

/// The last lines of a program's standard error.
#[derive(Clone, Debug, Default)]
pub(super) struct LastLines {
    lines: Arc<Mutex<VecDeque<String>>>,
    /// Cancelled when the program has ended.
    ended: CancellationToken,
}

impl LastLines {
    fn push(&self, line: String) {
        if line.starts_with(END) {
            self.ended.cancel();
        }
        let mut lines = self.lines.lock();
        if lines.len() == MAX_LAST_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    pub(super) fn joined(&self) -> String {
        self.lines.lock().iter().cloned().collect::<Vec<_>>().join(" / ")
    }
}

/// A running program. Dropping it kills it and all its children.
pub(super) struct Process {
    /// `None`: it is being killed.
    running: Option<RunningProcess>,
    last_lines: LastLines,
    drained: JoinHandle<()>,
}

struct RunningProcess {
    /// Leads the process group, and kills it if this process ends before it does so itself: the other end of the watch's
    /// standard input is here, and nowhere else.
    watch: Child,
    child: Child,
    group: Pid,
    /// A marker in the environment of the program and all its children.
    marker: String,
}

impl Process {
    /// The error text contains no secrets.
    pub(super) fn start(name: &str, server: &McpServer, last_lines: LastLines) -> Result<(Self, Pipes), String> {
        let program = server.command.as_deref().unwrap_or_default();
        forbid_dumps()?;
        let variables = Variables::of_process();
        let marker = marker()?;
        let guard = |group: i32| {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", GUARD, "mcp", &marker]).env_clear().stdin(Stdio::piped());
            command.envs(INHERITED_VARIABLES.iter().filter_map(|name| Some((name, variables.get(name)?))));
            command.process_group(group);
            command
        };
        let secrets = server.env.iter().map(|(name, reference)| Ok((name, reference.resolve(&variables)?)));
        let secrets: Vec<_> = secrets.collect::<Result<_, String>>()?;
        let not_started = |error: io::Error| format!("it cannot be started: {error}");
        // First, so that nothing can be left behind. It is not killed when it is dropped: its input ends then, and it kills the
        // program.
        let watch = guard(0).stdout(Stdio::null()).stderr(Stdio::null()).spawn().map_err(not_started)?;
        let group =
            watch.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw).ok_or("its watch has ended")?;
        let mut command = guard(group.as_raw_nonzero().get());
        command.args([&server.open_files.to_string(), &kib(server.memory_mb)]).arg(program).args(&server.args);
        command.envs(secrets.iter().map(|(name, secret)| (name, secret.expose_secret())));
        if let Some(folder) = &server.cwd {
            command.current_dir(folder);
        }
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().map_err(not_started)?;
        let (Some(input), Some(output), Some(errors)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err("it has no pipes".to_owned());
        };
        let drained = tokio::spawn(drain(name.to_owned(), errors, last_lines.clone()));
        let running = RunningProcess { watch, child, group, marker };
        Ok((Self { running: Some(running), last_lines, drained }, Pipes::new(input, output)))
    }

    /// Waits until it has ended by itself, for a moment. Its input has ended.
    pub(super) async fn end(&self) {
        let _: Result<(), tokio::time::error::Elapsed> = timeout(END_TIMEOUT, self.last_lines.ended.cancelled()).await;
    }

    /// Kills it and all its children. Returns the last lines of its standard error.
    pub(super) async fn kill(mut self) -> String {
        if let Some(running) = self.running.take() {
            match tokio::task::spawn_blocking(move || running.kill_all()).await {
                Ok(children) => {
                    for mut child in children {
                        if let Err(error) = child.wait().await {
                            tracing::warn!(%error, "the end of an MCP server could not be waited for");
                        }
                    }
                }
                Err(error) => tracing::warn!(%error, "what an MCP server started could not be looked for"),
            }
        }
        // The last lines may still be in the pipe.
        let _: Result<_, tokio::time::error::Elapsed> = timeout(DRAIN_TIMEOUT, &mut self.drained).await;
        self.last_lines.joined()
    }
}

impl RunningProcess {
    /// Kills the group and the processes that left it, which takes long on hosts with many processes. Returns what is to be
    /// reaped.
    fn kill_all(self) -> [Child; 2] {
        // The watch has not been reaped, so the number still belongs to our group. All may have ended by themselves.
        let _ = kill_process_group(self.group, Signal::KILL);
        kill_marked(&self.marker);
        [self.watch, self.child]
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // If the thread does not run, the watch kills the program.
        if let Some(running) = self.running.take()
            && let Err(error) = std::thread::Builder::new().spawn(move || drop(running.kill_all()))
        {
            tracing::warn!(%error, "no thread could be started to stop an MCP server; its watch stops it in a few seconds");
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
            last_lines.push(text);
            line.clear();
        }
    }
}

#[cfg(test)]
mod tests;
