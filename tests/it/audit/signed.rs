//! Signed checkpoints, and copies kept elsewhere, reveal changes by somebody with write access to the whole database.

use pes::auth::AuditKey;
use pes::domain::retention::Terms;
use pes::runtime::clock::Clock as _;
use pes::service::audit::verify::{ChainReport, KeptCheckpoint, Since, VerifyAsk, parse_checkpoints, verify};
use pes::service::audit::{chain, chain_and_sign, sign_ends};
use pes::store::chain::{NO_HASH, link};
use pes::store::{Commit, TenantRenamed};
use rstest::rstest;

use super::tampered::Tampered;
use crate::store::bed::Bed;
use crate::support::clocked::Clocked;

/// Four times this is a key.
pub const KEY: &str = "c0ffee5eedba5e11";

pub fn key() -> AuditKey {
    AuditKey::of(&KEY.repeat(4).into()).unwrap()
}

pub fn other_key() -> AuditKey {
    AuditKey::of(&"0123456789abcdef".repeat(4).into()).unwrap()
}

/// Six lines, chained three by three at 100 and 200.
async fn chained(bed: &Bed, key: Option<&AuditKey>) {
    let pk = bed.thread("t").await;
    for (at, actors) in [(100, ["ann", "bob", "eve"]), (200, ["dan", "fay", "gus"])] {
        let audit = actors.iter().map(|actor| bed.audit_line(pk, actor)).collect();
        bed.done(Commit { audit, ..bed.next(pk).await }).await;
        chain(&*bed.store, key, at).await.unwrap();
    }
}

async fn found(bed: &Bed, ask: &VerifyAsk<'_>) -> ChainReport {
    verify(&*bed.store, ask).await.unwrap().remove(0)
}

async fn broken(bed: &Bed, ask: &VerifyAsk<'_>) -> String {
    found(bed, ask).await.broken.expect("it is broken")
}

/// Recomputes all hashes, those of the checkpoints too.
async fn write_anew(place: &Tampered) {
    let mut hash = NO_HASH.to_owned();
    for line in place.bed.store.chained_lines(place.bed.tenant, 0, 100).await.unwrap() {
        hash = link(&hash, &line.line.digest());
        let n = line.n;
        place.write(&format!("UPDATE audit SET hash = '{hash}' WHERE n = {n}")).await;
        place.write(&format!("UPDATE audit_checkpoints SET hash = '{hash}' WHERE n = {n}")).await;
    }
}

/// The checkpoints as copied elsewhere.
async fn kept_elsewhere(bed: &Bed) -> Vec<KeptCheckpoint> {
    let mut text = String::new();
    for checkpoint in bed.store.checkpoints(bed.tenant, 0, 100).await.unwrap() {
        let mut told = checkpoint.payload("default");
        told["jws"] = checkpoint.jws.into();
        text += &format!("{}\n", serde_json::json!({ "checkpoint": told }));
    }
    parse_checkpoints("kept.json", &text).unwrap()
}

#[rstest]
#[case::another("UPDATE audit_checkpoints SET jws = 'x' WHERE n = 3", "the signature of checkpoint 3 is wrong")]
#[case::of_another_line(
    "UPDATE audit_checkpoints SET jws = (SELECT jws FROM audit_checkpoints WHERE n = 6) WHERE n = 3",
    "the signature of checkpoint 3 is wrong"
)]
#[case::another_time("UPDATE audit_checkpoints SET at = 1 WHERE n = 6", "the signature of checkpoint 6 is wrong")]
#[case::none(
    "UPDATE audit_checkpoints SET jws = NULL WHERE n = 6",
    "checkpoint 6, the last, is not signed with the key"
)]
#[case::deleted("DELETE FROM audit_checkpoints WHERE n = 6", "lines 4 to 6 have no checkpoint")]
#[tokio::test]
async fn what_was_done_to_a_checkpoint_is_named(#[case] done: &str, #[case] named: &str) {
    let key = key();
    let ask = VerifyAsk { key: Some(&key), ..VerifyAsk::default() };
    for place in [Tampered::sqlite().await, Tampered::postgres().await] {
        chained(&place.bed, Some(&key)).await;
        let before = found(&place.bed, &ask).await;
        assert_eq!((before.checkpoints, before.signed, before.broken), (2, 2, None));
        place.write(done).await;
        let broken = broken(&place.bed, &ask).await;
        assert!(broken.contains(named), "{done}: {broken}");
    }
}

