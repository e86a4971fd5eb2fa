//! Somebody with write access to the database removes audit lines and forges the line that declares them deleted by
//! age: with the key, `verify` reports that no server signed it.

use pes::auth::{AuditKey, Signed, VerifyingKey};
use pes::domain::ids::ThreadPk;
use pes::service::audit::chain;
use pes::service::audit::verify::{KeptCheckpoint, Since, VerifyAsk, verify};
use pes::store::chain::{FORGOTTEN, forgotten};
use pes::store::{AuditRow, Commit};
use rstest::rstest;
use serde_json::{Value, json};

use super::signed::{key, other_key};
use super::tampered::Tampered;
use crate::store::bed::Bed;
use crate::support::store::{Mood, Moody};

/// Four lines, chained two by two by a server with this key; the hash of the second.
async fn chained(bed: &Bed, key: &AuditKey) -> String {
    let pk = bed.thread("t").await;
    for (at, actors) in [(100, ["ann", "bob"]), (200, ["eve", "dan"])] {
        let audit = actors.iter().map(|actor| bed.audit_line(pk, actor)).collect();
        bed.done(Commit { audit, ..bed.next(pk).await }).await;
        chain(&*bed.store, Some(key), at).await.unwrap();
    }
    bed.store.chained_lines(bed.tenant, 1, 1).await.unwrap().remove(0).hash
}

/// Makes a server with the key chain a line with this detail, and removes the first two lines.
async fn forget(place: &Tampered, key: &AuditKey, detail: Value) {
    let (actor, action) = ("retention".to_owned(), FORGOTTEN.to_owned());
    let tenant = place.bed.tenant;
    let line = AuditRow { tenant, thread: ThreadPk::NONE, thread_id: None, at: 300, actor, action, detail };
    place.bed.store.add_line(line).await.unwrap();
    chain(&*place.bed.store, Some(key), 300).await.unwrap();
    place.write("DELETE FROM audit WHERE n <= 2; DELETE FROM audit_checkpoints WHERE n < 2").await;
}

async fn broken(bed: &Bed, ask: &VerifyAsk<'_>) -> Option<String> {
    verify(&*bed.store, ask).await.unwrap().remove(0).broken
}

fn line(hash: &str, jws: String) -> Value {
    json!({ "upto": 2, "hash": hash, "jws": jws })
}

#[tokio::test]
async fn a_line_that_the_server_signed_is_believed() {
    let key = key();
    for place in [Tampered::sqlite().await, Tampered::postgres().await] {
        let hash = chained(&place.bed, &key).await;
        let jws = key.sign(Signed::Forgotten, &forgotten("default", 2, &hash));
        forget(&place, &key, line(&hash, jws)).await;
        let found = verify(&*place.bed.store, &VerifyAsk { key: Some(&key), ..VerifyAsk::default() }).await.unwrap();
        assert_eq!((found[0].broken.clone(), found[0].forgotten, found[0].lines), (None, 2, 3));
        // The public half alone gives the same result.
        let public = [key.verifying().clone()];
        let ask = VerifyAsk { former: &public, ..VerifyAsk::default() };
        let found = verify(&*place.bed.store, &ask).await.unwrap().remove(0);
        assert_eq!((found.broken, found.signed), (None, 3));
    }
}

/// A server deletes lines while they are verified.
#[tokio::test]
async fn lines_that_are_forgotten_while_they_are_verified_were_not_taken_away() {
    let key = key();
    for place in [Tampered::sqlite().await, Tampered::postgres().await] {
        let hash = chained(&place.bed, &key).await;
        let store = Moody::over(place.bed.store.clone());
        store.set("chained_lines", Mood::HangsNext);
        let ask = VerifyAsk { key: Some(&key), ..VerifyAsk::default() };
        let meanwhile = async {
            // The second read finds where the chain begins, and the third reads the lines.
            store.holds("chained_lines").await;
            store.set("chained_lines", Mood::HangsNext);
            store.holds("chained_lines").await;
            forget(&place, &key, line(&hash, key.sign(Signed::Forgotten, &forgotten("default", 2, &hash)))).await;
            store.set("chained_lines", Mood::Well);
        };
        let (found, ()) = tokio::join!(verify(&*store, &ask), meanwhile);
        let found = found.unwrap().remove(0);
        assert_eq!((found.broken, found.forgotten, found.lines), (None, 2, 3));
    }
}

