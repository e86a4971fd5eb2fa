//! The rows that runs leave beside the log are bounded, even in a thread that never ends.

use std::collections::BTreeMap;
use std::sync::Arc;

use pes::AgentProps;
use pes::config::Config;
use pes::domain::fault::Code;
use pes::domain::ids::ThreadPk;
use pes::domain::observation::ObservationType;
use pes::domain::retention::{Kept, Terms};
use pes::engine::step::RowKind;
use pes::service::retention;
use pes::service::runs::ContinueAt;
use pes::store::{Order, PageAsk, Store};
use serde_json::{Value, json};

use crate::support::clocked::{Clocked, DAY, TODAY};
use crate::support::demo;
use crate::support::http::soon;
use crate::support::postgres::Database;
use crate::support::store::{Mood, Moody, fresh_store, store_on};

/// Each run writes a long letter that somebody must approve, and then a long answer; with a plan, as its only step.
const SCRIPT: &str = r#"
[[reply]]
when = { phase = "planning", query = "first" }
json = { todoList = [{ id = "first", description = "Write", stepType = "tool", requiredTools = ["demo_send_email"] }] }

[[reply]]
when = { phase = "refinement", query = "second" }
json = { todoList = [{ id = "second", description = "Write", stepType = "tool", requiredTools = ["demo_send_email"] }] }

[[reply]]
when = { phase = "synthesis" }
text = "They are written."

[[reply]]
when = { phase = "execution", iteration = 1 }
thinking = "LONG"
text = "LONG"
calls = [{ tool = "demo_send_email", arguments = { to = "team@example.com", subject = "s", body = "LONG" } }]

[[reply]]
when = { phase = "execution" }
text = "LONG"
"#;

type Rows = BTreeMap<RowKind, Vec<String>>;

/// The thread's rows without its conversation: runs, messages and their payloads.
async fn rows_beside(store: &dyn Store, pk: ThreadPk) -> Rows {
    let base = store.base(pk).await.unwrap().map(|(_, base)| serde_json::from_str::<Value>(&base).unwrap());
    let messages = base.map(|base| base["messages"].to_string()).unwrap_or_default();
    let mut found = Rows::new();
    for kind in RowKind::ALL {
        let page = PageAsk { limit: 10_000, ..PageAsk::default() };
        let rows = store.rows(pk, kind, Order::Ascending, &page).await.unwrap();
        assert_eq!(rows.next_cursor, None);
        if !matches!(kind, RowKind::Run | RowKind::Message | RowKind::CallerStatus | RowKind::Retention) {
            let ids = rows.items.into_iter().map(|row| row.id);
            found.insert(kind, ids.filter(|id| !messages.contains(&format!("\"{id}\""))).collect());
        }
    }
    found
}

fn counts(rows: &Rows) -> Vec<(RowKind, usize)> {
    rows.iter().map(|(kind, ids)| (*kind, ids.len())).collect()
}

#[tokio::test]
async fn what_runs_leave_beside_the_log_goes_with_it() {
    old_runs_leave_nothing(fresh_store().await).await;
}

#[tokio::test]
async fn what_runs_leave_beside_the_log_goes_with_it_on_postgresql() {
    let database = Database::fresh().await;
    old_runs_leave_nothing(store_on(&database).await).await;
}

