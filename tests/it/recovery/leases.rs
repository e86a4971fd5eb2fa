//! A lease ends at its deadline, whatever the store does, and no call starts or continues without one.

use std::sync::Arc;
use std::time::Duration;

use pes::Instance;
use pes::config::Synchronous;
use pes::domain::fault::Code;
use pes::domain::ids::{RunId, ThreadPk};
use pes::domain::observation::{Observation, ObservationType};
use pes::domain::payload::INLINE_LIMIT;
use pes::domain::run::RunStatus;
use pes::domain::thread::ThreadProfile;
use pes::live::EncodedKind;
use pes::service::feed::{self, After, FeedAsk};
use pes::store::sqlite::Sqlite;
use pes::store::{Commit, Committed, NewThread};
use rstest::rstest;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Executor};
use tokio::task::yield_now;
use tokio::time::{Instant, advance, pause, resume, sleep};

use super::probe::{Probe, Tally, ask, instance};
use crate::support::http::soon;
use crate::support::store::{Mood, Moody, fresh_store};
use pes::service::runs;
use pes::service::threads;

/// A fifth before the end of the 10 s lease in the store.
const DEADLINE: Duration = Duration::from_secs(8);

async fn bed() -> (Arc<Moody>, Probe, Instance) {
    let (store, probe) = (Moody::with_leases().await, Probe::new());
    let instance = instance(store.clone(), &probe, |_| {}).await;
    (store, probe, instance)
}

/// Checks that the log is contiguous and the run has ended; returns its outcome.
async fn ended(instance: &Instance, run: &RunId) -> RunStatus {
    let (service, caller) = (instance.service(), instance.caller());
    let waited = runs::wait(service, caller, run, Duration::from_secs(120)).await.unwrap();
    let log = feed::page(service, caller, &"t".into(), FeedAsk::default(), 500).await.unwrap();
    let seqs: Vec<i64> = log.items.iter().map(|seen| seen.seq).collect();
    assert_eq!(seqs, (1..=seqs.len() as i64).collect::<Vec<_>>());
    waited.run.status
}

/// Returns once the thread's log has such an observation.
async fn logged(instance: &Instance, thread: &str, is_wanted: impl Fn(&Observation) -> bool) {
    let (service, caller) = (instance.service(), instance.caller());
    while !feed::page(service, caller, &thread.into(), FeedAsk::default(), 200)
        .await
        .unwrap()
        .items
        .iter()
        .any(&is_wanted)
    {
        sleep(Duration::from_millis(10)).await;
    }
}

#[rstest]
#[case(Mood::Hangs)]
#[case(Mood::Fails)]
#[tokio::test(start_paused = true)]
async fn what_runs_is_aborted_at_the_deadline_whatever_the_store_does(#[case] mood: Mood) {
    let (store, probe, instance) = bed().await;
    ask(&instance, "t", "hang").await;
    probe.reaches(|tally| tally.begun == 1).await;
    let asked = Instant::now();
    store.set("*", mood);
    // The thread's own task also waits for the store while it hangs.
    let service = instance.service().clone();
    let caller = instance.caller().clone();
    tokio::spawn(async move { runs::pause(&service, &caller, &"t".into(), None).await });
    while probe.tally().over == 0 {
        sleep(Duration::from_millis(10)).await;
        assert!(asked.elapsed() <= DEADLINE + Duration::from_millis(20), "it still runs");
    }
}

/// The folder lock is the lease: no other process can take it, however long another program blocks the database.
#[tokio::test]
async fn what_runs_goes_on_while_another_program_locks_the_database_for_longer_than_a_lease() {
    let (folder, probe) = (tempfile::tempdir().unwrap(), Probe::new());
    let store = Sqlite::open(folder.path(), Synchronous::Normal).await.unwrap();
    let instance = instance(Arc::new(store), &probe, |_| {}).await;
    let run = ask(&instance, "t", "hang").await;
    probe.reaches(|tally| tally.begun == 1).await;
    let mut other = SqliteConnectOptions::new().filename(folder.path().join("pes.db")).connect().await.unwrap();
    other.execute("BEGIN IMMEDIATE").await.unwrap();
    pause();
    for _ in 0..3 * DEADLINE.as_secs() {
        advance(Duration::from_secs(1)).await;
        yield_now().await;
    }
    assert_eq!(probe.tally(), Tally { begun: 1, over: 0 }, "it was aborted");
    resume();
    other.execute("ROLLBACK").await.unwrap();
    let (service, caller) = (instance.service(), instance.caller());
    soon(runs::cancel_thread(service, caller, &"t".into(), None)).await.unwrap();
    assert_eq!(ended(&instance, &run).await, RunStatus::Cancelled);
    assert_eq!(probe.tally(), Tally { begun: 1, over: 1 });
}

