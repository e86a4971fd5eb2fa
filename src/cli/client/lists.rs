//! Lists: questions, threads, usage.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use url::form_urlencoded::byte_serialize;

use super::answer::{commands, only_like};
use super::card::{brief, card};
use super::plan_view::subject;
use super::show::{count, cut, fill, line, pad, span, width};
use super::terminal::{Style, print, tell};
use crate::cli::Error;
use crate::cli::server::Server;
use crate::domain::Millis;
use crate::domain::hitl::{Suspension, SuspensionKind};
use crate::domain::run::{ResultStatus, RunStatus};
use crate::domain::thread::{LastRun, ThreadStatus};
use crate::runtime::clock::{Clock as _, System};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page<T> {
    items: Vec<T>,
    next_cursor: Option<String>,
}

/// The first `most` entries, over as many pages as needed, and whether there are more. The path has a query, which may be
/// empty.
async fn first<T: DeserializeOwned>(server: &Server, path: &str, most: usize) -> Result<(Vec<T>, bool), Error> {
    let mut items = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let from = cursor.map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
        let page: Page<T> = server.get(&format!("{path}{from}")).await?;
        items.extend(page.items);
        match page.next_cursor {
            Some(next) if items.len() < most => cursor = Some(next),
            next => {
                let is_more = next.is_some() || items.len() > most;
                items.truncate(most);
                return Ok((items, is_more));
            }
        }
    }
}

/// All pages.
pub(super) async fn all<T: DeserializeOwned>(server: &Server, path: &str) -> Result<Vec<T>, Error> {
    Ok(first(server, path, usize::MAX).await?.0)
}

/// All pages as one, with the entries unchanged from the API.
async fn print_all_as_json(server: &Server, path: &str) -> Result<(), Error> {
    let items: Vec<Value> = all(server, path).await?;
    print(&json!({ "items": items }).to_string())
}

const OPEN: &str = "/suspensions?status=pending&limit=200";

pub(super) async fn open_questions(server: &Server) -> Result<Vec<Suspension>, Error> {
    all(server, OPEN).await
}

/// The open questions of one thread.
pub(super) async fn open_questions_of(server: &Server, thread: &str) -> Result<Vec<Suspension>, Error> {
    all(server, &format!("{OPEN}&threadId={thread}")).await
}

pub(super) async fn questions(server: &Server, json: bool) -> Result<(), Error> {
    if json {
        return print_all_as_json(server, OPEN).await;
    }
    let open = open_questions(server).await?;
    if open.is_empty() {
        tell("Nobody is asked anything.");
    }
    print_questions(&open)?;
    if let Some((how, id)) = how_to_answer(&open) {
        tell(&how);
        tell(&format!("`pes questions {id}` shows everything that the decision needs."));
    }
    Ok(())
}

/// Prints one question in full, and tells the commands that answer it.
pub(super) async fn question(server: &Server, id: &str, json: bool) -> Result<(), Error> {
    if json {
        let open: Vec<Value> = all(server, OPEN).await?;
        let found = only_like(open, id, |one| one["suspensionId"].as_str().unwrap_or_default())?;
        return print(&found.to_string());
    }
    let found = only_like(open_questions(server).await?, id, |one| one.suspension_id.as_str())?;
    let (id, thread) = (found.suspension_id.as_str(), line(found.thread_id.as_str()));
    let item = found.item_id.as_ref().map(|item| format!(", item {}", line(item.as_str()))).unwrap_or_default();
    print(&format!("{id} in {thread}{item}"))?;
    print(&card(&found.asked(), now(), Style::of_environment()))?;
    tell(&format!("Answer with {}", commands(found.kind, id)));
    Ok(())
}

/// The commands that answer these questions, and the id in them. Those for a call in doubt are part of its line in the list.
fn how_to_answer(open: &[Suspension]) -> Option<(String, &str)> {
    let id = match open {
        [] => return None,
        [one] => one.suspension_id.as_str(),
        [_, ..] => "ID",
    };
    let kinds = open.iter().map(|one| one.kind).filter(|kind| *kind != SuspensionKind::InDoubt);
    let ways: BTreeSet<String> = kinds.map(|kind| commands(kind, id)).collect();
    // A pause is answered in one of the two ways in which a call is.
    let is_named = |way: &String| ways.iter().any(|other| other.starts_with(&format!("{way}, ")));
    let ways: Vec<&str> = ways.iter().filter(|way| !is_named(way)).map(String::as_str).collect();
    (!ways.is_empty()).then(|| (format!("Answer with {}", ways.join("; ")), id))
}

/// The columns of a message in the list: the question about a restored run fits.
const MESSAGE: usize = 160;