async fn old_runs_leave_nothing(store: Arc<dyn Store>) {
    let clocked = writing(store.clone(), |config| config.retention.usage_days = Kept::Days(100)).await;
    let (t, held) = (run(&clocked, "t").await, run(&clocked, "held").await);
    clocked.keep("held", Terms::default(), Some("case 4711")).await;
    let ever = run(&clocked, "ever").await;
    let forever = Some(Kept::FOREVER);
    clocked.keep("ever", Terms { log_days: forever, thread_days: forever }, None).await;
    let ever_all = rows_beside(&*store, ever).await;
    let (first, all) = (rows_beside(&*store, t).await, rows_beside(&*store, held).await);
    for kind in [RowKind::Item, RowKind::Call, RowKind::Turn, RowKind::Suspension, RowKind::Payload, RowKind::Usage] {
        assert!(!first[&kind].is_empty(), "{kind:?}: {first:?}");
    }
    let months = async |count: u32| {
        for _ in 0..count {
            clocked.days_pass(30).await;
            run(&clocked, "t").await;
        }
    };
    months(6).await;
    let after_six = rows_beside(&*store, t).await;
    for kind in [RowKind::Call, RowKind::Suspension, RowKind::Turn, RowKind::Usage] {
        let stays = first[&kind].iter().find(|id| after_six[&kind].contains(id));
        assert_eq!(stays, None, "{kind:?}");
    }
    // As read just before more of it is deleted.
    let whole = clocked.page("t", 0).await.unwrap();
    let (state, messages) = (clocked.state("t", None).await.unwrap(), clocked.messages("t").await);
    clocked.days_pass(30).await;
    let left = clocked.page("t", 0).await.unwrap();
    assert!(left.min_seq > whole.min_seq);
    let tail: Vec<Value> = whole.items.iter().filter(|seen| seen.seq >= left.min_seq).map(|seen| json!(seen)).collect();
    let seen: Vec<Value> = left.items.iter().map(|seen| json!(seen)).collect();
    assert_eq!(seen, tail, "what is left is as it was, with all that is in it");
    assert_eq!(
        (clocked.messages("t").await, &clocked.state("t", None).await.unwrap()["todoList"]),
        (messages, &state["todoList"])
    );
    let at = clocked.state("t", Some(left.min_seq - 1)).await.unwrap();
    assert!(!at.to_string().contains("$payload") && !json!(seen).to_string().contains("$payload"));

    run(&clocked, "t").await;
    months(5).await;
    let after_year = rows_beside(&*store, t).await;
    assert_eq!(counts(&after_year), counts(&after_six), "as much goes as comes: {after_year:#?}");
    assert_eq!(rows_beside(&*store, held).await, all, "of a thread on hold nothing is deleted");
    assert_eq!(rows_beside(&*store, ever).await, ever_all, "nor of one that is to be kept for ever");
    clocked.instance.close().await;
}

/// While one process deletes what was too old, another finds that more is, and its base names what that had written.
#[tokio::test]
async fn what_another_process_shortened_a_log_to_stays_whole() {
    let database = Database::fresh().await;
    let slow = Moody::over(store_on(&database).await);
    let one = writing(slow.clone(), |_| {}).await;
    let (mut watcher, mut entries) = (database.connect().await, 0_i64);
    // More than one step deletes.
    while entries <= 200 {
        run(&one, "t").await;
        let count = sqlx::query_scalar("SELECT count(*) FROM observations");
        entries = count.fetch_one(&mut watcher).await.unwrap();
    }
    for days in [10, 10] {
        one.clock.advance(days * DAY);
        run(&one, "t").await;
    }
    one.clock.advance(71 * DAY);
    slow.set("drop_entries", Mood::Hangs);
    let service = one.instance.service().clone();
    let sweeping = tokio::spawn(async move { retention::sweep(&service).await });
    soon(slow.holds("drop_entries")).await;
    let before = one.page("t", 0).await.unwrap().min_seq;

    let stuck = Moody::over(store_on(&database).await);
    stuck.set("drop_entries", Mood::Hangs);
    let other = Clocked::at(TODAY + 101 * DAY, stuck.clone(), |_| {}).await;
    let service = other.instance.service().clone();
    let shortening = tokio::spawn(async move { retention::sweep(&service).await });
    soon(stuck.holds("drop_entries")).await;
    shortening.abort();
    let begun = one.page("t", 0).await.unwrap().min_seq;
    assert!(before < begun, "it begins later: {before}, {begun}");

    slow.set("drop_entries", Mood::Well);
    sweeping.await.unwrap().unwrap();
    let at = one.state("t", Some(begun - 1)).await.unwrap();
    assert!(at.to_string().contains("long long") && !at.to_string().contains("$payload"), "{at:#}");
    stuck.set("drop_entries", Mood::Well);
    other.instance.close().await;
    one.instance.close().await;
}

