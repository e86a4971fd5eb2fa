//! Observations are read back by number, type and run.

use pes::domain::observation::ObservationType::{Intent, Plan, PlanUpdate, RunFinished, RunStarted};
use pes::domain::observation::{Observation, RecordMetadata};
use pes::store::{Commit, ObservationAsk};

use super::bed::{Bed, record};

super::on_every_form_of_log!(
    observations_are_read_in_windows,
    observations_are_filtered,
    a_log_may_end_where_a_query_does,
    what_one_commit_told_is_taken_apart_again,
    a_filter_looks_as_far_as_it_must,
    where_a_run_began_is_found_from_the_end,
    the_facts_of_a_run_are_those_of_its_observations,
    the_facts_of_a_long_run_are_read_to_its_beginning,
);

async fn ten(bed: &Bed) -> pes::domain::ids::ThreadPk {
    let pk = bed.thread("t1").await;
    for run in ["run_1", "run_2"] {
        let records = [RunStarted, Intent, Plan, Intent, RunFinished].map(|kind| record("o", kind, run)).into();
        bed.done(Commit { records, ..bed.next(pk).await }).await;
    }
    pk
}

async fn seqs(bed: &Bed, pk: pes::domain::ids::ThreadPk, ask: ObservationAsk) -> Vec<i64> {
    bed.store.observations(pk, &ask).await.unwrap().into_iter().map(|o| o.seq).collect()
}

async fn where_a_run_began_is_found_from_the_end(bed: Bed) {
    let pk = ten(&bed).await;
    let began = async |run: &str| bed.store.run_began(pk, &run.into()).await.unwrap();
    assert_eq!((began("run_1").await, began("run_2").await, began("run_3").await), (Some(1), Some(6), None));
    let elsewhere = bed.thread("t2").await;
    assert_eq!(bed.store.run_began(elsewhere, &"run_1".into()).await.unwrap(), None);
    for at in 0..20 {
        let records = vec![record("o", RunFinished, "run_x"), record("o", RunStarted, &format!("later_{at}"))];
        bed.done(Commit { records, ..bed.next(pk).await }).await;
    }
    assert_eq!((began("run_2").await, began("later_0").await, began("later_19").await), (Some(6), Some(12), Some(50)));
}

async fn the_facts_of_a_run_are_those_of_its_observations(bed: Bed) {
    let pk = ten(&bed).await;
    let mut late = record("o", Plan, "run_2");
    (late.timestamp, late.parent_id) = (77, Some("item_1".into()));
    let records = vec![record("o", Intent, "run_3"), late, record("o", RunStarted, "run_3")];
    bed.done(Commit { records, ..bed.next(pk).await }).await;
    let elsewhere = bed.thread("t2").await;
    assert!(bed.store.facts(elsewhere, &"run_1".into(), 10).await.unwrap().is_empty());
    let observations = bed.observations(pk).await;
    for (run, until, expected) in [
        ("run_1", 10, vec![1, 2, 3, 4, 5]),
        ("run_1", 3, vec![]),
        ("run_2", 10, vec![6, 7, 8, 9, 10]),
        ("run_2", 13, vec![6, 7, 8, 9, 10, 12]),
        ("run_2", 5, vec![]),
        ("run_3", 13, vec![13]),
        ("run_4", 13, vec![]),
    ] {
        let facts = bed.store.facts(pk, &run.into(), until).await.unwrap();
        assert_eq!(facts.iter().map(|recorded| recorded.seq).collect::<Vec<_>>(), expected, "{run} until {until}");
        for recorded in facts {
            let seen = observations.iter().find(|seen| seen.seq == recorded.seq).unwrap();
            let told = (&recorded.thread_id, &recorded.parent_id, recorded.timestamp, recorded.fact);
            assert_eq!(told, (&seen.thread_id, &seen.parent_id, seen.timestamp, seen.fact().unwrap()));
        }
    }
}

async fn the_facts_of_a_long_run_are_read_to_its_beginning(bed: Bed) {
    let pk = ten(&bed).await;
    let records = vec![record("o", RunStarted, "run_3")];
    bed.done(Commit { records, ..bed.next(pk).await }).await;
    for at in 0..150 {
        let run = if at % 2 == 0 { "run_3" } else { "run_2" };
        bed.done(Commit { records: vec![record("o", Intent, run)], ..bed.next(pk).await }).await;
    }
    let facts = bed.store.facts(pk, &"run_3".into(), i64::MAX).await.unwrap();
    let expected = std::iter::once(11).chain((12..=161).step_by(2));
    assert_eq!(facts.iter().map(|recorded| recorded.seq).collect::<Vec<_>>(), expected.collect::<Vec<_>>());
}

