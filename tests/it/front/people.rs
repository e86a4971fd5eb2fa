//! People with tokens of an issuer: what they see and decide, and when their connections end.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pes::config::{Config, ConfiguredKey, OidcIssuer};
use pes::domain::caller::Scope;
use serde_json::{Value, json};

use crate::support::app::App;
use crate::support::http::{Ask, Said};
use crate::support::issuer::{Issuer, Signer};

const BOSS: &str = "boss-0123456789abcdef0123456789ab";

struct Office {
    app: App,
    issuer: Issuer,
    signer: Signer,
}

impl Office {
    /// A server with an administrator's key, and an issuer whose tokens name the tenant.
    async fn open() -> Self {
        Self::with(|_| {}).await
    }

    /// The same with another configuration.
    async fn with(change: impl FnOnce(&mut Config)) -> Self {
        let signer = Signer::es256("k1");
        let issuer = Issuer::with(&[&signer]).await;
        let app = App::with(|config| {
            trust(&issuer, config);
            change(config);
        });
        Self { app: app.await.key(BOSS), issuer, signer }
    }

    /// The same with a clock for tokens that runs with that of tokio.
    async fn whose_tokens_end_by_timers(change: impl FnOnce(&mut Config)) -> Self {
        let signer = Signer::es256("k1");
        let issuer = Issuer::with(&[&signer]).await;
        let (began, since) = (now() * 1_000, tokio::time::Instant::now());
        let clock = Arc::new(move || began + i64::try_from(since.elapsed().as_millis()).unwrap());
        let app = App::with_clock_of_keys(clock, |config| {
            trust(&issuer, config);
            change(config);
        });
        Self { app: app.await.key(BOSS), issuer, signer }
    }

    fn token(&self, sub: &str, members: &Value) -> String {
        self.lasting(sub, 600, members)
    }

    /// A token that is valid for this many seconds.
    fn lasting(&self, sub: &str, seconds: i64, members: &Value) -> String {
        let mut claims = self.issuer.claims(sub, now() + seconds);
        claims["org"] = json!("one");
        for (name, value) in members.as_object().unwrap() {
            claims[name] = value.clone();
        }
        self.signer.token(&claims)
    }

    fn name(&self, sub: &str) -> String {
        format!("{}#{sub}", self.issuer.url)
    }

    fn ask(&self, method: &str, path: &str, token: &str) -> Ask {
        Ask::new(self.app.address, method, path).key(token)
    }

    async fn get(&self, path: &str, token: &str) -> Said {
        self.ask("GET", path, token).send().await
    }

    async fn rule(&self, rule: Value) {
        let stored = self.app.get("/policy").await;
        let put = self.app.ask("PUT", "/policy").json(&json!({ "rules": [rule] }));
        let put = stored.header("etag").map_or(put.clone(), |etag| put.header("if-match", etag));
        put.send().await.expect(200);
    }

    /// Makes somebody ask for a mail; the question about it.
    async fn suspend(&self, thread: &str, token: &str) -> Value {
        let ask = self.ask("POST", &format!("/threads/{thread}/process"), token).header("prefer", "wait=30");
        ask.json(&json!({ "query": "send" })).send().await.expect(202)["suspensions"][0].clone()
    }

    async fn approve(&self, thread: &str, question: &Value, token: &str) -> Said {
        let ask = self.ask("POST", &format!("/threads/{thread}/resume"), token).header("prefer", "wait=20");
        ask.json(&json!({ "suspensionId": question["suspensionId"], "approved": true })).send().await
    }
}

/// Accepts the tokens of this issuer, which name the tenant, and the administrator's key.
fn trust(issuer: &Issuer, config: &mut Config) {
    let mut configured = OidcIssuer::new(&issuer.url, "pes", "one");
    (configured.tenant, configured.tenant_claim) = (None, Some("org".to_owned()));
    configured.groups_claim = Some("groups".to_owned());
    config.auth.oidc.insert("corp".to_owned(), configured);
    config.auth.keys = vec![format!("one/boss:admin:{BOSS}").parse::<ConfiguredKey>().unwrap()];
}

/// The server's own clock runs here: every duration is longer than the interval of its check of open streams.
pub fn now() -> i64 {
    #[allow(clippy::disallowed_methods, reason = "tokens are made for the clock of the machine")]
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since.as_secs()).unwrap()
}

