//! A restored database does not repeat by itself anything that may have been done after the backup.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use pes::config::{Config, Synchronous};
use pes::domain::ids::{TenantPk, ThreadPk};
use pes::domain::observation::Observation;
use pes::engine::step::RowKind;
use pes::store::sqlite::{self, DatabaseAction, RestoreMode, Sqlite};
use pes::store::{ObservationAsk, Order, PageAsk, Store, SuspensionAsk, SuspensionsWanted};
use pes::{AgentProps, Instance};
use serde_json::json;
use sqlx::{Connection as _, Executor as _, SqliteConnection};
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

use crate::recovery::probe::{Probe, ask, instance};
use crate::store::migrations;
use crate::support::clocked::TODAY;
use crate::support::demo;
use crate::support::http::soon;
use crate::support::postgres::Database;
use crate::support::store::{Mood, Moody, store_on};

async fn opened(folder: &Path) -> Arc<dyn Store> {
    Arc::new(Sqlite::open(folder, Synchronous::Normal).await.unwrap())
}

/// Another process on this database.
async fn shared(database: &Database) -> Arc<dyn Store> {
    store_on(database).await
}

fn act() -> DatabaseAction<'static> {
    DatabaseAction { by: "ann", at: 7, detail: json!({}) }
}

/// Closing it does not wait for a call that never returns.
fn hurried(config: &mut Config) {
    config.runtime.drain_ms = 0;
}

/// A backup taken during a call of an idempotent tool.
async fn backed_up(folder: &Path) -> (std::path::PathBuf, Probe) {
    let probe = Probe::new();
    let instance = instance(opened(&folder.join("data")).await, &probe, hurried).await;
    ask(&instance, "t", "hang").await;
    probe.reaches(|tally| tally.begun == 1).await;
    let file = folder.join("backup.db");
    sqlite::back_up(&folder.join("data"), Synchronous::Full, &file, &act()).await.unwrap();
    instance.close().await;
    (file, probe)
}

#[tokio::test]
async fn what_was_not_over_waits_for_a_person_and_is_not_repeated_before() {
    let folder = tempfile::tempdir().unwrap();
    let (file, _) = backed_up(folder.path()).await;
    sqlite::restore(&file, &folder.path().join("restored"), RestoreMode::Held { as_of: TODAY }).await.unwrap();
    let store = opened(&folder.path().join("restored")).await;
    assert_eq!(store.unfinished_threads(ThreadPk::NONE, 10).await.unwrap().len(), 1);
    let probe = Probe::new();
    let instance = instance(store.clone(), &probe, hurried).await;
    let (service, caller) = (instance.service(), instance.caller());
    let row = pes::service::threads::state(service, caller, &"t".into(), None).await.unwrap();
    let pause = row["suspensions"].as_array().unwrap().iter().find(|asked| asked["kind"] == "pause").unwrap().clone();
    let message = pause["message"].as_str().unwrap();
    assert!(message.starts_with("restored: this is as of 2026-11-21T00:00:00Z"), "{message}");
    // Another run is executed: a repeated call would have come before it.
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

/// What people released meanwhile continues.
#[tokio::test]
async fn who_starts_later_holds_nothing_back_again() {
    let (database, probe) = (Database::fresh().await, Probe::new());
    let before = instance(shared(&database).await, &probe, hurried).await;
    ask(&before, "t", "hang").await;
    probe.reaches(|tally| tally.begun == 1).await;
    let tenant = before.caller().tenant;
    before.close().await;
    let watcher = shared(&database).await;
    watcher.mark_restored(1).await.unwrap();
    let slow = Moody::over(shared(&database).await);
    slow.set("unfinished_threads", Mood::Hangs);
    let meanwhile = async {
        slow.holds("unfinished_threads").await;
        let first = instance(shared(&database).await, &probe, hurried).await;
        let (service, caller) = (first.service(), first.caller());
        let row = pes::service::threads::state(service, caller, &"t".into(), None).await.unwrap();
        let answer = json!({ "suspensionId": row["suspensions"][0]["suspensionId"], "approved": true });
        let answer = serde_json::from_value(answer).unwrap();
        pes::service::runs::resume(service, caller, &"t".into(), answer, None).await.map(drop).unwrap();
        probe.reaches(|tally| tally.begun == 2).await;
        slow.set("unfinished_threads", Mood::Well);
        first
    };
    let (second, first) = soon(async { tokio::join!(instance(slow.clone(), &probe, hurried), meanwhile) }).await;
    let page = PageAsk { limit: 10, ..PageAsk::default() };
    let open = SuspensionAsk { tenant, thread: None, wanted: SuspensionsWanted::Open, page: page.clone() };
    assert_eq!(watcher.suspensions(&open).await.unwrap().items.len(), 0, "nobody is asked again");
    let told = watcher.audit_of_tenant(tenant, &page).await.unwrap().items;
    assert_eq!(told.iter().filter(|line| line.action == "restore").count(), 1);
    for instance in [first, second] {
        instance.close().await;
    }
}

#[tokio::test]
async fn nothing_starts_before_all_of_it_is_held_back() {
    let folder = tempfile::tempdir().unwrap();
    let (file, _) = backed_up(folder.path()).await;
    sqlite::restore(&file, &folder.path().join("restored"), RestoreMode::Held { as_of: 1 }).await.unwrap();
    let store = opened(&folder.path().join("restored")).await;
    let moody = Moody::over(store.clone());
    moody.set("commit", Mood::Fails);
    let refused = Instance::build(Config::default()).store(moody).open().await.map(drop).unwrap_err();
    assert!(refused.to_string().contains("not held back yet"), "{refused}");
    assert_eq!(store.restored().await.unwrap(), Some(1), "the next start does it");
    let crashes = store.process_crashes().await.unwrap();

    let probe = Probe::new();
    let instance = instance(store.clone(), &probe, hurried).await;
    let row = pes::service::threads::state(instance.service(), instance.caller(), &"t".into(), None).await.unwrap();
    assert_eq!(row["suspensions"][0]["kind"], "pause");
    assert_eq!((probe.tally().begun, store.restored().await.unwrap()), (0, None));
    assert_eq!(store.process_crashes().await.unwrap(), crashes, "the start that failed is no crash");
    instance.close().await;
}

#[tokio::test]
async fn whoever_says_so_lets_it_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let (file, _) = backed_up(folder.path()).await;
    sqlite::restore(&file, &folder.path().join("restored"), RestoreMode::Resumed(act())).await.unwrap();
    let probe = Probe::new();
    let instance = instance(opened(&folder.path().join("restored")).await, &probe, hurried).await;
    soon(probe.reaches(|tally| tally.begun == 1)).await;
    instance.close().await;
}

