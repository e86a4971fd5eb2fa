//! How a browser signs in, and which requests its cookie authenticates.

use pes::config::{Config, ConfiguredKey};
use serde_json::json;

use crate::support::app::App;
use crate::support::http::{Ask, Said};
use crate::support::store::fresh_store;

const KEY: &str = "boss-0123456789abcdef0123456789";

fn keys(config: &mut Config) {
    config.auth.keys = vec![format!("one/boss:admin:{KEY}").parse::<ConfiguredKey>().unwrap()];
}

/// The cookie as a browser sends it back.
fn cookie(said: &Said) -> String {
    said.header("set-cookie").expect("a cookie").split(';').next().unwrap().to_owned()
}

async fn sign_in(app: &App, key: &str) -> String {
    let said = app.ask("POST", "/session").key(key).send().await;
    said.expect(200);
    cookie(&said)
}

fn with(app: &App, method: &str, path: &str, cookie: &str) -> Ask {
    app.ask(method, path).header("cookie", &format!("theme=dark; {cookie}"))
}

#[tokio::test]
async fn a_key_is_shown_once_and_the_session_may_what_it_may() {
    let app = App::with(keys).await;
    app.get("/whoami").await.problem("unauthorized");
    app.post("/session", json!({})).await.problem("unauthorized");
    let said = app.ask("POST", "/session").key(KEY).send().await;
    let whoami = json!({ "keyName": "boss", "tenant": "one", "scopes": ["admin"], "open": false });
    assert_eq!(said.expect(200), whoami);
    let set = said.header("set-cookie").unwrap();
    let (token, rest) = set.split_once("; ").unwrap();
    assert_eq!(rest, "Path=/; Max-Age=43200; HttpOnly; SameSite=Strict");
    assert_eq!(token.len(), "pes_session=".len() + 64);

    let cookie = cookie(&said);
    assert_eq!(with(&app, "GET", "/whoami", &cookie).send().await.expect(200), whoami);
    with(&app, "GET", "/threads", &cookie).send().await.expect(200);
    let token = cookie.strip_prefix("pes_session=").unwrap();
    app.ask("GET", "/threads").key(token).send().await.problem("unauthorized");
    // A request with a key is judged by that key.
    with(&app, "GET", "/threads", &cookie).key("wrong").send().await.problem("unauthorized");

    let own = format!("http://{}", app.address);
    let ended = with(&app, "DELETE", "/session", &cookie).header("origin", &own).send().await;
    ended.expect(204);
    assert_eq!(ended.header("set-cookie"), Some("pes_session=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict"));
    with(&app, "GET", "/threads", &cookie).send().await.problem("unauthorized");
}

#[tokio::test]
async fn with_a_foreign_origin_a_cookie_is_no_credential() {
    let app = App::with(|config| {
        keys(config);
        config.server.cors_origins = vec!["https://friend.example".to_owned()];
    })
    .await;
    let cookie = sign_in(&app, KEY).await;
    let own = format!("http://{}", app.address);
    let port = app.address.port();
    let create = |name: &str, value: &str| {
        let ask = with(&app, "POST", "/threads", &cookie).header(name, value);
        ask.json(&json!({ "threadId": "t1" })).send()
    };
    let foreign = ["https://evil.example", "https://friend.example", "null", "http://127.0.0.1:1"];
    for origin in foreign.iter().copied().chain([format!("http://localhost:{port}").as_str()]) {
        create("origin", origin).await.problem("unauthorized");
        with(&app, "GET", "/threads", &cookie).header("origin", origin).send().await.problem("unauthorized");
    }
    for site in ["cross-site", "same-site"] {
        create("sec-fetch-site", site).await.problem("unauthorized");
        let look = with(&app, "GET", "/threads", &cookie).header("sec-fetch-site", site);
        look.send().await.problem("unauthorized");
    }
    // A change needs the browser's header that a page of this server made the request.
    create("x-other", "1").await.problem("unauthorized");
    create("sec-fetch-site", "same-origin").await.expect(201);
    create("origin", &own).await.expect(200);

    let path = "/threads/t1/events";
    for origin in foreign {
        let (status, _) = app.try_socket(path, &[("cookie", &cookie), ("origin", origin)]).await.err().unwrap();
        assert_eq!(status, 401, "{origin}");
    }
    let mut socket = app.try_socket(path, &[("cookie", &cookie), ("origin", &own)]).await.unwrap();
    socket.until(|frame| frame["event"] == "caught_up").await;

    let begin = app.ask("POST", "/session").key(KEY).header("origin", "https://friend.example").send().await;
    let detail = begin.problem("origin_refused")["detail"].to_string();
    assert!(
        detail.contains("If https://friend.example is this server, behind a proxy, set PES_PUBLIC_URL"),
        "{detail}"
    );
}

