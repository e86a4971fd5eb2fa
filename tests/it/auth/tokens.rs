//! Which tokens are accepted, and which claims are used.

use aws_lc_rs::hmac;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use pes::auth::Pass;
use pes::config::Algorithm;
use pes::domain::caller::Scope;
use pes::domain::fault::Code;
use rstest::rstest;
use serde_json::{Value, json};

use super::bed::{Bed, NOW};
use crate::support::issuer::Signer;

#[tokio::test]
async fn a_token_that_its_issuer_signed_lets_its_person_in() {
    let bed = Bed::new().await;
    for signer in [Signer::rs256("r"), Signer::es256("e"), Signer::eddsa("d")] {
        let bed = Bed::new().await;
        bed.issuer.publish(&[&signer]);
        let caller = bed.authenticate(&signer.token(&bed.ann())).await.unwrap();
        assert_eq!((caller.tenant_name.as_str(), caller.name), ("acme", format!("{}#ann", bed.issuer.url)));
        assert_eq!(caller.scopes, [Scope::Read, Scope::Run, Scope::Approve]);
        assert!(caller.groups.is_empty());
    }
    // Without a key id, where there is only one key; and for several audiences.
    let header = json!({ "alg": "EdDSA", "typ": "at+jwt" });
    let token = bed.signer.with_header(&header, &bed.ann_but(json!({ "aud": ["other", "pes"] })));
    bed.authenticate(&token).await.unwrap();
}

/// A change of a valid token, and the reason of the refusal.
#[rstest]
#[case::aud(json!({ "aud": "other" }), "was made for another audience")]
#[case::aud_list(json!({ "aud": ["other", "pes2"] }), "was made for another audience")]
#[case::no_aud(json!({ "aud": null }), "was made for another audience")]
#[case::iss(json!({ "iss": "https://evil.example" }), "is of no issuer")]
#[case::no_iss(json!({ "iss": null }), "is of no issuer")]
#[case::expired(json!({ "exp": NOW - 30 }), "has expired")]
#[case::no_exp(json!({ "exp": null }), "does not say when it ends")]
#[case::exp_text(json!({ "exp": "tomorrow" }), "claim `exp` that is no time")]
#[case::nbf(json!({ "nbf": NOW + 31 }), "is not valid yet")]
#[case::iat(json!({ "iat": NOW + 31 }), "is not valid yet")]
#[case::no_sub(json!({ "sub": null }), "does not say who somebody is")]
#[case::empty_sub(json!({ "sub": "" }), "does not say who somebody is")]
#[case::unseen_sub(json!({ "sub": "an\u{200b}n" }), "does not say who somebody is")]
#[case::long_sub(json!({ "sub": "a".repeat(256) }), "does not say who somebody is")]
#[case::large(json!({ "note": "n".repeat(16 << 10) }), "has more than 16384 bytes")]
#[tokio::test]
async fn a_claim_that_is_wrong_lets_nobody_in(#[case] members: Value, #[case] said: &str) {
    let bed = Bed::new().await;
    let refusal = bed.refusal(&bed.signer.token(&bed.ann_but(members))).await;
    assert!(refusal.contains(said), "{refusal}");
}

#[tokio::test]
async fn clocks_may_differ_by_the_leeway() {
    let bed = Bed::new().await;
    for members in
        [json!({ "exp": NOW - 29 }), json!({ "nbf": NOW + 30 }), json!({ "exp": 1e10, "iat": NOW as f64 + 0.5 })]
    {
        bed.authenticate(&bed.signer.token(&bed.ann_but(members))).await.unwrap();
    }
    let strict = Bed::with(|issuer| issuer.leeway_s = 0).await;
    strict.refusal(&strict.signer.token(&strict.ann_but(json!({ "exp": NOW })))).await;
}

