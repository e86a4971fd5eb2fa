//! Keys: who is admitted, as whom, and for how long after a revocation.

mod bed;
mod oidc;
mod peers;
mod refused;
mod sessions;
mod tokens;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use crate::support::store::{Moody, fresh_store};
use pes::auth::{
    ConfiguredApiKey, IssueResult, Issued, KeyRotation, Keys, NewKey, Pass, issue, list, mint_key, revoke,
};
use pes::config::{Auth, ConfiguredKey};
use pes::domain::caller::Scope;
use pes::domain::fault::Code;
use pes::store::{AuditRow, PageAsk, Store};

fn configured(keys: &[&str]) -> Auth {
    Auth { keys: keys.iter().map(|key| key.parse().unwrap()).collect(), ..Auth::default() }
}

fn new_key(scopes: &[Scope]) -> NewKey {
    NewKey { tenant: "acme".to_owned(), name: "ci".to_owned(), scopes: scopes.to_vec(), expires_at: None }
}

async fn made(store: &dyn Store, scopes: &[Scope]) -> Issued {
    match issue(store, &new_key(scopes), usize::MAX, "ann", 1).await.unwrap() {
        IssueResult::Made(issued) => issued,
        refused => panic!("{refused:?}"),
    }
}

#[tokio::test]
async fn without_any_key_everybody_is_the_default_tenant() {
    let keys = Keys::open(&Auth::default(), fresh_store().await, Arc::new(|| 1)).await.unwrap();
    let caller = keys.authenticate(None).await.unwrap();
    assert_eq!((caller.tenant_name.as_str(), caller.name.as_str()), ("default", "local"));
    assert!(Scope::ALL.iter().all(|scope| caller.may(*scope)));
    // Clients that always send a key are admitted where none is needed.
    assert_eq!(keys.authenticate(Some("pes_wrong")).await.unwrap().name, "local");
}

