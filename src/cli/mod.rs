//! The command line: the server, the operator's commands, and the client (`client`). Each failure has its own exit code
//! (`error`) and is one line on stderr, except for arguments that cannot be parsed.

mod args;
mod backup;
mod client;
mod config;
mod doctor;
mod error;
mod health;
mod keys;
mod open_files;
mod reseal;
mod serve;
mod server;
mod verify;
mod which_server;

use std::process::ExitCode;

use clap::CommandFactory as _;
use clap::Parser as _;
use tokio::runtime::Builder;

use crate::config::Config;
use crate::config::env::Variables;
use crate::telemetry;
use args::{Arguments, Command};
pub(crate) use error::Error;
use which_server::{only_used, opens_folder};

/// Runs the command of this process's arguments.
pub fn run() -> ExitCode {
    let done = execute(Arguments::parse(), &Variables::of_process());
    match done {
        Ok(()) | Err(Error::OutputClosed) => ExitCode::SUCCESS,
        Err(error) => {
            let said = error.to_string().replace('\n', " ");
            if !telemetry::log_fatal(&said) {
                client::tell(&format!("pes: {said}"));
            }
            error.exit_code()
        }
    }
}

fn execute(arguments: Arguments, variables: &Variables) -> Result<(), Error> {
    let Arguments { command, url, flags } = arguments;
    let command = command.unwrap_or(Command::Serve);
    only_used(&command, url.as_deref(), &flags)?;
    let load = || -> Result<Config, Error> { Ok(flags.layers(variables).load()?) };
    let load_to_open = || -> Result<Config, Error> {
        let config = load()?;
        opens_folder(&flags, &config).map(|()| config)
    };
    match command {
        Command::Serve => {
            let config = load_to_open()?;
            block_on(config.worker_threads(), serve::serve(config, variables))
        }
        Command::Keys { command } => block_on(1, keys::keys(command, url, &flags, variables, load)),
        Command::Health { json } => block_on(1, health::health(url, &flags, variables, load, json)),
        Command::Backup { file } => block_on(1, backup::backup(&load_to_open()?, &file)),
        Command::Restore { file, adopt: _, resume } => {
            block_on(1, backup::restore(&load_to_open()?, file.as_deref(), resume))
        }
        Command::Verify { since, checkpoint, keys, json } => {
            let files = (checkpoint.as_deref(), keys.as_deref());
            block_on(1, verify::verify(&load_to_open()?, since.unwrap_or_default(), files, json))
        }
        Command::Reseal => block_on(1, reseal::reseal(&load_to_open()?)),
        Command::Doctor { json } => block_on(1, doctor::doctor(&load_to_open()?, variables, json)),
        Command::Config { template, explain, json } => {
            let shown = match (template, explain) {
                (true, _) => config::Shown::Template,
                (false, true) => config::Shown::Sources,
                (false, false) => config::Shown::Effective,
            };
            config::show(shown, flags.layers(variables), json)
        }
        Command::Version { json: true } => {
            let version = serde_json::json!({ "name": env!("CARGO_PKG_NAME"), "version": env!("CARGO_PKG_VERSION") });
            client::print(&version.to_string())
        }
        Command::Version { json: false } => client::print(concat!("pes ", env!("CARGO_PKG_VERSION"))),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "pes", &mut script);
            client::print(String::from_utf8_lossy(&script).trim_end())
        }
        Command::Client(command) => block_on(1, client::client(command, url, &flags, variables, load)),
    }
}

fn block_on(worker_threads: usize, work: impl Future<Output = Result<(), Error>>) -> Result<(), Error> {
    let runtime = Builder::new_multi_thread().worker_threads(worker_threads).enable_all().build();
    let runtime = runtime.map_err(|error| Error::Failed(format!("no threads can be started: {error}")))?;
    let done = runtime.block_on(work);
    // Everything was closed in order; a task that does not yield must not block the exit.
    runtime.shutdown_background();
    done
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Handle;

    use super::block_on;

    #[test]
    fn work_has_as_many_threads_as_it_is_given() {
        for threads in [1, 3] {
            let mut found = 0;
            let work = async {
                found = Handle::current().metrics().num_workers();
                Ok(())
            };
            block_on(threads, work).unwrap();
            assert_eq!(found, threads);
        }
    }
}
