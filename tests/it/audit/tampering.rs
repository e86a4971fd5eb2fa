//! Somebody with write access to the database changes, removes, adds and moves audit lines, and `verify` names each
//! change.

use pes::domain::ids::ThreadPk;
use pes::service::audit::chain;
use pes::service::audit::verify::{ChainReport, VerifyAsk, verify};
use pes::store::Commit;
use rstest::rstest;

use super::tampered::Tampered;
use crate::store::bed::Bed;

/// Six lines, chained three by three.
async fn chained(bed: &Bed) {
    let pk = bed.thread("t").await;
    for (at, actors) in [["ann", "bob", "eve"], ["dan", "fay", "gus"]].iter().enumerate() {
        let audit = actors.iter().map(|actor| bed.audit_line(pk, actor)).collect();
        bed.done(Commit { audit, ..bed.next(pk).await }).await;
        chain(&*bed.store, None, at as i64).await.unwrap();
    }
}

async fn found(bed: &Bed) -> ChainReport {
    let mut found = verify(&*bed.store, &VerifyAsk::default()).await.unwrap();
    assert_eq!(found.len(), 1);
    found.remove(0)
}

/// Shifts every line from this number on by one, with its hash.
const MAKE_ROOM: &str = "
UPDATE audit SET n = -n - 1 WHERE n >= 3;
UPDATE audit SET n = -n WHERE n < 0;";

const SWAP_NUMBERS: &str = "
UPDATE audit SET n = -3 WHERE n = 3;
UPDATE audit SET n = 3 WHERE n = 5;
UPDATE audit SET n = 5 WHERE n = -3;";

const INSERT: &str = "
INSERT INTO audit (pk, tenant, thread_id, at, actor, action, detail, n, hash)
SELECT pk, tenant, thread_id, at, 'mallory', action, detail, 3, 'none' FROM audit WHERE n = 1;";

#[rstest]
#[case::actor("UPDATE audit SET actor = 'mallory' WHERE n = 3", "line 3 was changed")]
#[case::action("UPDATE audit SET action = 'deny' WHERE n = 1", "line 1 was changed")]
#[case::time("UPDATE audit SET at = at + 1 WHERE n = 6", "line 6 was changed")]
#[case::detail("UPDATE audit SET detail = '{\"approved\":false}' WHERE n = 2", "line 2 was changed")]
#[case::no_json("UPDATE audit SET detail = 'x' WHERE n = 2", "line 2 was changed")]
#[case::thread("UPDATE audit SET thread_id = 'other' WHERE n = 2", "line 2 was changed")]
#[case::whose("UPDATE audit SET pk = 0 WHERE n = 2", "line 2 was changed")]
#[case::hash("UPDATE audit SET hash = 'x' WHERE n = 4", "line 4 was changed")]
#[case::no_hash("UPDATE audit SET hash = NULL WHERE n = 4", "line 4 was changed")]
#[case::deleted("DELETE FROM audit WHERE n = 3", "line 3 is missing")]
#[case::first("DELETE FROM audit WHERE n <= 2", "lines 1 to 2 are missing")]
#[case::first_of_a_checkpoint("DELETE FROM audit WHERE n <= 3", "lines 1 to 3 are missing")]
#[case::first_and_their_checkpoints(
    "DELETE FROM audit WHERE n <= 3; DELETE FROM audit_checkpoints WHERE n < 3",
    "lines 1 to 3 are missing"
)]
#[case::last("DELETE FROM audit WHERE n >= 5", "lines 5 to 6 are missing")]
#[case::all("DELETE FROM audit", "lines 1 to 3 are missing")]
#[case::unchained("UPDATE audit SET n = NULL, hash = NULL WHERE n = 3", "line 3 is missing")]
#[case::swapped(SWAP_NUMBERS, "lines 3 and 5 were swapped")]
#[case::inserted(&[MAKE_ROOM, INSERT].concat(), "line 3 was inserted: what was chained as 3 stands at 4")]
#[case::closed_up(
    "DELETE FROM audit WHERE n = 3; UPDATE audit SET n = n - 1 WHERE n > 3",
    "line 3 was changed, or lines before it were taken away"
)]
#[case::checkpoint("UPDATE audit_checkpoints SET hash = 'x' WHERE n = 6", "checkpoint 6 has another hash")]
#[case::longer("UPDATE audit_checkpoints SET n = 8 WHERE n = 6", "lines 7 to 8 are missing")]
#[tokio::test]
async fn what_was_done_to_the_lines_is_named(#[case] done: &str, #[case] named: &str) {
    for place in [Tampered::sqlite().await, Tampered::postgres().await] {
        chained(&place.bed).await;
        let before = found(&place.bed).await;
        assert_eq!((before.lines, before.checkpoints, before.unchained, before.broken), (6, 2, 0, None));
        place.write(done).await;
        let broken = found(&place.bed).await.broken.expect(done);
        assert!(broken.contains(named), "{done}: {broken}");
        assert!(place.bed.store.tenants_to_chain().await.is_ok());
    }
}

