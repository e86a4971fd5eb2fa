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
mod reseal;
mod serve;
mod server;
mod verify;
mod which_server;

use std::process::ExitCode;

use clap::CommandFactory as _;
use clap::Parser as _;

use crate::config::Config;
use crate::config::env::Variables;
use args::{Arguments, Command};
pub use error::Error;
use which_server::{only_used, opens_folder};

/// Runs the command of this process's arguments.
pub fn run() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Runtime::new().expect("without threads and timers there is no server");
    let done = runtime.block_on(command(arguments, Variables::of_process()));
    // Everything was closed in order; a task that does not yield must not block the exit.
    runtime.shutdown_background();
    match done {
        Ok(()) | Err(Error::OutputClosed) => ExitCode::SUCCESS,
        Err(error) => {
            client::tell(&format!("pes: {}", error.to_string().replace('\n', " ")));
            error.exit_code()
        }
    }
}

async fn command(arguments: Arguments, variables: Variables) -> Result<(), Error> {
    let load = || -> Result<Config, Error> { Ok(arguments.flags.layers(&variables).load()?) };
    let load_to_open = || -> Result<Config, Error> {
        let config = load()?;
        opens_folder(&arguments.flags, &config).map(|()| config)
    };
    let command = arguments.command.unwrap_or(Command::Serve);
    only_used(&command, arguments.url.as_deref(), &arguments.flags)?;
    match command {
        Command::Serve => serve::serve(load()?, &variables).await,
        Command::Keys { command } => keys::keys(command, arguments.url, &arguments.flags, &variables, load).await,
        Command::Health => health::health(arguments.url, &arguments.flags, &variables, load).await,
        Command::Backup { file } => backup::backup(&load_to_open()?, &file).await,
        Command::Restore { file, adopt: _, resume } => backup::restore(&load_to_open()?, file.as_deref(), resume).await,
        Command::Verify { since, checkpoint, keys, json } => {
            let files = (checkpoint.as_deref(), keys.as_deref());
            verify::verify(&load_to_open()?, since.unwrap_or_default(), files, json).await
        }
        Command::Reseal => reseal::reseal(&load_to_open()?).await,
        Command::Doctor { json } => doctor::doctor(&load()?, &variables, json).await,
        Command::Config { template, explain } => {
            let shown = match (template, explain) {
                (true, _) => config::Shown::Template,
                (false, true) => config::Shown::Sources,
                (false, false) => config::Shown::Effective,
            };
            config::show(shown, arguments.flags.layers(&variables))
        }
        Command::Version => client::print(concat!("pes ", env!("CARGO_PKG_VERSION"))),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "pes", &mut script);
            client::print(String::from_utf8_lossy(&script).trim_end())
        }
        Command::Client(command) => client::client(command, arguments.url, &arguments.flags, &variables, load).await,
    }
}