/// Somebody who can write to the whole database, and has no key.
#[tokio::test]
async fn a_chain_that_was_written_anew_with_its_checkpoints_is_named() {
    let (key, other) = (key(), other_key());
    let place = Tampered::sqlite().await;
    chained(&place.bed, Some(&key)).await;
    let kept = kept_elsewhere(&place.bed).await;
    place.write("UPDATE audit SET actor = 'mallory' WHERE n = 2").await;
    write_anew(&place).await;
    let signed = VerifyAsk { key: Some(&key), ..VerifyAsk::default() };
    assert_eq!(broken(&place.bed, &signed).await, "the signature of checkpoint 3 is wrong");
    sign_ends(&*place.bed.store, &other, 300).await.unwrap();
    place.write("UPDATE audit_checkpoints SET jws = NULL WHERE n = 3").await;
    assert!(broken(&place.bed, &signed).await.contains("checkpoint 6, the last, is not signed with the key"));
    // Somebody who has the key too is found by the copies kept elsewhere.
    sign_ends(&*place.bed.store, &key, 400).await.unwrap();
    assert_eq!(found(&place.bed, &signed).await.broken, None);
    let known = VerifyAsk { key: Some(&key), kept: &kept, ..VerifyAsk::default() };
    let said = broken(&place.bed, &known).await;
    assert_eq!(said, "line 3 is not the one that kept.json knows: lines up to it were written anew");
}

#[tokio::test]
async fn lines_that_were_taken_away_with_their_checkpoints_are_named_by_what_was_kept() {
    let place = Tampered::sqlite().await;
    chained(&place.bed, None).await;
    let kept = kept_elsewhere(&place.bed).await;
    let known = VerifyAsk { kept: &kept, ..VerifyAsk::default() };
    assert_eq!(found(&place.bed, &known).await.broken, None);
    place.write("DELETE FROM audit WHERE n > 4; DELETE FROM audit_checkpoints WHERE n > 3").await;
    place.write("UPDATE audit SET n = NULL, hash = NULL WHERE n = 4").await;
    assert_eq!(found(&place.bed, &VerifyAsk::default()).await.broken, None);
    assert_eq!(broken(&place.bed, &known).await, "lines 4 to 6 are missing");
    let forged: Vec<KeptCheckpoint> =
        kept.iter().map(|kept| KeptCheckpoint { tenant: "nobody".into(), ..kept.clone() }).collect();
    let found = verify(&*place.bed.store, &VerifyAsk { kept: &forged[1..], ..VerifyAsk::default() }).await.unwrap();
    let said = found[1].broken.as_deref();
    assert_eq!(said, Some("there is no such tenant, and a checkpoint of line 6 of it was kept"));
}

#[tokio::test]
async fn a_checkpoint_in_a_file_is_signed_with_the_key() {
    let key = key();
    let place = Tampered::sqlite().await;
    chained(&place.bed, Some(&key)).await;
    let mut kept = kept_elsewhere(&place.bed).await;
    kept[0].jws = kept[1].jws.clone();
    let known = VerifyAsk { key: Some(&key), kept: &kept, ..VerifyAsk::default() };
    assert_eq!(broken(&place.bed, &known).await, "the signature of checkpoint 3 is wrong, in kept.json");
}

/// The signature at the end covers all lines before.
#[tokio::test]
async fn a_key_that_was_set_later_signs_where_the_chains_end() {
    let (key, other) = (key(), other_key());
    for place in [Tampered::sqlite().await, Tampered::postgres().await] {
        let bed = &place.bed;
        chained(bed, None).await;
        let ask = VerifyAsk { key: Some(&key), ..VerifyAsk::default() };
        assert!(broken(bed, &ask).await.contains("a server that has the key signs it when it starts"));
        for (key, at) in [(&other, 300), (&key, 400), (&key, 500)] {
            sign_ends(&*bed.store, key, at).await.unwrap();
        }
        let after = found(bed, &ask).await;
        assert_eq!((after.signed, after.checkpoints, after.broken), (1, 2, None));
        let last = bed.store.checkpoints(bed.tenant, 3, 10).await.unwrap().remove(0);
        assert_eq!((last.n, last.at), (6, 400), "it is signed once");
    }
}

