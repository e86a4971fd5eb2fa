//! Rows are found across the threads of one tenant, and never across tenants.

use pes::domain::hitl::SuspensionKind;
use pes::domain::hitl::SuspensionStatus;
use pes::domain::run::{CallerStatus, RunStatus};
use pes::engine::step::{Keep, Row, RowKind};
use pes::store::{
    FoundRow, MAX_PAGE_BYTES, MAX_SCANNED, OpenQuestions, Page, PageAsk, RunsByStatusAsk, SuspensionAsk,
    SuspensionsWanted,
};
use serde_json::json;

use super::bed::{Bed, page, row};

super::on_every_store!(
    runs_suspensions_and_tasks_are_found_by_id,
    open_suspensions_are_listed_oldest_first,
    what_expires_next_comes_first_and_what_never_does_last,
    past_suspensions_are_listed_newest_first_by_status_thread_and_who_decided,
    a_search_for_past_suspensions_goes_on_where_it_stopped_looking,
    past_suspensions_of_a_thread_are_found_however_many_others_there_are,
    a_past_suspension_that_cannot_be_read_was_decided_by_nobody,
    rows_are_found_by_their_ids_whichever_they_are,
    runs_are_listed_by_the_time_of_their_last_change,
    tenants_see_nothing_of_each_other,
    what_is_open_is_counted_over_all_tenants,
    pages_of_large_rows_across_threads_have_fewer_of_them,
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
    let first = bed.suspensions(SuspensionsWanted::Open, page(2)).await.unwrap();
    let shown: Vec<_> = first.items.iter().map(|found| (found.row.id.as_str(), found.thread_id.as_str())).collect();
    assert_eq!(shown, [("sus_1", "a"), ("sus_2", "b")]);
    bed.write(a, vec![row(RowKind::Suspension, "sus_1", 1, Keep::Never)]).await;
    let ask = PageAsk { cursor: first.next_cursor, limit: 2 };
    let second = bed.suspensions(SuspensionsWanted::Open, ask).await.unwrap();
    assert_eq!(second.items.iter().map(|found| found.row.id.as_str()).collect::<Vec<_>>(), ["sus_3"]);
    assert_eq!(second.next_cursor, None);
}

async fn pages_of_large_rows_across_threads_have_fewer_of_them(bed: Bed) {
    let (a, b) = (bed.thread("a").await, bed.thread("b").await);
    // Two of these fit into a page.
    let large = |kind, id: &str| {
        let body = json!("x".repeat(usize::try_from(MAX_PAGE_BYTES).unwrap() * 2 / 5)).to_string();
        Row { body, ..row(kind, id, 1, Keep::Always) }
    };
    let done = serde_json::to_string(&CallerStatus::Completed).unwrap();
    for (n, pk) in [(1, a), (2, b), (3, a)] {
        let status = row(RowKind::CallerStatus, &format!("run_{n}"), n, Keep::Never);
        let rows = vec![
            large(RowKind::Suspension, &format!("sus_{n}")),
            large(RowKind::Task, &format!("task_{n}")),
            large(RowKind::Run, &format!("run_{n}")),
            Row { body: done.clone(), ..status },
        ];
        bed.write(pk, rows).await;
    }
    for list in 0..6 {
        let (mut pages, mut ask) = (Vec::new(), page(100));
        loop {
            let runs = |statuses| RunsByStatusAsk {
                tenant: bed.tenant,
                thread: None,
                statuses,
                since: None,
                page: ask.clone(),
            };
            let past = SuspensionsWanted::Past { status: None, decided_by: None };
            let found = match list {
                0 => bed.suspensions(SuspensionsWanted::Open, ask.clone()).await,
                1 => bed.suspensions(SuspensionsWanted::OpenByExpiry, ask.clone()).await,
                2 => bed.suspensions(past, ask.clone()).await,
                3 => bed.store.tasks(bed.tenant, &ask).await,
                4 => bed.store.runs_by_caller_status(&runs(vec![])).await,
                _ => bed.store.runs_by_caller_status(&runs(vec![CallerStatus::Completed])).await,
            };
            let found = found.unwrap();
            pages.push(found_ids(&found).concat().replace(char::is_alphabetic, ""));
            let Some(cursor) = found.next_cursor else { break };
            ask.cursor = Some(cursor);
        }
        assert_eq!(pages, if list < 2 { ["_1_2", "_3"] } else { ["_3_2", "_1"] }, "list {list}");
    }
}

