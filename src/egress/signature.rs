//! Standard Webhooks signatures: the receiver can verify who sent a request, and when.

use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretSlice};
use sha2::Sha256;

/// Prefix of a secret's text form; base64 follows.
const PREFIX: &str = "whsec_";

/// The secret that sender and receiver share.
#[derive(Clone)]
pub struct SigningSecret(SecretSlice<u8>);

impl SigningSecret {
    /// Takes `whsec_` followed by base64; any other text is used as it is.
    pub fn parse(text: &str) -> Result<Self, String> {
        let bytes = match text.strip_prefix(PREFIX) {
            Some(encoded) => {
                BASE64_STANDARD.decode(encoded).map_err(|_| "a secret goes on in base64 after whsec_".to_owned())?
            }
            None => text.as_bytes().to_vec(),
        };
        if bytes.is_empty() { Err("a secret is not empty".to_owned()) } else { Ok(Self(bytes.into())) }
    }

    /// A new random secret in its text form.
    pub fn random() -> Result<String, String> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|error| format!("there are no random numbers: {error}"))?;
        Ok(format!("{PREFIX}{}", BASE64_STANDARD.encode(bytes)))
    }

    /// `v1,` followed by the base64 of the HMAC-SHA256 of id, time and body.
    fn sign(&self, id: &str, seconds: i64, body: &[u8]) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.0.expose_secret()).expect("HMAC takes a key of any length");
        mac.update(format!("{id}.{seconds}.").as_bytes());
        mac.update(body);
        format!("v1,{}", BASE64_STANDARD.encode(mac.finalize().into_bytes()))
    }
}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningSecret")
    }
}

/// Sets `webhook-id`, `webhook-timestamp` and, with at least one secret, `webhook-signature`: one signature per secret,
/// so that a receiver can verify with either of two during a rotation.
///
/// The id is the same for every attempt and must be ASCII.
pub fn sign(headers: &mut HeaderMap, secrets: &[SigningSecret], id: &str, seconds: i64, body: &[u8]) {
    let mut set = |name: &'static str, value: String| {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    };
    if !secrets.is_empty() {
        let signatures: Vec<String> = secrets.iter().map(|secret| secret.sign(id, seconds, body)).collect();
        set("webhook-signature", signatures.join(" "));
    }
    set("webhook-id", id.to_owned());
    set("webhook-timestamp", seconds.to_string());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example in the specification's own libraries.
    #[test]
    fn a_signature_is_the_one_that_every_receiver_computes() {
        let secret = SigningSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let mut headers = HeaderMap::new();
        sign(&mut headers, &[secret], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(headers["webhook-signature"], "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        assert_eq!(headers["webhook-id"], "msg_p5jXN8AQM9LWM0D4loKWxJek");
        assert_eq!(headers["webhook-timestamp"], "1614265330");
    }

    #[test]
    fn two_secrets_give_two_signatures_and_none_gives_none() {
        let [old, new] = ["old", "new"].map(|text| SigningSecret::parse(text).unwrap());
        let mut headers = HeaderMap::new();
        sign(&mut headers, &[old, new], "id", 1, b"{}");
        assert_eq!(headers["webhook-signature"].to_str().unwrap().split(' ').count(), 2);
        let mut headers = HeaderMap::new();
        sign(&mut headers, &[], "id", 1, b"{}");
        assert!(!headers.contains_key("webhook-signature") && headers.contains_key("webhook-id"));
        assert!(SigningSecret::parse("whsec_***").is_err() && SigningSecret::parse("").is_err());
    }
}
