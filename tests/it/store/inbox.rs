//! Rows found across the threads of a tenant, and never across tenants.

use pes::engine::step::{Keep, RowKind};
use pes::store::{Found, PageAsk};

use super::bed::{Bed, page, row};

super::on_every_store!(
    runs_suspensions_and_tasks_are_found_by_id,
    open_suspensions_are_listed_oldest_first,
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
