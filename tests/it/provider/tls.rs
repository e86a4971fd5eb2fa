//! Nothing is sent to a provider whose certificate no trusted authority has signed.

use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, mpsc};

use pes::domain::model::FailureKind;
use rstest::rstest;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection};

use super::ask;
use super::speech::Speech;

/// A self-signed certificate for 127.0.0.1 and its key, made for this test only.
const UNTRUSTED: &[u8] = include_bytes!("untrusted.pem");

/// The server's address, and the outcome of each handshake.
fn serve() -> (SocketAddr, mpsc::Receiver<Result<(), String>>) {
    let certificates = CertificateDer::pem_slice_iter(UNTRUSTED).collect::<Result<_, _>>().unwrap();
    let key = PrivateKeyDer::from_pem_slice(UNTRUSTED).unwrap();
    let crypto = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(crypto).with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(config.with_no_client_auth().with_single_cert(certificates, key).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, handshakes) = mpsc::channel();
    std::thread::spawn(move || {
        for mut socket in listener.incoming() {
            let mut connection = ServerConnection::new(config.clone()).unwrap();
            let mut stream = rustls::Stream::new(&mut connection, socket.as_mut().unwrap());
            let heard = std::io::Read::read(&mut stream, &mut [0; 1]);
            if sender.send(heard.map(|_| ()).map_err(|error| error.to_string())).is_err() {
                return;
            }
        }
    });
    (address, handshakes)
}

#[rstest]
#[tokio::test]
async fn a_certificate_that_nobody_trusts_is_shown_no_key(
    #[values("openai", "anthropic", "gemini", "ollama")] provider: &str,
) {
    let (address, handshakes) = serve();
    let failure = ask(&Speech::of(provider).model(&format!("https://{address}"))).await.1.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Unreachable, "{}", failure.message);
    assert!(failure.message.contains("certificate"), "{}", failure.message);
    let heard = tokio::task::spawn_blocking(move || handshakes.recv().unwrap()).await.unwrap();
    assert!(heard.is_err(), "not a byte came through");
}
