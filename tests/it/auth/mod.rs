//! Keys: who is let in, as whom, and for how long after they are revoked.

use std::sync::Arc;
use std::time::Duration;

use pes::auth::{Keys, NewKey, issue, list, mint_key, revoke};
use pes::config::Auth;
use pes::domain::caller::Scope;
use pes::domain::fault::Code;
use pes::store::Store;
use pes::store::memory::Memory;

fn configured(keys: &[&str]) -> Auth {
    Auth { keys: keys.iter().map(|key| key.parse().unwrap()).collect(), ..Auth::default() }
}

fn new_key(scopes: &[Scope]) -> NewKey {
    NewKey { tenant: "acme".to_owned(), name: "ci".to_owned(), scopes: scopes.to_vec() }
}

#[tokio::test]
async fn without_any_key_everybody_is_the_default_tenant() {
    let keys = Keys::open(&Auth::default(), Arc::new(Memory::new()), Arc::new(|| 1)).await.unwrap();
    let caller = keys.authenticate(None).await.unwrap();
    assert_eq!((caller.tenant_name.as_str(), caller.name.as_str()), ("default", "local"));
    assert!(Scope::ALL.iter().all(|scope| caller.may(*scope)));
    assert_eq!(keys.authenticate(Some("pes_wrong")).await.unwrap_err().code, Code::Unauthorized);
}

#[tokio::test]
async fn configured_and_stored_keys_count_side_by_side() {
    let store = Arc::new(Memory::new());
    let issued = issue(&*store, &new_key(&[Scope::Read, Scope::Approve]), 1).await.unwrap();
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
    let store = Arc::new(Memory::new());
    let issued = issue(&*store, &new_key(&[Scope::Read]), 1).await.unwrap();
    let keys = Keys::open(&Auth::default(), store.clone(), Arc::new(|| 1)).await.unwrap();
    keys.authenticate(Some(&issued.key)).await.unwrap();

    assert!(revoke(&*store, &issued.key_id, 2).await.unwrap());
    assert!(!revoke(&*store, &issued.key_id, 3).await.unwrap());
    tokio::time::advance(Duration::from_secs(5)).await;
    assert_eq!(keys.authenticate(Some(&issued.key)).await.unwrap_err().code, Code::Unauthorized);
    assert_eq!(
        keys.authenticate(None).await.unwrap_err().code,
        Code::Unauthorized,
        "revoking must not open the server"
    );
}

#[tokio::test(start_paused = true)]
async fn the_first_key_closes_an_open_server_within_five_seconds() {
    let store = Arc::new(Memory::new());
    let keys = Keys::open(&Auth::default(), store.clone(), Arc::new(|| 1)).await.unwrap();
    keys.authenticate(None).await.unwrap();
    issue(&*store, &new_key(&[Scope::Read]), 1).await.unwrap();
    tokio::time::advance(Duration::from_secs(5)).await;
    assert_eq!(keys.authenticate(None).await.unwrap_err().code, Code::Unauthorized);
}

#[tokio::test]
async fn keys_are_made_listed_and_revoked_within_a_tenant() {
    let store = Arc::new(Memory::new());
    let keys = Keys::open(&configured(&["acme:admin:a", "zeta:admin:z"]), store, Arc::new(|| 1)).await.unwrap();
    let (acme, zeta) = (keys.authenticate(Some("a")).await.unwrap(), keys.authenticate(Some("z")).await.unwrap());
    let issued = keys.issue(&acme, &new_key(&[Scope::Read])).await.unwrap();
    assert_eq!(keys.issue(&zeta, &new_key(&[Scope::Read])).await.unwrap_err().code, Code::Forbidden);
    assert!(keys.list(&zeta).await.unwrap().is_empty());
    assert_eq!(keys.revoke(&zeta, &issued.key_id).await.unwrap_err().code, Code::NotFound);
    keys.revoke(&acme, &issued.key_id).await.unwrap();
    assert_eq!(keys.list(&acme).await.unwrap()[0].revoked_at, Some(1));
    assert_eq!(keys.revoke(&acme, &issued.key_id).await.unwrap_err().code, Code::NotFound);
}

#[tokio::test]
async fn the_key_itself_is_not_kept() {
    let store = Memory::new();
    let issued = issue(&store, &new_key(&[Scope::Read]), 1).await.unwrap();
    assert!(issued.key.starts_with("pes_") && issued.key.len() == 4 + 64);
    let stored = format!("{:?}", store.keys().await.unwrap());
    assert!(!stored.contains(&issued.key[4..]), "{stored}");
    let listed = list(&store).await.unwrap();
    assert_eq!((listed[0].tenant.as_str(), listed[0].scopes.as_slice()), ("acme", &[Scope::Read][..]));
    assert_ne!(mint_key(), mint_key());
}
