//! `pes plan`: shows a plan, edits it, and shows how it changed and what it may do.

use serde::Deserialize as _;
use serde_json::{Value, json};

use super::answer::edited;
use super::args::PlanCommand;
use super::plan_view::PlanView;
use super::replay::{Base, History, history};
use super::show::{cut, line, span};
use super::stop::unless_interrupted;
use super::terminal::{Size, Style, print, size, tell};
use super::{forecast, lists, tree};
use crate::cli::Error;
use crate::cli::server::Server;
use crate::domain::expected_cost::{CostBasis, ExpectedCost, Forecast};
use crate::domain::facts::WholePlanUpdate;
use crate::domain::run::RunResource;
use crate::provider::demo;

pub(super) async fn plan(
    server: &Server,
    thread: Option<String>,
    command: Option<PlanCommand>,
    json: bool,
) -> Result<(), Error> {
    let thread = match thread {
        Some(thread) => thread,
        None => only_one(server).await?,
    };
    let path = format!("/threads/{thread}/plan");
    match command {
        None if json => print(&server.get_text(&path).await?),
        None => show(server, &thread).await,
        Some(PlanCommand::Edit) => edit(server, &thread, &path, json).await,
        Some(PlanCommand::Diff) => diff(server, &thread, json).await,
        Some(PlanCommand::Forecast) if json => print(&server.get_text(&format!("{path}/forecast")).await?),
        Some(PlanCommand::Forecast) => tell_forecast(&server.get(&format!("{path}/forecast")).await?),
    }
}

/// The only thread that is running or has an open question.
async fn only_one(server: &Server) -> Result<String, Error> {
    let mut live = Vec::new();
    for status in ["running", "suspended", "waiting"] {
        live.extend(lists::threads_of(server, status).await?);
    }
    match live.as_slice() {
        [one] => Ok(one.thread_id.clone()),
        [] => Err(Error::Usage("Nothing runs. Name a thread: pes plan THREAD; `pes threads` lists them.".to_owned())),
        several => {
            // The exit code stays correct if stdout is closed.
            let _ = lists::print_threads(several);
            Err(Error::Usage("There are several. Name one: pes plan THREAD".to_owned()))
        }
    }
}

async fn show(server: &Server, thread: &str) -> Result<(), Error> {
    let mut view = PlanView::default();
    let History { base, frames } = history(server, thread, None).await?;
    base.iter().for_each(|base| view.begin(base));
    frames.iter().for_each(|frame| view.take(frame));
    let Size { columns, .. } = size();
    let size = Size { columns, rows: usize::MAX };
    let style = Style { colour: false, ..Style::of_environment() };
    let now = if view.questions.is_empty() { view.at } else { lists::now() };
    let drawn = tree::draw(&view, &line(thread), tree::Canvas { now, size, style, turn: 0 });
    drawn.iter().chain(&failures(&view, &drawn)).try_for_each(|line| print(line))?;
    let queued = format!("/runs?threadId={thread}&status=queued&limit=200");
    let mut queued: Vec<RunResource> = lists::all(server, &queued).await?;
    queued.sort_by_key(|run| run.created_at);
    queued.iter().try_for_each(|run| {
        let (age, query) = (span(lists::now() - run.created_at), cut(&line(&run.query), 80));
        print(&format!("  queued {age} ago: {query}  ({})", run.run_id))
    })
}

/// What ended the run or cut its answer short, and in full the reasons that the drawn lines do not have room for.
fn failures(view: &PlanView, drawn: &[String]) -> Vec<String> {
    let is_cut = |reason: &str| !drawn.iter().any(|line| line.ends_with(reason));
    let failed = view.failures().filter(|(_, reason)| is_cut(reason));
    let failed = failed.map(|(item, reason)| format!("  {} failed: {reason}", line(item.id.as_str())));
    failed.chain(view.error.iter().map(|error| format!("  {error}"))).collect()
}

/// `json`: prints the resulting plan.
async fn edit(server: &Server, thread: &str, path: &str, json: bool) -> Result<(), Error> {
    let (plan, etag) = server.get_with_etag(path).await?;
    let mut kept = None;
    let Some(draft) = edited(&plan, &mut kept)? else {
        tell("Nothing was changed.");
        return Ok(());
    };
    let patch = json_patch::diff(&plan, draft.value());
    let shown_by = format!("pes plan {thread} diff");
    let sent = unless_interrupted(server.patch(path, &etag, &json!(patch)), &shown_by).await;
    let changed: Value = draft.settle(sent, &mut kept)?;
    if json { print(&changed.to_string()) } else { print("The plan was changed.") }
}

