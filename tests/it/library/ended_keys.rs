//! Keys that were revoked or have expired are forgotten when nothing of their time is left. The test advances the clock.

use pes::auth::{self, IssueResult, NewKey};
use pes::config::Config;
use pes::domain::caller::{Caller, Scope};
use pes::domain::retention::{Kept, Terms};
use pes::runtime::clock::Clock as _;
use pes::service::audit;
use pes::service::resources::{self, Schedules};
use rstest::rstest;
use serde_json::json;

use crate::support::clocked::{Clocked, DAY};
use crate::support::store::fresh_store;

const AUDIT_DAYS: i64 = 100;
const THREAD_DAYS: i64 = 200;

async fn clocked(change: impl FnOnce(&mut Config)) -> Clocked {
    Clocked::on(fresh_store().await, |config| {
        config.retention.audit_days = Kept::Days(100);
        config.retention.thread_days = Kept::Days(200);
        change(config);
    })
    .await
}

impl Clocked {
    /// `None`: the name is taken.
    async fn make_key(&self, name: &str, expires_at: Option<i64>) -> Option<String> {
        let tenant = self.instance.caller().tenant_name.clone();
        let new = NewKey { tenant, name: name.to_owned(), scopes: vec![Scope::Run], expires_at };
        match auth::issue(&*self.store, &new, 100, "boss", self.clock.now()).await.unwrap() {
            IssueResult::Made(issued) => Some(issued.key_id),
            IssueResult::NameTaken => None,
            IssueResult::TooMany => panic!("there are few"),
        }
    }

    async fn revoke_key(&self, key_id: &str) {
        assert!(auth::revoke(&*self.store, key_id, "boss", self.clock.now()).await.unwrap());
    }

    /// The names of the keys, sorted.
    async fn key_names(&self) -> Vec<String> {
        let mut names: Vec<String> = auth::list(&*self.store).await.unwrap().into_iter().map(|key| key.name).collect();
        names.sort();
        names
    }

    /// Keys that ended in each way, and one that is valid and was made last.
    async fn end_keys(&self) {
        let revoked = self.make_key("revoked", None).await.unwrap();
        self.make_key("expired", Some(self.clock.now() + 1)).await.unwrap();
        self.revoke_key(&revoked).await;
        self.clock.advance(2);
        self.make_key("valid", None).await.unwrap();
    }

    async fn chain_audit(&self) {
        audit::chain(&*self.store, None, self.clock.now()).await.unwrap();
    }
}

#[tokio::test]
async fn a_key_that_ended_is_forgotten_when_the_audit_and_the_threads_of_its_time_are() {
    let clocked = clocked(|_| {}).await;
    clocked.end_keys().await;
    clocked.chain_audit().await;
    clocked.days_pass(AUDIT_DAYS + 2).await;
    clocked.days_pass(THREAD_DAYS - AUDIT_DAYS - 3).await;
    assert_eq!(clocked.key_names().await, ["expired", "revoked", "valid"], "threads may name them");
    assert_eq!(clocked.make_key("revoked", None).await, None);
    clocked.days_pass(2).await;
    assert_eq!(clocked.key_names().await, ["valid"]);
    assert!(clocked.make_key("revoked", None).await.is_some(), "nothing names the former one");
    clocked.instance.close().await;
}

/// A server on which no key was ever made needs none.
#[tokio::test]
async fn the_last_key_of_a_tenant_is_not_forgotten_although_it_ended() {
    let clocked = clocked(|_| {}).await;
    let only = clocked.make_key("only", None).await.unwrap();
    clocked.revoke_key(&only).await;
    clocked.chain_audit().await;
    clocked.days_pass(2 * THREAD_DAYS).await;
    assert_eq!(clocked.key_names().await, ["only"]);
    assert!(clocked.store.has_keys().await.unwrap());
    clocked.instance.close().await;
}

#[rstest]
#[case::audit(|config: &mut Config| config.retention.audit_days = Kept::FOREVER)]
#[case::threads(|config: &mut Config| config.retention.thread_days = Kept::FOREVER)]
#[tokio::test]
async fn keys_are_kept_for_ever_where_what_names_them_is(#[case] change: fn(&mut Config)) {
    let clocked = clocked(change).await;
    clocked.end_keys().await;
    clocked.chain_audit().await;
    clocked.days_pass(100 * THREAD_DAYS).await;
    assert_eq!(clocked.key_names().await, ["expired", "revoked", "valid"]);
    clocked.instance.close().await;
}

#[tokio::test]
async fn a_key_is_kept_while_a_hold_keeps_the_audit_of_its_time() {
    let clocked = clocked(|_| {}).await;
    clocked.finish("held").await;
    clocked.keep("held", Terms::default(), Some("case 4711")).await;
    clocked.end_keys().await;
    clocked.chain_audit().await;
    clocked.days_pass(2 * THREAD_DAYS).await;
    assert_eq!(clocked.key_names().await, ["expired", "revoked", "valid"]);

    clocked.keep("held", Terms::default(), None).await;
    clocked.chain_audit().await;
    clocked.days_pass(1).await;
    assert_eq!(clocked.key_names().await, ["valid"]);
    clocked.instance.close().await;
}

/// Without its key, the schedule would count as one of a key in the settings, which does not end.
#[tokio::test]
async fn a_key_is_kept_while_a_schedule_names_it() {
    let clocked = clocked(|_| {}).await;
    let revoked = Caller { name: "revoked".to_owned(), ..clocked.instance.caller().clone() };
    clocked.end_keys().await;
    let later = json!({ "id": "later", "at": clocked.clock.now() + 10_000 * DAY, "query": "hello" });
    let service = clocked.instance.service();
    resources::create::<Schedules>(service, &revoked, serde_json::from_value(later).unwrap(), None).await.unwrap();
    clocked.chain_audit().await;
    clocked.days_pass(2 * THREAD_DAYS).await;
    assert_eq!(clocked.key_names().await, ["revoked", "valid"]);

    resources::delete::<Schedules>(service, &revoked, "later").await.unwrap();
    clocked.days_pass(1).await;
    assert_eq!(clocked.key_names().await, ["valid"]);
    clocked.instance.close().await;
}
