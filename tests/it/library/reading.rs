//! What reading a log costs: a page costs its own size, and a reader that has caught up holds no memory.

use std::sync::Arc;

use pes::domain::facts::Fact;
use pes::domain::hitl::SuspensionKind;
use pes::domain::ids::{RunId, TenantPk, ThreadId, ThreadPk};
use pes::domain::observation::{ObservationType, Record};
use pes::domain::retention::Kept;
use pes::domain::run::{OnBusy, RunStatus};
use pes::domain::thread::ThreadProfile;
use pes::engine::step::{Row, RowKind};
use pes::live::EncodedKind;
use pes::service::a2a::tasks::{self, Messages};
use pes::service::feed::{self, After, FeedAsk};
use pes::service::once::Answered;
use pes::service::runs::{ContinueAt, ProcessAsk};
use pes::service::{runs, suspensions, threads};
use pes::store::{Commit, Committed, Fence, MAX_SCANNED, NewThread, Order, PageAsk, Store};
use pes::{AgentProps, Config, Instance};
use serde_json::{Value, json};

use crate::support::clocked::Clocked;
use crate::support::http::soon;
use crate::support::postgres::Database;
use crate::support::store::{Mood, Moody, fresh_store, store_on};

const PAGE: u32 = 100;
const PAGES: usize = 40;

fn record(n: usize, kind: ObservationType, content: &Value) -> Record {
    Record {
        id: format!("obs_{n}").into(),
        run_id: RunId::from("run_1"),
        parent_id: None,
        trace_id: String::new(),
        timestamp: 1,
        title: String::new(),
        fact: Fact::read(kind, content).unwrap(),
        metadata: None,
    }
}

fn creation() -> Commit {
    let (tenant, created_by) = (TenantPk(1), "ann".to_owned());
    let new = NewThread { tenant, thread_id: "t".into(), core: "pes".into(), created_at: 1, created_by };
    Commit::creating(ThreadPk(1), new, ThreadProfile::default(), None)
}

/// A later commit to the same thread.
fn next() -> Commit {
    Commit { create: None, profile: None, ..creation() }
}

/// A thread with a list of a hundred items of 4 KB, whose statuses change again and again.
async fn filled(store: &dyn Store) {
    let tenant = store.tenant("default", 1).await.unwrap();
    assert_eq!(tenant, TenantPk(1));
    let item = |n: usize| {
        json!({
            "id": format!("i{n}"), "description": "x".repeat(4_096), "status": "pending",
            "createdTimestamp": 1, "updatedTimestamp": 1,
        })
    };
    let list: Vec<Value> = (0..100).map(item).collect();
    let plan = json!({ "plan": "", "planVersion": 1, "todoList": list, "rawOutput": "" });
    let moved = |n: usize| {
        let status = if n.is_multiple_of(2) { "pending" } else { "in_progress" };
        let item = json!({ "status": status, "updatedTimestamp": 1 });
        let body = json!({ "itemId": "i7", "from": "pending", "status": status, "attempt": 1, "item": item });
        record(n, ObservationType::ItemStatusChange, &body)
    };
    for page in 0..PAGES {
        let first = page * PAGE as usize;
        let mut records: Vec<Record> = (first..first + PAGE as usize).map(moved).collect();
        let version = page as i64;
        let commit = if page == 0 {
            records[0] = record(0, ObservationType::Plan, &plan);
            Commit { records, ..creation() }
        } else {
            Commit { records, fence: Fence { version, ..Fence::NEW }, last_seq: first as i64, ..next() }
        };
        assert_eq!(store.commit(commit).await.unwrap(), Committed::Done);
    }
}

async fn instance() -> (Instance, Arc<Moody>) {
    let inner = fresh_store().await;
    filled(&*inner).await;
    let store = Moody::over(inner);
    // Its content is old.
    let mut config = Config::default();
    (config.retention.log_days, config.retention.thread_days) = (Kept::FOREVER, Kept::FOREVER);
    (Instance::build(config).store(store.clone()).open().await.unwrap(), store)
}