/// One process reads a log to shorten it, which another one does meanwhile.
#[tokio::test]
async fn a_log_that_another_process_shortens_fails_no_sweep() {
    let database = Database::fresh().await;
    let slow = Moody::over(store_on(&database).await);
    let one = writing(slow.clone(), |_| {}).await;
    run(&one, "t").await;
    one.clock.advance(101 * DAY);
    slow.set("observations", Mood::Hangs);
    let service = one.instance.service().clone();
    let sweeping = tokio::spawn(async move { retention::sweep(&service).await });
    soon(slow.holds("observations")).await;

    let other = Clocked::at(TODAY + 101 * DAY, store_on(&database).await, |_| {}).await;
    assert!(retention::sweep(other.instance.service()).await.unwrap());
    assert!(other.page("t", 0).await.unwrap().min_seq > 1);
    slow.set("observations", Mood::FailsOnce);
    assert!(sweeping.await.unwrap().unwrap());
    other.instance.close().await;
    one.instance.close().await;
}

/// That plan is part of the base of the deleted log, and only it names the result of its step.
#[tokio::test]
async fn what_a_plan_names_that_a_thread_went_back_to_stays() {
    let clocked = writing(fresh_store().await, |config| {
        config.agent.core = "pes".to_owned();
        config.limits.items_per_plan = 1;
    })
    .await;
    finish(&clocked, AgentProps::new("t", "first")).await;
    let said = clocked.messages("t").await;
    let answer = said.as_array().unwrap().last().unwrap()["messageId"].as_str().unwrap();
    let back = Some(ContinueAt::After(answer.into()));
    finish(&clocked, AgentProps::new("t", "second")).await;
    clocked.days_pass(50).await;
    finish(&clocked, AgentProps { continue_at: back, ..AgentProps::new("t", "second") }).await;
    let told = clocked.page("t", 0).await.unwrap().items;
    let went_back = told.iter().rfind(|seen| seen.content.get("superseded").is_some()).unwrap();
    let plan = told.iter().find(|seen| seen.seq > went_back.seq && seen.kind == ObservationType::Plan).unwrap();
    let then = clocked.state("t", Some(plan.seq)).await.unwrap()["todoList"].clone();
    assert!(then.to_string().contains("long long") && !then.to_string().contains("second"), "{then:#}");
    clocked.days_pass(41).await;
    let floor = clocked.page("t", 0).await.unwrap().min_seq;
    assert!(1 < floor && floor < plan.seq, "{floor}");
    assert_eq!(clocked.state("t", Some(plan.seq)).await.unwrap()["todoList"], then);
    clocked.instance.close().await;
}

/// An instance whose runs follow the script above.
async fn writing(store: Arc<dyn Store>, change: impl FnOnce(&mut Config)) -> Clocked {
    Clocked::on(store, |config| {
        config.models.demo.script = Some(demo::file(&SCRIPT.replace("LONG", &"long ".repeat(200))));
        config.agent.core = "react".to_owned();
        change(config);
    })
    .await
}

/// One run of the thread, whose question somebody answers.
async fn run(clocked: &Clocked, thread: &str) -> ThreadPk {
    finish(clocked, AgentProps::new(thread, "write to the team")).await;
    let tenant = clocked.instance.caller().tenant;
    clocked.store.thread(tenant, &thread.into()).await.unwrap().unwrap().pk
}

async fn finish(clocked: &Clocked, asked: AgentProps) {
    let thread = asked.thread_id.to_string();
    let fault = clocked.instance.process(asked).await.unwrap_err();
    assert_eq!(fault.code, Code::Suspended, "{fault:?}");
    let state = clocked.state(&thread, None).await.unwrap();
    let answer = json!({ "suspensionId": state["suspensions"][0]["suspensionId"], "approved": true });
    clocked.instance.resume(thread.as_str(), serde_json::from_value(answer).unwrap()).await.unwrap();
}
