//! Schedules: lists them, pauses or resumes one, or triggers one now.

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use serde_json::{Value, json};

use super::args::ScheduleCommand;
use super::lists::all;
use super::show::{cut, fill, line, pad, whole_span};
use super::stop::unless_interrupted;
use super::terminal::{print, tell};
use crate::cli::Error;
use crate::cli::server::Server;
use crate::domain::schedule::{ScheduleResource, ScheduleStanding};

pub(super) async fn schedules(server: &Server, command: Option<ScheduleCommand>, json: bool) -> Result<(), Error> {
    match command {
        None => list(server, json).await,
        Some(_) if json => Err(Error::Usage("--json is for the list of schedules: leave it out.".to_owned())),
        Some(command) => unless_interrupted(change(server, command), "pes schedules").await,
    }
}

async fn change(server: &Server, command: ScheduleCommand) -> Result<(), Error> {
    match command {
        ScheduleCommand::Pause { schedule } => pause(server, &schedule, true).await,
        ScheduleCommand::Resume { schedule } => pause(server, &schedule, false).await,
        ScheduleCommand::Trigger { schedule } => {
            let asked: Value = server.post(&format!("/schedules/{schedule}/trigger"), &json!({})).await?;
            print(asked["threadId"].as_str().unwrap_or_default())
        }
    }
}

/// How many schedules the server is asked for at a time.
const AT_ONCE: usize = 8;

async fn list(server: &Server, json: bool) -> Result<(), Error> {
    if json {
        return print(&server.get_text("/schedules").await?);
    }
    let found: Vec<ScheduleResource> = all(server, "/schedules?").await?;
    if found.is_empty() {
        tell(&format!("No schedules; POST /schedules makes one: {}/docs", server.shown()));
    }
    let standings = stream::iter(&found).map(|one| standing(server, one)).buffered(AT_ONCE);
    let standings: Vec<_> = standings.try_collect().await?;
    for (one, standing) in found.into_iter().zip(standings) {
        let (id, when) = (line(&one.spec.id), line(&rule(&one)));
        let state = state(&one, standing.as_ref());
        let last_error = standing.and_then(|standing| standing.last_error);
        let why = one.stored_error.or(one.paused_because).or(last_error);
        let says = line(why.as_deref().unwrap_or(&one.spec.query));
        print(&format!("{}  {state}  {}  {}", fill(&id, 20), pad(&when, 32), cut(&says, 100)))?;
    }
    Ok(())
}

/// How a schedule stands that is not paused, which its entry in the list does not say. `None`: not planned yet, or deleted in
/// the meantime.
async fn standing(server: &Server, one: &ScheduleResource) -> Result<Option<ScheduleStanding>, Error> {
    if one.spec.paused || one.stored_error.is_some() {
        return Ok(None);
    }
    match server.get::<ScheduleResource>(&format!("/schedules/{}", one.spec.id)).await {
        Ok(found) => Ok(found.standing),
        Err(Error::NotFound(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// `halted`: it starts nothing by itself, because all its times have passed, or because it is held back.
fn state(one: &ScheduleResource, standing: Option<&ScheduleStanding>) -> &'static str {
    match standing {
        _ if one.spec.paused => "paused",
        Some(ScheduleStanding { next_due: None, .. }) => "halted",
        Some(ScheduleStanding { next_due: Some(_), .. }) | None => "active",
    }
}

/// The schedule's rule as its author wrote it.
fn rule(one: &ScheduleResource) -> String {
    let spec = &one.spec;
    match (&spec.cron, spec.every_ms, spec.at) {
        (Some(cron), ..) => format!("{cron} {}", spec.timezone),
        (None, Some(every), _) => format!("every {}", whole_span(every)),
        (None, None, Some(at)) => format!("once at {}", jiff::Timestamp::from_millisecond(at).unwrap_or_default()),
        (None, None, None) => String::new(),
    }
}

async fn pause(server: &Server, schedule: &str, paused: bool) -> Result<(), Error> {
    let done: Value = server.merge(&format!("/schedules/{schedule}"), &json!({ "paused": paused })).await?;
    let state = if done["paused"] == true { "is paused" } else { "goes on" };
    print(&format!("{schedule} {state}"))
}
