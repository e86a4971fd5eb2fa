//! A token issuer on loopback: it signs with its own keys, and publishes the keys that the test sets.

use std::sync::Arc;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// A signing key with its key id.
pub struct Signer {
    kid: String,
    pair: Pair,
}

enum Pair {
    Rsa(Box<RsaKeyPair>),
    P256(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl Signer {
    pub fn rs256(kid: &str) -> Self {
        Self { kid: kid.to_owned(), pair: Pair::Rsa(Box::new(RsaKeyPair::generate(KeySize::Rsa2048).unwrap())) }
    }

    pub fn es256(kid: &str) -> Self {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        Self { kid: kid.to_owned(), pair: Pair::P256(pair) }
    }

    pub fn eddsa(kid: &str) -> Self {
        Self { kid: kid.to_owned(), pair: Pair::Ed25519(Ed25519KeyPair::generate().unwrap()) }
    }

    /// The key as published.
    pub fn jwk(&self) -> Value {
        let mut jwk = match &self.pair {
            Pair::Rsa(pair) => {
                // RSAPublicKey of RFC 8017: a modulus of 2,048 bits after its tags, and 65537 at the end.
                let der = pair.public_key().as_ref();
                let (n, e) = (&der[9..265], &der[der.len() - 3..]);
                json!({ "kty": "RSA", "n": BASE64.encode(n), "e": BASE64.encode(e) })
            }
            Pair::P256(pair) => {
                let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
                json!({ "kty": "EC", "crv": "P-256", "x": BASE64.encode(x), "y": BASE64.encode(y) })
            }
            Pair::Ed25519(pair) => {
                json!({ "kty": "OKP", "crv": "Ed25519", "x": BASE64.encode(pair.public_key()) })
            }
        };
        jwk["kid"] = json!(self.kid);
        jwk["use"] = json!("sig");
        jwk["alg"] = json!(self.alg());
        jwk
    }

    fn alg(&self) -> &'static str {
        match &self.pair {
            Pair::Rsa(_) => "RS256",
            Pair::P256(_) => "ES256",
            Pair::Ed25519(_) => "EdDSA",
        }
    }

    /// A token with these claims.
    pub fn token(&self, claims: &Value) -> String {
        self.with_header(&json!({ "alg": self.alg(), "kid": self.kid, "typ": "JWT" }), claims)
    }

    pub fn with_header(&self, header: &Value, claims: &Value) -> String {
        self.of_texts(&header.to_string(), &claims.to_string())
    }

    /// Signs any header and claims.
    pub fn of_texts(&self, header: &str, claims: &str) -> String {
        let text = format!("{}.{}", BASE64.encode(header), BASE64.encode(claims));
        let signature = self.sign(text.as_bytes());
        format!("{text}.{}", BASE64.encode(signature))
    }

    fn sign(&self, text: &[u8]) -> Vec<u8> {
        let chance = SystemRandom::new();
        match &self.pair {
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &chance, text, &mut signature).unwrap();
                signature
            }
            Pair::P256(pair) => pair.sign(&chance, text).unwrap().as_ref().to_vec(),
            Pair::Ed25519(pair) => pair.sign(text).as_ref().to_vec(),
        }
    }
}

/// The issuer's responses, and the requests that it received.
#[derive(Default)]
pub struct IssuerState {
    pub metadata: Value,
    pub keys: Value,
    /// It closes every connection without an answer.
    pub is_down: bool,
    /// The address to which its keys have moved.
    pub moved_to: Option<String>,
    pub asked_for_keys: usize,
    /// A request for the keys sends a sender here, and waits until that is used or dropped.
    pub holds: Option<mpsc::UnboundedSender<oneshot::Sender<()>>>,
    /// The same for a request that exchanges a code.
    pub holds_codes: Option<mpsc::UnboundedSender<oneshot::Sender<()>>>,
    /// The response of the token endpoint, and the forms that it received.
    pub tokens: Value,
    pub exchanged: Vec<String>,
}

pub struct Issuer {
    pub url: String,
    pub state: Arc<Mutex<IssuerState>>,
    serving: JoinHandle<()>,
}

impl Issuer {
    /// An issuer that publishes these keys.
    pub async fn with(keys: &[&Signer]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let metadata = json!({
            "issuer": url,
            "jwks_uri": format!("{url}/jwks"),
            "authorization_endpoint": format!("{url}/authorize"),
            "token_endpoint": format!("{url}/token"),
        });
        let state = Arc::new(Mutex::new(IssuerState { metadata, ..IssuerState::default() }));
        let shared = state.clone();
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, shared.clone()));
            }
        });
        let issuer = Self { url, state, serving };
        issuer.publish(keys);
        issuer
    }

    pub fn publish(&self, keys: &[&Signer]) {
        self.state.lock().keys = json!({ "keys": keys.iter().map(|key| key.jwk()).collect::<Vec<_>>() });
    }

    pub fn asked_for_keys(&self) -> usize {
        self.state.lock().asked_for_keys
    }

    /// Claims of this person that expire at `exp`.
    pub fn claims(&self, sub: &str, exp: i64) -> Value {
        json!({ "iss": self.url, "sub": sub, "aud": "pes", "exp": exp, "scope": "read run approve" })
    }
}

impl Drop for Issuer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn answer(stream: TcpStream, state: Arc<Mutex<IssuerState>>) {
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    let (mut first, mut length) = (String::new(), 0);
    if reader.read_line(&mut first).await.is_err() {
        return;
    }
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).await.is_err() || line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap();
        }
    }
    let mut form = vec![0; length];
    if tokio::io::AsyncReadExt::read_exact(&mut reader, &mut form).await.is_err() {
        return;
    }
    let holds = match first.split(' ').nth(1) {
        Some("/jwks") => state.lock().holds.clone(),
        Some("/token") => state.lock().holds_codes.clone(),
        _ => None,
    };
    if let Some(holds) = holds {
        let (go_on, told) = oneshot::channel();
        holds.send(go_on).unwrap();
        // A dropped sender releases the request, too.
        let _ = told.await;
    }
    let Some(text) = answered(&first, &String::from_utf8(form).unwrap(), &mut state.lock()) else { return };
    // The client may have disconnected.
    let _ = writer.write_all(text.as_bytes()).await;
}

fn answered(first: &str, form: &str, state: &mut IssuerState) -> Option<String> {
    if state.is_down {
        return None;
    }
    let body = match first.split(' ').nth(1).unwrap_or_default() {
        "/.well-known/openid-configuration" => state.metadata.to_string(),
        "/jwks" if state.moved_to.is_some() => {
            let to = state.moved_to.clone().unwrap_or_default();
            return Some(format!(
                "HTTP/1.1 302 Found\r\nconnection: close\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n"
            ));
        }
        "/jwks" | "/elsewhere" => {
            state.asked_for_keys += 1;
            state.keys.to_string()
        }
        "/token" => {
            state.exchanged.push(form.to_owned());
            state.tokens.to_string()
        }
        other => panic!("nobody asks for {other}"),
    };
    let length = body.len();
    Some(format!(
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    ))
}
