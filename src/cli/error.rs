//! Why a command failed, and its exit code. docs/CLI.md has the table.

use std::process::ExitCode;
use std::time::Duration;

use crate::config as settings;
use crate::store;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{0}")]
    Failed(String),
    #[error("{0}")]
    Usage(String),
    #[error("configuration: {0}")]
    Config(#[from] settings::Error),
    #[error("{0}")]
    Partial(String),
    #[error("{0}")]
    WaitsForPerson(String),
    #[error("{0}")]
    Cancelled(String),
    #[error("{0}")]
    KeyRefused(String),
    #[error("{0}")]
    NotFound(String),
    #[error("{0}")]
    Conflict(String),
    /// The address, and why it gives no answer. What watches a run shows only this: it tries again by itself.
    #[error("No answer from {0}. Start a server with `pes serve`, or set PES_URL.")]
    Unreachable(String),
    /// No server runs on this machine.
    #[error("{0}")]
    NoServer(String),
    /// Something answers, but not the server: it is stopping, its database is unreachable, or a proxy cannot reach it.
    #[error("{said}")]
    Unavailable { said: String, again_in: Option<Duration> },
    #[error("{said}")]
    TooManyRequests { said: String, again_in: Option<Duration> },
    #[error("database: {0}")]
    Store(#[from] store::Error),
    #[error("{0}")]
    TimedOut(String),
    /// Ctrl-C ended a command that changes something, while its request was in progress.
    #[error("{0}")]
    Interrupted(String),
    /// The reader of the output closed it: an error message would reach nobody.
    #[error("the output was closed")]
    OutputClosed,
}

impl Error {
    pub(super) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Error::OutputClosed => 0,
            Error::Failed(_) | Error::TooManyRequests { .. } => 1,
            Error::Usage(_) | Error::Config(_) => 2,
            Error::Partial(_) => 3,
            Error::WaitsForPerson(_) => 4,
            Error::Cancelled(_) => 5,
            Error::KeyRefused(_) => 6,
            Error::NotFound(_) => 7,
            Error::Conflict(_) => 8,
            Error::Unreachable(_) | Error::NoServer(_) | Error::Unavailable { .. } | Error::Store(_) => 9,
            Error::TimedOut(_) => 124,
            Error::Interrupted(_) => 130,
        })
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Self::OutputClosed,
            _ => Self::Failed(error.to_string()),
        }
    }
}