#[tokio::test]
async fn a_token_is_as_good_as_a_key_and_a_bad_one_is_told_to_be() {
    let office = Office::open().await;
    let ann = office.token("ann", &json!({}));
    let whoami = office.get("/whoami", &ann).await.expect(200);
    let (name, scopes) = (office.name("ann"), ["read", "run", "approve"]);
    assert_eq!(whoami, json!({ "keyName": name, "tenant": "one", "scopes": scopes, "open": false }));
    office.get("/keys", &ann).await.problem("forbidden");

    let expired = office.get("/whoami", &office.lasting("ann", -31, &json!({}))).await;
    assert!(expired.problem("unauthorized")["detail"].as_str().unwrap().contains("has expired"));
    assert_eq!(expired.header("www-authenticate"), Some("Bearer error=\"invalid_token\""));
    let none = Ask::new(office.app.address, "GET", "/whoami").send().await;
    assert_eq!(none.header("www-authenticate"), Some("Bearer"));
    let homeless = office.get("/whoami", &office.token("ann", &json!({ "org": null }))).await;
    assert!(homeless.problem("forbidden")["detail"].as_str().unwrap().contains("`org`"));
    office.issuer.state.lock().is_down = true;
    let other = Office::open().await;
    other.issuer.state.lock().is_down = true;
    let closed = other.get("/whoami", &other.token("ann", &json!({}))).await;
    assert_eq!(closed.problem("issuer_unavailable")["status"], 503);
    office.get("/whoami", &ann).await.expect(200);
}

#[tokio::test]
async fn a_client_of_mcp_is_told_where_tokens_come_from() {
    let office = Office::open().await;
    let base = format!("http://{}", office.app.address);
    let place = format!("{base}/.well-known/oauth-protected-resource");
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    for (token, challenge) in [(None, "Bearer "), (Some("a.b.c"), "Bearer error=\"invalid_token\", ")] {
        let ask = Ask::new(office.app.address, "POST", "/mcp").header("accept", "application/json, text/event-stream");
        let ask = token.map_or(ask.clone(), |token| ask.key(token));
        let said = ask.json(&ping).send().await;
        assert_eq!(said.status, 401, "{}", said.text());
        let told = format!("{challenge}resource_metadata=\"{place}\"");
        assert_eq!(said.header("www-authenticate"), Some(told.as_str()));
    }
    for path in ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"] {
        let told = Ask::new(office.app.address, "GET", path).send().await.expect(200);
        assert_eq!(told["resource"], format!("{base}/mcp"));
        assert_eq!(told["authorization_servers"], json!([office.issuer.url]));
        assert_eq!(told["scopes_supported"], json!(["admin", "approve", "read", "run"]));
    }
    let without = App::start().await;
    without.get("/.well-known/oauth-protected-resource").await.problem("not_found");
}

#[tokio::test]
async fn nothing_of_another_tenant_is_there_for_a_token() {
    let office = Office::open().await;
    let (ann, eve) = (office.token("ann", &json!({})), office.token("eve", &json!({ "org": "two" })));
    office.ask("POST", "/threads", &ann).json(&json!({ "threadId": "t1" })).send().await.expect(201);
    office.get("/threads/t1", &ann).await.expect(200);
    for path in ["/threads/t1", "/threads/t1/state", "/threads/t1/events"] {
        office.get(path, &eve).await.problem("not_found");
    }
    assert_eq!(office.get("/threads", &eve).await.expect(200)["items"], json!([]));
    office.ask("DELETE", "/threads/t1", &eve).send().await.problem("not_found");
}

#[tokio::test]
async fn four_eyes_are_two_people_whatever_they_hold() {
    let office = Office::open().await;
    office.rule(json!({ "tool": "demo_*", "action": "ask", "fourEyes": true })).await;
    let mail = json!({ "email": "ann@one.example", "name": "Ann" });
    let ann = office.token("ann", &mail);
    let question = office.suspend("t1", &ann).await;
    let again = office.lasting("ann", 700, &json!({ "scope": "read run approve admin", "email": "other@one.example" }));
    office.approve("t1", &question, &again).await.problem("four_eyes");
    let seen = office.get("/suspensions", &again).await.expect(200);
    assert_eq!(seen["items"][0]["mayAnswer"], json!({ "approve": false, "reject": true, "why": "four_eyes" }));
    // Somebody else, who now has her address.
    let bob = office.token("bob", &mail);
    office.approve("t1", &question, &bob).await.expect(200);
    let audit = office.get("/threads/t1/audit", &bob).await.expect(200);
    let approved = audit["items"].as_array().unwrap().iter().find(|line| line["action"] == "approved").unwrap();
    assert_eq!(approved["actor"], office.name("bob"));
    let run = office.get("/threads/t1/runs", &bob).await.expect(200);
    assert_eq!(run["items"][0]["requestedBy"], json!([office.name("ann")]));
}

#[tokio::test]
async fn a_rule_names_people_and_groups() {
    let office = Office::open().await;
    let (ann, bob) = (office.token("ann", &json!({})), office.token("bob", &json!({})));
    let in_finance = office.token("cy", &json!({ "groups": ["staff", "finance"] }));
    let same_sub = "bob".to_owned();
    let approvers = [office.name("bob"), "group:finance".to_owned()];
    let mut reordered = approvers.clone();
    reordered.reverse();
    for (number, approvers) in [approvers, reordered].iter().enumerate() {
        office.rule(json!({ "tool": "demo_*", "action": "ask", "approvers": approvers })).await;
        for (who, token) in [("bob", &bob), ("finance", &in_finance)] {
            let thread = format!("t-{number}-{who}");
            let question = office.suspend(&thread, &ann).await;
            office.approve(&thread, &question, &ann).await.problem("not_an_approver");
            office
                .approve(&thread, &question, &office.token("dan", &json!({ "groups": ["group:finance"] })))
                .await
                .problem("not_an_approver");
            office.approve(&thread, &question, token).await.expect(200);
        }
    }
    // A name alone, or the name of another issuer's person, matches nobody.
    office
        .rule(json!({ "tool": "demo_*", "action": "ask", "approvers": [same_sub, "https://other.example#bob"] }))
        .await;
    let question = office.suspend("t9", &ann).await;
    office.approve("t9", &question, &bob).await.problem("not_an_approver");
}

