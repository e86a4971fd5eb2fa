//! A server with a key signs that it deleted audit lines.

use pes::auth::Signed;
use pes::domain::retention::Kept;
use pes::runtime::clock::Clock as _;
use pes::service::audit;
use pes::service::audit::verify::{VerifyAsk, verify};
use pes::store::chain::FORGOTTEN;
use rstest::rstest;
use serde_json::json;

use super::retention::of_threads;
use crate::audit::signed::{self, KEY};
use crate::audit::tampered::Tampered;
use crate::support::clocked::{Clocked, DAY};
use crate::support::store::fresh_store;

/// Somebody who can write to the database cannot have such a line chained that `verify` accepts.
#[tokio::test]
async fn a_server_with_a_key_signs_that_it_forgot_lines() {
    let clocked = Clocked::on(fresh_store().await, |config| {
        (config.retention.log_days, config.retention.thread_days) = (Kept::FOREVER, Kept::FOREVER);
        config.retention.audit_days = Kept::Days(100);
        config.auth.audit_key = Some(KEY.repeat(4).into());
    })
    .await;
    let key = signed::key();
    clocked.finish("a").await;
    clocked.keep("a", of_threads(5_000), None).await;
    audit::chain(&*clocked.store, Some(&key), clocked.clock.now()).await.unwrap();
    clocked.days_pass(102).await;
    let found =
        verify(&*clocked.store, &VerifyAsk { key: Some(&key), ..VerifyAsk::default() }).await.unwrap().remove(0);
    assert_eq!((found.broken, found.forgotten), (None, 1));
    let tenant = clocked.instance.caller().tenant;
    let line = clocked.store.chained_lines(tenant, 1, 1).await.unwrap().remove(0).line;
    let said = key.verifying().open(Signed::Forgotten, line.detail["jws"].as_str().unwrap()).unwrap();
    assert_eq!((&said["upto"], &said["hash"]), (&json!(1), &line.detail["hash"]));
    clocked.instance.close().await;
}

/// Somebody who can write to the database makes a young line look old. The server does not vouch for that.
#[rstest]
#[case::unsigned(", jws = NULL", 2, Some(false), "checkpoint 1, where the chain begins, is not signed")]
#[case::signed("", 1, None, "line 1 was changed")]
#[case::garbled(", jws = 'x'", 1, None, "line 1 was changed")]
#[tokio::test]
async fn a_server_signs_no_deletion_of_a_line_that_was_made_to_look_old(
    #[case] also: &str,
    #[case] first: i64,
    #[case] signed: Option<bool>,
    #[case] named: &str,
) {
    let key = signed::key();
    for place in [Tampered::sqlite().await, Tampered::postgres().await] {
        let clocked = Clocked::on(place.bed.store.clone(), |config| {
            (config.retention.log_days, config.retention.thread_days) = (Kept::FOREVER, Kept::FOREVER);
            config.retention.audit_days = Kept::Days(100);
            config.auth.audit_key = Some(KEY.repeat(4).into());
        })
        .await;
        clocked.finish("a").await;
        for days in [5_000, 5_001] {
            clocked.keep("a", of_threads(days), None).await;
            audit::chain(&*clocked.store, Some(&key), clocked.clock.now()).await.unwrap();
        }
        place.write("UPDATE audit SET at = 0 WHERE n = 1").await;
        place.write(&format!("UPDATE audit_checkpoints SET at = 0{also} WHERE n = 1")).await;
        clocked.days_pass(2).await;
        let lines = clocked.store.chained_lines(clocked.instance.caller().tenant, 0, 10).await.unwrap();
        let record = lines.iter().find(|chained| chained.line.action == FORGOTTEN);
        let is_signed = record.map(|chained| chained.line.detail["jws"].is_string());
        assert_eq!((lines[0].n, is_signed), (first, signed));
        let oldest = Some(clocked.clock.now() - 100 * DAY);
        let ask = VerifyAsk { key: Some(&key), oldest, ..VerifyAsk::default() };
        let why = verify(&*clocked.store, &ask).await.unwrap().remove(0).broken.expect("it was changed");
        assert!(why.starts_with(named), "{why}");
        clocked.instance.close().await;
    }
}