/// As one that was made before an upgrade, beside the server of the release before.
#[tokio::test]
async fn a_backup_of_an_older_schema_is_migrated_when_it_is_put_back() {
    let folder = tempfile::tempdir().unwrap();
    let [data, file, restored] = ["data", "backup.db", "restored"].map(|name| folder.path().join(name));
    std::fs::create_dir(&data).unwrap();
    migrations::sqlite(&data).await.close().await.unwrap();
    sqlite::back_up(&data, Synchronous::Full, &file, &act()).await.unwrap();
    sqlite::restore(&file, &restored, RestoreMode::Held { as_of: 3 }).await.unwrap();
    assert_eq!(opened(&restored).await.restored().await.unwrap(), Some(3));
}

#[tokio::test]
async fn a_backup_is_put_back_only_whole_and_where_nothing_is() {
    let folder = tempfile::tempdir().unwrap();
    let (file, _) = backed_up(folder.path()).await;
    let there =
        sqlite::restore(&file, &folder.path().join("data"), RestoreMode::Resumed(act())).await.unwrap_err().to_string();
    assert!(there.contains("it is there already"), "{there}");
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    sqlite::restore(&file, &folder.path().join("restored"), RestoreMode::Resumed(act())).await.unwrap_err();
    assert!(!folder.path().join("restored/pes.db").exists());
}

/// What the first start on the folder left when it was killed before its database had its name.
#[tokio::test]
async fn what_a_killed_start_left_in_the_folder_is_no_part_of_what_is_put_back() {
    let folder = tempfile::tempdir().unwrap();
    let (file, _) = backed_up(folder.path()).await;
    let (killed, restored) = (folder.path().join("killed"), folder.path().join("restored"));
    opened(&killed).await.close().await;
    let url = format!("sqlite://{}", killed.join("pes.db").display());
    let mut making = SqliteConnection::connect(&url).await.unwrap();
    // All of it is in the write-ahead log.
    making.execute("PRAGMA wal_autocheckpoint = 0; VACUUM").await.unwrap();
    std::fs::create_dir(&restored).unwrap();
    for beside in ["", "-wal", "-shm"] {
        std::fs::copy(killed.join(format!("pes.db{beside}")), restored.join(format!("pes.db.new{beside}"))).unwrap();
    }
    assert!(restored.join("pes.db.new-wal").metadata().unwrap().len() > 0);
    making.close().await.unwrap();
    sqlite::restore(&file, &restored, RestoreMode::Held { as_of: 1 }).await.unwrap();
    let store = opened(&restored).await;
    assert_eq!(store.unfinished_threads(ThreadPk::NONE, 10).await.unwrap().len(), 1);
    store.close().await;
}

