//! Issuers over time: their keys rotate or cannot be fetched, and other documents are fetched from them.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use pes::auth::{AccessEnd, Keys, LoginCallback, NewKey, Pass};
use pes::config::{Config, OidcIssuer};
use pes::domain::caller::Scope;
use pes::domain::fault::Code;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::bed::{Bed, NOW, keys};
use crate::support::http::soon;
use crate::support::issuer::{Issuer, Signer};
use crate::support::store::{Moody, fresh_store};

const HOUR: i64 = 3600;

#[tokio::test]
async fn a_thousand_unknown_keys_are_asked_about_once() {
    let bed = Bed::new().await;
    let stranger = Signer::eddsa("other");
    for kid in 0..1000 {
        let header = json!({ "alg": "EdDSA", "kid": format!("k{kid}x") });
        bed.refusal(&stranger.with_header(&header, &bed.ann())).await;
    }
    assert_eq!(bed.issuer.asked_for_keys(), 1);
    bed.authenticate(&bed.signer.token(&bed.ann())).await.unwrap();
    bed.at(30);
    for _ in 0..10 {
        bed.refusal(&stranger.token(&bed.ann())).await;
    }
    assert_eq!(bed.issuer.asked_for_keys(), 2);
}

/// Otherwise somebody without a key could lock everybody out with a forged token every half minute.
#[tokio::test]
async fn keys_are_fetched_to_the_end_also_for_somebody_who_hangs_up() {
    let bed = Bed::new().await;
    let (tell, mut asked) = mpsc::unbounded_channel();
    bed.issuer.state.lock().holds = Some(tell);
    let token = bed.signer.token(&bed.ann());
    let go_on = {
        let mut first = std::pin::pin!(bed.authenticate(&token));
        tokio::select! {
            told = &mut first => panic!("{told:?}"),
            go_on = soon(asked.recv()) => go_on.expect("the issuer is there"),
        }
    };
    go_on.send(()).unwrap();
    soon(bed.authenticate(&token)).await.unwrap();
    assert_eq!(bed.issuer.asked_for_keys(), 1);
}

#[tokio::test]
async fn another_key_is_taken_over_while_the_one_before_still_counts() {
    let bed = Bed::new().await;
    let (old, new) = (&bed.signer, Signer::es256("k2"));
    let claims = bed.issuer.claims("ann", NOW + 9 * HOUR);
    bed.authenticate(&old.token(&claims)).await.unwrap();
    bed.issuer.publish(&[old, &new]);
    bed.at(29).refusal(&new.token(&claims)).await;
    bed.at(30).authenticate(&new.token(&claims)).await.unwrap();
    bed.authenticate(&old.token(&claims)).await.unwrap();
    // A key that is no longer published stays valid until the fetched keys are an hour old.
    bed.issuer.publish(&[&new]);
    bed.at(30 + HOUR - 1).authenticate(&old.token(&claims)).await.unwrap();
    bed.at(30 + HOUR).refusal(&old.token(&claims)).await;
    bed.authenticate(&new.token(&claims)).await.unwrap();
    assert_eq!(bed.issuer.asked_for_keys(), 3);
}

#[tokio::test]
async fn another_key_of_the_same_name_is_fetched_when_a_signature_is_not_of_the_former_one() {
    let bed = Bed::new().await;
    let token = |signer: &Signer| signer.token(&bed.ann());
    bed.authenticate(&token(&bed.signer)).await.unwrap();
    let new = Signer::eddsa("k1");
    bed.issuer.publish(&[&new]);
    assert!(bed.at(29).refusal(&token(&new)).await.contains("has a signature that is not its issuer's"));
    bed.at(30).authenticate(&token(&new)).await.unwrap();
    for _ in 0..10 {
        bed.refusal(&token(&bed.signer)).await;
    }
    assert_eq!(bed.issuer.asked_for_keys(), 2, "forged tokens cause no more fetches than unknown keys do");
}

#[tokio::test]
async fn while_the_issuer_is_down_its_keys_are_believed_for_a_day() {
    let bed = Bed::new().await;
    let token = bed.signer.token(&bed.issuer.claims("ann", NOW + 99 * HOUR));
    bed.authenticate(&token).await.unwrap();
    bed.issuer.state.lock().is_down = true;
    for hours in [1, 2, 23] {
        bed.at(hours * HOUR).authenticate(&token).await.unwrap();
    }
    let closed = bed.at(24 * HOUR).authenticate(&token).await.unwrap_err();
    assert_eq!((closed.code, closed.retry_after_ms), (Code::IssuerUnavailable, Some(30_000)));
    bed.issuer.state.lock().is_down = false;
    assert_eq!(bed.at(24 * HOUR + 29).authenticate(&token).await.unwrap_err().code, Code::IssuerUnavailable);
    bed.at(24 * HOUR + 30).authenticate(&token).await.unwrap();
}