#[tokio::test]
async fn a_signature_of_nobody_or_of_another_lets_nobody_in() {
    let bed = Bed::new().await;
    let good = bed.signer.token(&bed.ann());
    bed.authenticate(&good).await.unwrap();
    let claims = BASE64.encode(bed.ann().to_string());
    let header = |header: Value| BASE64.encode(header.to_string());

    for alg in ["none", "None", "NONE", "", "RS512", "PS256"] {
        for signature in ["", &good[good.rfind('.').unwrap() + 1..]] {
            let token = format!("{}.{claims}.{signature}", header(json!({ "alg": alg, "kid": "k1" })));
            assert!(bed.refusal(&token).await.contains("is not signed with"), "{alg}");
        }
    }
    // With the public key as the secret of a MAC: as published, and as bytes.
    let text = format!("{}.{claims}", header(json!({ "alg": "HS256", "kid": "k1" })));
    let published = bed.signer.jwk();
    let bytes = BASE64.decode(published["x"].as_str().unwrap()).unwrap();
    for secret in [published.to_string().into_bytes(), bytes] {
        let mac = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &secret), text.as_bytes());
        assert!(bed.refusal(&format!("{text}.{}", BASE64.encode(mac))).await.contains("is not signed with"));
    }
    // Another key under the same id, and another person under the same signature.
    let stranger = Signer::eddsa("k1");
    assert!(bed.refusal(&stranger.token(&bed.ann())).await.contains("a signature that is not its issuer's"));
    let parts: Vec<&str> = good.split('.').collect();
    let bob = BASE64.encode(bed.ann_but(json!({ "sub": "bob" })).to_string());
    assert!(bed.refusal(&format!("{}.{bob}.{}", parts[0], parts[2])).await.contains("a signature that is not"));
    // The right key, declared as another type.
    let token = bed.signer.with_header(&json!({ "alg": "RS256", "kid": "k1" }), &bed.ann());
    assert!(bed.refusal(&token).await.contains("a key that its issuer does not publish"));
}

#[tokio::test]
async fn only_configured_algorithms_count() {
    let bed = Bed::with(|issuer| issuer.algorithms = vec![Algorithm::Rs256]).await;
    assert!(bed.refusal(&bed.signer.token(&bed.ann())).await.contains("is signed in a way that is not configured"));
    assert_eq!(bed.issuer.asked_for_keys(), 0);
}

