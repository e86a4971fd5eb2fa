//! The key that signs checkpoints of audit chains, and receipts. Ed25519; the signed form is a compact JWS, which
//! others can verify with common tools.

use aws_lc_rs::signature::{ED25519, ED25519_PUBLIC_KEY_LEN, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::domain::{digest, hex};

/// What is signed. A signature of one kind is not valid for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signed {
    Checkpoint,
    Receipt,
    /// The line of a chain up to which older lines were deleted by retention.
    Forgotten,
}

impl Signed {
    fn media_type(self) -> &'static str {
        match self {
            Signed::Checkpoint => "pes-audit-checkpoint+jwt",
            Signed::Receipt => "pes-receipt+jwt",
            Signed::Forgotten => "pes-audit-forgotten+jwt",
        }
    }
}

/// A signing key and its id.
pub struct AuditKey {
    pair: Ed25519KeyPair,
    verifying: VerifyingKey,
}

/// The public half of a key, for verification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyingKey {
    public: Vec<u8>,
    id: String,
}

/// The public half of a key, as JSON Web Keys are written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct PublicKey {
    pub kty: &'static str,
    pub crv: &'static str,
    /// The key itself, base64url.
    pub x: String,
    /// What signed texts call it: the thumbprint of RFC 7638.
    pub kid: String,
    pub alg: &'static str,
    #[serde(rename = "use")]
    pub usage: &'static str,
}

impl AuditKey {
    /// From 64 hexadecimal digits; `None` for any other text.
    pub fn of(seed: &SecretString) -> Option<Self> {
        let seed = hex::read(seed.expose_secret()).filter(|seed| seed.len() == 32)?;
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).ok()?;
        let verifying = VerifyingKey::of(pair.public_key().as_ref().to_vec());
        Some(Self { pair, verifying })
    }

    /// The thumbprint of the public half.
    pub fn id(&self) -> &str {
        &self.verifying.id
    }

    pub fn verifying(&self) -> &VerifyingKey {
        &self.verifying
    }

    pub fn public(&self) -> PublicKey {
        let x = URL_SAFE_NO_PAD.encode(self.pair.public_key());
        PublicKey { kty: "OKP", crv: "Ed25519", x, kid: self.id().to_owned(), alg: "EdDSA", usage: "sig" }
    }

    /// Signs the canonical form of this value.
    pub fn sign(&self, what: Signed, payload: &Value) -> String {
        let header = json!({ "alg": "EdDSA", "kid": self.id(), "typ": what.media_type() });
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(digest::canonical(value));
        let text = format!("{}.{}", part(&header), part(payload));
        let signature = self.pair.sign(text.as_bytes());
        format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

impl VerifyingKey {
    fn of(public: Vec<u8>) -> Self {
        let id = thumbprint(&public);
        Self { public, id }
    }

    /// The keys of a JSON Web Key Set, as `GET /audit/keys` returns them. The error says what the text is instead.
    pub fn of_set(text: &str) -> Result<Vec<Self>, String> {
        let set: PublishedKeys = serde_json::from_str(text).map_err(|error| format!("no JSON Web Key Set: {error}"))?;
        let key = |key: &PublishedKey| {
            let public = URL_SAFE_NO_PAD.decode(&key.x).ok().filter(|public| public.len() == ED25519_PUBLIC_KEY_LEN);
            let public = public.filter(|_| (key.kty.as_str(), key.crv.as_str()) == ("OKP", "Ed25519"));
            public
                .map(Self::of)
                .ok_or_else(|| format!("a JSON Web Key Set with a key that is none of Ed25519: {}", key.x))
        };
        set.keys.iter().map(key).collect()
    }

    /// The thumbprint.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The payload, if it was signed as this kind with this key.
    pub fn open(&self, what: Signed, jws: &str) -> Option<Value> {
        let (text, signature) = jws.rsplit_once('.')?;
        let (header, payload) = text.split_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        UnparsedPublicKey::new(&ED25519, &self.public).verify(text.as_bytes(), &signature).ok()?;
        let is_this = part(header)?["typ"] == what.media_type();
        part(payload).filter(|_| is_this)
    }
}

#[derive(Deserialize)]
struct PublishedKeys {
    keys: Vec<PublishedKey>,
}

#[derive(Deserialize)]
struct PublishedKey {
    kty: String,
    crv: String,
    x: String,
}

/// The id of the key that a signed text claims to be signed with.
pub fn signer(jws: &str) -> Option<String> {
    let header = part(jws.split_once('.')?.0)?;
    Some(header["kid"].as_str()?.to_owned())
}

fn part(text: &str) -> Option<Value> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok()
}

fn thumbprint(public: &[u8]) -> String {
    let members = json!({ "crv": "Ed25519", "kty": "OKP", "x": URL_SAFE_NO_PAD.encode(public) });
    URL_SAFE_NO_PAD.encode(Sha256::digest(digest::canonical(&members)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(hex: &str) -> AuditKey {
        AuditKey::of(&hex.repeat(32).into()).unwrap()
    }

    /// The example of RFC 8037, appendix A.
    #[test]
    fn a_key_has_the_name_that_others_give_it() {
        let seed = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
        let key = AuditKey::of(&seed.to_owned().into()).unwrap();
        assert_eq!(key.public().x, "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo");
        assert_eq!(key.id(), "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k");
    }

    #[test]
    fn what_was_signed_is_opened_and_nothing_else() {
        let (key, payload) = (key("ab"), json!({ "n": 1 }));
        let signed = key.sign(Signed::Checkpoint, &payload);
        assert_eq!(key.verifying().open(Signed::Checkpoint, &signed), Some(payload.clone()));
        assert_eq!(signer(&signed).as_deref(), Some(key.id()));
        assert_eq!(key.verifying().open(Signed::Receipt, &signed), None, "one kind is not the other");
        assert_eq!(super::tests::key("cd").verifying().open(Signed::Checkpoint, &signed), None, "another key");
        let (head, rest) = signed.split_once('.').unwrap();
        let (_, signature) = rest.split_once('.').unwrap();
        let other = format!("{head}.{}.{signature}", URL_SAFE_NO_PAD.encode(r#"{"n":2}"#));
        assert_eq!(key.verifying().open(Signed::Checkpoint, &other), None);
        for text in ["", ".", "..", "a.b", "a.b.c", &signed[1..]] {
            assert_eq!((key.verifying().open(Signed::Checkpoint, text), signer(text)), (None, None), "{text}");
        }
    }

    #[test]
    fn public_halves_are_read_as_they_are_published() {
        let key = key("ab");
        let set = json!({ "keys": [key.public()] }).to_string();
        assert_eq!(VerifyingKey::of_set(&set).unwrap(), [key.verifying().clone()]);
        let none = set.replace("Ed25519", "P-256");
        for (text, why) in [("{}", "no JSON Web Key Set"), (none.as_str(), "a key that is none of Ed25519")] {
            assert!(VerifyingKey::of_set(text).unwrap_err().contains(why), "{text}");
        }
    }

    #[test]
    fn a_key_is_64_hexadecimal_digits() {
        for text in ["", "ab", &"ab".repeat(31), &"zz".repeat(32), &"+1".repeat(32)] {
            assert!(AuditKey::of(&text.to_owned().into()).is_none(), "{text}");
        }
    }
}
