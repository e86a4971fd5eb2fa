//! Who is admitted: keys and scopes, hosts and origins, proxies.

use pes::config::Config;
use serde_json::json;

use crate::support::app::App;
use crate::support::http::Ask;
use crate::support::ws::Socket;

#[tokio::test]
async fn an_open_server_answers_to_its_own_names_only() {
    let app = App::start().await;
    let call = |host: &str| Ask::new(app.address, "GET", "/threads").header("host", host).send();
    for ours in ["localhost", "LOCALHOST:9", "127.0.0.1", "[::1]:7070"] {
        call(ours).await.expect(200);
    }
    for theirs in ["evil.example", "localhost.evil.example", "127.0.0.1.nip.example:7070", "10.0.0.1"] {
        call(theirs).await.problem("host_refused");
    }
    let probe = Ask::new(app.address, "GET", "/healthz").header("host", "pod.internal").send().await;
    probe.expect(200);
    let two = Ask::new(app.address, "GET", "/threads").header("host", "localhost").header("host", "evil.example");
    two.send().await.problem("malformed");
}

#[tokio::test]
async fn a_foreign_page_may_not_call_an_open_server() {
    let app = App::with(|config| config.server.cors_origins = vec!["https://friend.example".to_owned()]).await;
    let own = format!("http://{}", app.address);
    let from = |origin: &str| app.ask("POST", "/threads").header("origin", origin).json(&json!({})).send();
    from(&own).await.expect(201);
    let friend = from("https://friend.example").await;
    friend.expect(201);
    assert_eq!(friend.header("access-control-allow-origin"), Some("https://friend.example"));
    for origin in ["https://evil.example", "null", "http://localhost:1", "https://friend.example.evil.example"] {
        let said = from(origin).await;
        said.problem("origin_refused");
        assert_eq!(said.header("access-control-allow-origin"), None);
    }
    let (status, problem) =
        app.try_socket("/threads/t1/events", &[("origin", "https://evil.example")]).await.err().unwrap();
    assert_eq!((status, &problem["code"]), (403, &json!("origin_refused")));
    let asked = app.ask("OPTIONS", "/threads").header("origin", "https://friend.example");
    let asked = asked.header("access-control-request-method", "POST").send().await;
    assert!(asked.header("access-control-allow-methods").unwrap().contains("POST"));
}

#[tokio::test]
async fn without_a_list_no_other_origin_is_told_anything() {
    let app = App::with_keys().await;
    let said = app.ask("GET", "/threads").key("key-a-0123456789abcdef0123456789").header("origin", "https://x.example");
    let said = said.send().await;
    said.expect(200);
    assert!(said.headers.iter().all(|(name, _)| !name.starts_with("access-control")), "{:?}", said.headers);
}

#[tokio::test]
async fn a_key_is_needed_and_must_be_right() {
    let app = App::with_keys().await;
    let said = app.get("/threads").await;
    said.problem("unauthorized");
    assert_eq!(said.header("www-authenticate"), Some("Bearer"));
    let said = app.ask("GET", "/threads").key("wrong").send().await;
    said.problem("unauthorized");
    assert_eq!(said.header("www-authenticate"), Some("Bearer error=\"invalid_token\""));
    app.ask("GET", "/threads").header("authorization", "Basic a2V5").send().await.problem("unauthorized");
    app.ask("GET", "/threads").key("key-a-0123456789abcdef0123456789").send().await.expect(200);
    for name in ["token", "access_token", "api_key", "key"] {
        app.get(&format!("/threads?{name}=key-a-0123456789abcdef0123456789")).await.problem("malformed");
    }
}

#[tokio::test]
async fn a_reader_may_only_look() {
    let app = App::with_keys().await.key("key-a-0123456789abcdef0123456789");
    app.finish("t1", "hello").await;
    let app = app.key("reader-0123456789abcdef0123456789");
    app.get("/threads/t1").await.expect(200);
    let problem = app.post("/threads/t1/process", json!({ "query": "hello" })).await.problem("forbidden");
    assert_eq!(problem["scope"], "run");
    let resume = app.post("/threads/t1/resume", json!({ "suspensionId": "s", "approved": true })).await;
    assert_eq!(resume.problem("forbidden")["scope"], "approve");
    let mut socket = app.socket("/threads/t1/events?after=latest").await;
    socket.say(json!({ "op": "process", "id": "1", "query": "hello" })).await;
    assert_eq!(socket.answer("1").await["data"]["problem"]["code"], "forbidden");
    socket.say(json!({ "op": "ping", "id": "2" })).await;
    assert_eq!(socket.answer("2").await["event"], "pong");
}

