//! Keys and an issuer, with a clock that the test sets.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use pes::auth::{Issuers, Keys};
use pes::config::{Auth, OidcIssuer};
use pes::domain::caller::Caller;
use pes::domain::fault::Fault;
use pes::egress::Egress;
use pes::store::Store;
use pes::store::documents::{KeySource, Sealer};
use serde_json::Value;

use crate::support::issuer::{Issuer, Signer};
use crate::support::store::fresh_store;

/// The time of all tests, in seconds.
pub const NOW: i64 = 1_790_000_000;

pub struct Bed {
    pub issuer: Issuer,
    pub signer: Signer,
    pub keys: Arc<Keys>,
    now: Arc<AtomicI64>,
}

impl Bed {
    pub async fn new() -> Self {
        Self::with(|_| {}).await
    }

    /// With another configuration of the issuer.
    pub async fn with(change: impl FnOnce(&mut OidcIssuer)) -> Self {
        let signer = Signer::eddsa("k1");
        let issuer = Issuer::with(&[&signer]).await;
        let mut configured = OidcIssuer::new(&issuer.url, "pes", "acme");
        change(&mut configured);
        let now = Arc::new(AtomicI64::new(NOW * 1000));
        let keys = keys(&[("corp", configured)], &[], fresh_store().await, &now).await;
        Self { issuer, signer, keys, now }
    }

    /// Sets the clock to this many seconds after the start.
    pub fn at(&self, seconds: i64) -> &Self {
        self.now.store((NOW + seconds) * 1000, Ordering::SeqCst);
        self
    }

    pub async fn authenticate(&self, token: &str) -> Result<Caller, Fault> {
        self.keys.authenticate(Some(token)).await
    }

    /// The claims of Ann, for an hour.
    pub fn ann(&self) -> Value {
        self.issuer.claims("ann", NOW + 3600)
    }

    /// The same with other members; null removes one.
    pub fn ann_but(&self, members: Value) -> Value {
        let mut claims = self.ann();
        for (name, value) in members.as_object().unwrap() {
            if value.is_null() {
                claims.as_object_mut().unwrap().remove(name);
            } else {
                claims[name] = value.clone();
            }
        }
        claims
    }

    pub async fn refusal(&self, token: &str) -> String {
        let fault = self.authenticate(token).await.expect_err("it must not be believed");
        assert_eq!(fault.code.as_str(), "unauthorized", "{fault:?}");
        fault.detail
    }
}

pub async fn keys(
    issuers: &[(&str, OidcIssuer)],
    configured: &[&str],
    store: Arc<dyn Store>,
    now: &Arc<AtomicI64>,
) -> Arc<Keys> {
    let auth = Auth {
        oidc: issuers.iter().map(|(name, issuer)| ((*name).to_owned(), issuer.clone())).collect(),
        keys: configured.iter().map(|key| key.parse().unwrap()).collect(),
        ..Auth::default()
    };
    let issuers = Issuers::new(&auth.oidc, &Arc::new(Egress::new(Duration::from_secs(5)))).unwrap();
    let now = now.clone();
    let keys = Keys::open(&auth, store, Arc::new(move || now.load(Ordering::SeqCst))).await.unwrap();
    let sealer = Sealer::new(KeySource::Given("a key that is long enough".to_owned().into()));
    Arc::new(keys.with_issuers(issuers).with_logins(Arc::new(sealer)))
}
