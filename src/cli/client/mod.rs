//! The binary as a client of a server: start runs, watch them, answer questions. Results go to stdout, progress to stderr.

mod answer;
mod args;
mod card;
mod chat;
mod events;
mod follow;
mod forecast;
mod hidden_items;
mod input;
mod joiners;
mod lanes;
mod leave;
mod lists;
mod local_server;
mod outage;
mod plain;
mod plan;
mod plan_view;
mod prompt;
mod replay;
mod run;
mod schedules;
mod screen;
mod show;
mod standing;
mod stop;
mod tenants;
mod terminal;
mod transfer;
mod tree;

use serde::Deserialize;
use serde_json::{Value, json};

pub(super) use args::{ClientCommand, duration, id};
pub(super) use show::line;
pub(super) use stop::unless_interrupted;
pub(super) use terminal::{print, tell};

use super::Error;
use super::args::Flags;
use super::server::Server;
use super::which_server::{local_url, named_url, of_this_machine, only_asks};
use crate::config::Config;
use crate::config::env::Variables;
use input::{Input, all_of_stdin};

/// Runs a command on the named server, or on the one of this machine; `flags` would be used to start one.
pub(super) async fn client(
    command: ClientCommand,
    url: Option<String>,
    flags: &Flags,
    variables: &Variables,
    load: impl Fn() -> Result<Config, Error>,
) -> Result<(), Error> {
    let may_start = matches!(command, ClientCommand::Run(_) | ClientCommand::Chat { .. });
    if !may_start {
        only_asks(flags)?;
    }
    let (server, config) = match named_url(url, flags, variables)? {
        Some(url) => (Server::at(&url, variables)?, None),
        None => {
            let config = load()?;
            let base = match of_this_machine(&config, flags) {
                // One may be started on that folder.
                Err(Error::NoServer(_) | Error::Usage(_)) if may_start => local_url(&config.server, config.server.port),
                found => found?,
            };
            (Server::at(&base, variables)?, Some(config))
        }
    };
    let here = config.as_ref().map(|config| (config, flags));
    let mut input = Input::of_terminal();
    match command {
        ClientCommand::Run(mut run) => {
            // Before a server is offered, and before a thread is created.
            run.query = run::query(run.query)?;
            let Some(server) = local_server::offer(server, here, variables, &mut input).await? else { return Ok(()) };
            run::run(&server, run, &mut input).await
        }
        ClientCommand::Chat { thread } => {
            let Some(server) = local_server::offer(server, here, variables, &mut input).await? else { return Ok(()) };
            chat::chat(&server, thread, &mut input).await
        }
        ClientCommand::Watch(watch) => run::watch(&server, watch, &mut input).await,
        ClientCommand::Questions { suspension: None, json } => lists::questions(&server, json).await,
        ClientCommand::Questions { suspension: Some(id), json } => lists::question(&server, &id, json).await,
        ClientCommand::Approve(approve) => answer::approve(&server, approve).await,
        ClientCommand::Reject { suspension, reason } => answer::reject(&server, &suspension, &reason).await,
        ClientCommand::Answer(given) => answer::answer(&server, given).await,
        ClientCommand::Threads { status, search, json } => {
            lists::threads(&server, status.as_deref(), search.as_deref(), json).await
        }
        ClientCommand::Plan { thread, command, json } => plan::plan(&server, thread, command, json).await,
        ClientCommand::Replay(replay) => replay::replay(&server, replay).await,
        ClientCommand::Fork { thread, at, json } => {
            unless_interrupted(fork(&server, &thread, at, json), "pes threads").await
        }
        ClientCommand::Export(export) => transfer::export(&server, export).await,
        ClientCommand::Import(import) => transfer::import(&server, import).await,
        ClientCommand::Cancel { thread, json } => cancel(&server, &thread, json).await,
        ClientCommand::Schedules { command, json } => schedules::schedules(&server, command, json).await,
        ClientCommand::Tenants { command, json } => tenants::tenants(&server, command, json).await,
        ClientCommand::Usage { by, json } => lists::usage(&server, by.as_deref(), json).await,
    }
}

async fn fork(server: &Server, thread: &str, at: Option<i64>, json: bool) -> Result<(), Error> {
    let made = server.post::<Value>(&format!("/threads/{thread}/fork"), &json!({ "at": at })).await;
    let made = run::unless_missing(server, thread, made).await?;
    if json { print(&made.to_string()) } else { print(made["threadId"].as_str().unwrap_or_default()) }
}

/// `-`: reads ids from stdin, one a line. A thread that cannot be cancelled does not stop the others.
async fn cancel(server: &Server, thread: &str, json: bool) -> Result<(), Error> {
    let is_list = thread == "-";
    let listed = if is_list { all_of_stdin()? } else { thread.to_owned() };
    let threads: Vec<&str> = listed.split_whitespace().collect();
    unless_interrupted(cancel_all(server, &threads, is_list, json), "pes threads").await
}

async fn cancel_all(server: &Server, threads: &[&str], is_list: bool, json: bool) -> Result<(), Error> {
    let (mut failed, mut printed) = (0, Ok(()));
    for thread in threads {
        match cancel_one(server, thread).await {
            Ok(runs) if json => {
                printed = printed.and_then(|()| print(&json!({ "threadId": thread, "runIds": runs }).to_string()));
            }
            Ok(runs) if runs.is_empty() => tell(&format!("Nothing runs in {thread}.")),
            Ok(runs) => {
                let mut told = runs.iter().map(|run| format!("{thread} {run} is being cancelled"));
                // If stdout is closed, the remaining threads are cancelled nevertheless.
                printed = printed.and(told.try_for_each(|told| print(&told)));
            }
            // This error would affect every thread.
            Err(error @ (Error::Unreachable(_) | Error::KeyRefused(_))) => return Err(error),
            Err(error) if !is_list => return run::unless_missing(server, thread, Err(error)).await,
            Err(error) => {
                tell(&format!("{}: {error}", line(thread)));
                failed += 1;
            }
        }
    }
    match failed {
        0 => printed,
        _ => Err(Error::Partial(format!("{failed} of {} threads were not cancelled.", threads.len()))),
    }
}

/// Returns the runs that were cancelled.
async fn cancel_one(server: &Server, thread: &str) -> Result<Vec<String>, Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Cancelled {
        run_ids: Vec<String>,
    }
    args::id(thread).map_err(|why| Error::Usage(format!("`{thread}`: {why}")))?;
    let done: Cancelled = server.post(&format!("/threads/{thread}/cancel"), &json!({})).await?;
    Ok(done.run_ids)
}