fn after(seq: i64) -> FeedAsk {
    FeedAsk { after: After::Seq(seq), types: Vec::new(), tokens: false, until: None, ends_suspended: false }
}

#[tokio::test]
async fn a_page_costs_what_it_holds() {
    let (instance, store) = instance().await;
    let id = ThreadId::from("t");
    let read = async |seq: i64| {
        let page = feed::page(instance.service(), instance.caller(), &id, after(seq), PAGE).await.unwrap();
        assert_eq!(page.items.len(), PAGE as usize);
        store.observations_read()
    };
    let last = i64::from(PAGE) * (PAGES as i64 - 1);
    assert!(read(last).await >= last as usize, "nothing is known of it yet");
    for page in 0..PAGES as i64 {
        let cost = read(page * i64::from(PAGE)).await;
        assert!(cost <= 8 * PAGE as usize, "page {page} read {cost} observations");
    }
    assert!(read(last).await <= 8 * PAGE as usize);
}

#[tokio::test]
async fn a_state_of_the_past_costs_what_stands_before_it_once() {
    let (instance, store) = instance().await;
    let id = ThreadId::from("t");
    let read = async |seq: i64| {
        let state = threads::state(instance.service(), instance.caller(), &id, Some(seq)).await.unwrap();
        (state, store.observations_read())
    };
    let last = i64::from(PAGE) * PAGES as i64;
    let (before, cost) = read(last).await;
    assert!(cost >= last as usize, "nothing is known of it yet");
    for seq in [last, last - 1, last / 2] {
        let cost = read(seq).await.1;
        assert!(cost <= 8 * PAGE as usize, "the state at {seq} read {cost} observations");
    }
    assert_eq!(read(last).await.0, before, "it is the same, wherever its fold began");
}

#[tokio::test]
async fn a_reader_that_has_caught_up_keeps_nothing_of_what_it_read() {
    let (instance, _store) = instance().await;
    let mut feed = feed::open(instance.service(), instance.caller(), &"t".into(), after(0)).await.unwrap();
    feed.next().await.expect("the log has a beginning");
    assert!(feed.bytes() > 400 << 10, "the list takes {}", feed.bytes());
    while feed.next().await.expect("it catches up").kind != EncodedKind::CaughtUp {}
    assert!(feed.bytes() < 64 << 10, "{}", feed.bytes());
}

#[tokio::test]
async fn whoever_goes_back_hears_nothing_of_the_run_that_made_way() {
    let clocked = Clocked::on(fresh_store().await, |_| {}).await;
    let (service, caller, id) = (clocked.instance.service(), clocked.instance.caller(), ThreadId::from("t"));
    clocked.suspend("t").await;
    let (continue_at, on_busy) = (Some(ContinueAt::Start), OnBusy::Interrupt);
    let ask = ProcessAsk { query: "hello".into(), continue_at, on_busy, ..ProcessAsk::default() };
    let (answered, early) = runs::process_subscribed(service, caller, &id, ask, None).await.unwrap();
    let Answered::Fresh(receipt) = answered else { panic!("{answered:?}") };
    let from = FeedAsk { after: early.expect("it listens").after(), ..FeedAsk::default() };
    let told = feed::page(service, caller, &id, from, 20).await.unwrap().items;
    assert!(told.iter().any(|seen| seen.run_id == receipt.run_id));
    // The observation of the rewind belongs to no run.
    let others = told.iter().filter(|seen| !seen.run_id.as_str().is_empty() && seen.run_id != receipt.run_id);
    assert_eq!(others.map(|seen| seen.kind).collect::<Vec<_>>(), []);
    clocked.instance.close().await;
}

