//! The chain of the audit, as a running server makes and exports it.

use pes::domain::retention::Kept;
use pes::service::audit;
use pes::service::audit::verify::parse_checkpoints;
use pes::store::Commit;

use super::retention::Aging;
use crate::audit::tampered::Tampered;

/// The lines were too far apart to share checkpoints, and the first was deleted: its checkpoint replaces it.
#[tokio::test]
async fn the_first_page_of_an_export_has_the_checkpoint_of_each_line_and_the_one_before() {
    let place = Tampered::sqlite().await;
    let (bed, pk) = (&place.bed, place.bed.thread("t").await);
    let lines = vec![bed.audit_line(pk, "ann"); 501];
    bed.done(Commit { audit: lines, ..bed.next(pk).await }).await;
    audit::chain(&*bed.store, None, 100).await.unwrap();
    place.write("INSERT OR IGNORE INTO audit_checkpoints SELECT tenant, n, 100, hash, NULL FROM audit").await;
    bed.store.forget_lines(bed.tenant, 1).await.unwrap();
    let aging = Aging::on(bed.store.clone(), |config| {
        let retention = &mut config.retention;
        (retention.log_days, retention.thread_days, retention.audit_days) =
            (Kept::FOREVER, Kept::FOREVER, Kept::FOREVER);
    })
    .await;
    let mut export = audit::export(aging.instance.service(), aging.instance.caller(), 0);
    let mut text = Vec::new();
    while let Some(page) = export.next().await.unwrap() {
        text.extend_from_slice(&page);
    }
    let kept = parse_checkpoints("export", std::str::from_utf8(&text).unwrap()).unwrap();
    let numbers: Vec<i64> = kept.iter().map(|checkpoint| checkpoint.n).collect();
    assert_eq!(numbers, (1..=501).collect::<Vec<_>>());
    aging.instance.close().await;
}