fn suspension(id: &str, keep: Keep, body: serde_json::Value) -> Row {
    Row { body: body.to_string(), ..row(RowKind::Suspension, id, 1, keep) }
}

fn found_ids(page: &Page<FoundRow>) -> Vec<&str> {
    page.items.iter().map(|found| found.row.id.as_str()).collect()
}

async fn what_expires_next_comes_first_and_what_never_does_last(bed: Bed) {
    let (a, b) = (bed.thread("a").await, bed.thread("b").await);
    let open = |id: &str, expires: i64| suspension(id, Keep::Always, json!({ "expiresAt": expires }));
    let over = suspension("sus_0", Keep::Never, json!({ "expiresAt": 1 }));
    bed.write(a, vec![open("sus_1", 30), suspension("sus_2", Keep::Always, json!({})), over]).await;
    let broken = Row { body: "not json".to_owned(), ..row(RowKind::Suspension, "sus_5", 1, Keep::Always) };
    bed.write(b, vec![open("sus_3", 20), open("sus_4", 30), broken]).await;
    let mut seen = Vec::new();
    let mut ask = page(2);
    loop {
        let found = bed.suspensions(SuspensionsWanted::OpenByExpiry, ask).await.unwrap();
        seen.extend(found_ids(&found).into_iter().map(str::to_owned));
        let Some(cursor) = found.next_cursor else { break };
        ask = PageAsk { cursor: Some(cursor), limit: 2 };
    }
    assert_eq!(seen, ["sus_3", "sus_1", "sus_4", "sus_2", "sus_5"]);
    let ask =
        SuspensionAsk { tenant: bed.tenant, thread: Some(b), wanted: SuspensionsWanted::OpenByExpiry, page: page(9) };
    assert_eq!(found_ids(&bed.store.suspensions(&ask).await.unwrap()), ["sus_3", "sus_4", "sus_5"]);
}

async fn past_suspensions_are_listed_newest_first_by_status_thread_and_who_decided(bed: Bed) {
    let (a, b) = (bed.thread("a").await, bed.thread("b").await);
    let past = |id: &str, status: &str, by: &str| {
        let keep = if status == "pending" { Keep::Always } else { Keep::Never };
        suspension(id, keep, json!({ "status": status, "resolution": { "decidedBy": by } }))
    };
    bed.write(
        a,
        vec![past("sus_1", "resolved", "ann"), past("sus_2", "pending", ""), past("sus_3", "expired", "timer")],
    )
    .await;
    bed.write(b, vec![past("sus_4", "resolved", "bob"), row(RowKind::Run, "sus_9", 1, Keep::Never)]).await;
    let ids = async |thread, status, decided_by: Option<&str>| {
        let wanted = SuspensionsWanted::Past { status, decided_by: decided_by.map(str::to_owned) };
        let ask = SuspensionAsk { tenant: bed.tenant, thread, wanted, page: page(9) };
        let found = bed.store.suspensions(&ask).await.unwrap();
        assert_eq!(found.next_cursor, None);
        found_ids(&found).join(" ")
    };
    assert_eq!(ids(None, None, None).await, "sus_4 sus_3 sus_2 sus_1");
    assert_eq!(ids(Some(a), None, None).await, "sus_3 sus_2 sus_1");
    assert_eq!(ids(None, Some(SuspensionStatus::Resolved), None).await, "sus_4 sus_1");
    assert_eq!(ids(Some(a), Some(SuspensionStatus::Resolved), None).await, "sus_1");
    assert_eq!(ids(None, None, Some("bob")).await, "sus_4");
    assert_eq!(ids(None, Some(SuspensionStatus::Expired), Some("bob")).await, "");
}

async fn a_search_for_past_suspensions_goes_on_where_it_stopped_looking(bed: Bed) {
    let pk = bed.thread("a").await;
    let of = |n: u32| {
        let by = if n == 0 { "ann" } else { "bob" };
        suspension(
            &format!("sus_{n:05}"),
            Keep::Never,
            json!({ "status": "resolved", "resolution": { "decidedBy": by } }),
        )
    };
    bed.write(pk, (0..=MAX_SCANNED).map(of).collect()).await;
    let wanted = SuspensionsWanted::Past { status: None, decided_by: Some("ann".to_owned()) };
    let first = bed.suspensions(wanted.clone(), page(2)).await.unwrap();
    assert!(first.items.is_empty(), "so many were looked at, and none is ann's");
    let second = bed.suspensions(wanted, PageAsk { cursor: first.next_cursor, limit: 2 }).await.unwrap();
    assert_eq!((found_ids(&second), second.next_cursor.as_ref()), (vec!["sus_00000"], None));
}

