//! The positions of cached folds, and their size.

use serde_json::json;

use super::*;

const PK: ThreadPk = ThreadPk(1);

fn fold(title: &str) -> Fold {
    Fold::of_view(&json!({ "title": title })).unwrap()
}

fn observation(seq: i64) -> Observation {
    let observation = json!({ "seq": seq, "id": format!("obs_{seq}"), "threadId": "t", "runId": "run_1", "traceId": "",
        "timestamp": 1, "type": "TITLE", "title": "", "content": {} });
    serde_json::from_value(observation).unwrap()
}

fn cached(seq: i64) -> CachedFold {
    CachedFold { seq, id: observation(seq).id, fold: fold(&seq.to_string()) }
}

#[test]
fn folds_stand_at_distances_and_the_nearest_before_is_given() {
    let folds = FoldCache::default();
    assert_eq!(folds.nearest(PK, 10_000), None);
    for seq in [100, 400, 500, 900, 1_299] {
        folds.offer(PK, &observation(seq), &fold(&seq.to_string()));
    }
    assert_eq!(folds.nearest(PK, 399), None);
    assert_eq!(folds.nearest(PK, 899), Some(cached(400)));
    assert_eq!(folds.nearest(PK, 10_000), Some(cached(900)));
    assert_eq!(folds.nearest(ThreadPk(2), 10_000), None);
}

#[test]
fn what_is_forgotten_of_a_thread_makes_room() {
    let (folds, other) = (FoldCache::default(), ThreadPk(2));
    for seq in [400, 800] {
        folds.offer(PK, &observation(seq), &fold(&seq.to_string()));
        folds.offer(other, &observation(seq), &fold(&seq.to_string()));
    }
    let bytes = folds.lock().bytes;
    folds.forget(PK);
    assert_eq!((folds.nearest(PK, 10_000), folds.nearest(other, 10_000)), (None, Some(cached(800))));
    let kept = folds.lock();
    assert_eq!((kept.bytes * 2, kept.order.len()), (bytes, 2));
}

#[test]
fn the_oldest_make_room() {
    let folds = FoldCache::default();
    let large = fold(&"x".repeat(MAX_BYTES / 2 - 2_000));
    for nth in 1..=3 {
        folds.offer(PK, &observation(nth * FOLD_INTERVAL), &large);
    }
    assert_eq!(folds.nearest(PK, FOLD_INTERVAL), None);
    assert_eq!(folds.nearest(PK, 2 * FOLD_INTERVAL).map(|cached| cached.seq), Some(2 * FOLD_INTERVAL));
    let kept = folds.lock();
    assert!(kept.bytes <= MAX_BYTES && kept.order.len() == 2, "{}", kept.bytes);
}
