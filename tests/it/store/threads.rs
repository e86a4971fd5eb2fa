//! The list of threads: its order, its filters and its pages.

use std::collections::HashMap;

use pes::domain::ids::ThreadPk;
use pes::domain::run::{ResultStatus, RunStatus};
use pes::domain::thread::{ItemCounts, LastRun, ThreadProfile, ThreadStatus};
use pes::engine::step::{Keep, Row, RowKind};
use pes::store::{
    Commit, EndedCost, MAX_PAGE_BYTES, MAX_SCANNED, Outline, PageAsk, RecentThread, RunCosts, ThreadFilter,
};
use serde_json::json;

use super::bed::{Bed, page, row};
use crate::support::together;

super::on_every_store!(
    the_newest_activity_comes_first,
    a_list_is_paged_to_its_end,
    a_page_of_large_threads_has_fewer_of_them,
    status_narrows_the_list,
    the_result_of_the_newest_run_narrows_the_list,
    titles_and_ids_are_searched_without_case,
    a_search_looks_at_so_many_threads_and_goes_on_at_its_cursor,
    a_thread_version_moves_with_every_commit,
    an_outline_counts_what_can_be_read_of_a_thread,
    what_runs_cost_is_read_after_those_that_are_known,
    an_outline_has_no_status_that_is_not_known,
    titles_are_read_of_many_threads_at_once,
    what_was_active_lately_or_runs_is_told_with_its_version,
    the_newest_activity_of_all_tenants_is_told_until_a_time,
);

async fn an_outline_counts_what_can_be_read_of_a_thread(bed: Bed) {
    let (full, empty, gone) = (bed.thread("a").await, bed.thread("b").await, ThreadPk(i64::MAX));
    let with =
        |kind, id: &str, ord, keep, body: serde_json::Value| Row { body: body.to_string(), ..row(kind, id, ord, keep) };
    let item = |id: &str, status: &str| {
        let progress = with(RowKind::Progress, id, 1, Keep::Always, json!({ "status": status }));
        [row(RowKind::Item, id, 1, Keep::Always), progress]
    };
    let mut rows: Vec<Row> = [
        item("i1", "completed"),
        item("i2", "failed"),
        item("i3", "in_progress"),
        item("i5", "waiting"),
        item("i6", "cancelled"),
        item("i7", "pending"),
    ]
    .concat();
    let run = |id: &str, ord, keep, body| with(RowKind::Run, id, ord, keep, body);
    rows.extend([
        row(RowKind::Item, "i4", 1, Keep::Always),
        with(RowKind::Item, "removed", 1, Keep::UntilFloor, json!({ "removed": 2 })),
        Row { body: "not json".to_owned(), ..row(RowKind::Progress, "i4", 1, Keep::Always) },
        row(RowKind::Suspension, "sus_1", 1, Keep::Always),
        row(RowKind::Suspension, "sus_2", 1, Keep::Never),
        run("run_1", 1, Keep::Never, json!({ "status": "completed", "counters": { "costNanos": 7 } })),
        run(
            "run_2",
            2,
            Keep::Never,
            json!({ "status": "failed", "outcome": { "status": "error" }, "query": "é".repeat(300),
                "counters": { "costNanos": 5 } }),
        ),
        Row { body: "not json".to_owned(), ..row(RowKind::Run, "run_0", 0, Keep::Never) },
    ]);
    bed.write(full, rows).await;
    let mut outlines = bed.store.outlines(&[full, empty, gone]).await.unwrap();
    outlines.sort_by_key(|outline| outline.items.total);
    let nothing = Outline { pk: empty, items: ItemCounts::default(), open_questions: 0, last_run: None };
    let last_run = LastRun {
        run_id: "run_2".into(),
        status: RunStatus::Failed,
        result_status: Some(ResultStatus::Error),
        query: "é".repeat(200),
    };
    let counted = Outline {
        pk: full,
        items: ItemCounts { total: 7, done: 1, failed: 1, cancelled: 1, running: 1, waiting: 1 },
        open_questions: 1,
        last_run: Some(last_run),
    };
    assert_eq!(outlines, [nothing, counted]);
    let mut costs = bed.store.run_costs(&[full, empty, gone], &HashMap::new()).await.unwrap();
    costs.sort_by_key(|costs| costs.nanos);
    let ended = EndedCost { ord: 2, run: "run_2".into(), nanos: Some(12) };
    let of_full = RunCosts { pk: full, ended: Some(ended), nanos: Some(12) };
    assert_eq!(costs, [RunCosts { pk: empty, ended: None, nanos: None }, of_full]);
}

