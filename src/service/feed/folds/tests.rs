//! The positions of cached folds, and their size.

use serde_json::json;

use super::*;

const PK: ThreadPk = ThreadPk(1);

fn fold(title: &str) -> Fold {
    Fold::of_view(&json!({ "title": title })).unwrap()
}

#[test]
fn folds_stand_at_distances_and_the_nearest_before_is_given() {
    let folds = FoldCache::default();
    assert_eq!(folds.nearest(PK, 10_000), None);
    for seq in [100, 400, 500, 900, 1_299] {
        folds.offer(PK, seq, &fold(&seq.to_string()));
    }
    assert_eq!(folds.nearest(PK, 399), None);
    assert_eq!(folds.nearest(PK, 899), Some((400, fold("400"))));
    assert_eq!(folds.nearest(PK, 10_000), Some((900, fold("900"))));
    assert_eq!(folds.nearest(ThreadPk(2), 10_000), None);
}

#[test]
fn the_oldest_make_room() {
    let folds = FoldCache::default();
    let large = fold(&"x".repeat(MAX_BYTES / 2 - 2_000));
    for nth in 1..=3 {
        folds.offer(PK, nth * FOLD_INTERVAL, &large);
    }
    assert_eq!(folds.nearest(PK, FOLD_INTERVAL), None);
    assert_eq!(folds.nearest(PK, 2 * FOLD_INTERVAL).map(|(seq, _)| seq), Some(2 * FOLD_INTERVAL));
    let kept = folds.lock();
    assert!(kept.bytes <= MAX_BYTES && kept.order.len() == 2, "{}", kept.bytes);
}