/// Lines that an intruder with a key of their own writes, and lines that the server signed.
#[derive(Clone, Copy)]
enum Forged {
    Unsigned,
    WithOwnKey,
    /// Signed by the server, for fewer lines.
    OfFewer,
    /// Signed by the server, with another hash beside it.
    OfAnotherHash,
    OfAnotherTenant,
    /// A server's signature of something else.
    OfCheckpoint,
    NoSignature,
}

async fn forged(bed: &Bed, how: Forged, hash: &str) -> Value {
    let (key, other) = (key(), other_key());
    let signed =
        |key: &AuditKey, tenant: &str, upto, hash: &str| key.sign(Signed::Forgotten, &forgotten(tenant, upto, hash));
    match how {
        Forged::Unsigned => json!({ "upto": 2, "hash": hash }),
        Forged::WithOwnKey => line(hash, signed(&other, "default", 2, hash)),
        Forged::OfFewer => line(hash, signed(&key, "default", 1, hash)),
        Forged::OfAnotherHash => line("00", signed(&key, "default", 2, hash)),
        Forged::OfAnotherTenant => line(hash, signed(&key, "acme", 2, hash)),
        Forged::OfCheckpoint => {
            let checkpoint = bed.store.checkpoints(bed.tenant, 1, 1).await.unwrap().remove(0);
            line(hash, checkpoint.jws.unwrap())
        }
        Forged::NoSignature => line(hash, "x".to_owned()),
    }
}

#[rstest]
#[case::unsigned(Forged::Unsigned, "line 5 says that they were too old, and no server with a key signed it")]
#[case::own_key(Forged::WithOwnKey, "line 5 says that they were too old, and is signed with the key ")]
#[case::of_fewer(Forged::OfFewer, "the signature of line 5 is wrong")]
#[case::of_another_hash(Forged::OfAnotherHash, "the signature of line 5 is wrong")]
#[case::of_another_tenant(Forged::OfAnotherTenant, "line 5 was signed for the tenant acme")]
#[case::of_a_checkpoint(Forged::OfCheckpoint, "the signature of line 5 is wrong")]
#[case::no_signature(Forged::NoSignature, "the signature of line 5 is wrong")]
#[tokio::test]
async fn a_line_that_no_server_signed_is_not_believed(#[case] how: Forged, #[case] named: &str) {
    let key = key();
    for place in [Tampered::sqlite().await, Tampered::postgres().await] {
        let hash = chained(&place.bed, &key).await;
        let detail = forged(&place.bed, how, &hash).await;
        forget(&place, &key, detail).await;
        let ask = VerifyAsk { key: Some(&key), ..VerifyAsk::default() };
        let why = broken(&place.bed, &ask).await.expect("nobody forgot them");
        assert!(why.contains(named), "{named}: {why}");
        // Without a key nobody can know.
        assert_eq!(broken(&place.bed, &VerifyAsk::default()).await, None);
    }
}

/// More lines are removed than the server declared.
#[tokio::test]
async fn a_signed_line_is_believed_up_to_the_line_that_it_names() {
    let key = key();
    let place = Tampered::sqlite().await;
    let hash = chained(&place.bed, &key).await;
    let jws = key.sign(Signed::Forgotten, &forgotten("default", 2, &hash));
    forget(&place, &key, line(&hash, jws)).await;
    forget(&place, &key, json!({ "upto": 4, "hash": "x" })).await;
    place.write("DELETE FROM audit WHERE n <= 4; DELETE FROM audit_checkpoints WHERE n < 4").await;
    let ask = VerifyAsk { key: Some(&key), ..VerifyAsk::default() };
    let why = broken(&place.bed, &ask).await.unwrap();
    assert!(why.starts_with("lines 1 to 4 are missing: line 6 says"), "{why}");
}

