//! What is read of a thread while the thread is deleted, or the beginning of its log.

use pes::domain::fault::Code;
use pes::domain::ids::ThreadId;
use pes::service::{fork, threads};

use crate::support::clocked::Clocked;
use crate::support::store::{Mood, Moody};

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