#[tokio::test]
async fn a_browser_sends_its_key_as_a_subprotocol() {
    let app = App::with_keys().await;
    let with_key = [("authorization", "Bearer key-a-0123456789abcdef0123456789")];
    app.ask("POST", "/threads").key("key-a-0123456789abcdef0123456789").json(&json!({ "threadId": "t1" })).send().await;
    // base64url of the key
    let offered = [("sec-websocket-protocol", "pes.v1, bearer.a2V5LWEtMDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODk")];
    let socket = app.try_socket("/threads/t1/events", &offered).await.unwrap();
    assert_eq!(socket.response.headers()["sec-websocket-protocol"], "pes.v1");
    app.try_socket("/threads/t1/events", &with_key).await.unwrap();
    let (status, _) = app.try_socket("/threads/t1/events", &[]).await.err().unwrap();
    assert_eq!(status, 401);
    let in_query = app.try_socket("/threads/t1/events?access_token=key-a-0123456789abcdef0123456789", &[]).await;
    assert_eq!(in_query.err().unwrap().0, 400);
}

fn behind_a_proxy(config: &mut Config) {
    config.server.base_path = "/agents".to_owned();
    config.server.trusted_proxies = vec!["127.0.0.1".to_owned()];
}

#[tokio::test]
async fn behind_a_proxy_urls_are_those_of_the_proxy() {
    let app = App::with(behind_a_proxy).await;
    let asked = app.ask("POST", "/agents/threads").header("x-forwarded-host", "api.example.com");
    let said = asked.header("x-forwarded-proto", "https").json(&json!({ "threadId": "t1" })).send().await;
    said.expect(201);
    assert_eq!(said.header("location"), Some("https://api.example.com/agents/threads/t1"));
    assert_eq!(app.get("/agents/threads/none").await.problem("not_found")["instance"], "/agents/threads/none");
    let outside = app.get("/threads/t1").await.problem("not_found");
    let told = "The paths of this server begin with /agents (server.base_path), which a proxy must not remove.";
    assert_eq!(outside["detail"], told);
    assert_eq!(
        app.get("/agents/none").await.problem("not_found")["detail"],
        "There is nothing at this path; see /agents/docs."
    );
    for linked in ["/agents", "/agents/docs"] {
        let said = app.ask("GET", linked).header("sec-fetch-site", "cross-site").send().await;
        assert_eq!(said.status, 200, "{linked}");
    }
    app.ask("GET", "/agents/models").header("sec-fetch-site", "cross-site").send().await.problem("origin_refused");
    for probe in ["/agents/healthz", "/agents/readyz", "/healthz", "/readyz"] {
        Ask::new(app.address, "GET", probe).header("host", "pod.internal").send().await.expect(200);
    }
}

/// nginx removes `Upgrade` unless it is told otherwise, and passes the rest of the handshake on.
#[tokio::test]
async fn a_handshake_whose_upgrade_a_proxy_removed_is_refused_with_that_reason() {
    let app = App::start().await;
    app.post("/threads", json!({ "threadId": "t1" })).await.expect(201);
    for path in ["/threads/t1/events", "/events"] {
        let rest = app.ask("GET", path).header("sec-websocket-version", "13");
        let said = rest.header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==").send().await;
        let detail = said.problem("malformed")["detail"].to_string();
        assert!(detail.contains("a proxy before the server has removed it"), "{path}: {detail}");
    }
}

#[tokio::test]
async fn a_stranger_is_not_believed() {
    let app = App::start().await;
    let asked = app.ask("POST", "/threads").header("x-forwarded-host", "evil.example");
    let said = asked.json(&json!({ "threadId": "t1" })).send().await;
    assert_eq!(said.header("location").unwrap(), format!("http://{}/threads/t1", app.address));
    let app = App::with(|config| config.server.public_url = Some("https://pes.example/".to_owned())).await;
    let receipt = app.post("/threads/t1/process", json!({ "query": "hello" })).await.expect(202);
    assert_eq!(receipt["eventsUrl"], "https://pes.example/threads/t1/events");
}