#[tokio::test]
async fn what_is_no_token_is_not_read_as_one() {
    let bed = Bed::new().await;
    let good = bed.signer.token(&bed.ann());
    let (head, rest) = good.split_once('.').unwrap();
    let padded = format!("{head}=.{rest}");
    for token in ["..", "a.b.c", "*.*.*", &good[1..], &good[..good.len() - 1], &padded, &format!("{head}.{head}.")] {
        bed.refusal(token).await;
    }
    let (claims, header) = (bed.ann().to_string(), r#"{"alg":"EdDSA","kid":"k1"}"#);
    for (header, claims, said) in [
        (header, "[]", "cannot be read"),
        (header, "{\"iss\":", "cannot be read"),
        (r#""EdDSA""#, claims.as_str(), "cannot be read"),
        (header, &claims.replacen('{', r#"{"sub":"boss","#, 1), "`sub` stands in it twice"),
        (r#"{"alg":"none","alg":"EdDSA","kid":"k1"}"#, &claims, "`alg` stands in it twice"),
        (r#"{"alg":"EdDSA","kid":"k1","crit":["exp"]}"#, &claims, "has a critical header"),
        (r#"{"alg":"EdDSA","kid":"k1","typ":"logout+jwt"}"#, &claims, "of the type `logout+jwt`"),
    ] {
        let refusal = bed.refusal(&bed.signer.of_texts(header, claims)).await;
        assert!(refusal.contains(said), "{refusal}");
    }
}

#[tokio::test]
async fn what_somebody_may_comes_from_the_token_and_is_never_operator() {
    let bed = Bed::new().await;
    let scopes = async |bed: &Bed, scope: Value| {
        let token = bed.signer.token(&bed.ann_but(json!({ "scope": scope })));
        bed.authenticate(&token).await.unwrap().scopes
    };
    assert_eq!(scopes(&bed, json!("openid read  operator admin")).await, [Scope::Read, Scope::Admin]);
    assert_eq!(scopes(&bed, json!(["run", "run"])).await, [Scope::Run]);
    assert!(scopes(&bed, json!(null)).await.is_empty());
    assert!(scopes(&bed, json!(7)).await.is_empty());
    let bed = Bed::with(|issuer| {
        issuer.scope_claim = "roles".to_owned();
        issuer.scope_map = [("pes-users", vec![Scope::Read, Scope::Run]), ("pes-bosses", vec![Scope::Approve])]
            .map(|(word, scopes)| (word.to_owned(), scopes))
            .into();
        issuer.groups_claim = Some("groups".to_owned());
        issuer.name_claim = "oid".to_owned();
    })
    .await;
    let claims = json!({ "roles": ["pes-users", "admin", "x"], "groups": ["finance", "all staff"], "oid": "7" });
    let caller = bed.authenticate(&bed.signer.token(&bed.ann_but(claims))).await.unwrap();
    assert_eq!(caller.scopes, [Scope::Read, Scope::Run], "with a map, only what it names counts");
    assert_eq!(caller.groups, ["finance", "all staff"]);
    assert_eq!(caller.name, format!("{}#7", bed.issuer.url));
    assert!(!caller.may(Scope::Operator));
}

#[tokio::test]
async fn the_tenant_is_that_of_the_issuer_or_of_the_claim() {
    let bed = Bed::with(|issuer| (issuer.tenant, issuer.tenant_claim) = (None, Some("org".to_owned()))).await;
    let of = async |org: Value| bed.authenticate(&bed.signer.token(&bed.ann_but(json!({ "org": org })))).await;
    let (one, two) = (of(json!("one")).await.unwrap(), of(json!("two")).await.unwrap());
    assert_eq!((one.tenant_name.as_str(), two.tenant_name.as_str()), ("one", "two"));
    assert_ne!(one.tenant, two.tenant);
    for same in [json!("one"), json!(["one"])] {
        assert_eq!(of(same).await.unwrap().tenant, one.tenant);
    }
    for wrong in [json!(null), json!(""), json!(["one", "two"]), json!([]), json!(1), json!("on\u{0}e"), json!(" one")]
    {
        assert_eq!(of(wrong.clone()).await.unwrap_err().code, Code::Forbidden, "{wrong}");
    }
}

#[tokio::test]
async fn an_issuer_lets_people_into_no_tenant_that_it_may_not_name() {
    let bed = Bed::with(|issuer| {
        (issuer.tenant, issuer.tenant_claim) = (None, Some("org".to_owned()));
        issuer.tenants = Some(vec!["acme".to_owned(), "team-*".to_owned()]);
    })
    .await;
    let of = async |org: Value| bed.authenticate(&bed.signer.token(&bed.ann_but(json!({ "org": org })))).await;
    for tenant in ["acme", "team-", "team-a", "team-*"] {
        assert_eq!(of(json!(tenant)).await.unwrap().tenant_name, tenant);
    }
    for other in ["ops", "acm", "acme2", "Acme", "team", "a team-a", "*"] {
        let fault = of(json!(other)).await.unwrap_err();
        assert_eq!(fault.code, Code::Forbidden, "{other}");
        let said = format!("The token names the tenant `{other}` in its claim `org`, which is none of the `tenants`");
        assert!(fault.detail.starts_with(&said), "{}", fault.detail);
    }
    assert!(of(json!(null)).await.unwrap_err().detail.contains("does not name a tenant"));
    // It begins no session there either.
    let pass = Pass::of(Some(&bed.signer.token(&bed.ann_but(json!({ "org": "ops" })))));
    assert_eq!(bed.keys.begin_session(&pass).await.err().map(|fault| fault.code), Some(Code::Forbidden));
}

/// As Keycloak has them.
#[tokio::test]
async fn a_claim_may_lie_within_another() {
    let bed = Bed::with(|issuer| {
        issuer.scope_claim = "/realm_access/roles".to_owned();
        issuer.groups_claim = Some("/resource_access/https:~1~1pes/groups".to_owned());
        (issuer.tenant, issuer.tenant_claim) = (None, Some("/organization/name".to_owned()));
    })
    .await;
    let claims = json!({
        "realm_access": { "roles": ["read", "offline_access"] },
        "resource_access": { "https://pes": { "groups": ["finance"] } },
        "organization": { "name": "acme" },
        "/organization/name": "other",
    });
    let caller = bed.authenticate(&bed.signer.token(&bed.ann_but(claims))).await.unwrap();
    assert_eq!(caller.scopes, [Scope::Read]);
    assert_eq!(caller.groups, ["finance"]);
    assert_eq!(caller.tenant_name.as_str(), "acme");
}