#[tokio::test]
async fn configured_and_stored_keys_count_side_by_side() {
    let store = fresh_store().await;
    let issued = made(&*store, &[Scope::Read, Scope::Approve]).await;
    let keys = Keys::open(&configured(&["zeta:run:k1", "zeta:admin:k2"]), store.clone(), Arc::new(|| 1)).await.unwrap();

    let stored = keys.authenticate(Some(&issued.key)).await.unwrap();
    assert_eq!((stored.tenant_name.as_str(), stored.name.as_str()), ("acme", "ci"));
    assert!(stored.may(Scope::Approve) && !stored.may(Scope::Run));
    let first = keys.authenticate(Some("k1")).await.unwrap();
    assert_eq!((first.tenant_name.as_str(), first.scopes.as_slice()), ("zeta", &[Scope::Run][..]));
    assert!(keys.authenticate(Some("k2")).await.unwrap().may(Scope::Read));
    assert_ne!(stored.tenant, first.tenant);
    for bad in [None, Some(""), Some("k"), Some("k11")] {
        assert_eq!(keys.authenticate(bad).await.unwrap_err().code, Code::Unauthorized, "{bad:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_revoked_key_stops_working_within_five_seconds() {
    let store = Moody::fresh().await;
    let issued = made(&*store, &[Scope::Read]).await;
    let keys = Keys::open(&Auth::default(), store.clone(), Arc::new(|| 1)).await.unwrap();
    keys.authenticate(Some(&issued.key)).await.unwrap();

    assert!(revoke(&*store, &issued.key_id, "ann", 2).await.unwrap());
    assert!(!revoke(&*store, &issued.key_id, "ann", 3).await.unwrap());
    tokio::time::advance(Duration::from_secs(5)).await;
    assert_eq!(keys.authenticate(Some(&issued.key)).await.unwrap_err().code, Code::Unauthorized);
    assert_eq!(
        keys.authenticate(None).await.unwrap_err().code,
        Code::Unauthorized,
        "revoking must not open the server"
    );
}

/// A cached key is not extended because a session names it.
#[tokio::test(start_paused = true)]
async fn a_session_stops_counting_as_soon_as_its_revoked_key() {
    let store = Moody::fresh().await;
    let issued = made(&*store, &[Scope::Read]).await;
    let keys = Keys::open(&Auth::default(), store.clone(), Arc::new(|| 1)).await.unwrap();
    let begun = keys.begin_session(&Pass::of(Some(&issued.key))).await.unwrap().expect("a key is needed");
    let session = Pass::of_session(&begun.token);
    keys.authenticate(Some(&issued.key)).await.unwrap();
    // On another replica.
    assert!(revoke(&*store, &issued.key_id, "ann", 2).await.unwrap());
    tokio::time::advance(Duration::from_millis(1_400)).await;
    keys.authenticate_pass(&session, None, || Ok(())).await.unwrap();
    tokio::time::advance(Duration::from_millis(100)).await;
    assert_eq!(keys.authenticate_pass(&session, None, || Ok(())).await.unwrap_err().code, Code::Unauthorized);
}

#[tokio::test(start_paused = true)]
async fn the_first_key_closes_an_open_server_within_five_seconds() {
    let store = Moody::fresh().await;
    let keys = Keys::open(&Auth::default(), store.clone(), Arc::new(|| 1)).await.unwrap();
    keys.authenticate(None).await.unwrap();
    made(&*store, &[Scope::Read]).await;
    tokio::time::advance(Duration::from_secs(5)).await;
    assert_eq!(keys.authenticate(None).await.unwrap_err().code, Code::Unauthorized);
}

#[tokio::test]
async fn an_open_server_makes_no_first_key_without_admin_and_stays_open() {
    let keys = Keys::open(&Auth::default(), fresh_store().await, Arc::new(|| 1)).await.unwrap();
    let local = keys.authenticate(None).await.unwrap();
    let fault = keys.issue(&local, &new_key(&[Scope::Read, Scope::Run, Scope::Approve])).await.unwrap_err();
    assert_eq!((fault.code, fault.errors[0].pointer.as_str()), (Code::Invalid, "/scopes"));
    assert!(fault.detail.starts_with("`/scopes` must have admin: this is the first key of the server"), "{fault:?}");
    assert_eq!(keys.authenticate(None).await.unwrap().name, "local");

    let boss = NewKey { name: "boss".to_owned(), ..new_key(&[Scope::Admin]) };
    let boss = keys.issue(&local, &boss).await.unwrap();
    assert_eq!(keys.authenticate(None).await.unwrap_err().code, Code::Unauthorized);
    let boss = keys.authenticate(Some(&boss.key)).await.unwrap();
    keys.issue(&boss, &new_key(&[Scope::Read])).await.unwrap();
}

#[tokio::test]
async fn keys_are_made_listed_and_revoked_within_a_tenant() {
    let store = fresh_store().await;
    let keys = Keys::open(&configured(&["acme/ann:admin:a", "zeta:admin:z"]), store, Arc::new(|| 1)).await.unwrap();
    let (acme, zeta) = (keys.authenticate(Some("a")).await.unwrap(), keys.authenticate(Some("z")).await.unwrap());
    let issued = keys.issue(&acme, &new_key(&[Scope::Read])).await.unwrap();
    assert_eq!(keys.issue(&zeta, &new_key(&[Scope::Read])).await.unwrap_err().code, Code::Forbidden);
    assert!(keys.list(&zeta, &PageAsk::first(10)).await.unwrap().items.is_empty());
    let ann = ConfiguredApiKey { name: "ann".to_owned(), scopes: vec![Scope::Admin] };
    assert_eq!(keys.list_configured(&acme), [ann]);
    assert_eq!(keys.revoke(&zeta, &issued.key_id).await.unwrap_err().code, Code::NotFound);
    keys.revoke(&acme, &issued.key_id).await.unwrap();
    assert_eq!(keys.list(&acme, &PageAsk::first(10)).await.unwrap().items[0].revoked_at, Some(1));
    assert_eq!(keys.revoke(&acme, &issued.key_id).await.unwrap_err().code, Code::NotFound);
}

#[tokio::test]
async fn the_key_itself_is_not_kept() {
    let store = fresh_store().await;
    let issued = made(&*store, &[Scope::Read]).await;
    assert!(issued.key.starts_with("pes_") && issued.key.len() == 4 + 64);
    let stored = format!("{:?}", store.keys().await.unwrap());
    assert!(!stored.contains(&issued.key[4..]), "{stored}");
    let listed = list(&*store).await.unwrap();
    assert_eq!((listed[0].tenant.as_str(), listed[0].scopes.as_slice()), ("acme", &[Scope::Read][..]));
    assert_ne!(mint_key(), mint_key());
}

#[tokio::test]
async fn a_configured_key_has_one_name_wherever_it_stands() {
    let store = fresh_store().await;
    let name = async |keys: &[&str], key: &str| {
        let keys = Keys::open(&configured(keys), store.clone(), Arc::new(|| 1)).await.unwrap();
        keys.authenticate(Some(key)).await.unwrap().name
    };
    let alone = name(&["acme:run:k1"], "k1").await;
    assert!(alone.starts_with("configured-") && alone.len() == 23, "{alone}");
    assert_eq!(name(&["zeta:run:k0", "acme:run:k1"], "k1").await, alone, "inserting one changes nobody");
    assert_ne!(name(&["acme:run:k2"], "k2").await, alone);
    assert_eq!(name(&["acme/ann:run:k1"], "k1").await, "ann");
}

#[tokio::test]
async fn a_name_stays_that_of_a_revoked_key() {
    let store = fresh_store().await;
    let auth = configured(&["acme/boss:admin:k1"]);
    let keys = Keys::open(&auth, store.clone(), Arc::new(|| 1)).await.unwrap();
    let boss = keys.authenticate(Some("k1")).await.unwrap();
    let named = |name: &str| NewKey { name: name.to_owned(), ..new_key(&[Scope::Read]) };
    let first = keys.issue(&boss, &named("ci")).await.unwrap();
    for taken in ["ci", "boss"] {
        assert_eq!(keys.issue(&boss, &named(taken)).await.unwrap_err().code, Code::KeyExists, "{taken}");
    }
    keys.revoke(&boss, &first.key_id).await.unwrap();
    assert_eq!(keys.issue(&boss, &named("ci")).await.unwrap_err().code, Code::KeyExists);
    let again = Keys::open(&configured(&["acme/ci:admin:k2"]), store, Arc::new(|| 1)).await;
    assert!(again.err().unwrap().to_string().contains(&first.key_id), "a configured key cannot be it either");
}

#[test]
fn names_that_are_the_servers_or_cannot_be_seen_are_refused() {
    let named = |name: &str| NewKey { name: name.to_owned(), ..new_key(&[Scope::Read]) };
    let ours = [
        "policy",
        "Timer",
        "local",
        "engine",
        "interrupt",
        "Peer",
        "Server",
        "retention",
        "configured-1",
        "Configured-x",
        "schedule:nightly",
    ];
    let unseen = ["", " ann", "ann ", "a\nb", "a\u{202e}b", "a\u{2066}b", "a\u{200b}b", "\u{feff}a", "a\u{e0041}"];
    let ignorable = ["a\u{180b}", "a\u{fff0}", "a\u{1d173}"];
    for name in ours.iter().chain(&unseen).chain(&ignorable) {
        let fault = named(name).check(1).unwrap_err();
        assert_eq!((fault.code, fault.errors[0].pointer.as_str()), (Code::Invalid, "/name"), "{name:?}");
        assert!(format!("acme/{name}:run:k").parse::<ConfiguredKey>().is_err(), "{name:?}");
    }
    assert!(named("Зоя's laptop (2)").check(1).is_ok());
    assert_eq!(NewKey { tenant: "a\u{202e}b".to_owned(), ..named("ci") }.check(1).unwrap_err().code, Code::Invalid);
}

#[tokio::test]
async fn who_makes_and_revokes_a_key_stands_in_the_audit() {
    let store = fresh_store().await;
    let keys = Keys::open(&configured(&["acme/boss:admin:k1"]), store.clone(), Arc::new(|| 7)).await.unwrap();
    let boss = keys.authenticate(Some("k1")).await.unwrap();
    let issued = keys.issue(&boss, &new_key(&[Scope::Read])).await.unwrap();
    keys.revoke(&boss, &issued.key_id).await.unwrap();
    let lines = store.audit_of_tenant(boss.tenant, &PageAsk { cursor: None, limit: 10 }).await.unwrap().items;
    let told: Vec<_> = lines.iter().map(|line| (line.actor.as_str(), line.action.as_str(), line.at)).collect();
    assert_eq!(told, [("boss", "revoke key", 7), ("boss", "make key", 7)]);
    assert!(lines.iter().all(|line| line.detail["keyId"] == issued.key_id && line.detail["name"] == "ci"), "{lines:?}");
    assert!(!format!("{lines:?}").contains(&issued.key[4..]));
}

#[tokio::test]
async fn the_audit_says_when_a_key_ends_and_its_former_value() {
    let store = fresh_store().await;
    let keys = Keys::open(&configured(&["acme/boss:admin:k1"]), store.clone(), Arc::new(|| 7)).await.unwrap();
    let boss = keys.authenticate(Some("k1")).await.unwrap();
    let issued = keys.issue(&boss, &NewKey { expires_at: Some(100), ..new_key(&[Scope::Read]) }).await.unwrap();
    for rotation in [KeyRotation::default(), KeyRotation { overlap_ms: 20, expires_at: Some(200) }] {
        keys.rotate(&boss, &issued.key_id, &rotation).await.unwrap();
    }
    let lines = store.audit_of_tenant(boss.tenant, &PageAsk { cursor: None, limit: 10 }).await.unwrap().items;
    let ends = |line: &AuditRow| (line.detail["expiresAt"].as_i64(), line.detail["formerUntil"].as_i64());
    let ends: Vec<_> = lines.iter().rev().map(ends).collect();
    assert_eq!(ends, [(Some(100), None), (Some(100), Some(7)), (Some(200), Some(27))]);
}

#[tokio::test(start_paused = true)]
async fn three_thousand_wrong_keys_are_slowed_down_and_a_right_one_is_not() {
    let keys = Arc::new(Keys::open(&configured(&["acme:run:k1"]), Moody::fresh().await, Arc::new(|| 1)).await.unwrap());
    let began = tokio::time::Instant::now();
    let guess = |n: usize| {
        let keys = keys.clone();
        tokio::spawn(async move { keys.authenticate(Some(&format!("guess-{n}"))).await.unwrap_err().code })
    };
    let guesses: Vec<_> = (0..3_000).map(guess).collect();
    tokio::task::yield_now().await;
    keys.authenticate(Some("k1")).await.unwrap();
    assert_eq!(began.elapsed(), Duration::ZERO, "who has a key does not wait");
    let mut codes = Vec::new();
    for guess in guesses {
        codes.push(guess.await.unwrap());
    }
    let count = |code: Code| codes.iter().filter(|told| **told == code).count();
    assert_eq!((count(Code::Unauthorized), count(Code::TooManyRequests)), (151, 2_849));
    assert_eq!(began.elapsed(), Duration::from_secs(5));
    tokio::time::advance(Duration::from_secs(10)).await;
    let began = tokio::time::Instant::now();
    assert_eq!(keys.authenticate(Some("guess")).await.unwrap_err().code, Code::Unauthorized);
    assert_eq!(began.elapsed(), Duration::ZERO, "later all is as before");
}

#[tokio::test(start_paused = true)]
async fn a_session_lasts_twelve_hours() {
    let now = Arc::new(AtomicI64::new(1));
    let clock = now.clone();
    let tell: pes::auth::Now = Arc::new(move || clock.load(Ordering::SeqCst));
    let keys = Keys::open(&configured(&["acme/boss:admin:k1"]), Moody::fresh().await, tell).await.unwrap();
    let token = keys.begin_session(&Pass::of(Some("k1"))).await.unwrap().expect("a key is needed").token;
    let pass = Pass::of_session(&token);
    assert_eq!(keys.authenticate_pass(&pass, None, || Ok(())).await.unwrap().name, "boss");
    assert!(keys.begin_session(&pass).await.unwrap().is_none(), "it does not last longer by being used");
    let last = 1 + pes::auth::SESSION_TTL;
    for (at, is_let_in) in [(last - 1, true), (last, false)] {
        now.store(at, Ordering::SeqCst);
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(keys.authenticate_pass(&pass, None, || Ok(())).await.is_ok(), is_let_in, "{at}");
        assert_eq!(keys.ended(&pass).await.is_none(), is_let_in, "{at}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_has_ended_lets_nobody_in_any_more() {
    let store = Moody::fresh().await;
    let clock = Arc::new(AtomicI64::new(10));
    let now = clock.clone();
    let keys = Keys::open(&configured(&["acme:admin:a"]), store.clone(), Arc::new(move || now.load(Ordering::SeqCst)))
        .await
        .unwrap();
    let boss = keys.authenticate(Some("a")).await.unwrap();
    let until = |end| NewKey { expires_at: Some(end), ..new_key(&[Scope::Read]) };
    assert_eq!(keys.issue(&boss, &until(10)).await.unwrap_err().code, Code::Invalid);
    let issued = keys.issue(&boss, &until(1_000)).await.unwrap();
    keys.authenticate(Some(&issued.key)).await.unwrap();
    let listed = keys.list(&boss, &PageAsk::first(10)).await.unwrap().items.remove(0);
    assert_eq!((listed.expires_at, listed.last_used_at), (Some(1_000), Some(10)));
    clock.store(1_000, Ordering::SeqCst);
    tokio::time::advance(Duration::from_secs(5)).await;
    assert_eq!(keys.authenticate(Some(&issued.key)).await.unwrap_err().code, Code::Unauthorized);
    for how in [KeyRotation::default(), KeyRotation { overlap_ms: 1, expires_at: Some(2_000) }] {
        let fault = keys.rotate(&boss, &issued.key_id, &how).await.unwrap_err();
        assert_eq!((fault.code, fault.errors[0].pointer.as_str()), (Code::Invalid, "/expiresAt"));
        assert!(fault.detail.starts_with("This key expired at 1970-01-01T00:00:01Z."), "{fault:?}");
    }
    let how = KeyRotation { overlap_ms: 0, expires_at: Some(2_000) };
    let again = keys.rotate(&boss, &issued.key_id, &how).await.unwrap();
    assert_eq!(keys.authenticate(Some(&again.key)).await.unwrap().name, "ci");
    assert_eq!(keys.authenticate(Some(&issued.key)).await.unwrap_err().code, Code::Unauthorized, "its former value");
    clock.store(2_000, Ordering::SeqCst);
    let keys = keys.with_max_keys(1);
    keys.issue(&boss, &NewKey { name: "other".to_owned(), ..new_key(&[Scope::Read]) }).await.unwrap();
    let how = KeyRotation { overlap_ms: 0, expires_at: Some(3_000) };
    assert_eq!(keys.rotate(&boss, &issued.key_id, &how).await.unwrap_err().code, Code::TooManyDocuments);
    keys.revoke(&boss, &issued.key_id).await.unwrap();
    assert_eq!(keys.rotate(&boss, &issued.key_id, &how).await.unwrap_err().code, Code::NotFound);
}

#[tokio::test(start_paused = true)]
async fn a_rotated_key_is_the_same_caller_and_the_old_one_counts_until_the_overlap_is_over() {
    let store = Moody::fresh().await;
    let clock = Arc::new(AtomicI64::new(10));
    let now = clock.clone();
    let keys = Keys::open(
        &configured(&["acme:admin:a", "zeta:admin:z"]),
        store.clone(),
        Arc::new(move || now.load(Ordering::SeqCst)),
    )
    .await
    .unwrap();
    let (boss, other) = (keys.authenticate(Some("a")).await.unwrap(), keys.authenticate(Some("z")).await.unwrap());
    let first = keys.issue(&boss, &new_key(&[Scope::Read])).await.unwrap();
    let before = keys.authenticate(Some(&first.key)).await.unwrap();
    let how = KeyRotation { overlap_ms: 100, expires_at: None };
    assert_eq!(keys.rotate(&other, &first.key_id, &how).await.unwrap_err().code, Code::NotFound);
    let longer = KeyRotation { overlap_ms: 31 * 24 * 3_600_000, expires_at: None };
    assert_eq!(keys.rotate(&boss, &first.key_id, &longer).await.unwrap_err().code, Code::Invalid);
    let second = keys.rotate(&boss, &first.key_id, &how).await.unwrap();
    assert_eq!(second.key_id, first.key_id);
    for key in [&first.key, &second.key] {
        let caller = keys.authenticate(Some(key)).await.unwrap();
        assert_eq!((&caller.name, &caller.scopes), (&before.name, &before.scopes));
    }
    let again = keys.rotate(&boss, &first.key_id, &how).await.unwrap_err();
    assert_eq!((again.code, again.detail.contains("1970-01-01T00:00:00.11Z")), (Code::KeyOverlap, true), "{again:?}");
    for key in [&first.key, &second.key] {
        keys.authenticate(Some(key)).await.unwrap();
    }
    clock.store(110, Ordering::SeqCst);
    tokio::time::advance(Duration::from_secs(5)).await;
    assert_eq!(keys.authenticate(Some(&first.key)).await.unwrap_err().code, Code::Unauthorized);
    keys.authenticate(Some(&second.key)).await.unwrap();
    // An operator who must revoke all of them at once can.
    let third = keys.rotate(&boss, &first.key_id, &how).await.unwrap();
    let last = keys.rotate(&boss, &first.key_id, &KeyRotation::default()).await.unwrap();
    for key in [&second.key, &third.key] {
        assert_eq!(keys.authenticate(Some(key)).await.unwrap_err().code, Code::Unauthorized);
    }
    keys.authenticate(Some(&last.key)).await.unwrap();
}

/// Permission to make keys, or to write to the database, does not make an operator.
#[tokio::test]
async fn only_configured_keys_are_the_operators() {
    let store = fresh_store().await;
    let auth = configured(&["ops/boss:operator:k1", "acme:admin:k2"]);
    let keys = Keys::open(&auth, store.clone(), Arc::new(|| 1)).await.unwrap();
    let (operator, admin) =
        (keys.authenticate(Some("k1")).await.unwrap(), keys.authenticate(Some("k2")).await.unwrap());
    assert!(operator.may(Scope::Operator) && !operator.may(Scope::Read) && !operator.may(Scope::Admin));
    assert!(!admin.may(Scope::Operator) && admin.may(Scope::Approve));

    let fault = keys.issue(&admin, &new_key(&[Scope::Read, Scope::Operator])).await.unwrap_err();
    assert_eq!((fault.code, fault.detail.contains("PES_API_KEYS")), (Code::Invalid, true), "{fault:?}");
    // As if somebody had written it into the table.
    let issued = made(&*store, &[Scope::Read, Scope::Operator]).await;
    let caller = keys.authenticate(Some(&issued.key)).await.unwrap();
    assert!(caller.may(Scope::Read) && !caller.may(Scope::Operator));
}