#[tokio::test]
async fn a_client_that_hangs_up_as_its_query_goes_back_has_asked_it() {
    let store = Moody::fresh().await;
    let clocked = Clocked::on(store.clone(), |_| {}).await;
    let (service, caller, id) = (clocked.instance.service(), clocked.instance.caller(), ThreadId::from("t"));
    clocked.suspend("t").await;
    let (continue_at, on_busy) = (Some(ContinueAt::Start), OnBusy::Interrupt);
    let ask = ProcessAsk { query: "hello".into(), continue_at, on_busy, ..ProcessAsk::default() };
    // Read once before the run is cancelled, and once after it.
    store.set("messages", Mood::HangsNext);
    tokio::select! {
        answered = runs::process(service, caller, &id, ask, None) => panic!("{answered:?}"),
        () = store.holds("messages") => {}
    }
    store.set("messages", Mood::Well);
    let stands = async {
        loop {
            let page = PageAsk { cursor: None, limit: 9 };
            let found = runs::list(service, caller, None, Some(&id), page).await.unwrap().items;
            let stands: Vec<_> = found.iter().map(|run| run.status).collect();
            if stands.len() == 2 && stands.iter().all(|status| status.is_terminal()) {
                return stands;
            }
            tokio::task::yield_now().await;
        }
    };
    let mut stands = soon(stands).await;
    stands.sort_unstable_by_key(|status| status.as_str());
    assert_eq!(stands, [RunStatus::Cancelled, RunStatus::Completed]);
    clocked.instance.close().await;
}

#[tokio::test]
async fn whoever_reads_until_a_run_asks_is_told_so_also_where_it_is_answered_meanwhile() {
    let store = Moody::fresh().await;
    let clocked = Clocked::on(store.clone(), |_| {}).await;
    let (service, caller, id) = (clocked.instance.service(), clocked.instance.caller(), ThreadId::from("t"));
    clocked.suspend("t").await;
    let run = runs::list(service, caller, None, Some(&id), PageAsk { cursor: None, limit: 1 }).await.unwrap();
    let until = Some(run.items[0].run_id.clone());
    let ask = FeedAsk { after: After::Latest, until, ends_suspended: true, ..FeedAsk::default() };
    let mut feed = feed::open(service, caller, &id, ask).await.unwrap();
    // Between the read of the run and the end of the feed.
    store.set("thread_versions", Mood::Hangs);
    let read = async {
        let mut stands = Vec::new();
        while let Some(frame) = feed.next().await {
            if let EncodedKind::Run { status, .. } = &frame.kind {
                stands.push(*status);
            }
        }
        stands
    };
    let answered = async {
        store.holds("thread_versions").await;
        let open = suspensions::open_on(service, caller, &id).await.unwrap().remove(0);
        let answer = json!({ "suspensionId": open.suspension_id, "approved": true });
        clocked.instance.resume("t", serde_json::from_value(answer).unwrap()).await.unwrap();
        store.set("thread_versions", Mood::Well);
    };
    let (stands, ()) = tokio::join!(read, answered);
    assert_eq!(stands, [RunStatus::Suspended]);
    clocked.instance.close().await;
}

#[tokio::test]
async fn a_task_that_was_cancelled_is_shown_without_what_was_said_later() {
    let store = Moody::fresh().await;
    let clocked = Clocked::on(store.clone(), |_| {}).await;
    let (service, caller) = (clocked.instance.service(), clocked.instance.caller());
    clocked.suspend("t").await;
    let runs = runs::list(service, caller, None, None, PageAsk { cursor: None, limit: 1 }).await.unwrap();
    let run = &runs.items[0].run_id;
    runs::cancel(service, caller, run, None).await.unwrap();
    clocked.clock.advance(120_000);
    // Two messages each: more than one page.
    for _ in 0..51 {
        clocked.finish("t").await;
    }
    store.set("rows", Mood::HangsNext);
    tokio::select! {
        shown = tasks::get(service, caller, run, Messages::All) => {
            let said: Vec<_> = shown.unwrap().messages.into_iter().map(|message| message.run_id).collect();
            assert_eq!(said, [Some(run.clone())], "what was asked");
        }
        () = store.holds("rows") => panic!("it reads on"),
    }
    store.set("rows", Mood::Well);
    clocked.instance.close().await;
}