/// The log of a database that went back may have another run at the place of the last that is known.
async fn what_runs_cost_is_read_after_those_that_are_known(bed: Bed) {
    let pk = bed.thread("a").await;
    let run = |id: &str, ord, keep, cost: i64| Row {
        body: json!({ "counters": { "costNanos": cost } }).to_string(),
        ..row(RowKind::Run, id, ord, keep)
    };
    let costs = async |known: Option<EndedCost>| {
        let known = known.into_iter().map(|known| (pk, known)).collect();
        let costs = bed.store.run_costs(&[pk], &known).await.unwrap().remove(0);
        (costs.ended, costs.nanos)
    };
    let upto = |ord, run: &str, nanos| Some(EndedCost { ord, run: run.into(), nanos: Some(nanos) });
    bed.write(pk, vec![run("run_1", 1, Keep::Never, 1), run("run_3", 3, Keep::Always, 10)]).await;
    assert_eq!(costs(None).await, (upto(1, "run_1", 1), Some(11)));
    bed.write(pk, vec![run("run_3", 3, Keep::Never, 20), run("run_4", 4, Keep::Always, 300)]).await;
    bed.write(pk, vec![run("run_5", 5, Keep::Never, 4_000)]).await;
    let known = upto(1, "run_1", 50_000);
    assert_eq!(costs(known).await, (upto(3, "run_3", 50_020), Some(54_320)), "that of the first is not read");
    assert_eq!(costs(upto(3, "run_3", 50_020)).await, (upto(3, "run_3", 50_020), Some(54_320)));
    for other in [upto(1, "run_9", 50_000), upto(2, "run_1", 50_000)] {
        assert_eq!(costs(other).await, (upto(3, "run_3", 21), Some(4_321)));
    }
}

async fn an_outline_has_no_status_that_is_not_known(bed: Bed) {
    let (known, newer) = (bed.thread("a").await, bed.thread("b").await);
    let run = |body: serde_json::Value| Row { body: body.to_string(), ..row(RowKind::Run, "run_1", 1, Keep::Never) };
    let result = json!({ "status": "completed", "outcome": { "status": "of a later release" } });
    bed.write(known, vec![run(result)]).await;
    bed.write(newer, vec![run(json!({ "status": "of a later release" }))]).await;
    let mut outlines = bed.store.outlines(&[known, newer]).await.unwrap();
    outlines.sort_by_key(|outline| outline.pk);
    let of = |run: &LastRun| (run.status, run.result_status);
    let runs: Vec<_> = outlines.iter().map(|outline| outline.last_run.as_ref().map(of)).collect();
    assert_eq!(runs, [Some((RunStatus::Completed, None)), None]);
}

async fn what_was_active_lately_or_runs_is_told_with_its_version(bed: Bed) {
    let (old, new, runs) = (bed.thread("old").await, bed.thread("new").await, bed.thread("runs").await);
    bed.done(Commit { now: 11, status: ThreadStatus::Running, ..bed.next(runs).await }).await;
    touched(&bed, old, 20).await;
    touched(&bed, new, 300).await;
    let theirs = bed.other_tenant().await;
    let other = theirs.thread("theirs").await;
    theirs.done(Commit { now: 400, status: ThreadStatus::Running, ..theirs.next(other).await }).await;
    let mut told = bed.store.recent_threads(bed.tenant, 300).await.unwrap();
    told.sort_by(|a, b| a.thread_id.as_str().cmp(b.thread_id.as_str()));
    let thread =
        async |pk, id: &str| RecentThread { pk, thread_id: id.into(), version: bed.read(pk).await.fence.version };
    assert_eq!(told, [thread(new, "new").await, thread(runs, "runs").await]);
}

async fn the_newest_activity_of_all_tenants_is_told_until_a_time(bed: Bed) {
    assert_eq!(bed.store.newest_activity(i64::MAX).await.unwrap(), None);
    let (ours, theirs) = (bed.thread("ours").await, bed.other_tenant().await);
    let other = theirs.thread("theirs").await;
    touched(&bed, ours, 300).await;
    touched(&theirs, other, 400).await;
    for (until, newest) in [(i64::MAX, Some(400)), (400, Some(400)), (399, Some(300)), (299, None)] {
        assert_eq!(bed.store.newest_activity(until).await.unwrap(), newest, "until {until}");
    }
}

async fn titles_are_read_of_many_threads_at_once(bed: Bed) {
    let (named, bare) = (bed.thread("a").await, bed.thread("b").await);
    let profile = ThreadProfile { title: Some("A title".into()), ..ThreadProfile::default() };
    bed.done(Commit { profile: Some(Box::new(profile)), ..bed.next(named).await }).await;
    assert_eq!(bed.store.titles(&[named, bare]).await.unwrap(), [(named, "A title".to_owned())]);
}

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

async fn a_page_of_large_threads_has_fewer_of_them(bed: Bed) {
    let page_bytes = usize::try_from(MAX_PAGE_BYTES).unwrap();
    for n in 0..6 {
        let pk = bed.thread(&format!("t{n}")).await;
        // Two fit into a page, and the oldest into none.
        let bytes = if n == 0 { page_bytes + 1 } else { page_bytes * 2 / 5 };
        let metadata = json!({ "large": "x".repeat(bytes) }).as_object().unwrap().clone();
        let profile = Some(Box::new(ThreadProfile { metadata, ..ThreadProfile::default() }));
        bed.done(Commit { now: 100 + n, profile, ..bed.next(pk).await }).await;
    }
    for filter in [ThreadFilter::default(), ThreadFilter { status: Some(ThreadStatus::Idle), ..Default::default() }] {
        let (mut pages, mut ask) = (Vec::new(), page(100));
        loop {
            let found = bed.store.threads(bed.tenant, &filter, &ask).await.unwrap();
            pages.push(found.items.into_iter().map(|thread| thread.thread_id.to_string()).collect::<Vec<_>>());
            match found.next_cursor {
                Some(cursor) => ask = PageAsk { cursor: Some(cursor), limit: 100 },
                None => break,
            }
        }
        assert_eq!(pages, [&["t5", "t4"][..], &["t3", "t2"], &["t1"], &["t0"]]);
    }
}

