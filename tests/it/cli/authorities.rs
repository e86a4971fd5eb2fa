//! The certificate authorities of the server as a process.

use serde_json::Value;

use super::serving::serve;
use crate::support::http::Ask;

/// An authority, which signed nothing here.
const AUTHORITY: &[u8] = include_bytes!("../provider/untrusted.pem");

/// A volume may be mounted late, and a file may be empty for a moment.
#[tokio::test]
async fn authorities_that_come_late_are_used_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("authorities.pem");
    let variables = [
        ("SSL_CERT_FILE", file.to_str().unwrap()),
        ("OPENAI_BASE_URL", "https://127.0.0.1:1/v1"),
        ("PES_MODEL", "openai:m"),
    ];
    let served = serve(folder.path(), &variables);
    let address = served.url.strip_prefix("http://").unwrap().parse().unwrap();
    let check = async || {
        let model: Value = Ask::new(address, "GET", "/models?check=true").send().await.expect(200)["items"][0].clone();
        model["check"]["detail"].as_str().unwrap().to_owned()
    };
    let without = check().await;
    assert!(without.contains("TLS") && without.contains("SSL_CERT_FILE"), "{without}");
    std::fs::write(&file, AUTHORITY).unwrap();
    let with = check().await;
    assert!(with.contains("127.0.0.1:1") && !with.contains("TLS"), "{with}");
}