/// `json`: prints the contents of the observations that changed the plan, one a line.
async fn diff(server: &Server, thread: &str, json: bool) -> Result<(), Error> {
    let History { base, frames } = history(server, thread, None).await?;
    if let Some(base) = base {
        base.tell_where_log_begins();
        if !json {
            print_base(&base)?;
        }
    }
    for frame in frames.iter().filter(|frame| frame.kind == "PLAN_UPDATE") {
        let Ok(update) = WholePlanUpdate::deserialize(&frame.content) else { continue };
        if update.changes.changes.is_empty() {
            continue;
        }
        if json {
            print(&frame.content.to_string())?;
            continue;
        }
        let by = frame.metadata.as_ref().and_then(|metadata| metadata["by"].as_str()).map(line);
        let source = json!(update.source);
        let by = by.unwrap_or_else(|| source.as_str().unwrap_or_default().to_owned());
        print(&format!("{}  version {}, by {by}", frame.seq, update.plan_version))?;
        for change in &update.changes.changes {
            let (old, new) = (change.previous_item.as_ref(), change.item.as_ref());
            let words = |item: &crate::domain::plan::TodoItem| line(&item.description);
            if let Some(old) = old.filter(|old| new.is_none_or(|new| words(new) != words(old))) {
                print(&format!("  - {}  {}", line(change.item_id.as_str()), words(old)))?;
            }
            if let Some(new) = new {
                print(&format!("  + {}  {}", line(change.item_id.as_str()), words(new)))?;
            }
        }
    }
    Ok(())
}

/// Prints the plan at the beginning of the log.
fn print_base(base: &Base) -> Result<(), Error> {
    if base.todo_list.is_empty() {
        return Ok(());
    }
    print(&format!("{}  version {}, as it stood then", base.last_seq, base.plan_version))?;
    base.todo_list
        .iter()
        .try_for_each(|item| print(&format!("  + {}  {}", line(item.id.as_str()), line(&item.description))))
}

fn tell_forecast(Forecast { plan, cost }: &Forecast) -> Result<(), Error> {
    forecast::lines(plan).iter().try_for_each(|line| print(line))?;
    print(if plan.risky {
        "A person may be asked, or something cannot be undone."
    } else {
        "No rule asks a person; a tool, or a call in doubt, may still ask one."
    })?;
    print(&cost_words(cost))
}

/// The expected cost, and the data it is based on.
fn cost_words(cost: &ExpectedCost) -> String {
    let CostBasis { days, items, calls, unpriced_items } = cost.basis;
    let model = line(&format!("{}:{}", cost.provider, cost.model));
    let expected = match (cost.low_usd, cost.high_usd) {
        (Some(low), Some(high)) => format!(
            "It may cost ${low:.3} to ${high:.3}: {} items, by {items} items ({calls} calls) of {model} in the last {days} days.",
            cost.items
        ),
        _ if unpriced_items > 0 && cost.provider == demo::PROVIDER => {
            "It costs nothing: the model is the demo.".to_owned()
        }
        _ if unpriced_items > 0 => {
            format!("It is not known what it may cost: items of {model} had no price. Add one under prices.")
        }
        _ => format!("There is nothing to say by what it may cost: no item of {model} ran in the last {days} days."),
    };
    let bound = cost.at_most_usd.map(|most| format!(" At most ${most:.3}: what is left of its budget."));
    expected + &bound.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::failures;
    use crate::cli::client::events::ObservationFrame;
    use crate::cli::client::plan_view::PlanView;

    #[test]
    fn what_failed_is_told_in_full_once() {
        let mut view = PlanView::default();
        let mut take = |kind: &str, content: Value| {
            let (thread_id, parent_id, kind) = ("t".into(), None, kind.to_owned());
            view.take(&ObservationFrame { seq: 1, thread_id, parent_id, timestamp: 0, kind, content, metadata: None });
        };
        let item = |id: &str, reason: &str| {
            json!({
                "id": id, "description": "It", "status": "failed", "reason": reason, "createdTimestamp": 0,
                "updatedTimestamp": 0
            })
        };
        let items = json!([item("a", "the key was refused"), item("b", "the quota is spent")]);
        take("PLAN", json!({ "planVersion": 1, "plan": "", "rawOutput": "", "todoList": items }));
        let spent = "The run's budget ended it: 3 model calls.";
        let error = |code: &str, fatal: bool| {
            let phase = "execution";
            json!({ "phase": phase, "code": code, "message": spent, "fatal": fatal, "retryable": false })
        };
        take("ERROR", error("internal", false));
        take("ERROR", error("budget_exceeded", true));
        let drawn = ["t".to_owned(), "  x  a  It  the key was refused".to_owned(), "  x  b  It  the quo…".to_owned()];
        let told = ["  b failed: the quota is spent".to_owned(), format!("  budget_exceeded: {spent}")];
        assert_eq!(failures(&view, &drawn), told);
    }
}
