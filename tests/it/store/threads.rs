//! The list of threads.

use pes::domain::ids::ThreadPk;
use pes::domain::thread::{ThreadProfile, ThreadStatus};
use pes::engine::step::{Keep, RowKind};
use pes::store::{Commit, LOOKED_AT, PageAsk, ThreadFilter};

use super::bed::{Bed, page, row, together};

super::on_every_store!(
    the_newest_activity_comes_first,
    a_list_is_paged_to_its_end,
    status_narrows_the_list,
    titles_and_ids_are_searched_without_case,
    a_search_looks_at_so_many_threads_and_goes_on_at_its_cursor,
    a_mark_moves_with_every_commit,
);

async fn touched(bed: &Bed, pk: ThreadPk, now: i64) {
    let rows = vec![row(RowKind::Message, &format!("m{now}"), now, Keep::Never)];
    bed.done(Commit { now, rows, ..bed.next(pk).await }).await;
}

async fn listed(bed: &Bed, filter: ThreadFilter) -> Vec<String> {
    let found = bed.store.threads(bed.tenant, &filter, &page(100)).await.unwrap();
    assert_eq!(found.next_cursor, None);
    found.items.into_iter().map(|thread| thread.thread_id.to_string()).collect()
}

async fn the_newest_activity_comes_first(bed: Bed) {
    let (a, b) = (bed.thread("a").await, bed.thread("b").await);
    bed.thread("c").await;
    touched(&bed, a, 200).await;
    touched(&bed, b, 300).await;
    assert_eq!(listed(&bed, ThreadFilter::default()).await, ["b", "a", "c"]);
    bed.done(Commit { now: 400, status: ThreadStatus::Running, ..bed.next(a).await }).await;
    assert_eq!(listed(&bed, ThreadFilter::default()).await, ["a", "b", "c"]);
    bed.done(Commit { now: 500, ..bed.next(b).await }).await;
    assert_eq!(listed(&bed, ThreadFilter::default()).await, ["a", "b", "c"], "nothing that people see");
}

async fn a_list_is_paged_to_its_end(bed: Bed) {
    // Several threads share a time: the page must break between them all the same.
    for n in 0..7 {
        let pk = bed.thread(&format!("t{n}")).await;
        touched(&bed, pk, 100 + n / 3).await;
    }
    let mut seen = Vec::new();
    let mut ask = page(2);
    loop {
        let found = bed.store.threads(bed.tenant, &ThreadFilter::default(), &ask).await.unwrap();
        seen.extend(found.items.into_iter().map(|thread| thread.thread_id.to_string()));
        match found.next_cursor {
            Some(cursor) => ask = PageAsk { cursor: Some(cursor), limit: 2 },
            None => break,
        }
    }
    assert_eq!(seen, ["t6", "t5", "t4", "t3", "t2", "t1", "t0"]);
}

async fn status_narrows_the_list(bed: Bed) {
    for (id, status) in [("a", ThreadStatus::Running), ("b", ThreadStatus::Suspended), ("c", ThreadStatus::Running)] {
        let pk = bed.thread(id).await;
        bed.done(Commit { status, ..bed.next(pk).await }).await;
    }
    for status in ThreadStatus::ALL {
        let expected: &[&str] = match status {
            ThreadStatus::Running => &["c", "a"],
            ThreadStatus::Suspended => &["b"],
            ThreadStatus::Idle | ThreadStatus::Waiting | ThreadStatus::Failed | ThreadStatus::Quarantined => &[],
        };
        assert_eq!(listed(&bed, ThreadFilter { status: Some(status), q: None }).await, expected);
    }
}

async fn titles_and_ids_are_searched_without_case(bed: Bed) {
    for (id, title) in [("Plan-1", "Überblick: 100 %"), ("plan-2", "under_score"), ("x", "A PLAN\u{0}for two")] {
        let pk = bed.thread(id).await;
        let profile = ThreadProfile { title: Some(title.into()), ..ThreadProfile::default() };
        bed.done(Commit { profile: Some(profile), ..bed.next(pk).await }).await;
    }
    let q = |q: &str| ThreadFilter { status: None, q: Some(q.into()) };
    assert_eq!(listed(&bed, q("plan")).await, ["x", "plan-2", "Plan-1"]);
    assert_eq!(listed(&bed, q("ÜBERBLICK")).await, ["Plan-1"]);
    assert_eq!(listed(&bed, q("%")).await, ["Plan-1"], "a percent sign is just that");
    assert_eq!(listed(&bed, q("r_s")).await, ["plan-2"]);
    assert_eq!(listed(&bed, q("nowhere")).await, Vec::<String>::new());
}

async fn a_search_looks_at_so_many_threads_and_goes_on_at_its_cursor(bed: Bed) {
    bed.thread("needle").await;
    together((0..LOOKED_AT).map(|n| {
        let bed = bed.clone();
        async move { bed.thread(&format!("t{n}")).await }
    }))
    .await;
    for filter in [
        ThreadFilter { status: None, q: Some("need".into()) },
        ThreadFilter { status: Some(ThreadStatus::Running), q: None },
    ] {
        let first = bed.store.threads(bed.tenant, &filter, &page(10)).await.unwrap();
        assert_eq!(first.items, []);
        let ask = PageAsk { cursor: Some(first.next_cursor.expect("not all were looked at")), limit: 10 };
        let second = bed.store.threads(bed.tenant, &filter, &ask).await.unwrap();
        let found: Vec<&str> = second.items.iter().map(|thread| thread.thread_id.as_str()).collect();
        let expected: &[&str] = if filter.q.is_some() { &["needle"] } else { &[] };
        assert_eq!((found.as_slice(), second.next_cursor), (expected, None));
    }
}

async fn a_mark_moves_with_every_commit(bed: Bed) {
    let (a, b) = (bed.thread("a").await, bed.thread("b").await);
    let mark = async |pk: ThreadPk| bed.store.marks(&[pk]).await.unwrap()[0];
    let (before, others) = (mark(a).await, mark(b).await);
    touched(&bed, a, 200).await;
    assert_eq!((mark(a).await.pk, mark(a).await.version), (a, before.version + 1));
    assert_eq!(mark(a).await.last_seq, bed.read(a).await.last_seq);
    assert_eq!(mark(b).await, others);
    bed.erase(a).await;
    assert_eq!(bed.store.marks(&[a, b]).await.unwrap(), [others], "what is gone has none");
    assert_eq!(bed.store.marks(&[]).await.unwrap(), []);
}
