//! A server with a key signs that it deleted audit lines.

use pes::auth::Signed;
use pes::domain::retention::Kept;
use pes::runtime::clock::Clock as _;
use pes::service::audit;
use pes::service::audit::verify::{VerifyAsk, verify};
use serde_json::json;

use super::retention::{Aging, of_threads};
use crate::audit::signed::{self, KEY};
use crate::support::store::fresh_store;

/// Somebody who can write to the database cannot have such a line chained that `verify` accepts.
#[tokio::test]
async fn a_server_with_a_key_signs_that_it_forgot_lines() {
    let aging = Aging::on(fresh_store().await, |config| {
        (config.retention.log_days, config.retention.thread_days) = (Kept::FOREVER, Kept::FOREVER);
        config.retention.audit_days = Kept::Days(100);
        config.auth.audit_key = Some(KEY.repeat(4).into());
    })
    .await;
    let key = signed::key();
    aging.finish("a").await;
    aging.keep("a", of_threads(5_000), None).await;
    audit::chain(&*aging.store, Some(&key), aging.clock.now()).await.unwrap();
    aging.days_pass(102).await;
    let found = verify(&*aging.store, &VerifyAsk { key: Some(&key), ..VerifyAsk::default() }).await.unwrap().remove(0);
    assert_eq!((found.broken, found.forgotten), (None, 1));
    let tenant = aging.instance.caller().tenant;
    let line = aging.store.chained_lines(tenant, 1, 1).await.unwrap().remove(0).line;
    let said = key.verifying().open(Signed::Forgotten, line.detail["jws"].as_str().unwrap()).unwrap();
    assert_eq!((&said["upto"], &said["hash"]), (&json!(1), &line.detail["hash"]));
    aging.instance.close().await;
}
