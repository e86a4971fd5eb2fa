//! `pes health`: for `HEALTHCHECK` in an image that has no shell.

use std::time::Duration;

use http::StatusCode;
use serde_json::Value;

use super::Error;
use super::args::Flags;
use super::client::{line, print};
use super::server::Server;
use super::which_server::{named_url, of_this_machine, only_asks};
use crate::config::Config;
use crate::config::env::Variables;

const PATIENCE: Duration = Duration::from_secs(5);

pub(super) async fn health(
    url: Option<String>,
    flags: &Flags,
    variables: &Variables,
    load: impl Fn() -> Result<Config, Error>,
    json: bool,
) -> Result<(), Error> {
    only_asks(flags)?;
    let base = match named_url(url, flags, variables)? {
        Some(url) => url,
        None => match of_this_machine(&load()?, flags) {
            // Docker knows only 0 and 1; wrong usage ends with 2 all the same.
            Err(Error::NoServer(why)) => return Err(Error::Failed(why)),
            found => found?,
        },
    };
    let server = Server::at(&base, &Variables::default())?;
    let shown = server.shown();
    let Ok(answer) = tokio::time::timeout(PATIENCE, server.readiness()).await else {
        return Err(Error::Failed(format!("{shown} does not answer within {} s", PATIENCE.as_secs())));
    };
    let (status, body) = answer?;
    let printed = if json { print(&document(&body).to_string()) } else { Ok(()) };
    // The exit code stays correct if stdout is closed.
    if status != StatusCode::OK {
        return Err(Error::Failed(format!("{shown} is not ready: {status}{}", failing(&body))));
    }
    if json { printed } else { print("ready") }
}

/// The JSON of a response; `null` if it has another body, such as that of a proxy.
fn document(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap_or_default()
}

/// The failing parts that a problem document names, to follow the status.
fn failing(body: &[u8]) -> String {
    let problem = document(body);
    let failing = problem["failing"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let failing: Vec<String> = failing.map(line).collect();
    if failing.is_empty() { String::new() } else { format!(": {}", failing.join("; ")) }
}