/// Without its tenant, a chain would not be looked at.
#[tokio::test]
async fn lines_and_checkpoints_of_a_tenant_that_was_removed_are_named() {
    for remains in
        ["SELECT 1", "DELETE FROM audit", "DELETE FROM audit_checkpoints; UPDATE audit SET n = NULL, hash = NULL"]
    {
        for place in [Tampered::sqlite().await, Tampered::postgres().await] {
            chained(&place.bed).await;
            let tenant = place.bed.tenant;
            assert_eq!(place.bed.store.tenants_missing().await.unwrap(), []);
            place.write(&format!("{remains}; DELETE FROM tenants WHERE pk = {}", tenant.0)).await;
            assert_eq!(place.bed.store.tenants_missing().await.unwrap(), [tenant], "{remains}");
            let found = found(&place.bed).await;
            let broken = "there is no such tenant, and the audit has lines or checkpoints of it";
            assert_eq!(
                (found.tenant, found.broken.as_deref()),
                (format!("number {}", tenant.0), Some(broken)),
                "{remains}"
            );
        }
    }
}

/// An inserted line with a correct hash is found by the line after it; one at the end by the checkpoint.
#[tokio::test]
async fn a_line_that_was_inserted_with_its_hash_is_named() {
    let place = Tampered::sqlite().await;
    chained(&place.bed).await;
    let lines = place.bed.store.chained_lines(place.bed.tenant, 0, 10).await.unwrap();
    place.write(&[MAKE_ROOM, INSERT].concat()).await;
    let inserted = place.bed.store.chained_lines(place.bed.tenant, 2, 1).await.unwrap().remove(0);
    let hash = pes::store::chain::link(&lines[1].hash, &inserted.line.digest());
    place.write(&format!("UPDATE audit SET hash = '{hash}' WHERE n = 3")).await;
    let broken = found(&place.bed).await.broken.unwrap();
    assert_eq!(broken, "line 3 was inserted: what was chained as 3 stands at 4");
}

/// Recomputing every hash is found by the checkpoint.
#[tokio::test]
async fn a_chain_that_was_written_anew_is_named() {
    let place = Tampered::sqlite().await;
    chained(&place.bed).await;
    place.write("UPDATE audit SET actor = 'mallory' WHERE n = 5").await;
    let mut hash = pes::store::chain::NO_HASH.to_owned();
    for line in place.bed.store.chained_lines(place.bed.tenant, 0, 10).await.unwrap() {
        hash = pes::store::chain::link(&hash, &line.line.digest());
        place.write(&format!("UPDATE audit SET hash = '{hash}' WHERE n = {}", line.n)).await;
    }
    let broken = found(&place.bed).await.broken.unwrap();
    assert!(broken.contains("checkpoint 6 has another hash than line 6: lines 4 to 6 were written anew"), "{broken}");
}

#[tokio::test]
async fn what_is_not_chained_yet_is_counted() {
    let place = Tampered::sqlite().await;
    chained(&place.bed).await;
    let line = place.bed.audit_line(ThreadPk::NONE, "hal");
    let pk = place.bed.thread("u").await;
    place.bed.done(Commit { audit: vec![line], ..place.bed.next(pk).await }).await;
    let found = found(&place.bed).await;
    assert_eq!((found.lines, found.unchained, found.broken), (6, 1, None));
}