#[tokio::test]
async fn a_reader_that_has_caught_up_reads_nothing_again_when_a_run_begins() {
    let (instance, store) = instance().await;
    let ask = FeedAsk { after: After::Latest, ..after(0) };
    let mut feed = feed::open(instance.service(), instance.caller(), &"t".into(), ask).await.unwrap();
    while feed.next().await.expect("it catches up").kind != EncodedKind::CaughtUp {}
    store.set("observations", Mood::Fails);
    instance.process(AgentProps::new("t", "3+3")).await.unwrap();
    loop {
        let frame = feed.next().await.expect("the run is told");
        assert_ne!(frame.kind, EncodedKind::Gap, "it read the store");
        if matches!(frame.kind, EncodedKind::Observation { kind: ObservationType::RunFinished, .. }) {
            return;
        }
    }
}

/// Another process writes four pages of observations of these runs, and then one more.
#[tokio::test]
async fn the_runs_of_a_long_backlog_are_read_once() {
    const RUNS: usize = 30;
    let database = Database::fresh().await;
    let inner: Arc<dyn Store> = store_on(&database).await;
    filled(&*inner).await;
    let store = Moody::over(inner.clone());
    let mut config = Config::default();
    (config.retention.log_days, config.retention.thread_days) = (Kept::FOREVER, Kept::FOREVER);
    let instance = Instance::build(config).store(store.clone()).open().await.unwrap();
    let ask = FeedAsk { after: After::Latest, ..after(0) };
    let mut feed = feed::open(instance.service(), instance.caller(), &"t".into(), ask).await.unwrap();
    while feed.next().await.expect("it catches up").kind != EncodedKind::CaughtUp {}
    store.calls("row");
    let body = json!({ "stateVersion": 1, "keys": [], "data": {} });
    for (version, first, count) in [(PAGES, 4_000, 800), (PAGES + 1, 4_800, 1)] {
        let observed = |n: usize| Record {
            run_id: format!("run_{}", n % RUNS).as_str().into(),
            ..record(n, ObservationType::StateUpdate, &body)
        };
        let records = (first..first + count).map(observed).collect();
        let row = inner.thread_by_pk(ThreadPk(1)).await.unwrap().unwrap();
        assert_eq!((row.fence.version, row.last_seq), (version as i64, first as i64));
        let commit = Commit { records, fence: row.fence, last_seq: row.last_seq, ..next() };
        assert_eq!(inner.commit(commit).await.unwrap(), Committed::Done);
        for _ in 0..count {
            let frame = soon(feed.next()).await.expect("it goes on");
            assert!(matches!(frame.kind, EncodedKind::Observation { .. }), "{:?}", frame.kind);
        }
    }
    assert!(store.calls("row") <= RUNS);
}

#[tokio::test]
async fn answers_are_read_together_and_open_questions_without_their_thread() {
    let store = Moody::fresh().await;
    let clocked = Clocked::on(store.clone(), |_| {}).await;
    let (service, caller) = (clocked.instance.service(), clocked.instance.caller());
    for _ in 0..3 {
        clocked.finish("answered").await;
    }
    clocked.suspend("asking").await;
    for call in ["load", "row", "rows_by_id", "suspensions"] {
        store.calls(call);
    }
    let runs = runs::of_thread(service, caller, &"answered".into(), PageAsk::first(10)).await.unwrap().items;
    assert_eq!(runs.iter().filter(|run| run.result.is_some()).count(), 3);
    assert_eq!((store.calls("row"), store.calls("rows_by_id")), (0, 1));
    let open = suspensions::open_on(service, caller, &"asking".into()).await.unwrap();
    assert_eq!((open.len(), store.calls("load"), store.calls("suspensions")), (1, 0, 1));
    clocked.instance.close().await;
}

