//! npm's `oidc-provider` as the issuer: its tokens, its code flow and its key rotation.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use pes::config::OidcIssuer;
use pes::domain::fault::Code;
use pes::egress::{Bounds, Destination, Egress, OutgoingRequest};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpListener;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use url::Url;

use super::bed::keys;
use crate::front::people;
use crate::support::app::App;
use crate::support::http::{Ask, Said, soon};
use crate::support::store::fresh_store;

const SECRET: &str = "a secret of the client & more";

struct Provider {
    url: String,
    said: Lines<BufReader<ChildStdout>>,
    input: ChildStdin,
    _child: Child,
}

impl Provider {
    /// Starts it on this port; it redirects people back to the server.
    async fn start(port: u16, server: SocketAddr) -> Self {
        let redirect = format!("http://{server}/session/oidc/corp/callback");
        let mut command = Command::new("node");
        command.args(["target/peers/oidc/provider.mjs", &port.to_string(), &redirect]);
        command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR"))).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("it is installed");
        let said = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let input = child.stdin.take().expect("a pipe");
        let mut provider = Self { url: format!("http://127.0.0.1:{port}"), said, input, _child: child };
        provider.hear("ready").await;
        provider
    }

    /// Its library logs more than the program.
    async fn hear(&mut self, word: &str) {
        while soon(self.said.next_line()).await.expect("it runs").expect("it goes on") != word {}
    }

    async fn rotate(&mut self) {
        self.input.write_all(b"rotate\n").await.expect("it runs");
        self.hear("rotated").await;
    }

    /// A token for the API, without a person.
    async fn token(&self) -> String {
        let form = "grant_type=client_credentials&resource=https%3A%2F%2Fpes.example&scope=read%20run";
        let to = Destination::Operator(format!("{}/token", self.url).parse().unwrap());
        let secret: String = url::form_urlencoded::byte_serialize(SECRET.as_bytes()).collect();
        let basic = format!("Basic {}", BASE64.encode(format!("console:{secret}")));
        let patience = Duration::from_secs(10);
        let bounds = Bounds { headers: patience, stall: patience, total: patience, bytes: 64 << 10 };
        let headers = [("content-type", "application/x-www-form-urlencoded"), ("authorization", &basic)];
        let headers =
            headers.map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).into_iter().collect();
        let request = OutgoingRequest { method: http::Method::POST, to, headers, body: form.into(), bounds };
        let mut answer = Egress::new(patience).send(request).await.unwrap();
        let body: Value = serde_json::from_slice(&answer.read_up_to(64 << 10).await).unwrap();
        body["access_token"].as_str().unwrap_or_else(|| panic!("{body}")).to_owned()
    }
}

/// A server that trusts the issuer on this port, which starts later.
async fn server() -> (App, u16) {
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let mut corp = OidcIssuer::new(&format!("http://127.0.0.1:{port}"), "pes", "one");
    (corp.client_id, corp.client_secret) = (Some("console".to_owned()), Some(SECRET.to_owned().into()));
    corp.login_scope = "openid read run approve".to_owned();
    let app = App::with(|config| drop(config.auth.oidc.insert("corp".to_owned(), corp))).await;
    (app, port)
}

/// A browser that supports only redirects, cookies and forms; each address has its own cookies.
struct Browser {
    cookies: BTreeMap<(String, String), String>,
    at: Url,
}

impl Browser {
    /// Follows redirects from this address until a page is returned.
    async fn open(&mut self, url: &Url, form: Option<&str>) -> Said {
        let mut said = self.ask(url, form).await;
        while let Some(to) = said.header("location") {
            let to = self.at.join(to).unwrap();
            said = self.ask(&to, None).await;
        }
        said
    }

    async fn ask(&mut self, url: &Url, form: Option<&str>) -> Said {
        self.at = url.clone();
        let place = url.authority().to_owned();
        let method = if form.is_some() { "POST" } else { "GET" };
        let ask = Ask::new(place.parse().unwrap(), method, &url[url::Position::BeforePath..url::Position::AfterQuery]);
        let ours = self.cookies.iter().filter(|((authority, _), _)| *authority == place);
        let cookies: Vec<String> = ours.map(|((_, name), value)| format!("{name}={value}")).collect();
        let ask = ask.header("cookie", &cookies.join("; ")).header("accept", "text/html");
        let ask = form.map_or(ask.clone(), |form| ask.typed("application/x-www-form-urlencoded", form));
        let said = ask.send().await;
        for (_, set) in said.headers.iter().filter(|(name, _)| name == "set-cookie") {
            let (name, value) = set.split(';').next().unwrap().split_once('=').unwrap();
            self.cookies.insert((place.clone(), name.to_owned()), value.to_owned());
        }
        said
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs oidc-provider below target/peers: scripts/test --peers"]
async fn oidc_provider_is_a_peer() {
    let (app, port) = server().await;
    let mut provider = Provider::start(port, app.address).await;
    let first = provider.token().await;
    let whoami = app.ask("GET", "/whoami").key(&first).send().await.expect(200);
    let name = format!("{}#console", provider.url);
    assert_eq!(whoami, json!({ "keyName": name, "tenant": "one", "scopes": ["read", "run"], "open": false }));

    // Its next key is fetched half a minute after the last fetch, and the previous one stays valid.
    let now = Arc::new(AtomicI64::new(people::now() * 1000));
    let corp = OidcIssuer::new(&provider.url, "pes", "one");
    let keys = keys(&[("corp", corp)], &[], fresh_store().await, &now).await;
    keys.authenticate(Some(&first)).await.unwrap();
    provider.rotate().await;
    let second = provider.token().await;
    assert_eq!(keys.authenticate(Some(&second)).await.unwrap_err().code, Code::Unauthorized);
    now.fetch_add(30_000, Ordering::SeqCst);
    for token in [&second, &first] {
        assert_eq!(keys.authenticate(Some(token)).await.unwrap().name, name);
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs oidc-provider below target/peers: scripts/test --peers"]
async fn signing_in_at_oidc_provider_is_a_peer() {
    let (app, port) = server().await;
    let provider = Provider::start(port, app.address).await;
    let start: Url = format!("http://{}/session/oidc/corp", app.address).parse().unwrap();
    let mut browser = Browser { cookies: BTreeMap::new(), at: start.clone() };
    let page = browser.open(&start, None).await;
    assert!(page.text().contains("name=\"login\""), "{}", page.text());
    let form = browser.at.clone();
    let consent = browser.open(&form, Some("prompt=login&login=ann&password=any")).await;
    assert!(consent.text().contains("value=\"consent\""), "{}", consent.text());
    let form = browser.at.clone();
    let page = browser.open(&form, Some("prompt=consent")).await;
    assert_eq!((page.status, browser.at.path()), (200, "/"), "the page of the server: {}", page.text());
    let whoami = browser.open(&start.join("/whoami").unwrap(), None).await.expect(200);
    let name = format!("{}#ann", provider.url);
    assert_eq!((&whoami["keyName"], &whoami["scopes"]), (&json!(name), &json!(["read", "run", "approve"])));
}
