//! Request bodies that arrive slowly: large ones do not keep out other tenants, and none is read for a revoked key.

use pes::config::ConfiguredKey;
use serde_json::json;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::support::app::App;
use crate::support::http::{Ask, read_answer, soon};

const A: &str = "key-a-0123456789abcdef";
const B: &str = "key-b-0123456789abcdef";

/// A request whose caller was admitted, and whose body the server waits for.
async fn announced(app: &App, path: &str, key: &str, length: usize) -> BufReader<TcpStream> {
    let mut stream = BufReader::new(TcpStream::connect(app.address).await.unwrap());
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\nexpect: 100-continue\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    assert_eq!(soon(read_answer(&mut stream)).await.expect("an answer").status, 100);
    stream
}

/// A request with a body of 32 MiB, of which little more arrives than is read without a memory permit.
async fn stalled(app: &App) -> BufReader<TcpStream> {
    let mut stream = announced(app, "/a2a", A, 32 << 20).await;
    soon(stream.write_all(" ".repeat(130 << 10).as_bytes())).await.unwrap();
    stream
}

#[tokio::test]
async fn slow_bodies_of_one_tenant_keep_out_nobody_elses() {
    let app = App::with(|config| {
        let key = |text: String| text.parse::<ConfiguredKey>().unwrap();
        config.auth.keys = vec![key(format!("one:admin:{A}")), key(format!("two:admin:{B}"))];
        // Longer than any wait of this test.
        config.limits.body_timeout_ms = 300_000;
    })
    .await;
    let mut slow = Vec::new();
    for _ in 0..9 {
        slow.push(stalled(&app).await);
    }
    let long = format!(r#"{{"query": "hello"{}}}"#, " ".repeat(200 << 10));
    let ask = app.ask("POST", "/threads/t/process").key(B).typed("application/json", &long);
    ask.send().await.expect(202);
    drop(slow);
}

/// Otherwise a stolen key could make another one after it was revoked: the request has begun before.
#[tokio::test]
async fn what_a_key_sent_slowly_is_not_done_after_it_was_revoked() {
    let app = App::with_keys().await.key("key-a-0123456789abcdef0123456789");
    let new = |name: &str| json!({ "tenant": "one", "name": name, "scopes": ["admin"] });
    let issued = app.post("/keys", new("stolen")).await.expect(201);
    let stolen = issued["key"].as_str().unwrap();
    let asked = Ask::new(app.address, "GET", "/events").key(stolen).header("accept", "text/event-stream");
    let mut events = asked.events().await;
    let body = new("another").to_string();
    let mut slow = announced(&app, "/keys", stolen, body.len()).await;

    let revoke = format!("/keys/{}", issued["keyId"].as_str().unwrap());
    assert_eq!(app.ask("DELETE", &revoke).send().await.status, 204);
    // It ends at its first check, three seconds after it began.
    soon(async { while events.next().await.is_some() {} }).await;
    slow.write_all(body.as_bytes()).await.unwrap();
    soon(read_answer(&mut slow)).await.expect("an answer").problem("unauthorized");
    let keys = app.get("/keys").await.expect(200)["items"].clone();
    assert_eq!(keys.as_array().unwrap().len(), 1, "{keys:#}");
}