/// While the key was changed, a process with the former one added to the chain after the last with the new one had started.
#[tokio::test]
async fn an_end_that_a_former_key_signed_later_is_signed_again_within_the_hour() {
    let (key, former) = (key(), other_key());
    let place = Tampered::sqlite().await;
    let clocked =
        Clocked::on(place.bed.store.clone(), |config| config.auth.audit_key = Some(KEY.repeat(4).into())).await;
    clocked.finish("t").await;
    clocked.keep("t", Terms::default(), None).await;
    let service = clocked.instance.service();
    let mut signed_at = None;
    while signed_at.is_none() {
        signed_at = chain_and_sign(service, signed_at).await.unwrap();
    }
    assert_eq!(signed_at, Some(clocked.clock.now()));
    assert!(sign_ends(&*clocked.store, &former, clocked.clock.now()).await.unwrap(), "it was signed with the new key");
    clocked.clock.advance(3_600_000);
    chain_and_sign(service, signed_at).await.unwrap();
    let ask = VerifyAsk { key: Some(&key), ..VerifyAsk::default() };
    assert_eq!(found(&place.bed, &ask).await.broken, None);
    clocked.instance.close().await;
}

#[tokio::test]
async fn a_checkpoint_that_was_signed_for_another_tenant_is_named() {
    let key = key();
    let place = Tampered::sqlite().await;
    let (bed, ask) = (&place.bed, VerifyAsk { key: Some(&key), ..VerifyAsk::default() });
    chained(bed, Some(&key)).await;
    assert_eq!(bed.store.rename_tenant("default", "acme", "ann", 300).await.unwrap(), TenantRenamed::Done);
    assert_eq!(found(bed, &ask).await.broken, None, "it says itself that it was renamed");
    chain(&*bed.store, Some(&key), 300).await.unwrap();
    assert_eq!(found(bed, &ask).await.broken, None);
    place.write("UPDATE tenants SET name = 'eve'").await;
    assert!(broken(bed, &ask).await.contains("was signed for the tenant acme"));
}

#[rstest]
#[case(Since::Line(1), Some("line 2 was changed"), 1)]
#[case(Since::Line(2), None, 4)]
#[case(Since::Line(6), None, 0)]
#[case(Since::Line(60), None, 0)]
#[case(Since::Time(99), Some("line 2 was changed"), 1)]
#[case(Since::Time(100), None, 3)]
#[case(Since::Time(900), None, 0)]
#[tokio::test]
async fn it_may_begin_later(#[case] since: Since, #[case] named: Option<&str>, #[case] lines: i64) {
    let key = key();
    let place = Tampered::sqlite().await;
    chained(&place.bed, Some(&key)).await;
    place.write("UPDATE audit SET actor = 'mallory' WHERE n = 2").await;
    let found = found(&place.bed, &VerifyAsk { key: Some(&key), since, ..VerifyAsk::default() }).await;
    match named {
        None => assert_eq!((found.broken, found.lines), (None, lines)),
        Some(named) => assert!(found.broken.as_ref().is_some_and(|broken| broken.contains(named)), "{found:?}"),
    }
}

#[test]
fn checkpoints_are_found_in_what_others_keep() {
    let checkpoint = serde_json::json!({ "tenant": "acme", "n": 7, "hash": "ab", "at": 1, "jws": "a.b.c" });
    for text in [
        checkpoint.to_string(),
        serde_json::json!({ "type": "audit.checkpoint", "timestamp": "x", "data": checkpoint }).to_string(),
        format!("{{\"n\":7,\"hash\":\"ab\"}}\n{}\n", serde_json::json!({ "checkpoint": checkpoint })),
        serde_json::to_string_pretty(&checkpoint).unwrap(),
    ] {
        let found = parse_checkpoints("f", &text).unwrap();
        assert_eq!(found.len(), 1, "{text}");
        assert_eq!((found[0].tenant.as_str(), found[0].n, found[0].jws.as_deref()), ("acme", 7, Some("a.b.c")));
    }
    assert_eq!(parse_checkpoints("f", "{\"n\":1}"), Err("f has no checkpoint".to_owned()));
    assert!(parse_checkpoints("f", "{\"n\":").unwrap_err().starts_with("f is no JSON: "));
}
