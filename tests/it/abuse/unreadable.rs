//! A stored row that cannot be read ends its own run with an error of its own; all other work continues.

mod loops;

use std::path::Path;

use pes::Instance;
use pes::domain::fault::Code;
use pes::domain::run::RunStatus;
use pes::service::a2a::tasks::{self, RunSnapshotAsk};
use pes::service::feed::{self, FeedAsk};
use pes::service::once::Answered;
use pes::service::runs::{self, ProcessAsk};
use pes::store::{PageAsk, SuspensionsWanted, ThreadFilter};
use sqlx::{Connection, Executor};

use super::{calls, one_item};
use crate::support::demo;
use crate::support::http::soon;
use pes::service::suspensions;
use pes::service::threads;

async fn instance(folder: &Path) -> Instance {
    let mut config = demo::scripted(&one_item(&[&calls(&[("ask_user", "{ question = \"Well?\" }")])]));
    config.store.data_dir = folder.join("data");
    Instance::build(config).open().await.unwrap()
}

async fn ask(instance: &Instance, thread: &str) -> pes::domain::ids::RunId {
    let ask = ProcessAsk { query: "go".to_owned(), ..ProcessAsk::default() };
    let (service, caller) = (instance.service(), instance.caller());
    match runs::process(service, caller, &thread.into(), ask, None).await.unwrap() {
        Answered::Fresh(receipt) => receipt.run_id,
        Answered::Replayed(_) => panic!("there was no key"),
    }
}

async fn questions(instance: &Instance) -> Vec<String> {
    let page = PageAsk { cursor: None, limit: 10 };
    let open =
        suspensions::list(instance.service(), instance.caller(), None, SuspensionsWanted::Open, page).await.unwrap();
    open.items.iter().map(|open| open.suspension["threadId"].as_str().unwrap().to_owned()).collect()
}

/// Suspended runs on the threads `hurt` and `well`; the first one's stored data is then damaged.
async fn spoilt(folder: &Path, damage: &[&'static str]) -> (Instance, [pes::domain::ids::RunId; 2]) {
    let first = instance(folder).await;
    let runs = [ask(&first, "hurt").await, ask(&first, "well").await];
    for run in &runs {
        let waited = soon(runs::wait(first.service(), first.caller(), run, std::time::Duration::from_secs(30))).await;
        assert_eq!(waited.unwrap().run.status, RunStatus::Suspended);
    }
    first.close().await;
    let url = format!("sqlite://{}", folder.join("data").join("pes.db").display());
    let mut other = sqlx::SqliteConnection::connect(&url).await.unwrap();
    for sql in damage {
        assert!(other.execute(*sql).await.unwrap().rows_affected() > 0);
    }
    other.close().await.unwrap();
    (instance(folder).await, runs)
}

#[tokio::test]
async fn a_row_that_cannot_be_read_ends_its_own_run_by_name() {
    for sql in [
        "UPDATE thread_rows SET body = '{' WHERE kind = 6 AND pk = (SELECT pk FROM threads WHERE thread_id = 'hurt')",
        "UPDATE thread_rows SET body = '[]' WHERE kind IN (4, 5) AND pk = (SELECT pk FROM threads WHERE thread_id = 'hurt')",
        "UPDATE threads SET head = '{' WHERE thread_id = 'hurt'",
        "UPDATE thread_rows SET body = '{' WHERE kind = 1 AND pk = (SELECT pk FROM threads WHERE thread_id = 'hurt')",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (instance, [hurt, well]) = spoilt(folder.path(), &[sql]).await;
        let (service, caller) = (instance.service(), instance.caller());
        assert!(questions(&instance).await.contains(&"well".to_owned()));
        threads::state(service, caller, &"hurt".into(), None).await.unwrap();
        // The next decision about the thread finds it.
        let again = ProcessAsk { query: "again".to_owned(), ..ProcessAsk::default() };
        let _ = runs::process(service, caller, &"hurt".into(), again, None).await;
        let ended = runs::get(service, caller, &hurt).await.unwrap();
        assert_eq!(ended.status, RunStatus::Failed, "{sql}");
        assert_eq!(ended.result.unwrap().metadata.error.unwrap().code, Code::UnreadableState);
        assert!(questions(&instance).await.contains(&"well".to_owned()));
        threads::state(service, caller, &"hurt".into(), None).await.unwrap();
        assert_eq!(runs::get(service, caller, &well).await.unwrap().status, RunStatus::Suspended);
        instance.close().await;
    }
}

/// Nobody has to ask: the next start loads a run that is still active.
#[rstest::rstest]
#[case::head("UPDATE threads SET head = '{' WHERE thread_id = 'hurt'")]
#[case::run(
    "UPDATE thread_rows SET body = '{' WHERE kind = 1 AND pk = (SELECT pk FROM threads WHERE thread_id = 'hurt')"
)]
#[tokio::test]
async fn who_waits_for_a_run_that_cannot_be_read_is_told_its_end(#[case] damage: &'static str) {
    let folder = tempfile::tempdir().unwrap();
    let goes_on = "UPDATE threads SET status = 'running' WHERE thread_id = 'hurt';
        UPDATE thread_rows SET body = json_set(body, '$.status', 'running', '$.standing', 'running')
        WHERE kind = 1 AND pk = (SELECT pk FROM threads WHERE thread_id = 'hurt')";
    let (instance, [hurt, _]) = spoilt(folder.path(), &[goes_on, damage]).await;
    let (service, caller) = (instance.service(), instance.caller());
    let waited = soon(runs::wait(service, caller, &hurt, std::time::Duration::from_secs(60))).await.unwrap().run;
    assert_eq!(waited.status, RunStatus::Failed);
    assert_eq!(waited.result.unwrap().metadata.error.unwrap().code, Code::UnreadableState);
    let page = PageAsk { cursor: None, limit: 10 };
    let listed = runs::list(service, caller, Some(RunStatus::Failed), None, page).await.unwrap().items;
    assert_eq!(listed.iter().map(|run| &run.run_id).collect::<Vec<_>>(), [&hurt]);
    let told = feed::page(service, caller, &"hurt".into(), FeedAsk::default(), 200).await.unwrap().items;
    let is_end = |kind: &pes::domain::observation::ObservationType| kind.as_str() == "RUN_FINISHED";
    assert!(told.iter().any(|told| is_end(&told.kind)), "and so are sockets");
    // The thread can be used again.
    threads::release(service, caller, &"hurt".into()).await.unwrap();
    let next = ask(&instance, "hurt").await;
    let waited = soon(runs::wait(service, caller, &next, std::time::Duration::from_secs(60))).await.unwrap().run;
    assert_eq!(waited.status, RunStatus::Suspended);
    instance.close().await;
}