#[tokio::test]
async fn what_a_former_key_signed_is_believed_by_its_public_half() {
    let (key, former) = (key(), other_key());
    let place = Tampered::sqlite().await;
    let hash = chained(&place.bed, &former).await;
    let jws = former.sign(Signed::Forgotten, &forgotten("default", 2, &hash));
    forget(&place, &key, line(&hash, jws)).await;
    let ask = VerifyAsk { key: Some(&key), ..VerifyAsk::default() };
    let why = broken(&place.bed, &ask).await.unwrap();
    assert!(why.contains(&format!("the key {}: if that was yours", former.id())), "{why}");
    let halves = VerifyingKey::of_set(&json!({ "keys": [former.public()] }).to_string()).unwrap();
    let found = verify(&*place.bed.store, &VerifyAsk { former: &halves, ..ask }).await.unwrap().remove(0);
    assert_eq!((found.broken, found.signed, found.checkpoints), (None, 3, 3));
}

#[rstest]
#[case(Since::Line(1), true)]
#[case(Since::Line(2), false)]
#[case(Since::Line(5), false)]
#[case(Since::Time(99), true)]
#[case(Since::Time(100), false)]
#[case(Since::Time(300), false)]
#[tokio::test]
async fn whoever_says_so_believes_what_was_forgotten_before_there_was_a_key(
    #[case] since: Since,
    #[case] is_refused: bool,
) {
    let key = key();
    let place = Tampered::sqlite().await;
    let hash = chained(&place.bed, &key).await;
    forget(&place, &key, json!({ "upto": 2, "hash": hash })).await;
    // By today's settings they were too young to be deleted.
    let ask = VerifyAsk { key: Some(&key), since, oldest: Some(100), ..VerifyAsk::default() };
    let found = broken(&place.bed, &ask).await;
    assert_eq!(found.is_some(), is_refused, "{found:?}");
}

#[rstest]
#[case(Since::Beginning, 101, None)]
#[case(Since::Beginning, 100, Some("lines 1 to 2 were taken away before they were as old"))]
#[case(Since::Line(2), 100, None)]
#[tokio::test]
async fn lines_that_were_too_young_were_taken_away(
    #[case] since: Since,
    #[case] oldest: i64,
    #[case] named: Option<&str>,
) {
    let key = key();
    let place = Tampered::sqlite().await;
    let hash = chained(&place.bed, &key).await;
    let jws = key.sign(Signed::Forgotten, &forgotten("default", 2, &hash));
    forget(&place, &key, line(&hash, jws)).await;
    let ask = VerifyAsk { key: Some(&key), since, oldest: Some(oldest), ..VerifyAsk::default() };
    let found = broken(&place.bed, &ask).await;
    assert_eq!(found.is_some(), named.is_some(), "{found:?}");
    assert!(found.unwrap_or_default().starts_with(named.unwrap_or_default()));
    // What is stored elsewhere is compared whatever is trusted in the database.
    let (file, tenant, payload) = ("kept.json".to_owned(), "default".to_owned(), json!({ "at": oldest }));
    let kept = [KeptCheckpoint { file, tenant, n: 1, hash: "x".to_owned(), jws: None, payload }];
    let why = broken(&place.bed, &VerifyAsk { kept: &kept, ..ask }).await.expect("it was too young");
    assert!(why.starts_with("lines 1 to 2 were taken away before they were as old"), "{why}");
}

#[rstest]
#[case::another_time("UPDATE audit_checkpoints SET at = 1 WHERE n = 2", "the signature of checkpoint 2 is wrong")]
#[case::none(
    "UPDATE audit_checkpoints SET at = 1, jws = NULL WHERE n = 2",
    "checkpoint 2, where the chain begins, is not signed"
)]
#[tokio::test]
async fn only_a_signed_time_proves_that_lines_were_too_old(#[case] done: &str, #[case] named: &str) {
    let key = key();
    for place in [Tampered::sqlite().await, Tampered::postgres().await] {
        let hash = chained(&place.bed, &key).await;
        let jws = key.sign(Signed::Forgotten, &forgotten("default", 2, &hash));
        forget(&place, &key, line(&hash, jws)).await;
        place.write(done).await;
        let ask = VerifyAsk { key: Some(&key), oldest: Some(50), ..VerifyAsk::default() };
        let why = broken(&place.bed, &ask).await.expect("nothing proves it");
        assert!(why.starts_with(named), "{named}: {why}");
    }
}