/// The server began with a clock that was a year ahead.
#[tokio::test]
async fn keys_that_were_fetched_while_the_clock_was_ahead_are_fetched_again() {
    const YEAR: i64 = 365 * 24 * HOUR;
    let new = Signer::es256("k2");
    for is_down in [false, true] {
        let bed = Bed::new().await;
        let claims = bed.issuer.claims("ann", NOW + 2 * YEAR);
        let old = bed.signer.token(&claims);
        bed.at(YEAR).authenticate(&old).await.unwrap();
        bed.issuer.publish(&[&new]);
        bed.issuer.state.lock().is_down = is_down;
        bed.at(0);
        if is_down {
            bed.authenticate(&old).await.unwrap();
            bed.at(23 * HOUR - 1).authenticate(&old).await.unwrap();
            assert_eq!(bed.at(23 * HOUR).authenticate(&old).await.unwrap_err().code, Code::IssuerUnavailable);
        } else {
            bed.refusal(&old).await;
            bed.authenticate(&new.token(&claims)).await.unwrap();
            assert_eq!(bed.issuer.asked_for_keys(), 2);
        }
    }
}

#[tokio::test]
async fn an_issuer_whose_keys_were_never_fetched_lets_nobody_in() {
    let bed = Bed::new().await;
    let token = bed.signer.token(&bed.ann());
    bed.issuer.state.lock().is_down = true;
    let closed = bed.authenticate(&token).await.unwrap_err();
    assert_eq!(closed.code, Code::IssuerUnavailable);
    assert!(closed.detail.contains(&bed.issuer.url), "{}", closed.detail);
    bed.issuer.state.lock().is_down = false;
    bed.at(30).authenticate(&token).await.unwrap();
}

#[tokio::test]
async fn what_an_issuer_publishes_is_believed_only_in_its_bounds() {
    let closed = async |bed: &Bed| {
        let token = bed.signer.token(&bed.ann());
        assert_eq!(bed.authenticate(&token).await.unwrap_err().code, Code::IssuerUnavailable);
    };
    let bed = Bed::new().await;
    bed.issuer.state.lock().metadata["issuer"] = json!("https://somebody-else.example");
    closed(&bed).await;
    assert_eq!(bed.issuer.asked_for_keys(), 0);

    let bed = Bed::new().await;
    bed.issuer.state.lock().keys["filler"] = json!("x".repeat(300 << 10));
    closed(&bed).await;

    // Another host was not named by the operator, so the egress rules apply to it.
    let bed = Bed::new().await;
    let elsewhere = Issuer::with(&[&bed.signer]).await;
    bed.issuer.state.lock().metadata["jwks_uri"] = json!(format!("{}/jwks", elsewhere.url));
    closed(&bed).await;
    assert_eq!(elsewhere.asked_for_keys(), 0);

    let bed = Bed::new().await;
    bed.issuer.state.lock().moved_to = Some(format!("{}/elsewhere", bed.issuer.url));
    closed(&bed).await;
    assert_eq!(bed.issuer.asked_for_keys(), 0, "no redirect is followed");

    for said in [json!([]), json!({ "keys": 7 })] {
        let bed = Bed::new().await;
        bed.issuer.state.lock().keys = said;
        closed(&bed).await;
    }
}

