//! Large request bodies that arrive slowly do not keep out other tenants.

use pes::config::ConfiguredKey;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::support::app::App;
use crate::support::http::{read_answer, soon};

const A: &str = "key-a-0123456789abcdef";
const B: &str = "key-b-0123456789abcdef";

/// A request with a body of 32 MiB, of which little more arrives than is read without a memory permit.
async fn stalled(app: &App) -> BufReader<TcpStream> {
    let mut stream = BufReader::new(TcpStream::connect(app.address).await.unwrap());
    let head = format!(
        "POST /a2a HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {A}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nexpect: 100-continue\r\n\r\n",
        32 << 20
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    // The server waits for the body.
    assert_eq!(soon(read_answer(&mut stream)).await.expect("an answer").status, 100);
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