/// Short runs, in threads of their own, again and again.
struct Load {
    instance: Instance,
    /// The acknowledged seq of each log.
    acknowledged: Mutex<BTreeMap<String, i64>>,
    is_over: AtomicBool,
}

impl Load {
    async fn on(store: Arc<dyn Store>) -> Arc<Self> {
        let instance = Instance::build(demo::at_once()).store(store).open().await.unwrap();
        Arc::new(Self { instance, acknowledged: Mutex::default(), is_over: AtomicBool::new(false) })
    }

    async fn go_on(self: Arc<Self>, thread: String) {
        let (service, caller) = (self.instance.service(), self.instance.caller());
        while !self.is_over.load(Ordering::SeqCst) {
            self.instance.process(AgentProps::new(&thread, "hello")).await.unwrap();
            let row = pes::service::threads::get(service, caller, &thread.as_str().into()).await.unwrap();
            self.acknowledged.lock().unwrap().insert(thread.clone(), row.last_seq);
        }
    }
}

/// Everything of a thread that is written once.
async fn written_once(store: &dyn Store, pk: ThreadPk) -> (Vec<Observation>, HashSet<String>) {
    let ask = ObservationAsk { limit: 1_000_000, ..ObservationAsk::default() };
    let mut rows = HashSet::new();
    for kind in [RowKind::Message, RowKind::Payload, RowKind::Usage] {
        let mut page = PageAsk { limit: 1_000, ..PageAsk::default() };
        loop {
            let found = store.rows(pk, kind, Order::Ascending, &page).await.unwrap();
            rows.extend(found.items.iter().map(|row| format!("{row:?}")));
            let Some(next) = found.next_cursor else { break };
            page.cursor = Some(next);
        }
    }
    (store.observations(pk, &ask).await.unwrap(), rows)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_taken_under_load_has_what_was_acknowledged_before_and_nothing_by_half() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(&folder.path().join("data")).await;
    let load = Load::on(store.clone()).await;
    let asking: Vec<_> = (0..6).map(|n| tokio::spawn(load.clone().go_on(format!("t{n}")))).collect();
    let mut taken = Vec::new();
    let takes = async {
        let mut beside = 0;
        while beside < 3 {
            let (before, acknowledged) = (store.traffic().commits, load.acknowledged.lock().unwrap().clone());
            let (data, file) = (folder.path().join("data"), folder.path().join(format!("{}.db", taken.len())));
            let copy = file.clone();
            let runtime = Handle::current();
            let backs_up = move || runtime.block_on(sqlite::back_up(&data, Synchronous::Full, &copy, &act())).unwrap();
            spawn_blocking(backs_up).await.unwrap();
            beside += usize::from(acknowledged.len() == 6 && store.traffic().commits > before);
            taken.push((file, acknowledged));
        }
    };
    soon(takes).await;
    load.is_over.store(true, Ordering::SeqCst);
    for asked in asking {
        soon(asked).await.unwrap();
    }

    for (n, (file, acknowledged)) in taken.into_iter().enumerate() {
        let into = folder.path().join(format!("restored-{n}"));
        sqlite::restore(&file, &into, RestoreMode::Held { as_of: 1 }).await.unwrap();
        let restored = opened(&into).await;
        for (thread, seq) in acknowledged {
            begins_like(&*restored, &*store, load.instance.caller().tenant, &thread, seq).await;
        }
        restored.close().await;
    }
}

/// The copy's thread is a prefix of this one, at least up to what was acknowledged before the copy started.
async fn begins_like(copy: &dyn Store, live: &dyn Store, tenant: TenantPk, thread: &str, acknowledged: i64) {
    let (whole, whole_rows) = written_once(live, live.thread(tenant, &thread.into()).await.unwrap().unwrap().pk).await;
    let row = copy.thread(tenant, &thread.into()).await.unwrap().expect("it was acknowledged");
    let (log, rows) = written_once(copy, row.pk).await;
    assert!(row.last_seq >= acknowledged, "{thread}: {acknowledged} was acknowledged, it ends with {}", row.last_seq);
    let seqs: Vec<i64> = log.iter().map(|seen| seen.seq).collect();
    assert_eq!(seqs, (1..=row.last_seq).collect::<Vec<_>>(), "{thread}");
    assert_eq!(log, whole[..log.len()], "{thread}");
    assert!(rows.is_subset(&whole_rows) && !rows.is_empty(), "{thread}");
}
