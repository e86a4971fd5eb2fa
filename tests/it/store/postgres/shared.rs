//! Rows that commits of several processes share: a commit is checked against their values under the row lock.

use pes::domain::ids::ThreadPk;
use pes::domain::spend::Unit;
use pes::store::documents::{Document, DocumentKind, DocumentStore as _, Expected};
use pes::store::postgres::Postgres;
use pes::store::{
    AuditRow, Commit, Committed, Due, Fire, PlannedSchedule, ScheduleMove, ScheduleReads as _, ScheduleStore as _,
    SpendChange, SpendKey, SpendStore as _, ThreadReads as _, ThreadStore as _,
};
use serde_json::json;
use sqlx::{Executor, PgConnection};

use super::{PK, creation, process, waiting};
use crate::support::http::{soon, until};
use crate::support::postgres::Database;

/// Of the tenant of [`creation`].
fn day() -> SpendKey {
    let tenant = creation().create.expect("it creates").tenant;
    SpendKey { tenant, key_name: String::new(), period: "2026-11-24".to_owned(), unit: Unit::Usd }
}

fn holds(held: i64, cap: i64) -> Vec<SpendChange> {
    vec![SpendChange { key: day(), used: 0, held, cap: Some(cap), notices: Vec::new() }]
}

/// Commits while another process has locked the day's row. Once the commit waits for the lock, this runs and the row
/// changes.
async fn beside(database: &Database, commit: Commit, meanwhile: impl AsyncFnOnce(&mut PgConnection)) -> Committed {
    let store = process(database).await;
    let (mut other, mut watcher) = (database.connect().await, database.connect().await);
    let open = "INSERT INTO spend (tenant, key, period, used, held, told) VALUES (1, '', '2026-11-24', 0, 0, 0)";
    other.execute(open).await.unwrap();
    other.execute("BEGIN; SELECT FROM spend FOR UPDATE").await.unwrap();
    let others = async {
        until("it waits", async || waiting(&mut watcher).await > 0).await;
        meanwhile(&mut watcher).await;
        other.execute("UPDATE spend SET held = held + 8; COMMIT").await.unwrap();
    };
    let (outcome, ()) = soon(async { tokio::join!(store.commit(commit), others) }).await;
    outcome.unwrap()
}

#[tokio::test]
async fn a_cap_is_kept_to_by_processes_that_spend_at_the_same_moment() {
    let database = Database::fresh().await;
    let store = process(&database).await;
    let commit = Commit { spend: holds(5, 10), ..creation() };
    assert_eq!(beside(&database, commit, async |_| {}).await, Committed::Capped);
    let spent = store.spent(&[day()]).await.unwrap();
    assert_eq!((spent[0].used, spent[0].held), (0, 8));
    assert!(store.thread_by_pk(PK).await.unwrap().is_none());
}

/// A schedule that is due at 100, and a commit that fires it and spends.
async fn due(store: &Postgres) -> Commit {
    let (tenant, id) = (day().tenant, "s".to_owned());
    let body = Some(json!({}));
    let new = Document { tenant, kind: DocumentKind::Schedule, id: id.clone(), version: 0, updated_at: 1, body };
    let audit = AuditRow {
        tenant,
        thread: ThreadPk::NONE,
        thread_id: None,
        at: 1,
        actor: "ann".into(),
        action: "put document".into(),
        detail: json!({}),
    };
    let version = store.write_document(new, Expected::Any, audit, None).await.unwrap().unwrap();
    plan(store, version, 100).await;
    let next = Some(Due { due: 200, look_at: 200 });
    Commit { fire: Some(Fire { tenant, id, version, due: 100, next }), spend: holds(1, 100), ..creation() }
}

/// With other times than before.
async fn plan(store: &Postgres, version: i64, due: i64) {
    let (timing, next) = (format!("at {due}"), Some(Due { due, look_at: due }));
    let planned = PlannedSchedule { tenant: day().tenant, id: "s".into(), version, timing, next };
    store.plan_schedule(planned).await.unwrap();
}

/// It read that the time is due, and another process fired it first.
#[tokio::test]
async fn a_time_that_somebody_else_took_meanwhile_is_not_fired() {
    let database = Database::fresh().await;
    let store = process(&database).await;
    let commit = due(&store).await;
    let version = commit.fire.as_ref().unwrap().version;
    let taken = async |_: &mut PgConnection| {
        let (tenant, id, next) = (day().tenant, "s".to_owned(), Some(Due { due: 200, look_at: 200 }));
        let moved = ScheduleMove { tenant, id, version, due: 100, next, missed: 0, said: None };
        assert!(store.move_schedule(moved).await.unwrap());
    };
    assert_eq!(beside(&database, commit.clone(), taken).await, Committed::Stale);
    assert!(store.thread_by_pk(PK).await.unwrap().is_none());
    assert_eq!(store.spent(&[day()]).await.unwrap()[0].held, 8, "nor is anything spent");
    assert_eq!(store.commit(commit).await.unwrap(), Committed::NotDue);
}

/// Another version was planned, whose times differ except for this one.
#[tokio::test]
async fn a_time_of_a_version_that_is_not_the_newest_any_more_is_not_fired() {
    let database = Database::fresh().await;
    let store = process(&database).await;
    let commit = due(&store).await;
    let version = commit.fire.as_ref().unwrap().version;
    let planned = async |_: &mut PgConnection| {
        plan(&store, version + 1, 150).await;
        plan(&store, version + 2, 100).await;
    };
    assert_eq!(beside(&database, commit, planned).await, Committed::Stale);
    assert!(store.thread_by_pk(PK).await.unwrap().is_none());
    let state = store.schedule_state(day().tenant, "s").await.unwrap().unwrap();
    assert_eq!((state.version, state.next.map(|next| next.due)), (version + 2, Some(100)));
}
