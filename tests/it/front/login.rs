//! Browsers that sign in at an issuer, and the callback that follows.

mod in_browsers;
mod sessions;

use std::collections::HashMap;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use pes::config::{Config, OidcIssuer};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use url::Url;

use super::people::now;
use crate::support::app::App;
use crate::support::http::{Ask, Said};
use crate::support::issuer::{Issuer, Signer};
use crate::support::store::fresh_store;

struct Desk {
    app: App,
    issuer: Issuer,
    signer: Signer,
}

/// A browser between the server and the issuer: its redirect, and its cookie.
struct Sent {
    asked: HashMap<String, String>,
    cookie: String,
}

fn configured(config: &mut Config, issuer: &Issuer) {
    let mut corp = OidcIssuer::new(&issuer.url, "pes", "one");
    (corp.client_id, corp.login_scope) = (Some("console".to_owned()), "openid pes".to_owned());
    corp.client_secret = Some("s3cret & more".to_owned().into());
    config.auth.oidc.insert("corp".to_owned(), corp.clone());
    // Its people call with tokens only.
    (corp.audience, corp.client_id, corp.client_secret) = ("other".to_owned(), None, None);
    config.auth.oidc.insert("calls".to_owned(), corp);
}

impl Desk {
    async fn open() -> Self {
        Self::with(|_| {}).await
    }

    /// The same with another configuration.
    async fn with(change: impl FnOnce(&mut Config)) -> Self {
        let signer = Signer::rs256("k1");
        let issuer = Issuer::with(&[&signer]).await;
        let app = App::with(|config| {
            configured(config, &issuer);
            change(config);
        })
        .await;
        Self { app, issuer, signer }
    }

    fn ask(&self, path: &str) -> Ask {
        Ask::new(self.app.address, "GET", path)
    }

    async fn begin(&self) -> Sent {
        self.begin_for("").await
    }

    /// A login that begins with this query.
    async fn begin_for(&self, query: &str) -> Sent {
        let said = self.ask(&format!("/session/oidc/corp{query}")).send().await;
        assert_eq!(said.status, 303, "{}", said.text());
        let to: Url = said.header("location").unwrap().parse().unwrap();
        assert_eq!((to.origin().ascii_serialization(), to.path()), (self.issuer.url.clone(), "/authorize"));
        let set = said.header("set-cookie").unwrap();
        assert!(set.ends_with("; Path=/session/oidc; Max-Age=600; HttpOnly; SameSite=Lax"), "{set}");
        let cookie = set.split(';').next().unwrap().to_owned();
        Sent { asked: to.query_pairs().into_owned().collect(), cookie }
    }

    /// Makes the issuer return an id token for this login, with other members.
    fn grant(&self, sent: &Sent, members: &Value) {
        let mut claims = json!({
            "iss": self.issuer.url, "sub": "ann", "aud": "console", "exp": now() + 60, "nonce": sent.asked["nonce"],
        });
        for (name, value) in members.as_object().unwrap() {
            claims[name] = value.clone();
        }
        self.issuer.state.lock().tokens = json!({ "id_token": self.signer.token(&claims), "scope": "openid read run" });
    }

    /// The session cookie of somebody who signs in.
    async fn sign_in(&self, members: &Value) -> String {
        let sent = self.begin().await;
        self.grant(&sent, members);
        let said = self.back(&sent.cookie, &Desk::good(&sent)).await;
        assert_eq!(said.status, 303, "{}", said.text());
        cookies(&said)[0].split(';').next().unwrap().to_owned()
    }

    async fn back(&self, cookie: &str, query: &str) -> Said {
        self.ask(&format!("/session/oidc/corp/callback?{query}")).header("cookie", cookie).send().await
    }

    fn good(sent: &Sent) -> String {
        format!("code=c0de&state={}&session_state=x", sent.asked["state"])
    }