pub(super) fn print_questions(open: &[Suspension]) -> Result<(), Error> {
    let now = now();
    let threads = widest(open.iter().map(|one| one.thread_id.as_str()));
    for one in open {
        let left = one.expires_at.map(|at| format!("  {} left", span(at - now))).unwrap_or_default();
        // A doubt is neither approved nor answered with a value.
        let (id, thread) = (one.suspension_id.as_str(), line(one.thread_id.as_str()));
        let is_doubt = one.kind == SuspensionKind::InDoubt;
        let how = if is_doubt { format!("  in doubt: {}", commands(one.kind, id)) } else { String::new() };
        let asked = one.asked();
        let (thread, what) = (fill(&thread, threads), pad(&subject(&asked), 24));
        let told = [cut(&line(&one.message), MESSAGE), brief(&asked)].join("  ");
        print(&format!("{id}  {thread}  {what}  {}{left}{how}", told.trim_end()))?;
    }
    Ok(())
}

/// The width of the longest id. Ids are input of other commands, so they are never cut.
fn widest<'i>(ids: impl Iterator<Item = &'i str>) -> usize {
    ids.map(|id| width(&line(id))).max().unwrap_or_default()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ThreadRow {
    pub thread_id: String,
    title: Option<String>,
    pub status: String,
    updated_at: Millis,
    last_run: Option<LastRun>,
}

/// The number of threads that are listed by default.
const NEWEST: usize = 50;

/// The newest threads in that order, and whether there are more.
pub(super) async fn newest(server: &Server) -> Result<(Vec<ThreadRow>, bool), Error> {
    first(server, &format!("/threads?limit={NEWEST}"), NEWEST).await
}

fn of_status(status: &str) -> String {
    format!("/threads?limit=200&status={status}")
}

/// All threads with this status, the newest first.
pub(super) async fn threads_of(server: &Server, status: &str) -> Result<Vec<ThreadRow>, Error> {
    all(server, &of_status(status)).await
}

/// Without a status only the newest; with `json` all. `search`: a part of the title or of the id.
pub(super) async fn threads(
    server: &Server,
    status: Option<&str>,
    search: Option<&str>,
    json: bool,
) -> Result<(), Error> {
    let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
    let search_for = search.map(|text| format!("&q={}", encoded(text))).unwrap_or_default();
    let path = status.map_or_else(|| "/threads?limit=200".to_owned(), of_status) + &search_for;
    if json {
        return print_all_as_json(server, &path).await;
    }
    let (found, is_more) = match status {
        Some(_) => (all(server, &path).await?, false),
        None => first(server, &format!("/threads?limit={NEWEST}{search_for}"), NEWEST).await?,
    };
    if found.is_empty() {
        tell(&match (status, search) {
            (_, Some(search)) => format!("None has `{}` in its title or id.", line(search)),
            (Some(status), None) => format!("None is {status}."),
            (None, None) => "No threads. Try: pes run \"…\"".to_owned(),
        });
    }
    print_threads(&found)?;
    if is_more {
        tell(&format!(
            "These are the newest {NEWEST}; `--json` lists all, `--status S` those that stand so, and `--search TEXT` finds \
             others."
        ));
    }
    Ok(())
}

pub(super) fn print_threads(found: &[ThreadRow]) -> Result<(), Error> {
    let now = now();
    let ids = widest(found.iter().map(|one| one.thread_id.as_str()));
    for one in found {
        let (id, age) = (fill(&line(&one.thread_id), ids), span(now - one.updated_at));
        let (title, status) = (cut(&one.named(), 60), pad(one.standing(), 11));
        let queued = one.last_run.as_ref().filter(|run| run.status == RunStatus::Queued);
        let queued = queued.map(|run| format!("  queued: {}", cut(&line(&run.query), 60))).unwrap_or_default();
        print(&format!("{id}  {status}  {age:>9} ago  {title}{queued}"))?;
    }
    Ok(())
}

impl ThreadRow {
    /// Its title, or without one its newest query, unless that is queued: it is listed as such.
    fn named(&self) -> String {
        let title = self.title.as_deref().filter(|title| !title.is_empty());
        let query =
            || self.last_run.as_ref().filter(|run| run.status != RunStatus::Queued).map(|run| run.query.as_str());
        line(title.or_else(query).unwrap_or_default())
    }

    /// Its status; an idle thread whose last answer is partial is not like one that is done.
    fn standing(&self) -> &str {
        let result = self.last_run.as_ref().and_then(|run| run.result_status);
        if self.status == ThreadStatus::Idle.as_str() && result == Some(ResultStatus::Partial) {
            return "partial";
        }
        &self.status
    }
}

/// The number of days in sums by day, including today.
const DAYS: i64 = 30;

fn usage_path(by: &str, now: Millis) -> String {
    let from = if by == "day" { format!("&from={}", first_day(now)) } else { String::new() };
    format!("/usage?groupBy={by}&limit=200{from}")
}

/// The first of these days, in UTC.
fn first_day(now: Millis) -> jiff::civil::Date {
    let then = jiff::Timestamp::from_millisecond(now - (DAYS - 1) * 86_400_000).unwrap_or_default();
    then.to_zoned(jiff::tz::TimeZone::UTC).date()
}

pub(super) async fn usage(server: &Server, by: Option<&str>, json: bool) -> Result<(), Error> {
    let by = by.unwrap_or("day");
    let rows: Vec<Value> = all(server, &usage_path(by, now())).await?;
    if by == "day" {
        tell(&format!("The last {DAYS} days, in UTC."));
    }
    if json {
        return print(&json!({ "items": rows }).to_string());
    }
    for row in &rows {
        let number = |name: &str| row[name].as_u64().unwrap_or_default();
        let cost = match (row["costUsd"].as_f64(), number("unpricedCalls")) {
            (Some(cost), 0) => format!("${cost:.4}"),
            (Some(cost), without) if without < number("calls") => {
                format!("${cost:.4}, {without} calls without a price")
            }
            _ => "no price".to_owned(),
        };
        let group = group(row);
        let (calls, read, written) = (number("calls"), number("inputTokens"), number("outputTokens"));
        let tokens = format!("{} in, {} out", count(read), count(written));
        print(&format!("{}  {calls:>6} calls  {}  {cost}", fill(&line(&group), 40), pad(&tokens, 24)))?;
    }
    Ok(())
}

/// The names of a group of calls, for example `run_… openai:gpt-4.1`.
fn group(row: &Value) -> String {
    let names =
        ["day", "tenant", "runId", "itemId"].into_iter().filter_map(|name| row[name].as_str().map(str::to_owned));
    let model = row["model"].as_str().map(|model| match row["provider"].as_str() {
        Some(provider) => format!("{provider}:{model}"),
        None => model.to_owned(),
    });
    names.chain(model).collect::<Vec<_>>().join(" ")
}

pub(super) fn now() -> Millis {
    System::default().now()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{ThreadRow, group, how_to_answer, usage_path};
    use crate::domain::hitl::Suspension;

    #[test]
    fn each_way_to_answer_is_named_once() {
        let open = |kind: &str| -> Suspension {
            let open = json!({
                "suspensionId": "sus_1", "threadId": "t", "runId": "run_1", "kind": kind, "status": "pending",
                "message": "May it?", "feedbackSchema": { "inputType": "confirm", "prompt": "May it?" }, "createdAt": 0
            });
            serde_json::from_value(open).unwrap()
        };
        let how = |kinds: &[&str]| {
            let open: Vec<Suspension> = kinds.iter().map(|kind| open(kind)).collect();
            how_to_answer(&open).map(|(how, _)| how)
        };
        let call = "pes approve ID, or pes reject ID --reason …";
        assert_eq!(how(&["pause", "approval", "in_doubt"]), Some(format!("Answer with {call}")));
        assert_eq!(how(&["pause", "approval", "input"]), Some(format!("Answer with pes answer ID VALUE; {call}")));
        assert_eq!(how(&["pause"]).as_deref(), Some("Answer with pes approve sus_1"));
        assert_eq!(how(&[]), None);
    }

    #[test]
    fn a_thread_without_a_title_is_listed_with_its_query() {
        let row = |title: &str, status: &str, result: &str| -> ThreadRow {
            let run = json!({ "runId": "run_1", "status": status, "resultStatus": result, "query": "And\nnow?" });
            let row = json!({ "threadId": "t", "title": title, "status": "idle", "updatedAt": 0, "lastRun": run });
            serde_json::from_value(row).unwrap()
        };
        assert_eq!(row("", "completed", "success").named(), "And now?");
        assert_eq!(row("Dinner", "completed", "success").named(), "Dinner");
        assert_eq!(row("", "queued", "success").named(), "", "it is listed as queued");
        assert_eq!(
            [row("", "completed", "success").standing(), row("", "completed", "partial").standing()],
            ["idle", "partial"]
        );
    }

    #[test]
    fn sums_by_day_are_of_the_last_thirty_days() {
        let noon = 1_795_262_400_000;
        assert_eq!(usage_path("day", noon), "/usage?groupBy=day&limit=200&from=2026-10-23");
        assert_eq!(usage_path("model", noon), "/usage?groupBy=model&limit=200");
    }
    #[test]
    fn a_sum_is_called_by_what_its_calls_have_in_common() {
        let both = json!({ "runId": "run_1", "provider": "demo", "model": "x", "calls": 1 });
        let item = json!({ "runId": "run_1", "itemId": "bill" });
        let called = [both, item, json!({ "tenant": "acme" }), json!({ "day": "2026-11-21" })].map(|row| group(&row));
        assert_eq!(called, ["run_1 demo:x", "run_1 bill", "acme", "2026-11-21"]);
    }
}
