//! Starts a server in the background, and leaves it running, if there is none yet.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use super::input::Input;
use super::show::line;
use super::stop::unless_stopped;
use super::terminal::{ask, can_ask, tell};
use crate::cli::Error;
use crate::cli::args::Flags;
use crate::cli::server::Server;
use crate::cli::which_server::{of_this_machine, only_asks};
use crate::config::Config;
use crate::config::env::Variables;
use crate::store::sqlite;

/// How many times a starting server is polled, and the interval.
const PATIENCE: u32 = 300;
const EVERY: Duration = Duration::from_millis(100);

/// Offers to start a server if none answers and the caller named none; returns the one to ask. `None`: the caller left by
/// Ctrl-C. A server that answers was started without these flags.
pub(super) async fn offer(
    server: Server,
    here: Option<(&Config, &Flags)>,
    variables: &Variables,
    input: &mut Input,
) -> Result<Option<Server>, Error> {
    let Some((config, flags)) = here else { return Ok(Some(server)) };
    match server.expect_pes().await {
        Ok(()) => {
            // Folder and address may both be given if they belong to the same server.
            let is_holder = || sqlite::served(&config.store.data_dir).is_some_and(|holder| holder == server.shown());
            if flags.names_model() || !is_holder() {
                only_asks(flags)?;
                of_this_machine(config, flags)?;
            }
            return Ok(Some(server));
        }
        Err(Error::Unreachable(_)) if can_ask() => {}
        // A server could not be started where something else answers.
        Err(error) => return Err(error),
    }
    let mut interrupts = signal(SignalKind::interrupt())?;
    let place = server.shown();
    ask(&format!("No server answers at {place}. Start one here? [Y/n] "));
    let started = async {
        match input.line().await?.map(|text| text.trim().to_lowercase()).as_deref() {
            Some("" | "y" | "yes") => start(server, config, &flags.as_arguments(), variables).await,
            Some(_) | None => Err(Error::NoServer("Nothing was started. Try: pes serve".to_owned())),
        }
    };
    match unless_stopped(started, &mut interrupts, None).await {
        Ok(started) => started.map(Some),
        Err(_) => {
            tell("");
            Ok(None)
        }
    }
}

async fn start(
    server: Server,
    config: &Config,
    arguments: &[OsString],
    variables: &Variables,
) -> Result<Server, Error> {
    let failed = |why: std::io::Error| Error::Failed(format!("The server cannot be started: {why}. Try: pes serve"));
    // As the server itself creates it: private to the user.
    DirBuilder::new().recursive(true).mode(0o700).create(&config.store.data_dir).map_err(failed)?;
    let log = config.store.data_dir.join("server.log");
    let output = OpenOptions::new().create(true).append(true).mode(0o600).open(&log).map_err(failed)?;
    let written = output.metadata().map_err(failed)?.len();
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command
        .args(arguments)
        .arg("serve")
        .stdin(Stdio::null())
        .stderr(output.try_clone().map_err(failed)?)
        .stdout(output);
    // Ctrl-C here must not stop the server.
    let mut child = command.process_group(0).spawn().map_err(failed)?;
    let (pid, log_path) = (child.id(), log.display());
    // Also whoever does not wait for it can stop it.
    tell(&format!("A server starts as process {pid}, which `kill {pid}` stops; its log: {log_path}"));
    for _ in 0..PATIENCE {
        if let Some(status) = child.try_wait().map_err(failed)? {
            let why = last_line(&log, written).map_err(failed)?;
            return Err(ended(status, format!("The server ended at once ({status}): {why}. More: {log_path}")));
        }
        // A server on a free port says where it listens in the folder that it holds.
        let free = if config.server.port == 0 { sqlite::served(&config.store.data_dir) } else { None };
        let free = free.map(|base| Server::at(&base, variables)).transpose()?;
        if free.as_ref().unwrap_or(&server).is_pes().await {
            let server = free.unwrap_or(server);
            tell(&format!("It answers at {}, also with its page, and goes on when this ends.", server.shown()));
            return Ok(server);
        }
        tokio::time::sleep(EVERY).await;
    }
    Err(Error::Failed(format!("The server is not ready yet, and goes on as process {pid}; {log_path} says why.")))
}

/// The error of a server that could not start, with the exit code of `pes serve` if it says more than that it failed.
fn ended(status: ExitStatus, why: String) -> Error {
    match status.code() {
        Some(2) => Error::Usage(why),
        Some(9) => Error::NoServer(why),
        Some(_) | None => Error::Failed(why),
    }
}

/// The last line of the file behind its first `written` bytes: with it a command says why it failed.
fn last_line(log: &Path, written: u64) -> io::Result<String> {
    let (mut file, mut said) = (File::open(log)?, Vec::new());
    file.seek(SeekFrom::Start(written))?;
    file.read_to_end(&mut said)?;
    let said = String::from_utf8_lossy(&said);
    let last = said.lines().next_back().unwrap_or_default();
    Ok(line(last.strip_prefix("pes: ").unwrap_or(last)).trim_end_matches('.').to_owned())
}