#[tokio::test]
async fn of_past_questions_those_that_are_not_wanted_are_not_read_whole() {
    let counted = Moody::fresh().await;
    let store: Arc<dyn Store> = counted.clone();
    let clocked = Clocked::on(store.clone(), |_| {}).await;
    let (service, caller, id) = (clocked.instance.service(), clocked.instance.caller(), ThreadId::from("t"));
    let answer = clocked.suspend("t").await;
    clocked.resume("t", answer).await;
    let (page, row) = (PageAsk::first(9), store.thread(caller.tenant, &id).await.unwrap().unwrap());
    let asked = store.rows(row.pk, RowKind::Suspension, Order::Ascending, &page).await.unwrap().items.remove(0);
    let mut body: Value = serde_json::from_str(&asked.body).unwrap();
    let run = body["runId"].as_str().unwrap().into();
    (body["kind"], body["toolInput"]) = ("client_tool".into(), json!({ "$payload": "large" }));
    let call = Row { id: "sus_z".to_owned(), body: body.to_string(), ..asked };
    let commit = Commit { pk: row.pk, rows: vec![call], fence: row.fence, last_seq: row.last_seq, ..next() };
    assert_eq!(store.commit(commit).await.unwrap(), Committed::Done);
    for (kind, payloads) in [(SuspensionKind::ClientTool, 1), (SuspensionKind::Approval, 0)] {
        counted.calls("payloads");
        let past = suspensions::past_of_run(service, caller, &id, &run, |one| one.kind == kind).await.unwrap();
        assert_eq!((past.len(), counted.calls("payloads")), (1, payloads), "{kind:?}");
    }
    clocked.instance.close().await;
}

/// Doors that take a text as an answer ask who answered last: the caller may not have seen what is asked now.
#[tokio::test]
async fn who_answered_last_is_found_however_many_questions_there_were_since() {
    let store = fresh_store().await;
    let clocked = Clocked::on(store.clone(), |_| {}).await;
    let (service, caller, id) = (clocked.instance.service(), clocked.instance.caller(), ThreadId::from("t"));
    let answer = clocked.suspend("t").await;
    clocked.resume("t", answer).await;
    clocked.finish("other").await;
    let page = PageAsk::first(9);
    let run = runs::list(service, caller, None, Some(&id), page.clone()).await.unwrap().items.remove(0).run_id;
    assert_eq!(suspensions::last_ended_by(service, caller, &id, &run).await.unwrap().as_deref(), Some(&*caller.name));
    // Questions of the run and of another thread that were asked later and answered before.
    for (thread, count) in [("t", 150), ("other", MAX_SCANNED)] {
        let row = store.thread(caller.tenant, &thread.into()).await.unwrap().unwrap();
        let asked = store.thread(caller.tenant, &id).await.unwrap().unwrap().pk;
        let asked = store.rows(asked, RowKind::Suspension, Order::Ascending, &page).await.unwrap().items.remove(0);
        let mut body: Value = serde_json::from_str(&asked.body).unwrap();
        (body["resolution"]["decidedBy"], body["resolution"]["decidedAt"]) = ("bob".into(), 1.into());
        let later = |n: u32| Row { id: format!("sus_z{n:05}"), body: body.to_string(), ..asked.clone() };
        let rows = (0..count).map(later).collect();
        let commit = Commit { pk: row.pk, rows, fence: row.fence, last_seq: row.last_seq, ..next() };
        assert_eq!(store.commit(commit).await.unwrap(), Committed::Done);
    }
    assert_eq!(suspensions::last_ended_by(service, caller, &id, &run).await.unwrap().as_deref(), Some(&*caller.name));
    clocked.instance.close().await;
}
