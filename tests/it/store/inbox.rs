//! Rows found across the threads of a tenant, and never across tenants.

use pes::domain::hitl::SuspensionKind;
use pes::domain::run::{CallerStatus, RunStatus};
use pes::engine::step::{Keep, Row, RowKind};
use pes::store::{FoundRow, OpenQuestions, Page, PageAsk, StandingAsk};
use serde_json::json;

use super::bed::{Bed, page, row};

super::on_every_store!(
    runs_suspensions_and_tasks_are_found_by_id,
    open_suspensions_are_listed_oldest_first,
    runs_are_listed_by_the_time_of_their_last_change,
    tenants_see_nothing_of_each_other,
    what_is_open_is_counted_over_all_tenants,
    tasks_of_a_tenant_are_listed_newest_first,
);

async fn runs_suspensions_and_tasks_are_found_by_id(bed: Bed) {
    let pk = bed.thread("t1").await;
    for kind in [RowKind::Run, RowKind::Suspension, RowKind::Task] {
        let row = row(kind, "same_id", 3, Keep::Never);
        bed.write(pk, vec![row.clone()]).await;
        let found = bed.store.find_row(bed.tenant, kind, "same_id").await.unwrap();
        assert_eq!(found, Some(FoundRow { pk, thread_id: "t1".into(), row }));
    }
    bed.write(pk, vec![row(RowKind::Item, "item", 1, Keep::Always)]).await;
    assert_eq!(bed.store.find_row(bed.tenant, RowKind::Item, "item").await.unwrap(), None);
    assert_eq!(bed.store.find_row(bed.tenant, RowKind::Run, "unknown").await.unwrap(), None);
}

async fn open_suspensions_are_listed_oldest_first(bed: Bed) {
    let (a, b) = (bed.thread("a").await, bed.thread("b").await);
    let open = |id: &str| row(RowKind::Suspension, id, 1, Keep::Always);
    bed.write(a, vec![open("sus_3"), open("sus_1"), row(RowKind::Suspension, "sus_0", 1, Keep::Never)]).await;
    bed.write(b, vec![open("sus_2"), row(RowKind::Run, "run", 1, Keep::Always)]).await;
    let first = bed.store.open_suspensions(bed.tenant, &page(2)).await.unwrap();
    let shown: Vec<_> = first.items.iter().map(|found| (found.row.id.as_str(), found.thread_id.as_str())).collect();
    assert_eq!(shown, [("sus_1", "a"), ("sus_2", "b")]);
    bed.write(a, vec![row(RowKind::Suspension, "sus_1", 1, Keep::Never)]).await;
    let ask = PageAsk { cursor: first.next_cursor, limit: 2 };
    let second = bed.store.open_suspensions(bed.tenant, &ask).await.unwrap();
    assert_eq!(second.items.iter().map(|found| found.row.id.as_str()).collect::<Vec<_>>(), ["sus_3"]);
    assert_eq!(second.next_cursor, None);
}

async fn runs_are_listed_by_the_time_of_their_last_change(bed: Bed) {
    let (a, b) = (bed.thread("a").await, bed.thread("b").await);
    let stands = |id: &str, since: i64, standing: &CallerStatus| Row {
        body: serde_json::to_string(standing).unwrap(),
        ..row(RowKind::CallerStatus, id, since, Keep::Never)
    };
    let run = |id: &str| row(RowKind::Run, id, 3, Keep::Always);
    let (done, asks) = (CallerStatus::Completed, CallerStatus::Suspended);
    bed.write(a, vec![run("run_1"), stands("run_1", 10, &done), run("run_2"), stands("run_2", 30, &asks)]).await;
    bed.write(b, vec![run("run_3"), stands("run_3", 20, &done), run("run_4"), stands("run_4", 20, &asks)]).await;
    let other = bed.other_tenant().await;
    let theirs = other.thread("a").await;
    bed.write(theirs, vec![run("run_5"), stands("run_5", 99, &done)]).await;

    let all = StandingAsk { tenant: bed.tenant, thread: None, standings: vec![], since: None, page: page(9) };
    let ids = async |ask: StandingAsk| {
        let (page, total) = bed.store.runs_by_standing(&ask).await.unwrap();
        (page.items.into_iter().map(|found| found.row.id).collect::<Vec<_>>(), total)
    };
    assert_eq!(ids(all.clone()).await.0, ["run_2", "run_4", "run_3", "run_1"]);
    for (ask, wanted) in [
        (StandingAsk { thread: Some(a), ..all.clone() }, &["run_2", "run_1"][..]),
        (StandingAsk { standings: vec![CallerStatus::Completed], ..all.clone() }, &["run_3", "run_1"]),
        (StandingAsk { standings: vec![CallerStatus::Running], ..all.clone() }, &[]),
        (
            StandingAsk {
                standings: vec![CallerStatus::Running, CallerStatus::Suspended],
                since: Some(21),
                ..all.clone()
            },
            &["run_2"],
        ),
        (StandingAsk { since: Some(20), ..all.clone() }, &["run_2", "run_4", "run_3"]),
        (StandingAsk { tenant: other.tenant, ..all.clone() }, &["run_5"]),
        (StandingAsk { tenant: other.tenant, thread: Some(a), ..all.clone() }, &[]),
    ] {
        assert_eq!(
            ids(ask.clone()).await,
            (wanted.iter().map(ToString::to_string).collect(), wanted.len() as u64),
            "{ask:?}"
        );
    }
    // What moves between two pages is not shown twice, and what stays is not left out.
    let (first, total) = bed.store.runs_by_standing(&StandingAsk { page: page(2), ..all.clone() }).await.unwrap();
    assert_eq!((first.items[0].thread_id.as_str(), first.items[0].pk, total), ("a", a, 4));
    bed.write(a, vec![stands("run_2", 40, &done)]).await;
    let rest = PageAsk { cursor: first.next_cursor, limit: 2 };
    assert_eq!(ids(StandingAsk { page: rest, ..all.clone() }).await.0, ["run_3", "run_1"]);
    assert_eq!(ids(StandingAsk { standings: vec![CallerStatus::Suspended], ..all }).await.0, ["run_4"]);
}