#[tokio::test(start_paused = true)]
async fn a_tool_does_not_start_when_the_lease_ended_while_it_was_prepared() {
    let (store, probe, instance) = bed().await;
    // Long enough that the call's arguments are a payload of their own, which is read before the call starts.
    let run = ask(&instance, "t", &format!("call {}", "x".repeat(INLINE_LIMIT))).await;
    logged(&instance, "t", |seen| seen.kind == ObservationType::LlmStreamStart && seen.parent_id.is_some()).await;
    store.set("payloads", Mood::Hangs);
    store.holds("payloads").await;
    for call in ["renew", "register"] {
        store.set(call, Mood::Hangs);
    }
    sleep(DEADLINE + Duration::from_millis(100)).await;
    store.set("payloads", Mood::Well);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(probe.tally(), Tally::default(), "it was called without a right to");
    for call in ["renew", "register"] {
        store.set(call, Mood::Well);
    }
    assert_eq!(ended(&instance, &run).await, RunStatus::Completed);
    assert_eq!(probe.tally(), Tally { begun: 1, over: 1 });
}

/// A tool's result is kept for a store that returns within the lease. Later the call counts as lost, and is repeated if
/// the tool is idempotent.
#[rstest]
#[case(Duration::from_secs(5), 1)]
#[case(Duration::from_secs(60), 2)]
#[tokio::test(start_paused = true)]
async fn a_store_that_goes_away_and_comes_back_loses_nothing(#[case] away: Duration, #[case] calls: usize) {
    let (store, probe, instance) = bed().await;
    let run = ask(&instance, "t", "late").await;
    probe.reaches(|tally| tally.begun == 1).await;
    store.set("*", Mood::Fails);
    sleep(away).await;
    assert_eq!(probe.tally(), Tally { begun: 1, over: 1 }, "nothing starts without the store");
    store.set("*", Mood::Well);
    assert_eq!(ended(&instance, &run).await, RunStatus::Completed);
    assert_eq!(probe.tally(), Tally { begun: calls, over: calls });
}