#[tokio::test]
async fn what_streams_to_somebody_ends_with_the_token() {
    let office = Office::open().await;
    let ann = office.token("ann", &json!({}));
    office.ask("POST", "/threads", &ann).json(&json!({ "threadId": "t1" })).send().await.expect(201);
    let short = office.lasting("ann", 2, &json!({}));
    let path = "/threads/t1/events";
    let mut events = office.ask("GET", path, &short).header("accept", "text/event-stream").events().await;
    let app = office.app.key(&short);
    let mut socket = app.socket(path).await;
    assert_eq!(events.next().await.unwrap().event, "caught_up");
    socket.until(|frame| frame["event"] == "caught_up").await;
    assert_eq!(socket.last_words().await, (1008, "the time of the token is over".to_owned()));
    assert!(events.next().await.is_none());
    assert!(events.unread().contains(": the time of the token is over"), "{}", events.unread());
}

/// Disconnecting while the token is valid stops the run, even if the grace period outlasts the token.
#[tokio::test]
async fn hanging_up_ends_a_run_whose_token_ends_within_the_grace() {
    let office = Office::whose_tokens_end_by_timers(|config| config.doors.chat_grace_ms = 120_000).await;
    let short = office.lasting("ann", 60, &json!({}));
    let body = json!({ "model": "pes", "stream": true, "messages": [{ "role": "user", "content": "hang" }] });
    let mut events = office.ask("POST", "/v1/chat/completions", &short).json(&body).events().await;
    events.next().await.expect("it has begun");
    let run = office.app.get("/runs").await.expect(200)["items"][0]["runId"].as_str().unwrap().to_owned();
    drop(events);
    // The time passes once nothing else happens: when the server has seen that.
    tokio::time::pause();
    tokio::time::sleep(Duration::from_secs(121)).await;
    tokio::time::resume();
    let run = office.app.get(&format!("/runs/{run}?wait=20")).await.expect(200);
    assert_eq!(run["status"], "cancelled", "{run:#}");
}

#[tokio::test]
async fn a_session_of_somebody_with_a_token_is_theirs() {
    let office = Office::open().await;
    let said = office.ask("POST", "/session", &office.token("ann", &json!({ "groups": ["finance"] }))).send().await;
    assert_eq!(said.expect(200)["keyName"], office.name("ann"));
    let cookie = said.header("set-cookie").unwrap();
    assert!(cookie.contains("; Max-Age=60") || cookie.contains("; Max-Age=59"), "as long as the token: {cookie}");
    let cookie = cookie.split(';').next().unwrap();
    let whoami = Ask::new(office.app.address, "GET", "/whoami").header("cookie", cookie).send().await.expect(200);
    assert_eq!(
        (&whoami["keyName"], &whoami["scopes"]),
        (&json!(office.name("ann")), &json!([Scope::Read, Scope::Run, Scope::Approve]))
    );
    office.rule(json!({ "tool": "demo_*", "action": "ask", "approvers": ["group:finance"] })).await;
    let question = office.suspend("t1", &office.token("bob", &json!({}))).await;
    let answer = json!({ "suspensionId": question["suspensionId"], "approved": true });
    let own = format!("http://{}", office.app.address);
    let ask =
        Ask::new(office.app.address, "POST", "/threads/t1/resume").header("cookie", cookie).header("origin", &own);
    ask.header("prefer", "wait=20").json(&answer).send().await.expect(200);
}

/// The browser would drop its cookie at once, and the page would sign in again and again.
#[tokio::test]
async fn a_token_within_its_leeway_begins_no_session() {
    let office = Office::open().await;
    let ended = office.lasting("ann", -10, &json!({}));
    office.get("/whoami", &ended).await.expect(200);
    let said = office.ask("POST", "/session", &ended).send().await;
    let detail = said.problem("unauthorized")["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("The token has expired"), "{detail}");
    assert_eq!(said.header("set-cookie"), None);
}

/// As wrong keys are; a caller with a valid token is still admitted.
#[tokio::test]
async fn tokens_that_are_not_believed_are_counted_by_address() {
    let office = Office::with(|config| {
        config.limits.wrong_keys_per_address = Some("1/60s".parse().expect("a rate"));
    })
    .await;
    let expired = office.lasting("ann", -600, &json!({}));
    office.get("/threads", &expired).await.problem("unauthorized");
    office.get("/threads", &expired).await.problem("too_many_requests");
    office.get("/threads", &office.token("ann", &json!({}))).await.expect(200);
}