#[tokio::test]
async fn a_session_is_over_with_its_key_and_closes_what_it_opened() {
    let app = App::with(keys).await.key(KEY);
    let new = json!({ "tenant": "one", "name": "ann", "scopes": ["read", "run"] });
    let issued = app.post("/keys", new).await.expect(201);
    app.post("/threads", json!({ "threadId": "t1" })).await.expect(201);
    let strange = Ask::new(app.address, "POST", "/session").key(issued["key"].as_str().unwrap()).send().await;
    let cookie = cookie(&strange);
    let whoami = || Ask::new(app.address, "GET", "/whoami").header("cookie", &cookie).send();
    assert_eq!(whoami().await.expect(200)["keyName"], "ann");
    let asked = Ask::new(app.address, "GET", "/threads/t1/events").header("cookie", &cookie);
    let mut events = asked.header("accept", "text/event-stream").events().await;
    assert_eq!(events.next().await.unwrap().event, "caught_up");

    let key = format!("/keys/{}", issued["keyId"].as_str().unwrap());
    app.ask("DELETE", &key).send().await.expect(204);
    whoami().await.problem("unauthorized");
    assert!(events.next().await.is_none());
}

#[tokio::test]
async fn every_replica_knows_a_session() {
    let store = fresh_store().await;
    let (here, there) = (App::of(store.clone(), keys).await, App::of(store, keys).await);
    let cookie = sign_in(&here, KEY).await;
    with(&there, "GET", "/threads", &cookie).send().await.expect(200);
}

#[tokio::test]
async fn where_no_key_is_needed_nobody_signs_in() {
    let app = App::start().await;
    let whoami = app.get("/whoami").await.expect(200);
    assert_eq!((&whoami["keyName"], &whoami["open"]), (&json!("local"), &json!(true)));
    let said = app.ask("POST", "/session").key("pes_any").send().await;
    assert_eq!((said.header("set-cookie"), &said.expect(200)["open"]), (None, &json!(true)));
    with(&app, "GET", "/threads", "pes_session=old").send().await.expect(200);
}

#[tokio::test]
async fn over_https_the_cookie_is_sent_by_https_alone() {
    let app = App::with(|config| {
        keys(config);
        config.server.public_url = Some("https://pes.example".to_owned());
        config.server.base_path = "/agents".to_owned();
    })
    .await;
    let said = app.ask("POST", "/agents/session").key(KEY).header("origin", "https://pes.example").send().await;
    said.expect(200);
    let set = said.header("set-cookie").unwrap();
    assert!(set.ends_with("; Path=/agents; Max-Age=43200; HttpOnly; SameSite=Strict; Secure"), "{set}");
}

#[tokio::test]
async fn a_trusted_proxy_says_whether_the_cookie_is_sent_by_https_alone() {
    let app = App::with(|config| {
        keys(config);
        config.server.trusted_proxies = vec!["127.0.0.1".to_owned()];
    })
    .await;
    for (scheme, is_secure) in [("https", true), ("http", false)] {
        let ask =
            app.ask("POST", "/session").key(KEY).header("host", "pes.example").header("x-forwarded-proto", scheme);
        let said = ask.header("origin", &format!("{scheme}://pes.example")).send().await;
        said.expect(200);
        let set = said.header("set-cookie").unwrap();
        assert_eq!(set.ends_with("; Secure"), is_secure, "{set}");
    }
}

#[tokio::test]
async fn a_key_has_a_hundred_sessions() {
    let app = App::with(keys).await;
    let mut cookies = Vec::new();
    for _ in 0..100 {
        cookies.push(sign_in(&app, KEY).await);
    }
    app.ask("POST", "/session").key(KEY).send().await.expect(200);
    let mut left = 0;
    for cookie in &cookies {
        left += usize::from(with(&app, "GET", "/whoami", cookie).send().await.status == 200);
    }
    assert_eq!(left, 99, "one of a hundred is over");
}