#[tokio::test]
async fn keys_that_cannot_sign_tokens_are_left_out() {
    let bed = Bed::new().await;
    let mut encrypts = bed.signer.jwk();
    encrypts["use"] = json!("enc");
    let mut derives = bed.signer.jwk();
    derives["key_ops"] = json!(["deriveKey"]);
    let mut secret = bed.signer.jwk();
    (secret["kty"], secret["k"]) = (json!("oct"), json!("AAAA"));
    bed.issuer.state.lock().keys = json!({ "keys": [encrypts, derives, secret, 7, { "kty": "EC" }] });
    bed.refusal(&bed.signer.token(&bed.ann())).await;
    assert_eq!(bed.issuer.asked_for_keys(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_a_token_opened_ends_with_it() {
    let store = Moody::fresh().await;
    let signer = Signer::eddsa("k1");
    let issuer = Issuer::with(&[&signer]).await;
    let now = Arc::new(AtomicI64::new(NOW * 1000));
    let configured = OidcIssuer::new(&issuer.url, "pes", "acme");
    let corp = keys(&[("corp", configured.clone())], &[], store.clone(), &now).await;
    let token = signer.token(&issuer.claims("ann", NOW + 60));
    let pass = Pass::of(Some(&token));
    corp.authenticate_pass(&pass, None, || Ok(())).await.unwrap();
    assert_eq!(corp.ended(&pass).await, None);

    // A session is valid as long as its person's token.
    let session = corp.begin_session(&pass).await.unwrap().expect("a token was shown");
    assert_eq!(session.seconds, 60);
    let session = Pass::of_session(&session.token);
    let name = format!("{}#ann", issuer.url);
    assert_eq!(corp.authenticate_pass(&session, None, || Ok(())).await.unwrap().name, name);
    // It also ends when its issuer is removed.
    for other in [&[][..], &[("other", configured)]] {
        let others = keys(other, &["acme:admin:k1"], store.clone(), &now).await;
        assert_eq!(others.authenticate_pass(&session, None, || Ok(())).await.unwrap_err().code, Code::Unauthorized);
    }

    now.store((NOW + 60) * 1000, Ordering::SeqCst);
    tokio::time::advance(std::time::Duration::from_secs(2)).await;
    assert_eq!(corp.ended(&pass).await, Some(AccessEnd::Expired), "whatever leeway requests have");
    assert_eq!(corp.ended(&session).await, Some(AccessEnd::SessionOver));
    assert_eq!(corp.authenticate_pass(&session, None, || Ok(())).await.unwrap_err().code, Code::Unauthorized);
}

/// A browser that was sent to the issuer and came back.
struct Browser {
    carried: String,
    nonce: String,
    callback: LoginCallback,
}

impl Browser {
    async fn sent_by(corp: &Keys) -> Self {
        let login = corp.begin_login("corp", "https://pes.example/back".to_owned(), None).await.unwrap();
        let to: url::Url = login.to.parse().unwrap();
        let asked = |name: &str| to.query_pairs().find(|(known, _)| known == name).unwrap().1.into_owned();
        let (code, state) = (Some("c0de".to_owned()), Some(asked("state")));
        let callback = LoginCallback { code, state, ..LoginCallback::default() };
        Self { carried: login.carried, nonce: asked("nonce"), callback }
    }

    /// What the issuer returns for its code.
    fn tokens(&self, issuer: &Issuer, signer: &Signer) -> Value {
        let mut claims = issuer.claims("ann", NOW + 900);
        (claims["aud"], claims["nonce"]) = (json!("console"), json!(self.nonce));
        json!({ "id_token": signer.token(&claims) })
    }

    async fn is_let_in(&self, corp: &Keys) -> bool {
        corp.finish_login("corp", Some(&self.carried), &self.callback).await.is_ok()
    }
}

/// An issuer at which browsers sign in.
fn with_console(issuer: &Issuer) -> OidcIssuer {
    let mut configured = OidcIssuer::new(&issuer.url, "pes", "acme");
    configured.client_id = Some("console".to_owned());
    configured
}

#[tokio::test]
async fn a_login_is_over_after_ten_minutes() {
    let signer = Signer::eddsa("k1");
    let issuer = Issuer::with(&[&signer]).await;
    for (later, is_let_in) in [(599, true), (600, false)] {
        let now = Arc::new(AtomicI64::new(NOW * 1000));
        let corp = keys(&[("corp", with_console(&issuer))], &[], fresh_store().await, &now).await;
        let browser = Browser::sent_by(&corp).await;
        issuer.state.lock().tokens = browser.tokens(&issuer, &signer);
        now.store((NOW + later) * 1000, Ordering::SeqCst);
        assert_eq!(browser.is_let_in(&corp).await, is_let_in, "{later}");
    }
}

/// From however many addresses they come.
#[tokio::test]
async fn an_issuer_gets_so_many_codes_at_a_time_and_the_next_ones_wait() {
    let signer = Signer::eddsa("k1");
    let issuer = Issuer::with(&[&signer]).await;
    let now = Arc::new(AtomicI64::new(NOW * 1000));
    let server = async || keys(&[("corp", with_console(&issuer))], &[], fresh_store().await, &now).await;
    let (corp, other) = (server().await, server().await);
    let (holds, mut arrived) = mpsc::unbounded_channel();
    issuer.state.lock().holds_codes = Some(holds);
    let (mut waiting, mut held) = (Vec::new(), Vec::new());
    for _ in 0..32 {
        let (browser, corp) = (Browser::sent_by(&corp).await, corp.clone());
        waiting.push(tokio::spawn(async move { browser.is_let_in(&corp).await }));
        held.push(soon(arrived.recv()).await.expect("a code"));
    }
    let browser = Browser::sent_by(&corp).await;
    let mut last = pin!(browser.is_let_in(&corp));
    // The issuer has answered two requests meanwhile.
    tokio::select! {
        biased;
        is_let_in = &mut last => panic!("it did not wait: {is_let_in}"),
        _ = soon(Browser::sent_by(&other)) => {}
    }
    assert!(arrived.try_recv().is_err(), "one more was sent");
    issuer.state.lock().holds_codes = None;
    issuer.state.lock().tokens = browser.tokens(&issuer, &signer);
    drop(held);
    assert!(soon(last).await);
    for answer in waiting {
        assert!(!answer.await.unwrap(), "its token is that of another login");
    }
}

#[tokio::test]
async fn where_there_is_an_issuer_nobody_is_let_in_without_a_token_or_a_key() {
    let bed = Bed::new().await;
    assert!(!bed.keys.is_open().await.unwrap());
    assert_eq!(bed.keys.authenticate(None).await.unwrap_err().code, Code::Unauthorized);
    // A configured key may look like a token.
    let now = Arc::new(AtomicI64::new(NOW * 1000));
    let configured = OidcIssuer::new(&bed.issuer.url, "pes", "acme");
    let mixed = keys(&[("corp", configured)], &["acme/robot:run:one.two.three"], fresh_store().await, &now).await;
    assert_eq!(mixed.authenticate(Some("one.two.three")).await.unwrap().name, "robot");
    let ann = mixed.authenticate(Some(&bed.signer.token(&bed.ann()))).await.unwrap();
    assert!(ann.name.ends_with("#ann"));
    // No key may have a name that people and groups use.
    for name in [ann.name.as_str(), "HTTPS://a.example#b", "group:finance"] {
        let new = NewKey { tenant: "acme".into(), name: name.into(), scopes: vec![Scope::Read], expires_at: None };
        assert_eq!(mixed.issue(&ann, &new).await.unwrap_err().code, Code::Invalid, "{name}");
    }
}

type Change = fn(&mut OidcIssuer);

fn names(issuer: &mut OidcIssuer, tenants: &[&str]) {
    (issuer.tenant, issuer.tenant_claim) = (None, Some("org".to_owned()));
    issuer.tenants = Some(tenants.iter().map(|&tenant| tenant.to_owned()).collect());
}

#[tokio::test]
async fn an_issuer_is_configured_soundly_or_not_at_all() {
    let refused = async |change: Change| {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.store.data_dir = folder.path().to_owned();
        let mut issuer = OidcIssuer::new("https://login.example", "pes", "acme");
        change(&mut issuer);
        config.auth.oidc.insert("corp".to_owned(), issuer);
        let said = pes::app::App::build(config).await.err().map(|error| error.to_string());
        said.expect("it must be refused")
    };
    let changes: [(Change, &str); 12] = [
        (|issuer| issuer.issuer = "login.example".to_owned(), "is no URL"),
        (|issuer| issuer.issuer = "https://login.example/?a=b".to_owned(), "no query"),
        (|issuer| issuer.audience = String::new(), "audience"),
        (|issuer| issuer.algorithms.clear(), "algorithms"),
        (|issuer| issuer.tenant = None, "set tenant"),
        (|issuer| issuer.tenant_claim = Some("org".to_owned()), "set one of them"),
        (
            |issuer| issuer.tenants = Some(vec!["acme".to_owned()]),
            "tenants: it says which tenants a tenant_claim may name",
        ),
        (|issuer| names(issuer, &[]), "tenants: name one"),
        (|issuer| names(issuer, &["acme", "te*m"]), "tenants: `te*m` has a * before its end"),
        (|issuer| names(issuer, &[" acme"]), "tenants: ` acme` must have 1 to 128 bytes"),
        (|issuer| issuer.name_claim = "email".to_owned(), "may be somebody else's"),
        (|issuer| drop(issuer.scope_map.insert("x".to_owned(), vec![Scope::Operator])), "operator"),
    ];
    for (change, said) in changes {
        let refusal = refused(change).await;
        assert!(refusal.contains("auth.oidc.corp: ") && refusal.contains(said), "{refusal}");
    }
}