async fn a_list_is_paged_to_its_end(bed: Bed) {
    // Several threads have the same time: a page must be able to end between them.
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
        assert_eq!(listed(&bed, ThreadFilter { status: Some(status), ..Default::default() }).await, expected);
    }
}

async fn the_result_of_the_newest_run_narrows_the_list(bed: Bed) {
    let run = |id: &str, ord, body: &str| Row { body: body.to_owned(), ..row(RowKind::Run, id, ord, Keep::Never) };
    let ended = |result| json!({ "status": "completed", "outcome": { "status": result } }).to_string();
    let (partial, success) = (ended("partial"), ended("success"));
    let (partial, success) = (partial.as_str(), success.as_str());
    let no_outcome = r#"{"status":"queued"}"#;
    for (id, bodies) in [
        ("first", vec![partial]),
        ("again", vec![success, partial]),
        ("better", vec![partial, success]),
        ("queued", vec![partial, no_outcome]),
        ("unreadable", vec![partial, "not json"]),
        ("none", vec![]),
    ] {
        let pk = bed.thread(id).await;
        let runs = bodies.into_iter().zip(1..).map(|(body, n)| run(&format!("run_{n}"), n, body));
        bed.write(pk, runs.collect()).await;
    }
    for result in ResultStatus::ALL {
        let expected: &[&str] = match result {
            ResultStatus::Success => &["better"],
            ResultStatus::Partial => &["again", "first"],
            ResultStatus::Error => &[],
        };
        assert_eq!(listed(&bed, ThreadFilter { result: Some(result), ..Default::default() }).await, expected);
    }
    let none = ThreadFilter { status: Some(ThreadStatus::Running), result: Some(ResultStatus::Partial), q: None };
    assert_eq!(listed(&bed, none).await, Vec::<String>::new());
}

async fn titles_and_ids_are_searched_without_case(bed: Bed) {
    for (id, title) in [("Plan-1", "Überblick: 100 %"), ("plan-2", "under_score"), ("x", "A PLAN\u{0}for two")] {
        let pk = bed.thread(id).await;
        let profile = ThreadProfile { title: Some(title.into()), ..ThreadProfile::default() };
        bed.done(Commit { profile: Some(Box::new(profile)), ..bed.next(pk).await }).await;
    }
    let q = |q: &str| ThreadFilter { q: Some(q.into()), ..Default::default() };
    assert_eq!(listed(&bed, q("plan")).await, ["x", "plan-2", "Plan-1"]);
    assert_eq!(listed(&bed, q("ÜBERBLICK")).await, ["Plan-1"]);
    assert_eq!(listed(&bed, q("%")).await, ["Plan-1"], "a percent sign is just that");
    assert_eq!(listed(&bed, q("r_s")).await, ["plan-2"]);
    assert_eq!(listed(&bed, q("nowhere")).await, Vec::<String>::new());
}

async fn a_search_looks_at_so_many_threads_and_goes_on_at_its_cursor(bed: Bed) {
    bed.thread("needle").await;
    together((0..MAX_SCANNED).map(|n| {
        let bed = bed.clone();
        async move { bed.thread(&format!("t{n}")).await }
    }))
    .await;
    for filter in [
        ThreadFilter { q: Some("need".into()), ..Default::default() },
        ThreadFilter { status: Some(ThreadStatus::Running), ..Default::default() },
        ThreadFilter { result: Some(ResultStatus::Partial), ..Default::default() },
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

async fn a_thread_version_moves_with_every_commit(bed: Bed) {
    let (a, b) = (bed.thread("a").await, bed.thread("b").await);
    let version = async |pk: ThreadPk| bed.store.thread_versions(&[pk]).await.unwrap()[0];
    let (before, others) = (version(a).await, version(b).await);
    touched(&bed, a, 200).await;
    assert_eq!((version(a).await.pk, version(a).await.version), (a, before.version + 1));
    assert_eq!(version(a).await.last_seq, bed.read(a).await.last_seq);
    assert_eq!(version(b).await, others);
    assert_eq!(bed.store.threads_by_pk(&[b]).await.unwrap(), [bed.read(b).await]);
    bed.erase(a).await;
    assert_eq!(bed.store.thread_versions(&[a, b]).await.unwrap(), [others], "what is gone has none");
    assert_eq!(bed.store.thread_versions(&[]).await.unwrap(), []);
}
