//! A database that goes back to an earlier state while replicas run, as after a failover to a standby that lacked the last
//! commits.

use std::time::Duration;

use metrics_exporter_prometheus::PrometheusBuilder;
use pes::Instance;
use pes::domain::fault::Code;
use pes::domain::run::RunStatus;
use pes::live::EncodedKind;
use pes::service::feed::{self, After, Feed, FeedAsk};
use pes::service::{fork, runs, threads};
use sqlx::Executor as _;

use super::probe::{Probe, ask, instance};
use super::replicas::{LONG, cancel, replica, store};
use crate::support::clocked::{Clocked, DAY, TODAY};
use crate::support::http::{soon, until};
use crate::support::metrics::found;
use crate::support::postgres::Database;
use crate::support::store::{Mood, Moody};

/// Tells a listener that all it has is gone.
const GAP: &str = r#"{"event":"gap","data":{"fromSeq":1}}"#;

/// Takes back the last commits of all threads: their logs end with their first commits, which are their first versions.
/// Returns the last seq of one of them.
async fn go_back(database: &Database) -> i64 {
    let mut other = database.connect().await;
    other.execute("DELETE FROM observations WHERE seq > (SELECT min(seq) FROM observations)").await.unwrap();
    let shorter = "UPDATE threads SET version = 1, last_seq = (SELECT max(seq) FROM observations) RETURNING last_seq";
    sqlx::query_scalar(shorter).fetch_one(&mut other).await.unwrap()
}

#[tokio::test]
async fn each_thread_that_went_back_is_reported_once() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let metrics = recorder.handle();
    let _recording = metrics::set_default_local_recorder(&recorder);
    let counted = || found(&metrics.render(), "pes_threads_went_back_total").unwrap_or_default();
    let (database, probe) = (Database::fresh().await, Probe::new());
    let owner = replica(&database, &probe, LONG).await;
    ask(&owner, "t", "hang").await;
    probe.reaches(|tally| tally.begun == 1).await;
    let mut other = database.connect().await;
    other.execute("UPDATE threads SET version = version - 1").await.unwrap();
    until("it is reported", async || counted() == 1.0).await;
    other.execute("UPDATE threads SET version = version - 1").await.unwrap();
    assert_eq!(cancel(&owner).await, 1, "its owner goes on with it as it is stored");
    assert_eq!(counted(), 1.0);
}

async fn open(instance: &Instance, thread: &str, after: After) -> Feed {
    let ask = FeedAsk { after, types: Vec::new(), tokens: false, until: None, ends_suspended: false };
    feed::open(instance.service(), instance.caller(), &thread.into(), ask).await.unwrap()
}

/// Has a run of this thread carried out, and listens to it from then on.
async fn listen(instance: &Instance, thread: &str) -> Feed {
    let run = ask(instance, thread, "call").await;
    let waited = runs::wait(instance.service(), instance.caller(), &run, Duration::from_secs(15)).await.unwrap();
    assert_eq!(waited.run.status, RunStatus::Completed);
    let mut listening = open(instance, thread, After::Latest).await;
    frames(&mut listening, EncodedKind::CaughtUp).await;
    listening
}

/// Waits until the watch at other replicas knows the threads that are listened to. It reads versions once or twice at each look:
/// at the third time from now on, a look that has begun since is over.
async fn are_watched(store: &Moody) {
    store.calls("thread_versions");
    let mut reads = 0;
    until("the watch knows the threads", async || {
        reads += store.calls("thread_versions");
        reads >= 3
    })
    .await;
}

/// The frames until this one, and it.
async fn frames(feed: &mut Feed, last: EncodedKind) -> Vec<String> {
    let mut frames = Vec::new();
    loop {
        let frame = soon(feed.next()).await.expect("it goes on");
        frames.push(if let EncodedKind::Observation { seq, .. } = &frame.kind {
            format!("observation {seq}")
        } else {
            String::from_utf8_lossy(&frame.json()).into_owned()
        });
        if frame.kind == last {
            return frames;
        }
    }
}