    /// No session was started, and this is the reason.
    async fn refused(&self, cookie: &str, query: &str, why: &str) {
        let said = self.back(cookie, query).await;
        let detail = said.problem("unauthorized")["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(why), "{detail}");
        assert!(said.header("set-cookie").is_none());
    }
}

fn cookies(said: &Said) -> Vec<&str> {
    said.headers.iter().filter(|(name, _)| name == "set-cookie").map(|(_, value)| value.as_str()).collect()
}

#[tokio::test]
async fn a_browser_signs_in_and_has_a_session_as_with_a_key() {
    let desk = Desk::open().await;
    assert_eq!(desk.ask("/session/oidc").send().await.expect(200), json!({ "names": ["corp"] }));
    let sent = desk.begin().await;
    let redirect = format!("http://{}/session/oidc/corp/callback", desk.app.address);
    for (name, value) in [
        ("response_type", "code"),
        ("client_id", "console"),
        ("scope", "openid pes"),
        ("redirect_uri", &redirect),
        ("code_challenge_method", "S256"),
    ] {
        assert_eq!(sent.asked[name], value);
    }
    desk.grant(&sent, &json!({}));
    let said = desk.back(&sent.cookie, &Desk::good(&sent)).await;
    assert_eq!((said.status, said.header("location")), (303, Some("/")), "{}", said.text());
    let cookies = cookies(&said);
    assert!(cookies[0].starts_with("pes_session="), "{cookies:?}");
    assert!(cookies[0].ends_with("; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict"), "{cookies:?}");
    let login = format!("pes_login_{}", &sent.asked["state"][..16]);
    assert!(sent.cookie.starts_with(&format!("{login}=")), "{}", sent.cookie);
    assert_eq!(cookies[1], format!("{login}=; Path=/session/oidc; Max-Age=0; HttpOnly; SameSite=Lax"));

    let exchanged = desk.issuer.state.lock().exchanged.pop().expect("the code was exchanged");
    let form: HashMap<String, String> = url::form_urlencoded::parse(exchanged.as_bytes()).into_owned().collect();
    for (name, value) in [("grant_type", "authorization_code"), ("code", "c0de"), ("redirect_uri", &redirect)] {
        assert_eq!(form[name], value);
    }
    assert_eq!(BASE64.encode(Sha256::digest(&form["code_verifier"])), sent.asked["code_challenge"]);
    assert!(!form.contains_key("client_secret"), "it stands in the header");

    let session = cookies[0].split(';').next().unwrap();
    let whoami = desk.ask("/whoami").header("cookie", session).send().await.expect(200);
    let name = format!("{}#ann", desk.issuer.url);
    assert_eq!(whoami, json!({ "keyName": name, "tenant": "one", "scopes": ["read", "run"], "open": false }));
}

#[tokio::test]
async fn what_was_not_begun_here_is_not_finished() {
    let desk = Desk::open().await;
    let (sent, other) = (desk.begin().await, desk.begin().await);
    desk.grant(&sent, &json!({}));
    let good = Desk::good(&sent);
    let elsewhere = "it began in another browser";
    desk.refused("theme=dark", &good, elsewhere).await;
    desk.refused(&other.cookie, &good, elsewhere).await;
    desk.refused(&sent.cookie, "code=c0de", elsewhere).await;
    desk.refused(&sent.cookie, "code=c0de&state=", elsewhere).await;
    // The beginning of a state names its cookie.
    desk.refused(&sent.cookie, &format!("code=c0de&state={}x", sent.asked["state"]), elsewhere).await;
    desk.refused(&sent.cookie[..sent.cookie.len() - 3], &good, elsewhere).await;
    let state = &sent.asked["state"];
    desk.refused(&sent.cookie, &format!("{good}&iss=https%3A%2F%2Fevil.example"), "another issuer answered").await;
    desk.refused(&sent.cookie, &format!("state={state}&error=access_denied"), "the issuer says `access_denied`").await;
    desk.refused(&sent.cookie, &format!("state={state}"), "the issuer sent no code").await;
    assert!(desk.issuer.state.lock().exchanged.is_empty(), "no code was shown to anybody");
    // A server with another sealing key did not start this login either.
    let stranger = App::with(|config| configured(config, &desk.issuer)).await;
    let path = format!("/session/oidc/corp/callback?{good}");
    let said = Ask::new(stranger.address, "GET", &path).header("cookie", &sent.cookie).send().await;
    said.problem("unauthorized");

    let issuer: String = url::form_urlencoded::byte_serialize(desk.issuer.url.as_bytes()).collect();
    assert_eq!(desk.back(&sent.cookie, &format!("{good}&iss={issuer}")).await.status, 303);
    desk.refused(&sent.cookie, &good, "it was finished before").await;
    assert_eq!(desk.issuer.state.lock().exchanged.len(), 1);
}

#[tokio::test]
async fn an_id_token_of_another_login_begins_no_session() {
    let desk = Desk::open().await;
    for (members, why) in [
        (json!({ "nonce": "other" }), "was made for another login"),
        (json!({ "nonce": null }), "was made for another login"),
        (json!({ "aud": "pes" }), "was made for another client"),
        (json!({ "aud": ["console", "pes"] }), "was made for another client"),
        (json!({ "azp": "pes" }), "was made for another client"),
        (json!({ "iss": "https://evil.example" }), "is of another issuer"),
        (json!({ "exp": now() - 31 }), "has expired"),
        (json!({ "sub": null }), "does not say who somebody is"),
    ] {
        let sent = desk.begin().await;
        desk.grant(&sent, &members);
        desk.refused(&sent.cookie, &Desk::good(&sent), why).await;
    }
    let sent = desk.begin().await;
    desk.grant(&sent, &json!({}));
    let claims = json!({ "iss": desk.issuer.url, "sub": "eve", "aud": "console", "exp": now() + 60, "nonce": sent.asked["nonce"] });
    desk.issuer.state.lock().tokens = json!({ "id_token": Signer::rs256("k1").token(&claims) });
    desk.refused(&sent.cookie, &Desk::good(&sent), "a signature that is not its issuer's").await;

    let sent = desk.begin().await;
    desk.issuer.state.lock().tokens = json!({ "error": "invalid_grant" });
    let said = desk.back(&sent.cookie, &Desk::good(&sent)).await;
    said.problem("issuer_unavailable");
    desk.sign_in(&json!({ "aud": ["console", "pes"], "azp": "console" })).await;
}

#[tokio::test]
async fn nobody_signs_in_without_rights_or_to_a_removed_tenant() {
    const OPS: &str = "ops-0123456789abcdef0123456789abcd";
    let desk = Desk::with(|config| config.auth.keys = vec![format!("ops/ops:operator:{OPS}").parse().unwrap()]).await;
    let refused = async |scope: &str, why: &str| {
        let sent = desk.begin().await;
        desk.grant(&sent, &json!({ "scope": scope }));
        let said = desk.back(&sent.cookie, &Desk::good(&sent)).await;
        let detail = said.problem("forbidden")["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(why), "{detail}");
        assert!(said.header("set-cookie").is_none());
    };
    refused("openid", "gives this person no rights").await;
    desk.sign_in(&json!({})).await;
    Ask::new(desk.app.address, "DELETE", "/tenants/one").key(OPS).send().await.expect(202);
    refused("read", "was removed").await;
}

#[tokio::test]
async fn only_an_issuer_with_a_client_is_a_way_to_sign_in() {
    let desk = Desk::open().await;
    for name in ["calls", "nobody", "corp2"] {
        desk.ask(&format!("/session/oidc/{name}")).send().await.problem("not_found");
        desk.ask(&format!("/session/oidc/{name}/callback?code=x&state=y")).send().await.problem("not_found");
    }
    desk.issuer.state.lock().is_down = true;
    desk.ask("/session/oidc/corp").send().await.problem("issuer_unavailable");
}

/// The proxy requests `/session` where the browser requested `/agents/session`.
#[tokio::test]
async fn a_browser_signs_in_behind_a_proxy_that_takes_its_prefix_away() {
    let signer = Signer::rs256("k1");
    let issuer = Issuer::with(&[&signer]).await;
    let app = App::with(|config| {
        configured(config, &issuer);
        config.server.public_url = Some("https://pes.example/agents".to_owned());
    })
    .await;
    let begun = app.ask("GET", "/session/oidc/corp").send().await;
    let set = begun.header("set-cookie").unwrap();
    assert!(set.contains("; Path=/agents/session/oidc; "), "{set}");
    let to: Url = begun.header("location").unwrap().parse().unwrap();
    let asked: HashMap<String, String> = to.query_pairs().into_owned().collect();
    assert_eq!(asked["redirect_uri"], "https://pes.example/agents/session/oidc/corp/callback");
    let claims =
        json!({ "iss": issuer.url, "sub": "ann", "aud": "console", "exp": now() + 60, "nonce": asked["nonce"] });
    issuer.state.lock().tokens = json!({ "id_token": signer.token(&claims), "scope": "read" });
    let path = format!("/session/oidc/corp/callback?code=c0de&state={}", asked["state"]);
    let said = app.ask("GET", &path).header("cookie", set.split(';').next().unwrap()).send().await;
    assert_eq!((said.status, said.header("location")), (303, Some("/agents/")), "{}", said.text());
    let [session, login] = cookies(&said)[..] else { panic!("{said:?}") };
    assert!(session.contains("; Path=/agents; ") && login.contains("; Path=/agents/session/oidc; "), "{said:?}");
}

#[tokio::test]
async fn whoever_began_at_one_replica_may_come_back_to_another() {
    let signer = Signer::es256("k1");
    let issuer = Issuer::with(&[&signer]).await;
    let store = fresh_store().await;
    let change = |config: &mut Config| {
        configured(config, &issuer);
        config.auth.sealing_key = Some("the same for all replicas".to_owned().into());
        config.server.public_url = Some("https://pes.example/agents".to_owned());
        config.server.base_path = "/agents".to_owned();
    };
    let (here, there) = (App::of(store.clone(), change).await, App::of(store, change).await);
    let begun = Ask::new(here.address, "GET", "/agents/session/oidc/corp").send().await;
    let to: Url = begun.header("location").unwrap().parse().unwrap();
    let asked: HashMap<String, String> = to.query_pairs().into_owned().collect();
    assert_eq!(asked["redirect_uri"], "https://pes.example/agents/session/oidc/corp/callback");
    let set = begun.header("set-cookie").unwrap();
    assert!(set.ends_with("; Path=/agents/session/oidc; Max-Age=600; HttpOnly; SameSite=Lax; Secure"), "{set}");
    let claims =
        json!({ "iss": issuer.url, "sub": "ann", "aud": ["console"], "exp": now() + 60, "nonce": asked["nonce"] });
    issuer.state.lock().tokens = json!({ "id_token": signer.token(&claims), "scope": "read" });
    let path = format!("/agents/session/oidc/corp/callback?code=c0de&state={}", asked["state"]);
    let said = Ask::new(there.address, "GET", &path).header("cookie", set.split(';').next().unwrap()).send().await;
    assert_eq!((said.status, said.header("location")), (303, Some("/agents/")), "{}", said.text());
    let session = cookies(&said)[0].split(';').next().unwrap().to_owned();
    Ask::new(here.address, "GET", "/agents/threads").header("cookie", &session).send().await.expect(200);
}

/// What the issuer knows of her by now is not asked for as long as the session lasts.
#[tokio::test]
async fn an_administrator_ends_the_sessions_of_a_person() {
    const BOSS: &str = "boss-0123456789abcdef0123456789ab";
    const STRANGER: &str = "stranger-0123456789abcdef0123456";
    let desk = Desk::with(|config| {
        let key = |key: String| key.parse().unwrap();
        config.auth.keys = vec![key(format!("one/boss:admin:{BOSS}")), key(format!("two/stranger:admin:{STRANGER}"))];
    })
    .await;
    let (eve, other, bob) = (
        desk.sign_in(&json!({ "sub": "eve" })).await,
        desk.sign_in(&json!({ "sub": "eve", "exp": now() + 90 })).await,
        desk.sign_in(&json!({ "sub": "bob" })).await,
    );
    let ask = |method: &str, path: &str, key: &str| Ask::new(desk.app.address, method, path).key(key);
    ask("POST", "/threads", BOSS).json(&json!({ "threadId": "t1" })).send().await.expect(201);
    let own = format!("http://{}", desk.app.address);
    let with_eve = [("cookie", eve.as_str()), ("origin", own.as_str())];
    let mut socket = desk.app.try_socket("/threads/t1/events", &with_eve).await.unwrap();
    assert_eq!(socket.next().await.unwrap()["event"], "caught_up");

    let name: String = url::form_urlencoded::byte_serialize(format!("{}#eve", desk.issuer.url).as_bytes()).collect();
    let path = format!("/sessions?name={name}");
    let by_eve = Ask::new(desk.app.address, "DELETE", &path).header("cookie", &eve).header("origin", &own);
    assert_eq!(by_eve.send().await.problem("forbidden")["scope"], "admin");
    let missing = ask("DELETE", "/sessions", BOSS).send().await.problem("invalid");
    assert_eq!(missing["errors"][0]["pointer"], "?name");
    assert_eq!(ask("DELETE", &path, STRANGER).send().await.expect(200), json!({ "ended": 0 }), "of another tenant");
    desk.ask("/whoami").header("cookie", &eve).send().await.expect(200);

    assert_eq!(ask("DELETE", &path, BOSS).send().await.expect(200), json!({ "ended": 2 }));
    assert_eq!(socket.last_words().await, (1008, "the session is over".to_owned()));
    for cookie in [&eve, &other] {
        desk.ask("/whoami").header("cookie", cookie).send().await.problem("unauthorized");
    }
    desk.ask("/whoami").header("cookie", &bob).send().await.expect(200);
    assert_eq!(ask("DELETE", &path, BOSS).send().await.expect(200), json!({ "ended": 0 }));
    let audit = ask("GET", "/audit", BOSS).send().await.expect(200);
    let lines: Vec<&Value> =
        audit["items"].as_array().unwrap().iter().filter(|l| l["action"] == "end sessions").collect();
    assert_eq!(lines.len(), 1, "{audit:#}");
    let name = format!("{}#eve", desk.issuer.url);
    assert_eq!((&lines[0]["actor"], &lines[0]["detail"]), (&json!("boss"), &json!({ "name": name })));
    let all = audit["items"].as_array().unwrap().iter();
    let sign_ins: Vec<_> = all.filter(|l| l["action"] == "sign in").map(|l| (&l["actor"], &l["detail"])).collect();
    let (bob, by) = (json!(format!("{}#bob", desk.issuer.url)), json!({ "issuer": "corp", "scopes": ["read", "run"] }));
    assert_eq!(sign_ins, [(&bob, &by), (&json!(name), &by), (&json!(name), &by)], "the newest first");
}

/// Anybody can begin a login and come back with any code. One that succeeds does not count.
#[tokio::test]
async fn failed_sign_ins_are_counted_before_the_issuer_is_called() {
    let desk = Desk::with(|config| {
        config.limits.wrong_keys_per_address = Some("1/60s".parse().expect("a rate"));
    })
    .await;
    for _ in 0..2 {
        desk.sign_in(&json!({})).await;
    }
    let sent = desk.begin().await;
    desk.grant(&sent, &json!({ "nonce": "other" }));
    desk.refused(&sent.cookie, &Desk::good(&sent), "was made for another login").await;
    let sent = desk.begin().await;
    desk.back(&sent.cookie, &Desk::good(&sent)).await.problem("too_many_requests");
    assert_eq!(desk.issuer.state.lock().exchanged.len(), 3, "the last code was not sent");
}
