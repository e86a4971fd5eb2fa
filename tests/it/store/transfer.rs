//! An imported thread is stored completely or not at all.

use pes::domain::observation::{Observation, ObservationType};
use pes::store::{Committed, NewEntry, NewImport, ObservationAsk};
use serde_json::json;

use super::bed::Bed;

super::on_every_form_of_log!(what_comes_from_elsewhere_is_stored_whole_or_not_at_all);

fn entry(seqs: impl IntoIterator<Item = i64>) -> NewEntry {
    let seen = |seq| Observation {
        seq,
        id: format!("obs_{seq}").as_str().into(),
        thread_id: "elsewhere".into(),
        run_id: "run_1".into(),
        parent_id: None,
        trace_id: String::new(),
        timestamp: seq,
        kind: ObservationType::Title,
        title: String::new(),
        content: json!({ "title": "T" }),
        metadata: None,
    };
    NewEntry::of_observations(seqs.into_iter().map(seen).collect()).expect("there are some")
}

async fn what_comes_from_elsewhere_is_stored_whole_or_not_at_all(bed: Bed) {
    let import = |id: &str, log: Vec<NewEntry>| NewImport {
        commit: bed.creating(id),
        log,
        min_seq: 5,
        last_seq: 9,
        base: Some("{}".to_owned()),
    };
    // Two entries under one number: the database refuses the second.
    let broken = import("t", vec![entry(5..=7), entry([7])]);
    bed.store.import_thread(broken).await.unwrap_err();
    assert_eq!(bed.store.thread(bed.tenant, &"t".into()).await.unwrap(), None);

    let whole = || vec![entry(5..=7), entry(8..=9)];
    assert_eq!(bed.store.import_thread(import("t", whole())).await.unwrap(), Committed::Done);
    let thread = bed.store.thread(bed.tenant, &"t".into()).await.unwrap().unwrap();
    assert_eq!((thread.min_seq, thread.last_seq), (5, 9));
    assert_eq!(bed.store.base(thread.pk).await.unwrap(), Some((4, "{}".to_owned())));
    let ask = ObservationAsk { limit: 100, ..ObservationAsk::default() };
    let seen = bed.store.observations(thread.pk, &ask).await.unwrap();
    assert_eq!(seen.iter().map(|seen| seen.seq).collect::<Vec<_>>(), [5, 6, 7, 8, 9]);
    assert!(seen.iter().all(|seen| seen.thread_id.as_str() == "t" && seen.timestamp == seen.seq));

    assert_eq!(bed.store.import_thread(import("t", whole())).await.unwrap(), Committed::Exists);
    assert_eq!(bed.observations(thread.pk).await.len(), 5);
    let commit = bed.next(thread.pk).await;
    bed.done(commit).await;
}
