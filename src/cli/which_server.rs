//! Chooses the server of a command: the one of its flags, else that of `PES_URL`, else the one on this machine. A flag without
//! effect is refused: its user would take the answer of another server or model for that of the requested one.

use super::Error;
use super::args::{Command, Flags};
use crate::config::env::Variables;
use crate::config::{self, Config};
use crate::store;
use crate::store::sqlite::{self, Holder};

/// The named address; `None`: the server on this machine.
pub(super) fn named_url(url: Option<String>, flags: &Flags, variables: &Variables) -> Result<Option<String>, Error> {
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
        // They ask a server, and judge their flags by `named_url` and `only_asks`.
        Command::Keys { .. } | Command::Health { .. } | Command::Client(_) => return Ok(()),
        Command::Serve | Command::Doctor { .. } | Command::Config { template: false, .. } => {
            &["--config", "--host", "--port", "--data-dir", "--model"]
        }
        Command::Backup { .. } | Command::Restore { .. } | Command::Verify { .. } | Command::Reseal => {
            &["--config", "--data-dir"]
        }
        // Scripts such as `deploy/systemd/pes-command` name the file for every command.
        Command::Config { template: true, .. } | Command::Version { .. } | Command::Completions { .. } => &["--config"],
    };
    if url.is_some() {
        return Err(Error::Usage("--url names a server to ask, and this command asks none: leave it out.".to_owned()));
    }
    match flags.given().find(|flag| !used.contains(flag)) {
        Some(flag) => Err(Error::Usage(format!("{flag} says nothing to this command: leave it out."))),
        None => Ok(()),
    }
}

/// The address of the server on this machine: that of `--host` or `--port`, else of the server that holds the data folder,
/// else the configured one. With `--data-dir` it is only the server of that folder, because another may have another database;
/// `NoServer` if none is known.
pub(super) fn of_this_machine(config: &Config, flags: &Flags) -> Result<String, Error> {
    let configured = || local_url(&config.server, config.server.port);
    if names_port(config, flags) {
        return Ok(configured());
    }
    let folder = config.store.data_dir.display();
    let why = match sqlite::holder(&config.store.data_dir) {
        Ok(Holder::Server(url)) => return Ok(url),
        Ok(Holder::Unannounced | Holder::Nobody) | Err(_) if !flags.names_folder() => return Ok(configured()),
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

/// Whether flags name an address. Port 0 stands for any port, so it is none.
pub(super) fn names_port(config: &Config, flags: &Flags) -> bool {
    flags.names_address() && config.server.port != 0
}

/// The address of a server with this configuration that listens on this port, as seen from this machine.
pub(super) fn local_url(server: &config::Server, port: u16) -> String {
    let host = match server.host.as_str() {
        "0.0.0.0" => "127.0.0.1",
        "::" | "[::]" => "[::1]",
        host => host,
    };
    let host = if host.contains(':') && !host.starts_with('[') { format!("[{host}]") } else { host.to_owned() };
    format!("http://{host}:{port}{}", server.base_path)
}

/// Refuses a command that needs a SQLite database for itself while a server has it.
pub(super) fn without_server(config: &Config) -> Result<(), Error> {
    match sqlite::served(&config.store.data_dir).filter(|_| config.store.url.is_none()) {
        Some(url) => {
            Err(store::Error::Unusable(format!("stop the server at {url} first: it holds the database")).into())
        }
        None => Ok(()),
    }
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