async fn tenants_see_nothing_of_each_other(bed: Bed) {
    let other = bed.other_tenant().await;
    let pk = bed.thread("t1").await;
    bed.write(pk, vec![row(RowKind::Suspension, "sus_1", 1, Keep::Always), row(RowKind::Run, "run", 1, Keep::Always)])
        .await;
    assert_eq!(other.store.find_row(other.tenant, RowKind::Run, "run").await.unwrap(), None);
    assert_eq!(other.store.find_row(other.tenant, RowKind::Suspension, "sus_1").await.unwrap(), None);
    assert!(other.store.open_suspensions(other.tenant, &page(9)).await.unwrap().items.is_empty());
    assert!(other.store.threads(other.tenant, &Default::default(), &page(9)).await.unwrap().items.is_empty());
    assert_eq!(other.store.thread(other.tenant, &"t1".into()).await.unwrap(), None);
}

async fn what_is_open_is_counted_over_all_tenants(bed: Bed) {
    let other = bed.other_tenant().await;
    let body = |row: Row, body: serde_json::Value| Row { body: body.to_string(), ..row };
    for (bed, id, at) in [(&bed, "a", 30), (&other, "b", 20)] {
        let pk = bed.thread(id).await;
        let rows = vec![
            body(row(RowKind::Run, &format!("run_{id}"), 1, Keep::Always), json!({ "status": "suspended" })),
            body(row(RowKind::Run, &format!("run_{id}0"), 0, Keep::Never), json!({ "status": "failed" })),
            body(
                row(RowKind::Suspension, &format!("sus_{id}"), 1, Keep::Always),
                json!({ "kind": "approval", "createdAt": at, "message": "\u{0}" }),
            ),
            body(
                row(RowKind::Suspension, &format!("sus_{id}0"), 1, Keep::Never),
                json!({ "kind": "question", "createdAt": 1 }),
            ),
        ];
        bed.write(pk, rows).await;
    }
    let figures = bed.store.figures().await.unwrap();
    assert_eq!(figures.runs, [(RunStatus::Suspended, 2)]);
    assert_eq!(figures.questions, [OpenQuestions { kind: SuspensionKind::Approval, count: 2, since: 20 }]);
    assert_eq!((figures.deliveries, figures.oldest_due), (0, None));
}

async fn tasks_of_a_tenant_are_listed_newest_first(bed: Bed) {
    let (a, b, other) = (bed.thread("a").await, bed.thread("b").await, bed.other_tenant().await);
    let theirs = other.thread("c").await;
    for (pk, id) in [(a, "task_1"), (b, "task_2"), (a, "task_3"), (theirs, "task_4")] {
        let bed = if pk == theirs { &other } else { &bed };
        let rows =
            vec![row(RowKind::Task, id, 1, Keep::Never), row(RowKind::Run, &format!("run_{id}"), 1, Keep::Never)];
        bed.write(pk, rows).await;
    }
    let first = bed.store.tasks(bed.tenant, &page(2)).await.unwrap();
    let ids = |page: &Page<FoundRow>| page.items.iter().map(|it| it.row.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&first), ["task_3", "task_2"]);
    let rest = bed.store.tasks(bed.tenant, &PageAsk { cursor: first.next_cursor.clone(), limit: 2 }).await.unwrap();
    assert_eq!((ids(&rest), rest.next_cursor), (vec!["task_1".to_owned()], None));
}
