//! How a connection begins: with `server/discover`, or with `initialize`, as up to version 2025-11-25 of the protocol.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::model::ProtocolVersion;
use rmcp::service::{ClientInitializeError, RunningService};
use rmcp::{ClientLifecycleMode, ClientServiceExt, RoleClient};

use super::call_errors::start_cause;
use super::handler::Handler;
use super::incoming::Reader;
use super::lines::{Limits, Pipes, Returned, StdioTransport};
use super::process::{LastLines, Process};
use super::server::Profile;
use crate::config::McpServer;

pub(super) type RunningClient = RunningService<RoleClient, Handler>;

/// How to begin with one server. The first library for Python (`mcp` before 1.9) ends its program when it is asked for
/// `server/discover`. Such a program is started once more and asked to `initialize`, and from then on it is asked for
/// nothing else.
#[derive(Debug, Default)]
pub(super) struct Beginning {
    only_initialize: AtomicBool,
    /// Those of the program that was started last.
    last_lines: Mutex<LastLines>,
}

/// Why a program could not be begun with.
struct NotBegun {
    why: String,
    /// Its output ended, and nothing was wrong with it before.
    has_ended: bool,
}

impl Beginning {
    /// Starts the program and negotiates a protocol version. The error text is safe to log.
    pub(super) async fn start_program(
        &self,
        profile: &Profile,
        handler: impl Fn() -> Handler,
        reader: &Reader,
    ) -> Result<(RunningClient, Process), String> {
        if !profile.settings.initialize && !self.only_initialize.load(Ordering::Relaxed) {
            match self.begin(profile, &handler, reader, lifecycle(&profile.settings)).await {
                Ok(begun) => return Ok(begun),
                Err(NotBegun { why, has_ended: false }) => return Err(why),
                Err(NotBegun { has_ended: true, .. }) => {}
            }
        }
        let begun = self.begin(profile, &handler, reader, ClientLifecycleMode::Initialize).await;
        self.only_initialize.store(begun.is_ok(), Ordering::Relaxed);
        begun.map_err(|error| error.why)
    }

    /// The text, with the last words of the program that was started last.
    pub(super) fn with_last_output(&self, why: &str) -> String {
        with_last_output(why, &self.last_lines.lock().joined())
    }

    async fn begin(
        &self,
        profile: &Profile,
        handler: impl Fn() -> Handler,
        reader: &Reader,
        lifecycle: ClientLifecycleMode,
    ) -> Result<(RunningClient, Process), NotBegun> {
        let last_lines = LastLines::default();
        *self.last_lines.lock() = last_lines.clone();
        let started = Process::start(&profile.name, &profile.settings, last_lines);
        let (process, pipes) = started.map_err(|why| NotBegun { why, has_ended: false })?;
        let write_timeout = Duration::from_millis(profile.settings.timeout_ms.into());
        let limits = Limits { max_bytes: profile.message_bytes, write_timeout };
        let error = match negotiate(pipes, handler, limits, reader, lifecycle).await {
            Ok(running) => return Ok((running, process)),
            Err(error) => error,
        };
        let has_ended = is_end(&error) && reader.why_broken().is_none();
        Err(NotBegun { why: with_last_output(&start_cause(&error), &process.kill().await), has_ended })
    }
}

/// Negotiates a protocol with a program, however long the program needs for its first answer.
pub(super) async fn negotiate(
    pipes: Pipes,
    handler: impl Fn() -> Handler,
    limits: Limits,
    reader: &Reader,
    lifecycle: ClientLifecycleMode,
) -> Result<RunningClient, ClientInitializeError> {
    let returned = Returned::default();
    let transport = StdioTransport::new(pipes, limits, reader.clone(), returned.clone());
    let error = match handler().serve_with_lifecycle(transport, lifecycle).await {
        Ok(running) => return Ok(running),
        Err(error) => error,
    };
    let Some(pipes) = returned.take_to_retry() else { return Err(error) };
    let transport = StdioTransport::new(pipes, limits, reader.clone(), returned);
    let again = ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::LATEST] };
    handler().serve_with_lifecycle(transport, again).await
}

/// The newest version for a server that knows it, else the handshake of older ones; only that if the settings say so.
pub(super) fn lifecycle(settings: &McpServer) -> ClientLifecycleMode {
    if settings.initialize {
        return ClientLifecycleMode::Initialize;
    }
    ClientLifecycleMode::Auto { preferred_versions: vec![ProtocolVersion::LATEST], legacy_version: None }
}

fn is_end(error: &ClientInitializeError) -> bool {
    match error {
        ClientInitializeError::ConnectionClosed(_) => true,
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => is_end(fallback),
        _ => false,
    }
}

pub(super) fn with_last_output(why: &str, last_lines: &str) -> String {
    if last_lines.is_empty() { why.to_owned() } else { format!("{why}; its last words: {last_lines}") }
}