async fn observations_are_read_in_windows(bed: Bed) {
    let pk = ten(&bed).await;
    let all = ObservationAsk { limit: 100, ..Default::default() };
    assert_eq!(seqs(&bed, pk, all.clone()).await, (1..=10).collect::<Vec<_>>());
    assert_eq!(seqs(&bed, pk, ObservationAsk { after: 7, ..all.clone() }).await, [8, 9, 10]);
    assert_eq!(seqs(&bed, pk, ObservationAsk { after: 2, until: Some(4), ..all.clone() }).await, [3, 4]);
    assert_eq!(seqs(&bed, pk, ObservationAsk { after: 3, limit: 2, ..all.clone() }).await, [4, 5]);
    assert_eq!(seqs(&bed, pk, ObservationAsk { after: 10, ..all.clone() }).await, [] as [i64; 0]);
    let elsewhere = bed.thread("t2").await;
    assert_eq!(seqs(&bed, elsewhere, all).await, [] as [i64; 0]);
}

async fn observations_are_filtered(bed: Bed) {
    let pk = ten(&bed).await;
    let all = ObservationAsk { limit: 100, ..Default::default() };
    let types = vec![Plan, RunFinished];
    assert_eq!(seqs(&bed, pk, ObservationAsk { types: types.clone(), ..all.clone() }).await, [3, 5, 8, 10]);
    assert_eq!(seqs(&bed, pk, ObservationAsk { types, after: 8, ..all }).await, [10]);
}

/// Its entries are as many as one query reads.
async fn a_log_may_end_where_a_query_does(bed: Bed) {
    let pk = bed.thread("t1").await;
    for _ in 0..128 {
        bed.done(Commit { records: vec![record("o", Intent, "run_1")], ..bed.next(pk).await }).await;
    }
    let ask = ObservationAsk { limit: 200, ..Default::default() };
    assert_eq!(seqs(&bed, pk, ask).await, (1..=128).collect::<Vec<_>>());
}

async fn what_one_commit_told_is_taken_apart_again(bed: Bed) {
    let pk = bed.thread("t1").await;
    let mut last = record("o2", RunStarted, "run_2");
    (last.trace_id, last.timestamp, last.parent_id) = ("another".into(), 77, Some("item_1".into()));
    (last.title, last.metadata) =
        ("titled".into(), Some(RecordMetadata { by: Some("ann".into()), ..RecordMetadata::default() }));
    let records = vec![record("o1", RunFinished, "run_1"), last, record("o3", Plan, "run_1")];
    bed.done(Commit { records: records.clone(), ..bed.next(pk).await }).await;
    let told = records.into_iter().zip(1..).map(|(record, seq)| Observation::of(record, "t1".into(), seq));
    let told: Vec<Observation> = told.collect();
    assert_eq!(bed.observations(pk).await, told);
    let finished = ObservationAsk { types: vec![RunFinished], limit: 9, ..Default::default() };
    assert_eq!(seqs(&bed, pk, finished).await, [1]);
    for (after, until, limit, expected) in [(1, Some(2), 9, vec![2]), (1, None, 1, vec![2]), (0, Some(1), 9, vec![1])] {
        let ask = ObservationAsk { after, until, limit, ..Default::default() };
        assert_eq!(seqs(&bed, pk, ask).await, expected, "after {after}");
    }
}

/// Hundreds of commits that look like matches, and then the one that matches.
async fn a_filter_looks_as_far_as_it_must(bed: Bed) {
    let pk = bed.thread("t1").await;
    for _ in 0..300 {
        let records = vec![record("o", PlanUpdate, "run_1"), record("o", Intent, "run_12")];
        bed.done(Commit { records, ..bed.next(pk).await }).await;
    }
    bed.done(Commit { records: vec![record("o", Plan, "run_1")], ..bed.next(pk).await }).await;
    let ask = |types, limit| ObservationAsk { types, limit, ..ObservationAsk::default() };
    assert_eq!(seqs(&bed, pk, ask(vec![Plan], 1)).await, [601]);
    assert_eq!(seqs(&bed, pk, ask(vec![Plan], 500)).await, [601]);
    assert_eq!(seqs(&bed, pk, ask(vec![Intent], 200)).await, (1..=200).map(|n| n * 2).collect::<Vec<_>>());
}