#[tokio::test]
async fn whoever_has_more_than_the_log_that_went_back_is_told_to_begin_anew() {
    let (database, probe) = (Database::fresh().await, Probe::new());
    let watched = Moody::over(store(&database).await);
    let owner = instance(watched.clone(), &probe, |config| config.runtime.lease_ms = LONG).await;
    let mut listening = listen(&owner, "t").await;
    let thread = "t".into();
    let page = |ask| feed::page(owner.service(), owner.caller(), &thread, ask, 500);
    let at = |seq| FeedAsk { after: After::Seq(seq), ..FeedAsk::default() };
    let known = page(at(0)).await.unwrap().last_seq;
    assert!(page(at(known)).await.unwrap().items.is_empty());
    are_watched(&watched).await;

    let last = go_back(&database).await;
    assert!(last < known);
    assert_eq!(frames(&mut listening, EncodedKind::Gap).await, [GAP], "it is connected");
    assert!(soon(listening.next()).await.is_none(), "and comes again");
    let refused = page(at(known)).await.unwrap_err();
    assert_eq!((refused.code, &refused.extra.unwrap()["minSeq"]), (Code::HistoryCompacted, &1.into()));
    let told = frames(&mut open(&owner, "t", After::Seq(known)).await, EncodedKind::CaughtUp).await;
    let mut expected = vec![GAP.to_owned()];
    expected.extend((1..=last).map(|seq| format!("observation {seq}")));
    expected.push(format!(r#"{{"event":"caught_up","data":{{"seq":{last}}}}}"#));
    assert_eq!(told, expected);
}

#[tokio::test]
async fn all_who_listen_are_told_although_a_thread_that_went_back_cannot_be_read() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let metrics = recorder.handle();
    let _recording = metrics::set_default_local_recorder(&recorder);
    let counted = || found(&metrics.render(), "pes_threads_went_back_total").unwrap_or_default();
    let (database, probe) = (Database::fresh().await, Probe::new());
    let watched = Moody::over(store(&database).await);
    let owner = instance(watched.clone(), &probe, |config| config.runtime.lease_ms = LONG).await;
    let mut listening = [listen(&owner, "t").await, listen(&owner, "u").await];
    are_watched(&watched).await;
    // The watch reads one of the threads to report it.
    watched.set("thread_by_pk", Mood::FailsOnce);
    watched.calls("thread_by_pk");
    go_back(&database).await;
    // Before those who listen do, who read it, too.
    until("it reads it", async || watched.calls("thread_by_pk") > 0).await;
    for feed in &mut listening {
        assert_eq!(frames(feed, EncodedKind::Gap).await, [GAP]);
    }
    until("both are reported in the end", async || counted() == 2.0).await;
}

/// Takes back what the only thread's log has after this seq.
async fn lose_after(database: &Database, seq: i64) {
    let mut other = database.connect().await;
    let lost = [
        format!("DELETE FROM observations WHERE seq > {seq}"),
        format!("UPDATE threads SET version = version - 1, last_seq = {seq}"),
    ];
    for sql in lost {
        other.execute(sqlx::AssertSqlSafe(sql)).await.unwrap();
    }
}

/// The newest messages of a copy of the thread as of this seq.
async fn copied(clocked: &Clocked, seq: i64) -> Vec<String> {
    let (service, caller) = (clocked.instance.service(), clocked.instance.caller());
    soon(fork::fork(service, caller, &"t".into(), Some(seq), Some("copy".into()), None)).await.unwrap();
    let newest = threads::newest_messages(service, caller, &"copy".into(), None, 10).await.unwrap();
    newest.into_iter().map(|message| message.content).collect()
}

/// Folds of a log that is read are kept at every 400th observation.
#[tokio::test]
async fn what_was_read_of_the_lost_part_of_a_log_is_not_in_its_later_states() {
    let database = Database::fresh().await;
    let clocked = Clocked::on(store(&database).await, |_| {}).await;
    let last = async || clocked.page("t", 0).await.unwrap().last_seq;
    let (mut kept, mut end) = (0, 0);
    while end < 400 {
        clocked.ask("t", "hello").await;
        (kept, end) = (end, last().await);
    }
    clocked.state("t", Some(end)).await.unwrap();

    lose_after(&database, kept).await;
    while last().await < 400 {
        clocked.ask("t", "hello again").await;
    }
    assert!(copied(&clocked, 400).await.contains(&"hello again".to_owned()));
    clocked.instance.close().await;
}

/// The last observation of the fold that was read is deleted, so it cannot be compared.
#[tokio::test]
async fn what_was_read_of_the_lost_part_of_a_log_is_not_where_another_process_has_it_begin() {
    let database = Database::fresh().await;
    let last = async |clocked: &Clocked| clocked.page("t", 0).await.unwrap().last_seq;
    let first = Clocked::on(store(&database).await, |_| {}).await;
    let mut kept = 0;
    while kept < 400 {
        first.finish("t").await;
        kept = last(&first).await;
    }
    first.days_pass(91).await;
    first.instance.close().await;

    let reader = Clocked::at(TODAY + 91 * DAY, store(&database).await, |_| {}).await;
    reader.ask("t", "hello").await;
    let end = last(&reader).await;
    // It is read from the base to its end, where the fold is kept.
    reader.state("t", Some(end)).await.unwrap();
    lose_after(&database, kept).await;
    reader.ask("t", "hello again").await;
    assert_eq!(last(&reader).await, end);
    let other = Clocked::at(TODAY + 91 * DAY, store(&database).await, |_| {}).await;
    other.days_pass(91).await;
    assert_eq!(other.page("t", 0).await.unwrap().min_seq, end + 1);
    assert!(copied(&reader, end).await.contains(&"hello again".to_owned()));
    other.instance.close().await;
    reader.instance.close().await;
}
