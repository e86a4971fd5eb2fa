//! A server that is a program: its own process group, an environment of our choice, limits, and nothing left behind.

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
/// The environment variables that a program inherits from ours.
const HANDED_ON: &[&str] = &["PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR"];
/// How much of what a program writes to its standard error is logged; the rest is read and dropped.
const LOGGED_BYTES: usize = 64 << 10;
/// How much of a line is logged, and kept to say why the server is down.
const LINE_BYTES: usize = 500;

/// How long the last lines of a program that has ended are waited for: somebody else may hold its standard error open.
const LAST_LINES: Duration = Duration::from_secs(1);

/// How many of the last lines that a program complained with are kept.
const LAST_WORDS: usize = 3;

/// The newest first.
type LastWords = Arc<Mutex<VecDeque<String>>>;

/// A running program. Dropping it kills it and all that it started.
pub(super) struct Process {
    /// `None`: somebody ends it.
    running: Option<Running>,
    last_words: LastWords,
    drained: JoinHandle<()>,
}

struct Running {
    child: Child,
    /// Stands in the environment of all that it starts.
    mark: String,
}

impl Process {
    /// The message says why there is none; it names no secrets.
    pub(super) fn start(name: &str, server: &McpServer) -> Result<(Self, Pipes), String> {
        let program = server.command.as_deref().unwrap_or_default();
        hide_ourselves()?;
        let variables = Variables::of_process();
        let mut command = Command::new("/bin/sh");
        let mark = mark()?;
        command.args(["-c", GUARD, "mcp", &mark, &server.open_files.to_string(), &kib(server.memory_mb)]);
        command.arg(program).args(&server.args);
        command.env_clear();
        command.envs(HANDED_ON.iter().filter_map(|name| Some((name, variables.get(name)?))));
        for (name, reference) in &server.env {
            command.env(name, reference.resolve(&variables)?.expose_secret());
        }
        if let Some(folder) = &server.cwd {
            command.current_dir(folder);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0).kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| format!("it cannot be started: {error}"))?;
        let last_words = LastWords::default();
        let (Some(input), Some(output), Some(errors)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err("it has no pipes".to_owned());
        };
        let drained = tokio::spawn(drain(name.to_owned(), errors, last_words.clone()));
        Ok((Self { running: Some(Running { child, mark }), last_words, drained }, Pipes::new(input, output)))
    }

    /// Ends it and all that it started. Returns the last lines that it wrote to its standard error.
    pub(super) async fn kill(mut self) -> String {
        if let Some(running) = self.running.take() {
            match tokio::task::spawn_blocking(move || running.end()).await {
                Ok(mut child) => {
                    if let Err(error) = child.wait().await {
                        tracing::warn!(%error, "the end of an MCP server could not be waited for");
                    }
                }
                Err(error) => tracing::warn!(%error, "what an MCP server started could not be looked for"),
            }
        }
        // What it wrote last may still stand in the pipe.
        let _: Result<_, tokio::time::error::Elapsed> = timeout(LAST_LINES, &mut self.drained).await;
        let kept = self.last_words.lock();
        kept.iter().rev().cloned().collect::<Vec<_>>().join(" / ")
    }
}

impl Running {
    /// Kills the group and what has left it; looking for that takes long where many processes run. Returns the program, to
    /// be waited for.
    fn end(self) -> Child {
        // Not waited for yet, so the number is still that of our group.
        let group = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(group) = group {
            // It may have ended by itself.
            let _ = kill_process_group(group, Signal::KILL);
        }
        kill_marked(&self.mark);
        self.child
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A process that ends before this thread has begun leaves the work to the guard, which sees the end of its input.
        if let Some(running) = self.running.take()
            && let Err(error) = std::thread::Builder::new().spawn(move || drop(running.end()))
        {
            tracing::warn!(%error, "no thread could be started to stop an MCP server; its guard process stops it");
        }
    }
}

fn mark() -> Result<String, String> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|error| format!("there are no random numbers: {error}"))?;
    Ok(hex::of(&random))
}

fn kib(megabytes: Option<u32>) -> String {
    (u64::from(megabytes.unwrap_or(0)) * 1_024).to_string()
}

/// Programs run as the user that we run as: as long as this process may be dumped, they can read its environment and its
/// memory in /proc. (As root nothing is hidden from them.)
fn hide_ourselves() -> Result<(), String> {
    #[cfg(target_os = "linux")]
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
        .map_err(|error| format!("this process cannot be hidden from it: {error}"))?;
    Ok(())
}

/// Reads all that a program complains about, so that it never blocks; logs the beginning.
async fn drain(server: String, errors: ChildStderr, last_words: LastWords) {
    let mut errors = BufReader::new(errors);
    let (mut buffer, mut line, mut logged) = ([0; 4_096], Vec::new(), 0);
    while let Ok(read @ 1..) = errors.read(&mut buffer).await {
        for byte in &buffer[..read] {
            if *byte != b'\n' {
                if line.len() < LINE_BYTES {
                    line.push(*byte);
                }
                continue;
            }
            let text = String::from_utf8_lossy(&line).into_owned();
            if logged < LOGGED_BYTES {
                tracing::debug!(server, "{text}");
                logged += text.len() + 1;
            }
            let mut kept = last_words.lock();
            kept.truncate(LAST_WORDS - 1);
            kept.push_front(text);
            drop(kept);
            line.clear();
        }
    }
}
