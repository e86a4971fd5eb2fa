//! What is read of a thread while the thread is deleted, or the beginning of its log; and a thread that is used while it is
//! about to be deleted.

use pes::domain::fault::Code;
use pes::domain::ids::ThreadId;
use pes::domain::retention::Kept;
use pes::live::EncodedKind;
use pes::service::feed::{self, Feed, FeedAsk};
use pes::service::{fork, threads};
use serde_json::{Value, json};

use crate::support::clocked::Clocked;
use crate::support::http::soon;
use crate::support::store::{Mood, Moody, fresh_store};

#[tokio::test]
async fn no_copy_is_made_of_a_thread_that_is_deleted_while_it_is_read() {
    let store = Moody::fresh().await;
    let clocked = Clocked::on(store.clone(), |_| {}).await;
    let (service, caller, id) = (clocked.instance.service(), clocked.instance.caller(), ThreadId::from("t"));
    clocked.finish("t").await;
    // Between the read of the thread and that of its log.
    store.set("base", Mood::Hangs);
    let deleted = async {
        store.holds_many("base", 2).await;
        threads::delete(service, caller, &id).await.unwrap();
        store.set("base", Mood::Well);
    };
    let forked = fork::fork(service, caller, &id, None, Some("copy".into()), None);
    let (forked, state, ()) = tokio::join!(forked, clocked.state("t", Some(1)), deleted);
    assert_eq!(forked.unwrap_err().code, Code::NotFound);
    assert_eq!(state.unwrap_err(), Code::NotFound);
    assert!(!clocked.is_there("copy").await);
    clocked.instance.close().await;
}

#[tokio::test]
async fn no_copy_is_made_of_a_place_that_is_deleted_while_it_is_read() {
    let store = Moody::fresh().await;
    let clocked = Clocked::on(store.clone(), |_| {}).await;
    let (service, caller, id) = (clocked.instance.service(), clocked.instance.caller(), ThreadId::from("t"));
    clocked.finish("t").await;
    // After the read of the log.
    store.set("rows_by_id", Mood::Hangs);
    let shortened = async {
        store.holds("rows_by_id").await;
        clocked.days_pass(91).await;
        store.set("rows_by_id", Mood::Well);
    };
    let forked = fork::fork(service, caller, &id, Some(3), Some("copy".into()), None);
    let (forked, ()) = tokio::join!(forked, shortened);
    assert_eq!(forked.unwrap_err().code, Code::HistoryCompacted);
    assert!(!clocked.is_there("copy").await);
    clocked.instance.close().await;
}

/// Reads until it has caught up. Observations follow one another, except where a gap says from which one on.
async fn gaps(feed: &mut Feed, mut expected: i64) -> Vec<i64> {
    let mut gaps = Vec::new();
    loop {
        let frame = soon(feed.next()).await.expect("it catches up");
        match &frame.kind {
            EncodedKind::Observation { seq, .. } => {
                assert_eq!(*seq, expected);
                expected += 1;
            }
            EncodedKind::Gap => {
                let gap: Value = serde_json::from_slice(&frame.data()).unwrap();
                expected = gap["fromSeq"].as_i64().unwrap();
                gaps.push(expected);
            }
            EncodedKind::CaughtUp => return gaps,
            other => panic!("{other:?}"),
        }
    }
}

/// One page of the log is in memory; the next one is read when that was sent.
#[tokio::test]
async fn a_reader_is_told_of_what_is_deleted_before_it_was_sent() {
    let clocked = Clocked::on(fresh_store().await, |_| {}).await;
    let (service, caller, id) = (clocked.instance.service(), clocked.instance.caller(), ThreadId::from("t"));
    let page = async || clocked.page("t", 0).await.unwrap();
    clocked.finish("t").await;
    while page().await.last_seq < 400 {
        clocked.finish("t").await;
    }
    let mut readers = Vec::new();
    for _ in 0..2 {
        let mut feed = feed::open(service, caller, &id, FeedAsk::default()).await.unwrap();
        let first = soon(feed.next()).await.unwrap();
        assert!(matches!(first.kind, EncodedKind::Observation { seq: 1, .. }), "{:?}", first.kind);
        readers.push(feed);
    }
    clocked.days_pass(91).await;
    let begins = page().await.min_seq;
    assert_eq!(begins, page().await.last_seq + 1);
    assert_eq!(gaps(&mut readers[0], 2).await, [begins], "nothing is left");
    clocked.finish("t").await;
    assert_eq!(gaps(&mut readers[1], 2).await, [begins]);
    clocked.instance.close().await;
}

#[tokio::test]
async fn a_thread_that_is_used_after_it_was_found_too_old_is_not_deleted() {
    let store = Moody::fresh().await;
    let clocked = Clocked::on(store.clone(), |config| config.retention.log_days = Kept::FOREVER).await;
    let (service, caller) = (clocked.instance.service(), clocked.instance.caller());
    clocked.finish("t").await;
    store.set("thread_by_pk", Mood::HangsAfter);
    let used = async {
        store.holds("thread_by_pk").await;
        threads::patch(service, caller, &"t".into(), json!({ "title": "T" })).await.unwrap();
        store.set("thread_by_pk", Mood::Well);
    };
    soon(async { tokio::join!(clocked.days_pass(500), used) }).await;
    assert!(clocked.is_there("t").await);
    clocked.days_pass(500).await;
    assert!(!clocked.is_there("t").await);
    clocked.instance.close().await;
}
