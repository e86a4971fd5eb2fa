//! Counts of open work for metrics.

use pes::domain::hitl::SuspensionKind;
use pes::domain::ids::ThreadPk;
use pes::domain::observation::{ObservationType, Record};
use pes::domain::run::RunStatus;
use pes::domain::thread::ThreadStatus;
use pes::engine::step::{Keep, Row, RowKind};
use pes::store::{Commit, Due, DueSchedule, KeyRow, OpenQuestions, PlannedSchedule, ScheduleMove};
use serde_json::{Value, json};

use super::bed::{Bed, record, row};
use super::keys::{add, key};

super::on_every_form_of_log!(
    a_running_thread_is_as_old_as_its_last_commit,
    a_schedule_is_due_until_its_time_had_a_run_however_often_it_is_postponed,
    the_next_key_to_expire_is_told_by_the_clock_of_the_machine,
    what_is_not_known_is_not_counted,
);

/// A step of the thread: no message, and no change of its profile.
async fn step(bed: &Bed, pk: ThreadPk, status: ThreadStatus, now: i64) {
    let rows = vec![row(RowKind::Turn, &format!("turn_{now}"), now, Keep::Always)];
    let records = [ObservationType::Intent, ObservationType::Title]
        .map(|kind| Record { timestamp: now, ..record(&format!("obs_{kind:?}_{now}"), kind, "run") });
    bed.done(Commit { now, status, rows, records: records.to_vec(), ..bed.next(pk).await }).await;
}

async fn a_running_thread_is_as_old_as_its_last_commit(bed: Bed) {
    let since = async || bed.store.figures(10_000, 10_000).await.unwrap().threads.running_since;
    let (busy, hung, idle) = (bed.thread("busy").await, bed.thread("hung").await, bed.thread("idle").await);
    step(&bed, idle, ThreadStatus::Idle, 200).await;
    assert_eq!(since().await, None);
    for now in [1_000, 2_000, 3_000] {
        step(&bed, busy, ThreadStatus::Running, now).await;
    }
    assert_eq!(since().await, Some(3_000));
    step(&bed, hung, ThreadStatus::Running, 1_500).await;
    step(&bed, busy, ThreadStatus::Running, 4_000).await;
    assert_eq!(since().await, Some(1_500), "of those that run, the one that waits longest");
    // A commit that records nothing.
    bed.done(Commit { now: 5_000, status: ThreadStatus::Idle, ..bed.next(hung).await }).await;
    assert_eq!(since().await, Some(4_000));
    bed.done(Commit { now: 6_000, status: ThreadStatus::Running, ..bed.next(hung).await }).await;
    step(&bed, busy, ThreadStatus::Idle, 7_000).await;
    assert_eq!(since().await, Some(6_000), "its last entry is older");
}

async fn a_schedule_is_due_until_its_time_had_a_run_however_often_it_is_postponed(bed: Bed) {
    let due = async |now| bed.store.figures(now, now).await.unwrap().schedules;
    for (id, next) in [("s", Some(100)), ("later", Some(5_000)), ("never", None)] {
        let (timing, next) = ("t".to_owned(), next.map(|due| Due { due, look_at: due + 5 }));
        let planned = PlannedSchedule { tenant: bed.tenant, id: id.into(), version: 1, timing, next };
        bed.store.plan_schedule(planned).await.unwrap();
    }
    let moves = async |next| {
        let (tenant, id, said) = (bed.tenant, "s".to_owned(), None);
        let moved = ScheduleMove { tenant, id, version: 1, due: 100, next: Some(next), missed: 0, said };
        assert!(bed.store.move_schedule(moved).await.unwrap());
    };
    assert_eq!(due(99).await, []);
    let late = [DueSchedule { tenant: bed.tenant, id: "s".into(), due: 100 }];
    assert_eq!(due(100).await, late);
    moves(Due { due: 100, look_at: 9_000 }).await;
    assert_eq!(due(4_999).await, late);
    moves(Due { due: 6_000, look_at: 6_000 }).await;
    assert_eq!(due(4_999).await, []);
}

async fn the_next_key_to_expire_is_told_by_the_clock_of_the_machine(bed: Bed) {
    for (id, end) in [("k1", 500), ("k2", 900)] {
        assert!(add(&bed, KeyRow { expires_at: Some(end), ..key(&bed, id) }).await);
    }
    let next = async |now, wall| bed.store.figures(now, wall).await.unwrap().next_key_end;
    assert_eq!(next(1_000, 499).await, Some(500));
    assert_eq!(next(100, 500).await, Some(900));
    assert_eq!(next(100, 900).await, None);
}

async fn what_is_not_known_is_not_counted(bed: Bed) {
    let pk = bed.thread("t").await;
    let of = |kind, id: &str, body: Value| {
        let (id, body) = (id.to_owned(), body.to_string());
        Row { kind, id, ord: 1, keep: Keep::Always, body }
    };
    let rows = vec![
        of(RowKind::Run, "run_1", json!({ "status": "running" })),
        of(RowKind::Run, "run_2", json!({ "status": "of a later release" })),
        of(RowKind::Run, "run_3", json!({})),
        of(RowKind::Suspension, "sus_1", json!({ "kind": "approval", "createdAt": 7 })),
        of(RowKind::Suspension, "sus_2", json!({ "kind": "of a later release", "createdAt": 5 })),
        of(RowKind::Suspension, "sus_3", json!([])),
    ];
    bed.write(pk, rows).await;
    let figures = bed.store.figures(10, 10).await.unwrap();
    assert_eq!(figures.runs, [(RunStatus::Running, 1)]);
    assert_eq!(figures.questions, [OpenQuestions { kind: SuspensionKind::Approval, count: 1, since: 7 }]);
}