#[tokio::test]
async fn what_a_foreign_page_lets_a_browser_fetch_is_not_given() {
    let app = App::start().await;
    let from = |site: &str, path: &str| app.ask("GET", path).header("sec-fetch-site", site).send();
    for site in ["cross-site", "same-site"] {
        from(site, "/models?check=true").await.problem("origin_refused");
        assert_eq!(from(site, "/docs").await.status, 200);
    }
    for site in ["same-origin", "none"] {
        from(site, "/models").await.expect(200);
    }
}

#[tokio::test]
async fn a_revoked_key_has_nothing_left_of_what_it_opened() {
    let app = App::with_keys().await.key("key-a-0123456789abcdef0123456789");
    let new = |tenant: &str, name: &str, scopes: serde_json::Value| {
        app.post("/keys", json!({ "tenant": tenant, "name": name, "scopes": scopes }))
    };
    for (tenant, name, scopes, at) in [
        ("", "ci", json!(["read"]), "/tenant"),
        ("one", "a\nkey_1  active", json!(["read"]), "/name"),
        ("one", "ci", json!([]), "/scopes"),
    ] {
        assert_eq!(new(tenant, name, scopes).await.problem("invalid")["errors"][0]["pointer"], at);
    }
    let issued = new("one", "ci", json!(["read", "run"])).await.expect(201);
    app.post("/threads", json!({ "threadId": "t1" })).await.expect(201);
    let key = format!("Bearer {}", issued["key"].as_str().unwrap());
    let with_key = [("authorization", key.as_str())];
    let open = || Socket::open(app.address, "/threads/t1/events?after=latest", &with_key);
    let (mut speaking, mut listening) = (open().await.unwrap(), open().await.unwrap());
    let asked = Ask::new(app.address, "GET", "/threads/t1/events").header("authorization", &key);
    let mut events = asked.header("accept", "text/event-stream").events().await;
    for socket in [&mut speaking, &mut listening] {
        assert_eq!(socket.next().await.unwrap()["event"], "caught_up");
    }
    assert_eq!(events.next().await.unwrap().event, "caught_up");

    let revoke = format!("/keys/{}", issued["keyId"].as_str().unwrap());
    assert_eq!(app.ask("DELETE", &revoke).send().await.status, 204);
    speaking.say(json!({ "op": "process", "id": "1", "query": "hello" })).await;
    assert_eq!(speaking.next().await, Err(Some(1008)));
    assert_eq!(listening.next().await, Err(Some(1008)));
    assert!(events.next().await.is_none());
    assert_eq!(app.get("/threads/t1/runs").await.expect(200)["items"], json!([]), "nothing was begun");
}

/// The runs go on: they were asked for while the key was valid.
#[tokio::test]
async fn a_request_that_waits_for_a_run_is_not_answered_to_a_revoked_key() {
    let app = App::with_keys().await.key("key-a-0123456789abcdef0123456789");
    let new = json!({ "tenant": "one", "name": "ci", "scopes": ["read", "run"] });
    let issued = app.post("/keys", new).await.expect(201);
    let key = issued["key"].as_str().unwrap();
    let ask = |method: &str, path: &str| Ask::new(app.address, method, path).key(key);
    let words = json!([{ "role": "user", "content": "hang" }]);
    let message = json!({ "messageId": "m1", "role": "ROLE_USER", "parts": [{ "text": "hang" }] });
    let begun = ask("POST", "/threads/t1/process").json(&json!({ "query": "hang" })).send().await.expect(202);
    let run = begun["runId"].as_str().unwrap();
    let mut changes = app.ask("GET", "/events").header("accept", "text/event-stream").events().await;
    let waiting = [
        ask("GET", &format!("/runs/{run}?wait=100")),
        ask("POST", "/threads/t2/process").header("prefer", "wait=100").json(&json!({ "query": "hang" })),
        ask("POST", "/a2a/message:send").header("a2a-version", "1.0").json(&json!({ "message": message })),
        ask("POST", "/v1/chat/completions").json(&json!({ "model": "pes", "messages": words })),
        ask("POST", "/v1/responses").json(&json!({ "model": "pes", "input": "hang" })),
    ]
    .map(|ask| tokio::spawn(ask.send()));
    let running = async || app.get("/runs?status=running").await.expect(200)["items"].as_array().unwrap().len();
    while running().await < waiting.len() {
        changes.next().await.expect("the server runs");
    }
    let revoke = format!("/keys/{}", issued["keyId"].as_str().unwrap());
    assert_eq!(app.ask("DELETE", &revoke).send().await.status, 204);
    for answer in waiting {
        let answer = answer.await.unwrap();
        assert_eq!(answer.status, 401, "{}", answer.text());
    }
    assert_eq!(running().await, 5);
}

