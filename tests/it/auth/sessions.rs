//! Sessions of an issuer's people, and the settings that gave their rights.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use pes::auth::{Keys, Pass, hash};
use pes::config::{Algorithm, OidcIssuer};
use pes::domain::caller::Scope;
use pes::domain::fault::Code;
use pes::store::{SessionRow, Store};
use serde_json::{Value, json};

use super::bed::{NOW, keys};
use crate::support::issuer::{Issuer, Signer};
use crate::support::store::fresh_store;

struct Corp {
    issuer: Issuer,
    signer: Signer,
    configured: OidcIssuer,
    store: Arc<dyn Store>,
    now: Arc<AtomicI64>,
    /// The token of Ann's session.
    session: String,
}

impl Corp {
    /// With a session that begins with a token of Ann.
    async fn new() -> Self {
        let signer = Signer::eddsa("k1");
        let issuer = Issuer::with(&[&signer]).await;
        let mut configured = OidcIssuer::new(&issuer.url, "pes", "acme");
        configured.client_id = Some("console".to_owned());
        configured.scope_map = [("run".to_owned(), vec![Scope::Run, Scope::Admin])].into();
        let (store, now) = (fresh_store().await, Arc::new(AtomicI64::new(NOW * 1000)));
        let first = keys(&[("corp", configured.clone())], &[], store.clone(), &now).await;
        let token = signer.token(&issuer.claims("ann", NOW + 3600));
        let session = first.begin_session(&Pass::of(Some(&token))).await.unwrap().expect("a token was shown").token;
        Self { issuer, signer, configured, store, now, session }
    }

    /// The server after a restart with other settings of the issuer.
    async fn restarted(&self, change: impl FnOnce(&mut OidcIssuer)) -> Arc<Keys> {
        let mut configured = self.configured.clone();
        change(&mut configured);
        keys(&[("corp", configured)], &[], self.store.clone(), &self.now).await
    }

    /// The session's person as it is stored.
    async fn stored(&self) -> Value {
        let row = self.store.session(&hash(&self.session)).await.unwrap().expect("it is stored");
        serde_json::from_str(&row.person.expect("it is of a person")).unwrap()
    }

    /// Stores a session that somebody wrote, and returns its token.
    async fn write(&self, person: &Value) -> &'static str {
        let (hash, expires_at) = (hash("written"), (NOW + 60) * 1000);
        let row = SessionRow { hash, key_hash: String::new(), person: Some(person.to_string()), expires_at };
        self.store.add_session(row, 100).await.unwrap();
        "written"
    }
}

/// What the session of this token may do; `None`: it does not count.
async fn scopes(keys: &Keys, session: &str) -> Option<Vec<Scope>> {
    match keys.authenticate_pass(&Pass::of_session(session), None, || Ok(())).await {
        Ok(caller) => Some(caller.scopes),
        Err(fault) => {
            assert_eq!(fault.code, Code::Unauthorized, "{fault:?}");
            None
        }
    }
}

type Change = fn(&mut OidcIssuer);

/// Otherwise rights that were taken away in the settings would last for up to twelve hours more.
#[tokio::test]
async fn a_session_ends_with_the_settings_that_gave_its_rights() {
    let corp = Corp::new().await;
    let kept: [Change; 3] =
        [|_| {}, |corp| corp.leeway_s = 60, |corp| corp.client_secret = Some("another secret".to_owned().into())];
    for (nr, change) in kept.into_iter().enumerate() {
        let keys = corp.restarted(change).await;
        assert_eq!(scopes(&keys, &corp.session).await, Some(vec![Scope::Run, Scope::Admin]), "change {nr}");
    }
    let ending: [Change; 10] = [
        |corp| corp.audience = "pesx".to_owned(),
        |corp| corp.algorithms = vec![Algorithm::EdDsa],
        |corp| corp.tenant = Some("gamma".to_owned()),
        |corp| (corp.tenant, corp.tenant_claim) = (None, Some("org".to_owned())),
        |corp| corp.scope_claim = "roles".to_owned(),
        |corp| corp.scope_map = [("run".to_owned(), vec![Scope::Run])].into(),
        |corp| corp.name_claim = "oid".to_owned(),
        |corp| corp.groups_claim = Some("groups".to_owned()),
        |corp| corp.client_id = Some("another".to_owned()),
        |corp| corp.login_scope = "openid run".to_owned(),
    ];
    for (nr, change) in ending.into_iter().enumerate() {
        let keys = corp.restarted(change).await;
        assert_eq!(scopes(&keys, &corp.session).await, None, "change {nr}");
    }
    // With the former settings it counts again: nothing was deleted.
    let keys = corp.restarted(|_| {}).await;
    assert!(scopes(&keys, &corp.session).await.is_some());
}

#[tokio::test]
async fn a_session_ends_with_the_list_of_tenants_that_its_issuer_may_name() {
    let corp = Corp::new().await;
    let with = async |tenants: Option<&str>| {
        let named = tenants.map(|tenants| tenants.split(' ').map(str::to_owned).collect());
        corp.restarted(|corp| {
            (corp.tenant, corp.tenant_claim) = (None, Some("org".to_owned()));
            corp.tenants = named;
        })
        .await
    };
    let mut claims = corp.issuer.claims("ann", NOW + 3600);
    claims["org"] = json!("acme");
    let begun = with(Some("acme beta")).await;
    let session = begun.begin_session(&Pass::of(Some(&corp.signer.token(&claims)))).await.unwrap().unwrap().token;
    let again = with(Some("acme beta")).await;
    assert!(scopes(&again, &session).await.is_some());
    for other in [Some("beta"), Some("acme"), Some("acme gamma"), None] {
        let keys = with(other).await;
        assert_eq!(scopes(&keys, &session).await, None, "{other:?}");
    }
}

#[tokio::test]
async fn a_session_that_does_not_name_its_settings_does_not_count() {
    let corp = Corp::new().await;
    let keys = corp.restarted(|_| {}).await;
    let mut person = corp.stored().await;
    person.as_object_mut().unwrap().remove("settings_digest").expect("it is stored");
    assert_eq!(scopes(&keys, corp.write(&person).await).await, None);
}

#[tokio::test]
async fn nobody_becomes_an_operator_by_a_session_that_somebody_wrote() {
    let corp = Corp::new().await;
    let keys = corp.restarted(|_| {}).await;
    let mut person = corp.stored().await;
    (person["name"], person["scopes"]) = (json!(format!("{}#eve", corp.issuer.url)), json!(["operator", "admin"]));
    assert_eq!(scopes(&keys, corp.write(&person).await).await, Some(vec![Scope::Admin]));
}