async fn past_suspensions_of_a_thread_are_found_however_many_others_there_are(bed: Bed) {
    let (a, b) = (bed.thread("a").await, bed.thread("b").await);
    let past = |id: &str| suspension(id, Keep::Never, json!({ "status": "resolved" }));
    bed.write(a, vec![past("sus_0")]).await;
    bed.write(b, (0..=MAX_SCANNED).map(|n| past(&format!("sus_1{n:05}"))).collect()).await;
    let wanted = SuspensionsWanted::Past { status: Some(SuspensionStatus::Resolved), decided_by: None };
    let ask = SuspensionAsk { tenant: bed.tenant, thread: Some(a), wanted, page: page(2) };
    let found = bed.store.suspensions(&ask).await.unwrap();
    assert_eq!((found_ids(&found), found.next_cursor.as_ref()), (vec!["sus_0"], None));
}

async fn rows_are_found_by_their_ids_whichever_they_are(bed: Bed) {
    let (a, b) = (bed.thread("a").await, bed.thread("b").await);
    let (item, run) = (row(RowKind::Item, "same", 1, Keep::Always), row(RowKind::Run, "same", 1, Keep::Never));
    bed.write(a, vec![item.clone(), run.clone()]).await;
    bed.write(b, vec![item.clone()]).await;
    let same = |pk, kind| (pk, kind, "same".to_owned());
    let wanted =
        [same(a, RowKind::Item), same(a, RowKind::Run), same(b, RowKind::Run), (a, RowKind::Item, "other".to_owned())];
    let mut found = bed.store.rows_by_id(&wanted).await.unwrap();
    found.sort_by_key(|(_, row)| row.kind);
    assert_eq!(found, [(a, run), (a, item)]);
    assert!(bed.store.rows_by_id(&[]).await.unwrap().is_empty());
}

