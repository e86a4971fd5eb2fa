//! Refused logins are recorded in the audit, counted by cause and without the credentials.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use pes::auth::{AUDIT_INTERVAL, Issued, KeyRotation, Keys, LoginCallback, NewKey, Pass};
use pes::config::OidcIssuer;
use pes::domain::caller::Scope;
use pes::store::{AuditRow, PageAsk, Store};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::bed::{NOW, keys};
use crate::support::app::App;
use crate::support::issuer::{Issuer, Signer};
use crate::support::process::{Place, Server};
use crate::support::store::{Mood, Moody, fresh_store};

const KEYS: [&str; 2] = ["ops/ops:operator:key-o", "acme/ann:admin:key-a"];

/// The audit lines of this tenant about logins, the oldest first.
async fn told(store: &dyn Store, tenant: &str) -> Vec<AuditRow> {
    let tenant = store.tenant(tenant, 1).await.unwrap();
    let lines = store.audit_of_tenant(tenant, &PageAsk { limit: 100, cursor: None }).await.unwrap().items;
    lines.into_iter().rev().filter(|line| line.action == "refuse login").collect()
}

/// By cause: the count, the first and the last time.
async fn sums(store: &dyn Store, tenant: &str) -> Vec<Value> {
    told(store, tenant).await.into_iter().map(|line| line.detail).collect()
}

fn sum(cause: &str, count: u64, first: i64, last: i64) -> Value {
    json!({ "cause": cause, "count": count, "first": first, "last": last })
}

/// Writes all pending counts.
async fn closed(keys: &Arc<Keys>) {
    let closing = CancellationToken::new();
    closing.cancel();
    keys.clone().audit_refused_logins(closing).await;
}

async fn refuses(keys: &Keys, key: &str) {
    keys.authenticate(Some(key)).await.expect_err("nobody is let in with it");
}

#[tokio::test]
async fn guesses_are_one_line_for_the_operator_without_what_was_guessed() {
    let (store, now) = (fresh_store().await, Arc::new(AtomicI64::new(10)));
    let keys = keys(&[], &KEYS, store.clone(), &now).await;
    for guess in ["guess-1", "guess-2", "guess-3"] {
        now.fetch_add(1, Ordering::SeqCst);
        refuses(&keys, guess).await;
    }
    keys.authenticate(None).await.expect_err("nothing was shown");
    keys.authenticate(Some("key-a")).await.expect("that is right");
    let over = keys.authenticate_pass(&Pass::of_session("over"), None, || Ok(())).await;
    over.expect_err("a session that is over is no login");
    closed(&keys).await;
    let lines = told(&*store, "ops").await;
    assert!(!format!("{lines:?}").contains("guess-"), "{lines:?}");
    let [line] = lines.as_slice() else { panic!("{lines:?}") };
    assert_eq!((line.actor.as_str(), line.at, &line.detail), ("server", 13, &sum("unknown key", 3, 11, 13)));
    assert_eq!(told(&*store, "acme").await, []);
    closed(&keys).await;
    assert_eq!(told(&*store, "ops").await.len(), 1, "they are told once");
}

/// Refusals by the rate limit are included.
#[tokio::test]
async fn guesses_that_are_not_even_compared_count_too() {
    let store = fresh_store().await;
    let keys = keys(&[], &KEYS, store.clone(), &Arc::new(AtomicI64::new(10))).await;
    let full = || Err(pes::domain::fault::Fault::new(pes::domain::fault::Code::TooManyRequests, "too many"));
    keys.authenticate_pass(&Pass::of(Some("guess")), None, full).await.expect_err("too many came from there");
    closed(&keys).await;
    assert_eq!(sums(&*store, "ops").await, [sum("unknown key", 1, 10, 10)]);
}

#[tokio::test]
async fn without_an_operator_they_are_told_to_the_tenant_that_everybody_is_who_needs_no_key() {
    let store = fresh_store().await;
    let keys = keys(&[], &KEYS[1..], store.clone(), &Arc::new(AtomicI64::new(10))).await;
    refuses(&keys, "guess").await;
    closed(&keys).await;
    assert_eq!(sums(&*store, "default").await, [sum("unknown key", 1, 10, 10)]);
}

#[tokio::test]
async fn what_was_a_key_once_is_told_to_its_tenant() {
    let (store, now) = (fresh_store().await, Arc::new(AtomicI64::new(10)));
    let keys = keys(&[], &KEYS, store.clone(), &now).await;
    let ann = keys.authenticate(Some("key-a")).await.unwrap();
    let make = async |name: &str, expires_at| -> Issued {
        let scopes = vec![Scope::Read];
        keys.issue(&ann, &NewKey { tenant: "acme".into(), name: name.into(), scopes, expires_at }).await.unwrap()
    };
    let (revoked, expired, rotated) = (make("r", None).await, make("e", Some(20)).await, make("o", None).await);
    keys.revoke(&ann, &revoked.key_id).await.unwrap();
    keys.rotate(&ann, &rotated.key_id, &KeyRotation::default()).await.unwrap();
    now.store(20, Ordering::SeqCst);
    for key in [&revoked.key, &expired.key, &rotated.key, &rotated.key] {
        refuses(&keys, key).await;
    }
    closed(&keys).await;
    let expected = [sum("revoked key", 1, 20, 20), sum("expired key", 1, 20, 20), sum("rotated key", 2, 20, 20)];
    assert_eq!(sums(&*store, "acme").await, expected);
    assert_eq!(told(&*store, "ops").await, []);
}

