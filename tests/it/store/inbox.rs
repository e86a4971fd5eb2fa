//! Rows found across the threads of a tenant, and never across tenants.

use pes::domain::run::Standing;
use pes::engine::step::{Keep, Row, RowKind};
use pes::store::{Found, PageAsk, StandingAsk};

use super::bed::{Bed, page, row};

super::on_every_store!(
    runs_suspensions_and_tasks_are_found_by_id,
    open_suspensions_are_listed_oldest_first,
    runs_are_listed_by_the_time_of_their_last_change,
    tenants_see_nothing_of_each_other,
);

async fn runs_suspensions_and_tasks_are_found_by_id(bed: Bed) {
    let pk = bed.thread("t1").await;
    for kind in [RowKind::Run, RowKind::Suspension, RowKind::Task] {
        let row = row(kind, "same_id", 3, Keep::Never);
        bed.write(pk, vec![row.clone()]).await;
        let found = bed.store.find_row(bed.tenant, kind, "same_id").await.unwrap();
        assert_eq!(found, Some(Found { pk, thread_id: "t1".into(), row }));
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
    let stands = |id: &str, since: i64, standing: &Standing| Row {
        body: serde_json::to_string(standing).unwrap(),
        ..row(RowKind::Standing, id, since, Keep::Never)
    };
    let run = |id: &str| row(RowKind::Run, id, 3, Keep::Always);
    let (done, asks) = (Standing::Completed, Standing::Suspended);
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
        (StandingAsk { standings: vec![Standing::Completed], ..all.clone() }, &["run_3", "run_1"]),
        (StandingAsk { standings: vec![Standing::Running], ..all.clone() }, &[]),
        (
            StandingAsk { standings: vec![Standing::Running, Standing::Suspended], since: Some(21), ..all.clone() },
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
    assert_eq!(ids(StandingAsk { standings: vec![Standing::Suspended], ..all }).await.0, ["run_4"]);
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
