//! One commit accepts the run of a time of a schedule, and no other commit does.

use pes::domain::ids::ThreadPk;
use pes::domain::observation::ObservationType;
use pes::domain::spend::Unit;
use pes::store::documents::{Document, DocumentKind, Expected};
use pes::store::{
    AuditRow, Commit, Committed, Due, Fire, HeldCounts, PlannedSchedule, ScheduleMove, ScheduleState, SpendChange,
    SpendKey,
};
use serde_json::json;

use super::bed::{Bed, hold_back, record};
use crate::support::together;

super::on_every_store!(
    of_many_that_fire_one_time_one_wins,
    a_commit_that_does_not_fire_changes_nothing,
    a_commit_that_is_refused_fires_nothing,
    a_thread_that_is_there_fires_too,
    many_schedules_fire_together,
    what_was_changed_or_deleted_does_not_fire,
    a_new_version_keeps_what_is_due_unless_it_says_other_times,
    a_time_is_moved_only_as_it_was_read,
    those_that_are_due_come_first,
    what_is_kept_of_a_schedule_goes_with_its_document,
    a_restored_one_waits_for_its_next_version,
);

fn at(due: i64) -> Option<Due> {
    Some(Due { due, look_at: due + 5 })
}

/// Writes the document `id`, deletes it without a body; its version.
async fn document(bed: &Bed, id: &str, body: Option<serde_json::Value>) -> i64 {
    document_of(bed, DocumentKind::Schedule, id, body).await
}

async fn document_of(bed: &Bed, kind: DocumentKind, id: &str, body: Option<serde_json::Value>) -> i64 {
    let new = Document { tenant: bed.tenant, kind, id: id.into(), version: 0, updated_at: 1, body };
    let audit = AuditRow {
        tenant: bed.tenant,
        thread: ThreadPk::NONE,
        thread_id: None,
        at: 1,
        actor: "ann".into(),
        action: "put document".into(),
        detail: json!({}),
    };
    bed.store.write_document(new, Expected::Any, audit, None).await.unwrap().unwrap()
}

/// A schedule that is due at 100.
async fn planned(bed: &Bed, id: &str) -> i64 {
    let version = document(bed, id, Some(json!({}))).await;
    plan(bed, id, version, "t", 100).await;
    version
}

async fn plan(bed: &Bed, id: &str, version: i64, timing: &str, due: i64) {
    let planned = PlannedSchedule { tenant: bed.tenant, id: id.into(), version, timing: timing.into(), next: at(due) };
    bed.store.plan_schedule(planned).await.unwrap();
}

fn fire(bed: &Bed, id: &str, version: i64, due: i64) -> Option<Fire> {
    Some(Fire { tenant: bed.tenant, id: id.into(), version, due, next: at(due + 100) })
}

async fn state(bed: &Bed, id: &str) -> ScheduleState {
    bed.store.schedule_state(bed.tenant, id).await.unwrap().unwrap()
}

async fn of_many_that_fire_one_time_one_wins(bed: Bed) {
    let version = planned(&bed, "s").await;
    let answers = together((0..30).map(|n| {
        let bed = bed.clone();
        async move {
            let commit = Commit { fire: fire(&bed, "s", version, 100), ..bed.creating(&format!("t{n}")) };
            let pk = commit.pk;
            // Another commit holds the schedule at this moment: a retry finds the outcome.
            let answer = loop {
                match bed.store.commit(commit.clone()).await.unwrap() {
                    Committed::Stale => {}
                    answer => break answer,
                }
            };
            (answer, bed.store.thread_by_pk(pk).await.unwrap().is_some())
        }
    }))
    .await;
    assert_eq!(answers.iter().filter(|answer| **answer == (Committed::Done, true)).count(), 1);
    assert_eq!(answers.iter().filter(|answer| **answer == (Committed::NotDue, false)).count(), 29);
    let state = state(&bed, "s").await;
    assert_eq!((state.next, state.last_due), (at(200), Some(100)));
}

async fn a_commit_that_does_not_fire_changes_nothing(bed: Bed) {
    let version = planned(&bed, "s").await;
    let pk = bed.thread("t1").await;
    let before = bed.everything(pk).await;
    let other = bed.other_tenant().await;
    for fire in [
        fire(&bed, "s", version, 99),
        fire(&bed, "s", version + 1, 100),
        fire(&bed, "unknown", version, 100),
        fire(&other, "s", version, 100),
    ] {
        let records = vec![record("o", ObservationType::RunStarted, "r")];
        let commit = Commit { records, fire, ..bed.next(pk).await };
        assert_eq!(bed.store.commit(commit).await.unwrap(), Committed::NotDue);
    }
    assert_eq!(bed.everything(pk).await, before);
    assert_eq!(state(&bed, "s").await.next, at(100));
}

