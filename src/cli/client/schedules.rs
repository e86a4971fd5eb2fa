//! Schedules: lists them, pauses or resumes one, or triggers one now.

use serde_json::{Value, json};

use super::args::ScheduleCommand;
use super::lists::all;
use super::show::{cut, fill, line, pad, span};
use super::terminal::{print, tell};
use crate::cli::Error;
use crate::cli::server::Server;
use crate::domain::schedule::ScheduleResource;

pub(super) async fn schedules(server: &Server, command: Option<ScheduleCommand>, json: bool) -> Result<(), Error> {
    match command {
        None => list(server, json).await,
        Some(_) if json => Err(Error::Usage("--json is for the list of schedules: leave it out.".to_owned())),
        Some(ScheduleCommand::Pause { schedule }) => pause(server, &schedule, true).await,
        Some(ScheduleCommand::Resume { schedule }) => pause(server, &schedule, false).await,
        Some(ScheduleCommand::Trigger { schedule }) => {
            let asked: Value = server.post(&format!("/schedules/{schedule}/trigger"), &json!({})).await?;
            print(asked["threadId"].as_str().unwrap_or_default())
        }
    }
}

async fn list(server: &Server, json: bool) -> Result<(), Error> {
    if json {
        return print(&server.get_text("/schedules").await?);
    }
    let found: Vec<ScheduleResource> = all(server, "/schedules?").await?;
    if found.is_empty() {
        tell(&format!("No schedules; POST /schedules makes one: {}/docs", server.shown()));
    }
    for one in found {
        let (id, when) = (line(&one.spec.id), line(&rule(&one)));
        let state = if one.spec.paused { "paused" } else { "active" };
        let why = one.stored_error.or(one.paused_because);
        let says = line(why.as_deref().unwrap_or(&one.spec.query));
        print(&format!("{}  {state}  {}  {}", fill(&id, 20), pad(&when, 32), cut(&says, 100)))?;
    }
    Ok(())
}

/// The schedule's rule as its author wrote it.
fn rule(one: &ScheduleResource) -> String {
    let spec = &one.spec;
    match (&spec.cron, spec.every_ms, spec.at) {
        (Some(cron), ..) => format!("{cron} {}", spec.timezone),
        (None, Some(every), _) => format!("every {}", span(every)),
        (None, None, Some(at)) => format!("once at {}", jiff::Timestamp::from_millisecond(at).unwrap_or_default()),
        (None, None, None) => String::new(),
    }
}

async fn pause(server: &Server, schedule: &str, paused: bool) -> Result<(), Error> {
    let done: Value = server.merge(&format!("/schedules/{schedule}"), &json!({ "paused": paused })).await?;
    let state = if done["paused"] == true { "is paused" } else { "goes on" };
    print(&format!("{schedule} {state}"))
}