#[tokio::test(start_paused = true)]
async fn a_process_that_lost_its_lease_goes_on_as_another_incarnation() {
    let (store, probe, instance) = bed().await;
    let run = ask(&instance, "t", "late").await;
    probe.reaches(|tally| tally.begun == 1).await;
    store.set("renew", Mood::Hangs);
    assert_eq!(ended(&instance, &run).await, RunStatus::Completed);
    for call in ["again", "and again"] {
        sleep(DEADLINE * 2).await;
        let run = ask(&instance, "t", call).await;
        assert_eq!(ended(&instance, &run).await, RunStatus::Completed, "{call}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_thread_whose_erasure_failed_goes_on() {
    let (store, probe, instance) = bed().await;
    let run = ask(&instance, "t", "late").await;
    probe.reaches(|tally| tally.begun == 1).await;
    store.set("delete_thread", Mood::Fails);
    let refused = threads::delete(instance.service(), instance.caller(), &"t".into()).await.unwrap_err();
    assert_eq!(refused.code.as_str(), "store_unavailable");
    assert_eq!(ended(&instance, &run).await, RunStatus::Completed);
}

/// The store accepts neither the result nor the erasure. The result is known all the same, and the tool is not called
/// again.
#[tokio::test(start_paused = true)]
async fn what_a_tool_brought_outlasts_an_erasure_that_failed() {
    let (store, probe, instance) = bed().await;
    let run = ask(&instance, "t", "late").await;
    probe.reaches(|tally| tally.begun == 1).await;
    for call in ["commit", "delete_thread"] {
        store.set(call, Mood::Fails);
    }
    sleep(Duration::from_secs(5)).await;
    assert_eq!(probe.tally(), Tally { begun: 1, over: 1 });
    threads::delete(instance.service(), instance.caller(), &"t".into()).await.unwrap_err();
    store.set("commit", Mood::Well);
    assert_eq!(ended(&instance, &run).await, RunStatus::Completed);
    assert_eq!(probe.tally(), Tally { begun: 1, over: 1 });
}

/// How the log says that the only call ended.
async fn end_of_its_call(instance: &Instance) -> serde_json::Value {
    let ask = FeedAsk { types: vec![ObservationType::ToolExecution], ..FeedAsk::default() };
    let log = feed::page(instance.service(), instance.caller(), &"t".into(), ask, 500).await.unwrap();
    let [ended] = &log.items[..] else { panic!("{:?}", log.items) };
    ended.content["status"].clone()
}

/// The result waits for the store when the cancel comes.
#[tokio::test(start_paused = true)]
async fn what_a_tool_brought_before_a_cancel_is_recorded() {
    let (store, probe, instance) = bed().await;
    let run = ask(&instance, "t", "late").await;
    probe.reaches(|tally| tally.begun == 1).await;
    store.set("commit", Mood::Fails);
    sleep(Duration::from_secs(5)).await;
    assert_eq!(probe.tally(), Tally { begun: 1, over: 1 });
    store.set("commit", Mood::Well);
    runs::cancel_thread(instance.service(), instance.caller(), &"t".into(), None).await.unwrap();
    assert_eq!(ended(&instance, &run).await, RunStatus::Cancelled);
    assert_eq!(end_of_its_call(&instance).await, "success");
}

/// The tool returns while the cancel is being committed.
#[tokio::test(start_paused = true)]
async fn what_a_tool_brought_during_a_cancel_is_recorded() {
    let (store, probe, instance) = bed().await;
    let run = ask(&instance, "t", "late").await;
    probe.reaches(|tally| tally.begun == 1).await;
    store.set("commit", Mood::Hangs);
    let (service, caller) = (instance.service().clone(), instance.caller().clone());
    let cancelling = tokio::spawn(async move { runs::cancel_thread(&service, &caller, &"t".into(), None).await });
    store.holds("commit").await;
    probe.reaches(|tally| tally.over == 1).await;
    store.set("commit", Mood::Well);
    cancelling.await.unwrap().unwrap();
    assert_eq!(ended(&instance, &run).await, RunStatus::Cancelled);
    assert_eq!(end_of_its_call(&instance).await, "success");
}

/// The store refuses a tool's result and the failure in its place, so the call is made again, as its tool declares; or it
/// refuses the question of a running call, which is then cancelled.
#[rstest]
#[case("late", 2, Tally { begun: 2, over: 2 })]
#[case("inquire", 1, Tally { begun: 1, over: 1 })]
#[tokio::test(start_paused = true)]
async fn no_call_waits_for_ever_when_the_store_refuses_what_it_brought(
    #[case] query: &str,
    #[case] refusals: usize,
    #[case] calls: Tally,
) {
    let (store, probe, instance) = bed().await;
    let run = ask(&instance, "t", query).await;
    logged(&instance, "t", |seen| seen.kind == ObservationType::LlmStreamStart && seen.parent_id.is_some()).await;
    // The next commit starts the tool.
    store.set("commit", Mood::HangsNext);
    store.holds("commit").await;
    assert_eq!(probe.tally().begun, 1);
    store.set("commit", Mood::Refuses(refusals));
    assert_eq!(ended(&instance, &run).await, RunStatus::Completed);
    assert_eq!(probe.tally(), calls);
}

/// A tool that does not yield cannot be stopped; its result is ignored. A cancel waits 2 s for it, and a drain after that
/// not at all, however long it may take.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn code_that_does_not_yield_holds_up_neither_a_cancel_nor_a_drain() {
    let probe = Probe::new();
    let instance = instance(fresh_store().await, &probe, |config| config.runtime.drain_ms = 3_600_000).await;
    let run = ask(&instance, "t", "block").await;
    probe.reaches(|tally| tally.begun == 1).await;
    let (service, caller, thread) = (instance.service(), instance.caller(), "t".into());
    let cancelling = runs::cancel_thread(service, caller, &thread, None);
    soon(cancelling).await.unwrap();
    assert_eq!(ended(&instance, &run).await, RunStatus::Cancelled);
    assert_eq!(probe.tally().over, 0, "it is still at it");
    soon(service.drain()).await;
    assert_eq!(probe.tally().over, 0, "it is still at it");
    probe.release();
}

/// The run is not cancelled: the next process looks after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn code_that_does_not_yield_in_a_running_run_does_not_hold_up_a_drain() {
    let probe = Probe::new();
    let instance = instance(fresh_store().await, &probe, |config| config.runtime.drain_ms = 3_000).await;
    ask(&instance, "t", "block").await;
    probe.reaches(|tally| tally.begun == 1).await;
    soon(instance.service().drain()).await;
    assert_eq!(probe.tally(), Tally { begun: 1, over: 0 }, "it is still at it");
    probe.release();
}