#[tokio::test]
async fn tokens_and_logins_at_an_issuer_are_told_as_such() {
    let signer = Signer::eddsa("k1");
    let issuer = Issuer::with(&[&signer]).await;
    let (store, now) = (fresh_store().await, Arc::new(AtomicI64::new(NOW * 1000)));
    let mut configured = OidcIssuer::new(&issuer.url, "pes", "acme");
    configured.client_id = Some("pes".to_owned());
    let keys = keys(&[("corp", configured)], &KEYS, store.clone(), &now).await;
    let mut claims = issuer.claims("ann", NOW + 3600);
    keys.authenticate(Some(&signer.token(&claims))).await.expect("it is good");
    claims["aud"] = "other".into();
    refuses(&keys, &signer.token(&claims)).await;
    keys.finish_login("corp", None, &LoginCallback::default()).await.err().expect("nobody began that");
    closed(&keys).await;
    let at = NOW * 1000;
    assert_eq!(sums(&*store, "ops").await, [sum("token", 1, at, at), sum("sign-in", 1, at, at)]);
}

/// Returns once there are this many lines.
async fn lines(store: &dyn Store, count: usize) -> Vec<Value> {
    loop {
        let sums = sums(store, "ops").await;
        if sums.len() >= count {
            return sums;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_line_sums_up_a_quarter_of_an_hour_and_is_written_later_where_it_cannot_be() {
    let (store, now) = (Moody::fresh().await, Arc::new(AtomicI64::new(10)));
    let keys = keys(&[], &KEYS, store.clone(), &now).await;
    let closing = CancellationToken::new();
    let telling = tokio::spawn(keys.clone().audit_refused_logins(closing.clone()));
    refuses(&keys, "guess").await;
    refuses(&keys, "guess").await;
    assert_eq!(told(&*store, "ops").await, [], "their time is not over");
    tokio::time::advance(AUDIT_INTERVAL).await;
    assert_eq!(lines(&*store, 1).await, [sum("unknown key", 2, 10, 10)]);
    now.store(20, Ordering::SeqCst);
    refuses(&keys, "guess").await;
    store.set("add_line", Mood::Hangs);
    tokio::time::advance(AUDIT_INTERVAL).await;
    store.holds("add_line").await;
    store.set("add_line", Mood::FailsOnce);
    now.store(30, Ordering::SeqCst);
    refuses(&keys, "guess").await;
    closing.cancel();
    telling.await.unwrap();
    assert_eq!(sums(&*store, "ops").await, [sum("unknown key", 2, 10, 10), sum("unknown key", 2, 20, 30)]);
}

#[tokio::test]
async fn a_server_that_closes_writes_what_it_has_summed_up() {
    let store = fresh_store().await;
    let key = "key-a-0123456789abcdef0123456789";
    let app = App::of(store.clone(), |config| {
        config.auth.keys = vec![format!("ops/ops:operator:{key}").parse().unwrap()];
    })
    .await;
    app.ask("POST", "/session").key("not-the-key").send().await.problem("unauthorized");
    app.ask("GET", "/whoami").key(key).send().await.expect(200);
    app.stopped().await;
    let sums = sums(&*store, "ops").await;
    assert!(sums.len() == 1 && sums[0]["cause"] == "unknown key" && sums[0]["count"] == 1, "{sums:?}");
}

/// The audit has no addresses: it is kept for years.
#[tokio::test]
async fn the_log_says_from_where_wrong_keys_come() {
    let place = Place::sqlite("");
    place.configure("[auth]\nkeys = [\"acme/ann:admin:key-a-0123456789abcdef0123456789\"]\n");
    let server = Server::start(&place, None).await;
    server.address.ask("GET", "/threads").key("not-the-key").send().await.problem("unauthorized");
    let log = std::fs::read_to_string(place.folder().join("log")).unwrap();
    let line = log.lines().find(|line| line.contains("wrong keys were sent")).unwrap_or_else(|| panic!("{log}"));
    assert!(line.contains("count=1") && line.contains("last_from=127.0.0.1"), "{line}");
    assert!(!log.contains("not-the-key"), "{log}");
    server.kill().await;
}

/// A slow request delays the stop until the drain ends.
#[tokio::test]
async fn so_does_one_whose_drain_takes_too_long() {
    let store = fresh_store().await;
    let key = "key-a-0123456789abcdef0123456789";
    let app = App::of(store.clone(), |config| {
        config.auth.keys = vec![format!("ops/ops:operator:{key}").parse().unwrap()];
        config.runtime.drain_ms = 100;
    })
    .await;
    app.ask("POST", "/session").key("not-the-key").send().await.problem("unauthorized");
    let mut slow = TcpStream::connect(app.address).await.unwrap();
    let begun = format!(
        "PUT /limits?tenant=ops HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\n\
         expect: 100-continue\r\ncontent-length: 2\r\n\r\n"
    );
    slow.write_all(begun.as_bytes()).await.unwrap();
    // The server reads the body.
    let mut said = [0; 12];
    slow.read_exact(&mut said).await.unwrap();
    assert_eq!(&said, b"HTTP/1.1 100");
    app.stopped().await;
    let sums = sums(&*store, "ops").await;
    assert!(sums.len() == 1 && sums[0]["count"] == 1, "{sums:?}");
}
