//! Chooses the server of a command: the one of its flags, else that of `PES_URL`, else the one on this machine. A flag without
//! effect is refused: its user would take the answer of another server or model for that of the requested one.

use super::Error;
use super::args::{Command, Flags};
use crate::config::Config;
use crate::config::env::Variables;
use crate::store::sqlite::{self, Holder};

/// The named address; `None`: the server on this machine.
pub(super) fn named(url: Option<String>, flags: &Flags, variables: &Variables) -> Result<Option<String>, Error> {
    if url.is_some() {
        only_asks(flags)?;
        return match flags.of_this_machine() {
            Some(flag) => Err(Error::Usage(format!("--url names the server, and {flag} another one: leave one out."))),
            None => Ok(url),
        };
    }
    if flags.of_this_machine().is_some() {
        return Ok(None);
    }
    let named = variables.get("PES_URL").map(str::to_owned);
    if named.is_some() { only_asks(flags).map(|()| named) } else { Ok(None) }
}

/// Refuses flags that only apply to the start of a server.
pub(super) fn only_asks(flags: &Flags) -> Result<(), Error> {
    if flags.names_model() {
        return Err(Error::Usage(
            "--model is for a server that is started here, and this asks one that runs: leave it out. Another model: \
             pes serve --model …, with a --port and a --data-dir of its own."
                .to_owned(),
        ));
    }
    if flags.names_address() && flags.names_folder() {
        return Err(Error::Usage(
            "--data-dir says nothing beside --host or --port, which name the server that is asked: leave one out."
                .to_owned(),
        ));
    }
    Ok(())
}

/// Refuses flags that a command without a server ignores.
pub(super) fn only_used(command: &Command, url: Option<&str>, flags: &Flags) -> Result<(), Error> {
    let used: &[&str] = match command {
        // They ask a server, and judge their flags by `named` and `only_asks`.
        Command::Keys { .. } | Command::Health | Command::Client(_) => return Ok(()),
        Command::Serve | Command::Doctor { .. } | Command::Config { template: false, .. } => {
            &["--config", "--host", "--port", "--data-dir", "--model"]
        }
        Command::Backup { .. } | Command::Restore { .. } | Command::Verify { .. } | Command::Reseal => {
            &["--config", "--data-dir"]
        }
        // Scripts such as `deploy/systemd/pes-command` name the file for every command.
        Command::Config { template: true, .. } | Command::Version | Command::Completions { .. } => &["--config"],
    };
    if url.is_some() {
        return Err(Error::Usage("--url names a server to ask, and this command asks none: leave it out.".to_owned()));
    }
    match flags.given().find(|flag| !used.contains(flag)) {
        Some(flag) => Err(Error::Usage(format!("{flag} says nothing to this command: leave it out."))),
        None => Ok(()),
    }
}

/// Refuses `--data-dir` of a folder of which no server is known: the server of the configured address may have another
/// database.
pub(super) fn is_served(flags: &Flags, config: &Config) -> Result<(), Error> {
    if !flags.names_folder() || flags.names_address() {
        return Ok(());
    }
    let folder = config.store.data_dir.display();
    let why = match sqlite::holder(&config.store.data_dir) {
        Ok(Holder::Server(_)) => return Ok(()),
        Ok(Holder::Unannounced) => format!(
            "The process that uses the folder {folder} has not announced a URL: try again once its server is ready, or \
             leave --data-dir out."
        ),
        Ok(Holder::Nobody) => format!(
            "No server uses the folder {folder}. Start one with `pes serve --data-dir {folder}`, or leave --data-dir out."
        ),
        Err(error) => format!(
            "The folder {folder} cannot be looked at: {error}; call this as the user of the server, or leave --data-dir \
             out."
        ),
    };
    opens_folder(flags, config)?;
    Err(Error::NoServer(why))
}

/// Refuses `--data-dir` for a command that opens the database, if the configuration names another than that of a folder.
pub(super) fn opens_folder(flags: &Flags, config: &Config) -> Result<(), Error> {
    if flags.names_folder() && config.store.url.is_some() {
        return Err(Error::Usage(
            "--data-dir names a database of SQLite, and DATABASE_URL (`store.url`) another database: leave one out."
                .to_owned(),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
