//! The command line. Exit codes: 0 done, 1 it failed, 2 the configuration cannot be used, 9 the database cannot be used;
//! each failure is one line on stderr.

mod args;
mod config;
mod doctor;
mod health;
mod keys;
mod reseal;
mod serve;
mod server;

use std::process::ExitCode;

use clap::Parser;

use crate::config::env::Variables;
use crate::config::{self as settings, Config};
use crate::store;
use args::{Arguments, Command};

/// Why a command did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Failed(String),
    #[error("configuration: {0}")]
    Config(#[from] settings::Error),
    #[error("database: {0}")]
    Store(#[from] store::Error),
}

impl Error {
    fn exit_code(&self) -> ExitCode {
        match self {
            Error::Failed(_) => ExitCode::from(1),
            Error::Config(_) => ExitCode::from(2),
            Error::Store(_) => ExitCode::from(9),
        }
    }
}

/// Runs the command of this process's arguments.
pub fn run() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Runtime::new().expect("without threads and timers there is no server");
    let done = runtime.block_on(command(arguments, Variables::of_process()));
    // Everything was closed in order; code that does not yield must not hold up the end.
    runtime.shutdown_background();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pes: {}", error.to_string().replace('\n', " "));
            error.exit_code()
        }
    }
}

async fn command(arguments: Arguments, variables: Variables) -> Result<(), Error> {
    let load = || -> Result<Config, Error> { Ok(arguments.flags.layers(&variables).load()?) };
    match arguments.command.unwrap_or(Command::Serve) {
        Command::Serve => serve::serve(load()?, &variables).await,
        Command::Keys { command } => keys::keys(command, &variables, load).await,
        Command::Health { url } => health::health(url, &variables, load).await,
        Command::Reseal => reseal::reseal(&load()?).await,
        Command::Doctor => doctor::doctor(&load()?, &variables).await,
        Command::Config { template } => config::show(template, load),
        Command::Version => {
            println!("pes {}", env!("CARGO_PKG_VERSION"));
            Ok(())
        }
    }
}