#[tokio::test]
async fn settings_that_cannot_be_read_break_no_list_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let sql = "UPDATE threads SET sheet = '{' WHERE thread_id = 'hurt'";
    let (instance, _) = spoilt(folder.path(), &[sql]).await;
    let page = PageAsk { cursor: None, limit: 10 };
    let listed =
        threads::list(instance.service(), instance.caller(), ThreadFilter::default(), page).await.unwrap().items;
    let ids: Vec<&str> = listed.iter().map(|thread| thread.thread_id.as_str()).collect();
    assert_eq!(ids, ["well", "hurt"]);
    let fault = threads::get(instance.service(), instance.caller(), &"hurt".into()).await.unwrap_err();
    assert_eq!(fault.code, Code::Internal, "by itself it is not shown as if nothing were wrong");
    instance.close().await;
}

#[tokio::test]
async fn an_entry_of_the_log_that_cannot_be_read_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let sql = "UPDATE observations SET body = '{', compressed = NULL
               WHERE pk = (SELECT pk FROM threads WHERE thread_id = 'hurt')
               AND seq = (SELECT min(seq) FROM observations)";
    let (instance, _) = spoilt(folder.path(), &[sql]).await;
    let (service, caller) = (instance.service(), instance.caller());
    let mut lengths = Vec::new();
    for thread in ["hurt", "well"] {
        lengths.push(feed::page(service, caller, &thread.into(), FeedAsk::default(), 200).await.unwrap().items.len());
    }
    let (hurt, well) = (lengths[0], lengths[1]);
    assert!(0 < hurt && hurt < well, "{hurt} of {well}");
    instance.close().await;
}

#[tokio::test]
async fn a_run_that_cannot_be_read_is_left_out_of_what_other_agents_list() {
    let folder = tempfile::tempdir().unwrap();
    let sql = "UPDATE thread_rows SET body = json_remove(body, '$.query')
               WHERE kind = 1 AND pk = (SELECT pk FROM threads WHERE thread_id = 'hurt')";
    let (instance, [_, well]) = spoilt(folder.path(), &[sql]).await;
    let ask = RunSnapshotAsk { page: PageAsk { cursor: None, limit: 10 }, ..RunSnapshotAsk::default() };
    let (page, _) = tasks::list(instance.service(), instance.caller(), ask).await.unwrap();
    assert_eq!(page.items.iter().map(|seen| &seen.run.run_id).collect::<Vec<_>>(), [&well]);
    instance.close().await;
}