async fn runs_are_listed_by_the_time_of_their_last_change(bed: Bed) {
    let (a, b) = (bed.thread("a").await, bed.thread("b").await);
    let stands = |id: &str, since: i64, status: &CallerStatus| Row {
        body: serde_json::to_string(status).unwrap(),
        ..row(RowKind::CallerStatus, id, since, Keep::Never)
    };
    let run = |id: &str| row(RowKind::Run, id, 3, Keep::Always);
    let (done, asks) = (CallerStatus::Completed, CallerStatus::Suspended);
    bed.write(a, vec![run("run_1"), stands("run_1", 10, &done), run("run_2"), stands("run_2", 30, &asks)]).await;
    bed.write(b, vec![run("run_3"), stands("run_3", 20, &done), run("run_4"), stands("run_4", 20, &asks)]).await;
    let other = bed.other_tenant().await;
    let theirs = other.thread("a").await;
    bed.write(theirs, vec![run("run_5"), stands("run_5", 99, &done)]).await;

    let all = RunsByStatusAsk { tenant: bed.tenant, thread: None, statuses: vec![], since: None, page: page(9) };
    let ids = async |ask: RunsByStatusAsk| {
        let page = bed.store.runs_by_caller_status(&ask).await.unwrap();
        let total = bed.store.count_by_caller_status(&ask).await.unwrap();
        (page.items.into_iter().map(|found| found.row.id).collect::<Vec<_>>(), total)
    };
    assert_eq!(ids(all.clone()).await.0, ["run_2", "run_4", "run_3", "run_1"]);
    for (ask, wanted) in [
        (RunsByStatusAsk { thread: Some(a), ..all.clone() }, &["run_2", "run_1"][..]),
        (RunsByStatusAsk { statuses: vec![CallerStatus::Completed], ..all.clone() }, &["run_3", "run_1"]),
        (RunsByStatusAsk { statuses: vec![CallerStatus::Running], ..all.clone() }, &[]),
        (
            RunsByStatusAsk {
                statuses: vec![CallerStatus::Running, CallerStatus::Suspended],
                since: Some(21),
                ..all.clone()
            },
            &["run_2"],
        ),
        (RunsByStatusAsk { since: Some(20), ..all.clone() }, &["run_2", "run_4", "run_3"]),
        (RunsByStatusAsk { tenant: other.tenant, ..all.clone() }, &["run_5"]),
        (RunsByStatusAsk { tenant: other.tenant, thread: Some(a), ..all.clone() }, &[]),
    ] {
        assert_eq!(
            ids(ask.clone()).await,
            (wanted.iter().map(ToString::to_string).collect(), wanted.len() as u64),
            "{ask:?}"
        );
    }
    // A row that moves between two pages is not shown twice, and one that stays is not left out.
    let two = RunsByStatusAsk { page: page(2), ..all.clone() };
    let total = bed.store.count_by_caller_status(&two).await.unwrap();
    let first = bed.store.runs_by_caller_status(&two).await.unwrap();
    assert_eq!((first.items[0].thread_id.as_str(), first.items[0].pk, total), ("a", a, 4));
    bed.write(a, vec![stands("run_2", 40, &done)]).await;
    let rest = PageAsk { cursor: first.next_cursor, limit: 2 };
    assert_eq!(ids(RunsByStatusAsk { page: rest, ..all.clone() }).await.0, ["run_3", "run_1"]);
    assert_eq!(ids(RunsByStatusAsk { statuses: vec![CallerStatus::Suspended], ..all.clone() }).await.0, ["run_4"]);

    // With a filter by status the last changed comes first as well, and rows of deleted threads take no place on a
    // page.
    let c = bed.thread("c").await;
    let payloads = (0..1_500).map(|n| row(RowKind::Payload, &format!("p{n}"), n, Keep::Never));
    bed.write(c, payloads.chain([run("run_9"), stands("run_9", 99, &done)]).collect()).await;
    assert!(bed.erase(c).await);
    let mut some =
        RunsByStatusAsk { statuses: vec![CallerStatus::Completed, CallerStatus::Suspended], page: page(1), ..all };
    for (nth, wanted) in ["run_2", "run_4", "run_3", "run_1"].into_iter().enumerate() {
        let found = bed.store.runs_by_caller_status(&some).await.unwrap();
        assert_eq!(found.items.iter().map(|found| &*found.row.id).collect::<Vec<_>>(), [wanted]);
        assert_eq!(found.next_cursor.is_some(), nth < 3);
        some.page.cursor = found.next_cursor;
    }
}

async fn tenants_see_nothing_of_each_other(bed: Bed) {
    let other = bed.other_tenant().await;
    let pk = bed.thread("t1").await;
    bed.write(pk, vec![row(RowKind::Suspension, "sus_1", 1, Keep::Always), row(RowKind::Run, "run", 1, Keep::Always)])
        .await;
    assert_eq!(other.store.find_row(other.tenant, RowKind::Run, "run").await.unwrap(), None);
    assert_eq!(other.store.find_row(other.tenant, RowKind::Suspension, "sus_1").await.unwrap(), None);
    let past = SuspensionsWanted::Past { status: None, decided_by: None };
    for wanted in [SuspensionsWanted::Open, SuspensionsWanted::OpenByExpiry, past] {
        assert!(other.suspensions(wanted, page(9)).await.unwrap().items.is_empty());
    }
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
    let figures = bed.store.figures(1_000, 1_000).await.unwrap();
    assert_eq!(figures.runs, [(RunStatus::Suspended, 2)]);
    assert_eq!(figures.questions, [OpenQuestions { kind: SuspensionKind::Approval, count: 2, since: 20 }]);
    assert_eq!((figures.deliveries, figures.oldest_due), (0, None));
}

async fn a_past_suspension_that_cannot_be_read_was_decided_by_nobody(bed: Bed) {
    let pk = bed.thread("t").await;
    bed.write(pk, vec![Row { body: "{".to_owned(), ..row(RowKind::Suspension, "sus_1", 1, Keep::Never) }]).await;
    for (decided_by, found) in [(None, 1), (Some(String::new()), 0)] {
        let wanted = SuspensionsWanted::Past { status: None, decided_by };
        assert_eq!(bed.suspensions(wanted, page(9)).await.unwrap().items.len(), found);
    }
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
