//! The chain of the audit, as a running server makes and exports it.

use pes::domain::ids::ThreadPk;
use pes::domain::retention::Kept;
use pes::runtime::clock::Clock as _;
use pes::service::audit;
use pes::service::audit::verify::parse_checkpoints;
use pes::store::{AuditRow, Commit};
use serde_json::json;

use crate::audit::tampered::Tampered;
use crate::support::clocked::Clocked;
use crate::support::store::{Mood, Moody};

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
    let clocked = Clocked::on(bed.store.clone(), |config| {
        let retention = &mut config.retention;
        (retention.log_days, retention.thread_days, retention.audit_days) =
            (Kept::FOREVER, Kept::FOREVER, Kept::FOREVER);
    })
    .await;
    let mut export = audit::export(clocked.instance.service(), clocked.instance.caller(), 0);
    let mut text = Vec::new();
    while let Some(page) = export.next().await.unwrap() {
        text.extend_from_slice(&page);
    }
    let kept = parse_checkpoints("export", std::str::from_utf8(&text).unwrap()).unwrap();
    let numbers: Vec<i64> = kept.iter().map(|checkpoint| checkpoint.n).collect();
    assert_eq!(numbers, (1..=501).collect::<Vec<_>>());
    clocked.instance.close().await;
}

/// The line is written after the sweep over the tenants began, before its tenant's turn.
#[tokio::test]
async fn a_checkpoint_is_no_older_than_its_lines() {
    let store = Moody::fresh().await;
    store.set("tenants_to_chain", Mood::Hangs);
    let clocked = Clocked::on(store.clone(), |_| {}).await;
    let (service, tenant) = (clocked.instance.service(), clocked.instance.caller().tenant);
    let meanwhile = async {
        // The sweep of the server, and that of this test.
        store.holds_many("tenants_to_chain", 2).await;
        clocked.clock.advance(60_000);
        let at = clocked.clock.now();
        let (actor, action, detail) = ("ann".to_owned(), "retention".to_owned(), json!({}));
        let line = AuditRow { tenant, thread: ThreadPk::NONE, thread_id: None, at, actor, action, detail };
        clocked.store.add_line(line).await.unwrap();
        store.set("tenants_to_chain", Mood::Well);
        at
    };
    let (chained, written) = tokio::join!(audit::chain_and_sign(service, None), meanwhile);
    chained.unwrap();
    let checkpoint = clocked.store.checkpoints(tenant, 0, 10).await.unwrap().remove(0);
    assert_eq!((checkpoint.n, checkpoint.at), (1, written));
    clocked.instance.close().await;
}
