//! Logs: text for people, JSON for machines. A line that belongs to a run carries its traceId, threadId and runId:
//! they are fields of the spans that it is written in.

mod json;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{Directive, LevelFilter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::env::Variables;
use crate::config::{Error, Log, LogFormat};

/// Starts logging to stderr. A second call in a process changes nothing.
pub fn install(log: &Log, variables: &Variables) -> Result<(), Error> {
    let filter = filter(log)?;
    let filter = if log.filter.contains("rmcp") { filter } else { filter.add_directive(without_rmcp()) };
    let registry = tracing_subscriber::registry().with(filter);
    // An error means that the program which embeds us has installed a subscriber: that one is kept.
    let installed = match log.format {
        LogFormat::Text => {
            let has_colour = is_coloured(variables) && std::io::stderr().is_terminal();
            registry
                .with(tracing_subscriber::fmt::layer().with_ansi(has_colour).with_writer(std::io::stderr))
                .try_init()
        }
        LogFormat::Json => registry.with(json::Lines).try_init(),
    };
    if log.format == LogFormat::Json && installed.is_ok() {
        IS_JSON.store(true, Ordering::Relaxed);
        log_panics();
    }
    Ok(())
}

/// Whether the log of this process is JSON.
static IS_JSON: AtomicBool = AtomicBool::new(false);

/// Logs the error that ends this process, if its log is JSON: then each line of stderr should be. Returns whether it did.
pub(crate) fn log_fatal(error: &str) -> bool {
    let is_logged = IS_JSON.load(Ordering::Relaxed) && tracing::enabled!(tracing::Level::ERROR);
    if is_logged {
        tracing::error!("{error}");
    }
    is_logged
}

/// Logs panics from now on. If errors are not logged, they are written as before.
fn log_panics() {
    let write = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !tracing::enabled!(tracing::Level::ERROR) {
            return write(panic);
        }
        let place = panic.location().map(ToString::to_string);
        // Only with RUST_BACKTRACE.
        let backtrace = Backtrace::capture();
        let backtrace = (backtrace.status() == BacktraceStatus::Captured).then(|| backtrace.to_string());
        tracing::error!(place, backtrace, "panicked: {}", panic.payload_as_str().unwrap_or("without a message"));
    }));
}

/// Whether the log settings can be installed.
pub(crate) fn check(log: &Log) -> Result<(), Error> {
    filter(log).map(drop)
}

fn filter(log: &Log) -> Result<EnvFilter, Error> {
    if let Some(word) = log.filter.split(',').map(str::trim).find(|word| is_unknown(word)) {
        return Err(Error(format!(
            "log.filter (RUST_LOG): `{word}` is no level: error, warn, info, debug, trace or off; to log all of a library of that \
             name, write `{word}=trace`"
        )));
    }
    EnvFilter::builder().parse(&log.filter).map_err(|error| {
        let why = error.to_string().replace('\n', " ");
        Error(format!("log.filter (RUST_LOG): `{}` cannot be read: {why}", log.filter))
    })
}

/// Whether this part of a filter is one word that is neither a level nor a crate of ours. It would be the name of a library,
/// and as the only part turn off all other logs.
fn is_unknown(word: &str) -> bool {
    let is_word =
        !word.is_empty() && word.chars().all(|character| character.is_alphanumeric() || "_-".contains(character));
    is_word && word.parse::<LevelFilter>().is_err() && !["pes", "pes_engine"].contains(&word)
}

/// The MCP library logs whole messages of servers at `info`. They may contain secrets and be megabytes long, so its logs are
/// off unless the filter names it. This crate logs the events of servers itself.
fn without_rmcp() -> Directive {
    "rmcp=off".parse().expect("it is a target and a level")
}

/// Whether colour is wanted at all (`NO_COLOR`).
pub fn is_coloured(variables: &Variables) -> bool {
    variables.get("NO_COLOR").is_none()
}