async fn a_commit_that_is_refused_fires_nothing(bed: Bed) {
    let version = planned(&bed, "s").await;
    let pk = bed.thread("t1").await;
    bed.done(Commit { idempotency: Some(bed.key("k")), ..bed.creating("t2") }).await;
    let fire = || fire(&bed, "s", version, 100);
    let mut stale = Commit { fire: fire(), ..bed.next(pk).await };
    stale.fence.version -= 1;
    assert_eq!(bed.store.commit(stale).await.unwrap(), Committed::Stale);
    let exists = Commit { fire: fire(), ..bed.creating("t1") };
    assert_eq!(bed.store.commit(exists).await.unwrap(), Committed::Exists);
    for known in [bed.creating("t3"), bed.next(pk).await] {
        let duplicate = Commit { fire: fire(), idempotency: Some(bed.key("k")), ..known };
        assert_eq!(bed.store.commit(duplicate).await.unwrap(), Committed::Duplicate);
    }
    let key = SpendKey { tenant: bed.tenant, key_name: String::new(), period: "2026-11-24".into(), unit: Unit::Usd };
    let spend = vec![SpendChange { key, used: 0, held: 2, cap: Some(1), notices: Vec::new() }];
    let capped = Commit { fire: fire(), spend, ..bed.creating("t3") };
    assert_eq!(bed.store.commit(capped).await.unwrap(), Committed::Capped);
    let state = state(&bed, "s").await;
    assert_eq!((state.next, state.last_due), (at(100), None));
}

async fn a_thread_that_is_there_fires_too(bed: Bed) {
    let version = planned(&bed, "s").await;
    let pk = bed.thread("t1").await;
    bed.done(Commit { fire: fire(&bed, "s", version, 100), ..bed.next(pk).await }).await;
    let again = Commit { fire: fire(&bed, "s", version, 100), ..bed.next(pk).await };
    assert_eq!(bed.store.commit(again).await.unwrap(), Committed::NotDue);
    let last = Fire { next: None, ..fire(&bed, "s", version, 200).unwrap() };
    bed.done(Commit { fire: Some(last), ..bed.next(pk).await }).await;
    let state = state(&bed, "s").await;
    assert_eq!((state.next, state.last_due), (None, Some(200)));
}

async fn many_schedules_fire_together(bed: Bed) {
    let mut fires = Vec::new();
    for n in 0..20 {
        let id = format!("s{n}");
        let version = planned(&bed, &id).await;
        fires.push(fire(&bed, &id, version, 100));
    }
    let answers = together(fires.into_iter().enumerate().map(|(n, fire)| {
        let bed = bed.clone();
        let commit = Commit { fire, ..bed.creating(&format!("t{n}")) };
        async move { bed.store.commit(commit).await.unwrap() }
    }))
    .await;
    assert!(answers.iter().all(|answer| *answer == Committed::Done), "{answers:?}");
    assert_eq!(bed.store.due_schedules(150, 99).await.unwrap(), []);
}

async fn what_was_changed_or_deleted_does_not_fire(bed: Bed) {
    let version = planned(&bed, "s").await;
    // The new version is not planned yet.
    let newer = document(&bed, "s", Some(json!({ "paused": true }))).await;
    let is_not_due = async |version| {
        let commit = Commit { fire: fire(&bed, "s", version, 100), ..bed.creating("t1") };
        assert_eq!(bed.store.commit(commit).await.unwrap(), Committed::NotDue, "{version}");
    };
    is_not_due(version).await;
    is_not_due(newer).await;
    plan(&bed, "s", newer, "t", 100).await;
    is_not_due(version).await;
    let gone = document(&bed, "s", None).await;
    is_not_due(newer).await;
    plan(&bed, "s", gone, "t", 100).await;
    is_not_due(gone).await;
}

