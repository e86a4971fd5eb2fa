//! Lists: questions, threads, usage.

use serde::Deserialize;
use serde_json::Value;

use super::plan_view::subject;
use super::show::{count, cut, line, pad, span};
use super::terminal::{print, tell};
use crate::cli::Error;
use crate::cli::server::Server;
use crate::domain::Millis;
use crate::domain::hitl::Suspension;
use crate::runtime::clock::{Clock as _, System};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page<T> {
    items: Vec<T>,
    next_cursor: Option<String>,
}

/// All pages; the path has a query, perhaps an empty one.
pub(super) async fn all<T: serde::de::DeserializeOwned>(server: &Server, path: &str) -> Result<Vec<T>, Error> {
    let mut items = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let from = cursor.map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
        let page: Page<T> = server.get(&format!("{path}{from}")).await?;
        items.extend(page.items);
        match page.next_cursor {
            Some(next) => cursor = Some(next),
            None => return Ok(items),
        }
    }
}

pub(super) async fn open_questions(server: &Server) -> Result<Vec<Suspension>, Error> {
    all(server, "/suspensions?status=pending&limit=200").await
}

/// Those of one thread.
pub(super) async fn open_questions_of(server: &Server, thread: &str) -> Result<Vec<Suspension>, Error> {
    all(server, &format!("/suspensions?threadId={thread}&status=pending&limit=200")).await
}

pub(super) async fn questions(server: &Server, json: bool) -> Result<(), Error> {
    if json {
        return print(&server.get_text("/suspensions?status=pending&limit=200").await?);
    }
    let open = open_questions(server).await?;
    if open.is_empty() {
        tell("Nobody is asked anything.");
    }
    print_questions(&open)
}

pub(super) fn print_questions(open: &[Suspension]) -> Result<(), Error> {
    let now = now();
    for one in open {
        let left = one.expires_at.map(|at| format!("{} left", span(at - now))).unwrap_or_default();
        let (id, thread) = (one.suspension_id.as_str(), line(one.thread_id.as_str()));
        let what = subject(&one.asked());
        print(&format!("{id}  {}  {}  {}  {left}", pad(&thread, 20), pad(&what, 24), cut(&line(&one.message), 80)))?;
    }
    Ok(())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ThreadRow {
    pub thread_id: String,
    title: Option<String>,
    pub status: String,
    updated_at: Millis,
}

/// The newest first, one page.
pub(super) async fn newest(server: &Server, status: Option<&str>) -> Result<Vec<ThreadRow>, Error> {
    let status = status.map(|status| format!("&status={status}")).unwrap_or_default();
    let page: Page<ThreadRow> = server.get(&format!("/threads?limit=50{status}")).await?;
    Ok(page.items)
}

pub(super) async fn threads(server: &Server, status: Option<&str>, json: bool) -> Result<(), Error> {
    if json {
        let status = status.map(|status| format!("&status={status}")).unwrap_or_default();
        return print(&server.get_text(&format!("/threads?limit=50{status}")).await?);
    }
    let found = newest(server, status).await?;
    if found.is_empty() {
        tell("No threads. Try: pes run \"Plan a team dinner for 14\"");
    }
    print_threads(&found)
}

pub(super) fn print_threads(found: &[ThreadRow]) -> Result<(), Error> {
    let now = now();
    for one in found {
        let (id, age) = (pad(&line(&one.thread_id), 30), span(now - one.updated_at));
        let title = cut(&line(one.title.as_deref().unwrap_or_default()), 60);
        print(&format!("{id}  {}  {:>9} ago  {title}", pad(&one.status, 11), age))?;
    }
    Ok(())
}

pub(super) async fn usage(server: &Server, by: Option<&str>, json: bool) -> Result<(), Error> {
    let path = format!("/usage?groupBy={}", by.unwrap_or("day"));
    if json {
        return print(&server.get_text(&path).await?);
    }
    let rows: Page<Value> = server.get(&path).await?;
    for row in &rows.items {
        let number = |name: &str| row[name].as_u64().unwrap_or_default();
        let cost = match (row["costUsd"].as_f64(), number("unpricedCalls")) {
            (Some(cost), 0) => format!("${cost:.4}"),
            (Some(cost), without) if without < number("calls") => {
                format!("${cost:.4}, {without} calls without a price")
            }
            _ => "no price".to_owned(),
        };
        let group =
            ["day", "model", "itemId", "runId"].into_iter().find_map(|name| row[name].as_str()).unwrap_or("all");
        let (calls, read, written) = (number("calls"), number("inputTokens"), number("outputTokens"));
        let tokens = format!("{} in, {} out", count(read), count(written));
        print(&format!("{}  {calls:>6} calls  {}  {cost}", pad(&line(group), 40), pad(&tokens, 24)))?;
    }
    Ok(())
}

pub(super) fn now() -> Millis {
    System::default().now()
}
