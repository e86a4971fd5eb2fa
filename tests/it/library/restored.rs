//! A database that was restored does nothing by itself that may have been done after the backup.

use std::path::Path;
use std::sync::Arc;

use pes::config::Synchronous;
use pes::domain::ids::ThreadPk;

use pes::store::Store;
use pes::store::sqlite::{self, Sqlite};

use serde_json::json;

use crate::recovery::probe::{Probe, ask, instance};
use crate::support::http::soon;

async fn opened(folder: &Path) -> Arc<dyn Store> {
    Arc::new(Sqlite::open(folder, Synchronous::Normal).await.unwrap())
}

/// A backup that was taken while a call runs, of a tool that declares that it may be repeated.
async fn backed_up(folder: &Path) -> (std::path::PathBuf, Probe) {
    let probe = Probe::new();
    let instance = instance(opened(&folder.join("data")).await, &probe, |_| {}).await;
    ask(&instance, "t", "hang").await;
    probe.reaches(|tally| tally.begun == 1).await;
    let file = folder.join("backup.db");
    sqlite::back_up(&folder.join("data"), &file).unwrap();
    instance.close().await;
    (file, probe)
}

#[tokio::test]
async fn what_was_not_over_waits_for_a_person_and_is_not_repeated_before() {
    let folder = tempfile::tempdir().unwrap();
    let (file, _) = backed_up(folder.path()).await;
    sqlite::put_back(&file, &folder.path().join("restored"), Some(1_795_219_200_000)).unwrap();
    let store = opened(&folder.path().join("restored")).await;
    assert_eq!(store.unfinished_threads(ThreadPk::NONE, 10).await.unwrap().len(), 1);
    let probe = Probe::new();
    let instance = instance(store.clone(), &probe, |_| {}).await;
    let (service, caller) = (instance.service(), instance.caller());
    let row = pes::service::threads::state(service, caller, &"t".into(), None).await.unwrap();
    let pause = row["suspensions"].as_array().unwrap().iter().find(|asked| asked["kind"] == "pause").unwrap().clone();
    let message = pause["message"].as_str().unwrap();
    assert!(message.starts_with("restored: this is as of 2026-11-21T00:00:00Z"), "{message}");
    // Another run is carried out: had the call been repeated, it would have been before.
    ask(&instance, "other", "call").await;
    probe.reaches(|tally| tally.over == 1).await;
    assert_eq!(probe.tally().begun, 1, "only the call of the other run was made");
    assert_eq!(store.restored().await.unwrap(), None, "it is done once");

    let answer = json!({ "suspensionId": pause["suspensionId"], "approved": true });
    let answer = serde_json::from_value(answer).unwrap();
    pes::service::runs::resume(service, caller, &"t".into(), answer, None).await.map(drop).unwrap();
    soon(probe.reaches(|tally| tally.begun == 2)).await;
    instance.close().await;
}

#[tokio::test]
async fn whoever_says_so_lets_it_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let (file, _) = backed_up(folder.path()).await;
    sqlite::put_back(&file, &folder.path().join("restored"), None).unwrap();
    let probe = Probe::new();
    let instance = instance(opened(&folder.path().join("restored")).await, &probe, |_| {}).await;
    soon(probe.reaches(|tally| tally.begun == 1)).await;
    instance.close().await;
}

#[tokio::test]
async fn a_backup_is_put_back_only_whole_and_where_nothing_is() {
    let folder = tempfile::tempdir().unwrap();
    let (file, _) = backed_up(folder.path()).await;
    let there = sqlite::put_back(&file, &folder.path().join("data"), None).unwrap_err().to_string();
    assert!(there.contains("it is there already"), "{there}");
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    sqlite::put_back(&file, &folder.path().join("restored"), None).unwrap_err();
    assert!(!folder.path().join("restored/pes.db").exists());
}