async fn a_new_version_keeps_what_is_due_unless_it_says_other_times(bed: Bed) {
    plan(&bed, "s", 1, "t", 100).await;
    plan(&bed, "s", 2, "t", 300).await;
    assert_eq!((state(&bed, "s").await.next, state(&bed, "s").await.version), (at(100), 2));
    plan(&bed, "s", 3, "u", 300).await;
    assert_eq!(state(&bed, "s").await.next, at(300));
    // A process that has not read the newer ones.
    plan(&bed, "s", 2, "t", 100).await;
    plan(&bed, "s", 3, "v", 100).await;
    assert_eq!((state(&bed, "s").await.next, state(&bed, "s").await.version), (at(300), 3));
}

async fn a_time_is_moved_only_as_it_was_read(bed: Bed) {
    let other = bed.other_tenant().await;
    for (bed, id) in [(&bed, "s"), (&bed, "another"), (&other, "s")] {
        plan(bed, id, 1, "t", 100).await;
    }
    let moved = |version, due, next| ScheduleMove {
        tenant: bed.tenant,
        id: "s".into(),
        version,
        due,
        next,
        missed: 3,
        said: Some("too late".into()),
    };
    assert!(!bed.store.move_schedule(moved(2, 100, at(200))).await.unwrap());
    assert!(!bed.store.move_schedule(moved(1, 99, at(200))).await.unwrap());
    assert!(bed.store.move_schedule(moved(1, 100, Some(Due { due: 100, look_at: 900 }))).await.unwrap());
    let later = state(&bed, "s").await;
    assert_eq!((later.next, later.last_due), (Some(Due { due: 100, look_at: 900 }), None));
    assert!(bed.store.move_schedule(moved(1, 100, None)).await.unwrap());
    let over = state(&bed, "s").await;
    assert_eq!((over.next, over.last_due, over.missed, over.said.as_deref()), (None, Some(100), 6, Some("too late")));
    assert_eq!((state(&bed, "another").await.next, state(&other, "s").await.next), (at(100), at(100)));
}

async fn those_that_are_due_come_first(bed: Bed) {
    assert_eq!(bed.store.next_schedule().await.unwrap(), None);
    for (id, due) in [("c", 300), ("a", 100), ("b", 200)] {
        plan(&bed, id, 1, "t", due).await;
    }
    assert_eq!(bed.store.next_schedule().await.unwrap(), Some(105));
    let due = async |now, limit| -> Vec<String> {
        bed.store.due_schedules(now, limit).await.unwrap().into_iter().map(|state| state.id).collect()
    };
    assert_eq!(due(205, 9).await, ["a", "b"]);
    assert_eq!(due(205, 1).await, ["a"]);
    assert!(due(104, 9).await.is_empty());
}

async fn what_is_kept_of_a_schedule_goes_with_its_document(bed: Bed) {
    let other = bed.other_tenant().await;
    for (bed, id) in [(&bed, "s"), (&bed, "another"), (&other, "s")] {
        planned(bed, id).await;
    }
    document_of(&bed, DocumentKind::Agent, "s", Some(json!({}))).await;
    bed.store.forget_schedule(bed.tenant, "s").await.unwrap();
    assert_eq!(state(&bed, "s").await.next, at(100));
    document(&bed, "s", None).await;
    bed.store.forget_schedule(bed.tenant, "s").await.unwrap();
    assert_eq!(bed.store.schedule_state(bed.tenant, "s").await.unwrap(), None);
    assert_eq!((state(&bed, "another").await.next, state(&other, "s").await.next), (at(100), at(100)));
}

async fn a_restored_one_waits_for_its_next_version(bed: Bed) {
    let version = planned(&bed, "s").await;
    let unseen = document(&bed, "unseen", Some(json!({}))).await;
    document(&bed, "deleted", Some(json!({}))).await;
    document(&bed, "deleted", None).await;
    document_of(&bed, DocumentKind::Agent, "agent", Some(json!({}))).await;
    bed.store.mark_restored(50).await.unwrap();
    let held = bed.store.hold_restored(hold_back()).await.unwrap();
    assert_eq!(held, Some(HeldCounts { deliveries: 0, schedules: 2 }));
    plan(&bed, "s", version, "t", 100).await;
    plan(&bed, "unseen", unseen, "t", 100).await;
    for id in ["s", "unseen"] {
        let held = state(&bed, id).await;
        assert_eq!((held.next, held.said.as_deref()), (None, Some("restored")));
    }
    let newer = document(&bed, "s", Some(json!({}))).await;
    plan(&bed, "s", newer, "t", 400).await;
    assert_eq!((state(&bed, "s").await.next, state(&bed, "s").await.said), (at(400), None));
}