/// A thread's task that waits for the store does not delay the timers of other threads.
#[tokio::test]
async fn a_thread_that_is_slow_to_wake_delays_no_other() {
    let (store, _probe, instance) = bed().await;
    let slow = ask(&instance, "slow", "retry").await;
    logged(&instance, "slow", |seen| seen.kind == ObservationType::LlmStreamError).await;
    store.set("commit", Mood::HangsOnce);
    store.holds("commit").await;
    let other = ask(&instance, "t", "retry").await;
    assert_eq!(ended(&instance, &other).await, RunStatus::Completed);
    let seen = runs::get(instance.service(), instance.caller(), &slow).await.unwrap();
    assert_eq!(seen.status, RunStatus::Running, "it is the one that waits");
}

/// Overdue threads of a core that no longer exists, more than are loaded at once.
#[tokio::test]
async fn threads_that_cannot_be_looked_after_keep_no_other_from_being_taken_over() {
    let (store, probe) = (fresh_store().await, Probe::new());
    let tenant = store.tenant("default", 1).await.unwrap();
    for pk in 1..=300 {
        let new = NewThread {
            tenant,
            thread_id: format!("old{pk}").into(),
            core: "gone".into(),
            created_at: 1,
            created_by: "ann".into(),
        };
        let creation =
            Commit { wake_at: Some(1), ..Commit::creating(ThreadPk(pk), new, ThreadProfile::default(), None) };
        assert_eq!(store.commit(creation).await.unwrap(), Committed::Done);
    }
    let first = instance(store.clone(), &probe, |_| {}).await;
    let run = ask(&first, "t", "retry").await;
    logged(&first, "t", |seen| seen.kind == ObservationType::LlmStreamError).await;
    soon(first.service().drain()).await;
    let next = instance(store, &probe, |_| {}).await;
    let waiting = runs::wait(next.service(), next.caller(), &run, Duration::from_secs(600));
    assert_eq!(soon(waiting).await.unwrap().run.status, RunStatus::Completed);
}

#[tokio::test]
async fn who_waits_for_any_run_of_a_thread_hears_that_it_is_erased() {
    let (_store, _probe, instance) = bed().await;
    ask(&instance, "t", "hang").await;
    let queued = ask(&instance, "t", "talk").await;
    let (service, caller, thread) = (instance.service(), instance.caller(), "t".into());
    let waiting = runs::wait(service, caller, &queued, Duration::from_secs(600));
    let (waited, erased) = soon(async { tokio::join!(waiting, threads::delete(service, caller, &thread)) }).await;
    erased.unwrap();
    assert_eq!(waited.unwrap_err().code, Code::NotFound);
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_a_store_that_cannot_tell_its_arguments() {
    let (store, probe, instance) = bed().await;
    store.set("payloads", Mood::Fails);
    let run = ask(&instance, "t", &format!("call {}", "x".repeat(INLINE_LIMIT))).await;
    sleep(DEADLINE * 2).await;
    assert_eq!(probe.tally(), Tally::default(), "it was called without its arguments");
    store.set("payloads", Mood::Well);
    assert_eq!(ended(&instance, &run).await, RunStatus::Completed);
    assert_eq!(probe.tally(), Tally { begun: 1, over: 1 });
}

/// Incomplete data is not sent, and a client whom the store cannot serve is told to retry.
#[tokio::test(start_paused = true)]
async fn who_listens_gets_no_reference_in_the_place_of_a_value() {
    let (store, probe, instance) = bed().await;
    ask(&instance, "t", &format!("call {}", "x".repeat(INLINE_LIMIT))).await;
    let ask = FeedAsk { after: After::Seq(0), types: Vec::new(), tokens: false, until: None, ends_suspended: false };
    let mut feed = feed::open(instance.service(), instance.caller(), &"t".into(), ask).await.unwrap();
    let listening = tokio::spawn(async move {
        let mut frames = Vec::new();
        while let Some(frame) = feed.next().await {
            frames.push(frame);
        }
        frames
    });
    probe.reaches(|tally| tally.over == 1).await;
    // The next prompt is rendered by then, and the reply that completes the list is not there yet.
    sleep(Duration::from_millis(50)).await;
    store.set("payloads", Mood::Fails);
    let frames = soon(listening).await.unwrap();
    for frame in &frames {
        let json = frame.json();
        let told = String::from_utf8_lossy(&json);
        assert!(!told.contains("$payload"), "{told}");
    }
    let last = frames.last().unwrap();
    assert_eq!(last.kind, EncodedKind::LogUnreadable);
    assert!(String::from_utf8_lossy(&last.json()).contains(r#""event":"gap""#), "{last:?}");
}
