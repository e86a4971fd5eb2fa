//! Unreadable data of one thread does not delay the deletion of any other data.

use std::sync::Arc;

use pes::config::Synchronous;
use pes::domain::fault::Code;
use pes::domain::retention::{Kept, Terms};
use pes::domain::usage::UsageGroup;
use pes::service::transfer;
use pes::store::sqlite::Sqlite;
use pes::store::{CallPosition, Forgotten, PageAsk, UsageAsk};
use sqlx::{Connection, Executor};

use super::retention::of_threads;
use crate::support::clocked::Clocked;
use crate::support::postgres::Database;
use crate::support::store::store_on;

/// Threads with the same retention; the first one's stored data is then damaged.
async fn spoilt(terms: Terms, damage: &'static str) -> (Clocked, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path(), Synchronous::Normal).await.unwrap();
    let clocked = Clocked::on(Arc::new(store), |_| {}).await;
    for thread in ["hurt", "well"] {
        clocked.finish(thread).await;
        if terms != Terms::default() {
            clocked.keep(thread, terms, None).await;
        }
        clocked.clock.advance(1_000);
    }
    let url = format!("sqlite://{}", folder.path().join("pes.db").display());
    let mut other = sqlx::SqliteConnection::connect(&url).await.unwrap();
    assert!(other.execute(damage).await.unwrap().rows_affected() > 0);
    other.close().await.unwrap();
    (clocked, folder)
}

const NO_STATUS: &str = "UPDATE threads SET status = '?' WHERE thread_id = 'hurt'";
const NO_TERMS: &str =
    "UPDATE thread_rows SET body = '{' WHERE kind = 14 AND pk = (SELECT pk FROM threads WHERE thread_id = 'hurt')";

#[tokio::test]
async fn threads_behind_one_that_cannot_be_read_are_deleted() {
    for (terms, damage, days) in
        [(Terms::default(), NO_STATUS, 401), (of_threads(10), NO_STATUS, 11), (of_threads(10), NO_TERMS, 11)]
    {
        let (clocked, _folder) = spoilt(terms, damage).await;
        clocked.days_pass(days).await;
        assert!(!clocked.is_there("well").await, "{damage}");
        clocked.instance.close().await;
    }
}

#[tokio::test]
async fn logs_behind_one_that_cannot_be_read_begin_later() {
    let of_logs = Terms { log_days: Some(Kept::Days(10)), ..Terms::default() };
    for (terms, days) in [(Terms::default(), 91), (of_logs, 11)] {
        let (clocked, _folder) = spoilt(terms, NO_STATUS).await;
        clocked.days_pass(days).await;
        let tenant = clocked.instance.caller().tenant;
        assert!(clocked.store.thread(tenant, &"well".into()).await.unwrap().unwrap().min_seq > 1);
        clocked.instance.close().await;
    }
}

/// The unreadable retention may have contained a hold.
#[tokio::test]
async fn a_thread_whose_terms_cannot_be_read_is_kept_whole_until_it_has_new_ones() {
    let (clocked, _folder) = spoilt(of_threads(10), NO_TERMS).await;
    clocked.days_pass(91).await;
    assert_eq!(clocked.page("hurt", 0).await.unwrap().min_seq, 1);
    clocked.keep("hurt", of_threads(10), None).await;
    clocked.days_pass(1).await;
    assert!(!clocked.is_there("hurt").await);
    clocked.instance.close().await;
}

const NO_USAGE: &str =
    "UPDATE thread_rows SET body = '{' WHERE kind = 11 AND pk = (SELECT pk FROM threads WHERE thread_id = 'hurt')";

async fn calls(clocked: &Clocked) -> Vec<u64> {
    let (tenant, page) = (clocked.instance.caller().tenant, PageAsk { limit: 10, ..PageAsk::default() });
    let ask = UsageAsk { tenant, group: UsageGroup::Tenant, thread: None, from: 0, to: i64::MAX, page };
    clocked.store.usage(&ask).await.unwrap().items.iter().map(|sum| sum.calls).collect()
}

#[tokio::test]
async fn what_a_call_took_that_cannot_be_read_is_left_out_of_the_sums() {
    let (clocked, _folder) = spoilt(Terms::default(), NO_USAGE).await;
    assert_eq!(calls(&clocked).await, [1]);
    clocked.instance.close().await;
}

#[tokio::test]
async fn what_a_call_took_that_cannot_be_read_is_left_out_of_the_sums_of_postgresql() {
    let database = Database::fresh().await;
    let clocked = Clocked::on(store_on(&database).await, |_| {}).await;
    for thread in ["hurt", "well"] {
        clocked.finish(thread).await;
    }
    let mut other = sqlx::PgConnection::connect(&database.url()).await.unwrap();
    assert!(other.execute(NO_USAGE).await.unwrap().rows_affected() > 0);
    assert_eq!(calls(&clocked).await, [1]);
    clocked.instance.close().await;
}

/// Its usage is kept with it, and the usage of other threads is deleted.
#[tokio::test]
async fn usage_of_others_than_a_thread_whose_terms_cannot_be_read_is_forgotten() {
    let (clocked, _folder) = spoilt(of_threads(4_000), NO_TERMS).await;
    assert_eq!(calls(&clocked).await, [2]);
    let tenant = clocked.instance.caller().tenant;
    let forgotten = clocked.store.forget_usage(tenant, i64::MAX, &CallPosition::beginning(), 10).await.unwrap();
    assert_eq!(forgotten, Forgotten { deleted: 1, next: None });
    assert_eq!(calls(&clocked).await, [1]);
    clocked.instance.close().await;
}

const NO_ENTRY: &str = "UPDATE observations SET body = '{', compressed = NULL
    WHERE pk = (SELECT pk FROM threads WHERE thread_id = 'hurt')
    AND seq = (SELECT max(seq) FROM observations WHERE pk = (SELECT pk FROM threads WHERE thread_id = 'hurt'))";
const NO_ENTRIES: &str = "UPDATE observations SET body = '{', compressed = NULL
    WHERE pk = (SELECT pk FROM threads WHERE thread_id = 'hurt')";

/// It is not said to be shortened, because a repetition would end at the same place.
#[tokio::test]
async fn an_export_names_the_entry_that_cannot_be_read() {
    for damage in [NO_ENTRY, NO_ENTRIES] {
        let (clocked, _folder) = spoilt(Terms::default(), damage).await;
        let (service, caller) = (clocked.instance.service(), clocked.instance.caller());
        let readable = clocked.page("hurt", 0).await.unwrap().items.len();
        let mut export = transfer::export(service, caller, &"hurt".into()).await.unwrap();
        let fault = loop {
            match export.next().await {
                Ok(lines) => assert!(lines.is_some(), "it has no end"),
                Err(fault) => break fault,
            }
        };
        assert_eq!((fault.code, fault.code.retryable()), (Code::UnreadableState, false), "{fault:?}");
        assert!(fault.detail.starts_with(&format!("The observation {} cannot be read", readable + 1)), "{fault:?}");
        let mut well = transfer::export(service, caller, &"well".into()).await.unwrap();
        while well.next().await.unwrap().is_some() {}
        clocked.instance.close().await;
    }
}
