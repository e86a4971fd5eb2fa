//! nginx before the server, as `deploy/nginx/pes.conf` configures it, but without TLS.

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;

use pes::config::ConfiguredKey;
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use crate::support::app::App;
use crate::support::http::{Ask, until};
use crate::support::unused_address::unused_address;
use crate::support::ws::{Socket, is};

const KEY: &str = "ann-0123456789abcdef0123456789";
const PAGE: &str = "https://pes.example";

struct Nginx {
    address: SocketAddr,
    _process: Child,
    _folder: TempDir,
}

impl Nginx {
    /// Starts it before this server. It compresses JSON, as many configurations do.
    async fn before(server: SocketAddr) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (address, held) = unused_address();
        let mut config =
            "daemon off; master_process off; pid pid; error_log stderr;\nevents {}\nhttp {\naccess_log off;\n"
                .to_owned();
        for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
            writeln!(config, "{kind}_temp_path {kind};").expect("a text takes all");
        }
        config += "gzip on; gzip_proxied any; gzip_min_length 1; gzip_types application/json;\n";
        let deployed = std::fs::read_to_string(root.join("deploy/nginx/pes.conf")).expect("a file of the sources");
        let without_tls = deployed.lines().filter(|line| !line.contains("ssl_certificate") && !line.contains("[::]"));
        config += &without_tls.collect::<Vec<_>>().join("\n");
        config += "\n}\n";
        for (there, here) in [
            ("listen 443 ssl http2;", format!("listen {address};")),
            ("server 127.0.0.1:7070;", format!("server {server};")),
        ] {
            assert_eq!(config.matches(there).count(), 1, "{there}");
            config = config.replace(there, &here);
        }
        std::fs::write(folder.path().join("nginx.conf"), config).expect("a file");
        let mut command = Command::new(root.join("target/peers/nginx"));
        command.arg("-p").arg(folder.path()).args(["-e", "stderr", "-c", "nginx.conf"]).kill_on_drop(true);
        let process = command.stdin(Stdio::null()).spawn().expect("it is installed");
        until("nginx listens", async || TcpStream::connect(address).await.is_ok()).await;
        drop(held);
        Self { address, _process: process, _folder: folder }
    }

    fn ask(&self, method: &str, path: &str) -> Ask {
        Ask::new(self.address, method, path).header("host", "pes.example")
    }
}

#[tokio::test]
#[ignore = "needs nginx below target/peers: scripts/test --peers"]
async fn nginx_is_a_peer_with_the_configuration_that_is_deployed() {
    let app = App::with(|config| {
        config.auth.keys = vec![format!("acme/ann:admin:{KEY}").parse::<ConfiguredKey>().unwrap()];
        config.server.public_url = Some(PAGE.to_owned());
        config.server.trusted_proxies = vec!["127.0.0.1".to_owned()];
    })
    .await;
    let nginx = Nginx::before(app.address).await;

    let said = nginx.ask("POST", "/session").key(KEY).header("origin", PAGE).send().await;
    said.expect(200);
    let cookie = said.header("set-cookie").unwrap();
    assert!(cookie.ends_with("; Secure"), "{cookie}");
    let cookie = cookie.split(';').next().unwrap();
    let send = |method: &str, path: &str| nginx.ask(method, path).header("cookie", cookie).header("origin", PAGE);

    let stuck = send("POST", "/threads/t1/process").json(&json!({ "query": "stuck" })).send().await.expect(202);
    assert_eq!(stuck["eventsUrl"], "https://pes.example/threads/t1/events");
    let headers = [("cookie", cookie), ("origin", PAGE)];
    let mut socket = Socket::open(nginx.address, "/threads/t1/events", &headers).await.unwrap();
    socket.until(|frame| is(frame, "ITEM_STATUS_CHANGE")).await;

    let plan = send("GET", "/threads/t1/plan").header("accept-encoding", "gzip").send().await;
    let tag = plan.header("etag").unwrap();
    assert!(plan.header("content-encoding") == Some("gzip") && tag.starts_with("W/"), "{:?}", plan.headers);
    let edit = r#"[{ "op": "replace", "path": "/1/description", "value": "Draw it" }]"#;
    let edit = send("PATCH", "/threads/t1/plan").header("if-match", tag).typed("application/json-patch+json", edit);
    assert_eq!(edit.send().await.expect(200)[1]["description"], "Draw it");

    // The run does not end, so what arrives was not held back until there is more of it.
    send("POST", "/threads/t2/process").json(&json!({ "query": "hang" })).send().await.expect(202);
    let mut events = send("GET", "/threads/t2/events").header("accept", "text/event-stream").events().await;
    while events.next().await.expect("the run goes on").event != "token" {}

    let long = json!({ "query": "x".repeat(2 << 20) });
    send("POST", "/threads/t3/process").json(&long).send().await.problem("body_too_large");
}