#[tokio::test]
async fn a_page_of_a_listed_origin_may_speak_the_protocol_of_agents() {
    let origin = "https://app.example.com";
    let app = App::with(|config| config.server.cors_origins = vec![origin.to_owned()]).await;
    let wanted = "a2a-version, a2a-extensions, content-type, authorization";
    let asked = app.ask("OPTIONS", "/a2a").header("origin", origin).header("access-control-request-method", "POST");
    let said = asked.header("access-control-request-headers", wanted).send().await;
    let allowed = said.header("access-control-allow-headers").unwrap();
    assert!(wanted.split(", ").all(|name| allowed.split(',').any(|known| known.trim() == name)), "{allowed}");
    let wanted = "authorization,content-type,user-agent,x-pes-thread,x-openwebui-chat-id,x-stainless-lang,\
                  x-stainless-retry-count,openai-organization,openai-project";
    let asked = app.ask("OPTIONS", "/v1/chat/completions").header("origin", origin);
    let asked = asked.header("access-control-request-method", "POST");
    let said = asked.header("access-control-request-headers", wanted).send().await;
    let allowed = said.header("access-control-allow-headers").unwrap();
    assert!(wanted.split(',').all(|name| allowed.split(',').any(|known| known.trim() == name)), "{allowed}");
    let said = app.ask("GET", "/models").header("origin", origin).send().await;
    assert!(said.header("access-control-expose-headers").unwrap().contains("a2a-extensions"));
    for named in ["x-pes-thread", "x-pes-run", "x-request-id", "x-should-retry"] {
        assert!(said.header("access-control-expose-headers").unwrap().contains(named), "{named}");
    }
}

#[tokio::test]
async fn an_answer_of_a_door_names_its_trace() {
    let app = App::start().await;
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let asked = app.ask("POST", "/a2a").header("traceparent", &format!("00-{trace}-00f067aa0ba902b7-01"));
    assert_eq!(asked.json(&json!({})).send().await.header("x-request-id"), Some(trace));
    assert_eq!(app.ask("GET", "/models").send().await.header("x-request-id"), None);
}

#[tokio::test]
async fn a_page_without_an_origin_is_told_why_it_may_not_call() {
    let app = App::start().await;
    let problem = app.ask("GET", "/models").header("origin", "null").send().await.problem("origin_refused");
    assert!(problem["detail"].as_str().unwrap().contains("serve it over HTTP"), "{problem:#}");
}

#[tokio::test]
async fn where_no_key_is_needed_any_is_ignored() {
    let app = App::start().await.key("sk-whatever-0123456789abcdef");
    app.get("/threads").await.expect(200);
    app.finish("t1", "hello").await;
    app.socket("/threads/t1/events").await.until(|frame| frame["event"] == "caught_up").await;
    // From the first key on callers are checked.
    let new = json!({ "tenant": "default", "name": "ci", "scopes": ["admin"] });
    app.post("/keys", new).await.expect(201);
    app.get("/threads").await.problem("unauthorized");
}

#[tokio::test]
async fn a_client_that_offers_another_protocol_is_answered_in_this_one() {
    let app = App::start().await;
    app.post("/threads", json!({ "threadId": "t1" })).await.expect(201);
    let asked = app.ask("GET", "/threads/t1/events").header("connection", "Upgrade, HTTP2-Settings");
    asked.header("upgrade", "h2c").header("http2-settings", "AAMAAABkAAQAoAAAAAIAAAAA").send().await.expect(200);
}

#[tokio::test]
async fn wrong_keys_are_counted_for_whom_a_trusted_proxy_names() {
    let app = App::with(|config| {
        behind_a_proxy(config);
        config.limits.wrong_keys_per_address = Some("1/60s".parse().expect("a rate"));
        config.auth.keys = vec!["one/boss:admin:boss-0123456789abcdef0123456789ab".parse().expect("a key")];
    })
    .await;
    let guess = |from: &str| app.ask("GET", "/agents/threads").key("wrong").header("x-forwarded-for", from).send();
    guess("203.0.113.7").await.problem("unauthorized");
    guess("203.0.113.7").await.problem("too_many_requests");
    guess("203.0.113.8").await.problem("unauthorized");
}
