//! The public keys of an issuer (RFC 7517, RFC 8037), and the verification of signatures. Pure.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::Value;

use crate::config::Algorithm;

/// The keys of a published set that can sign tokens; others are ignored.
#[derive(Debug, Default)]
pub(super) struct KeySet(Vec<Key>);

#[derive(Clone, Debug)]
pub(super) struct Key {
    kid: Option<String>,
    public: KeyMaterial,
}

#[derive(Clone, Debug)]
enum KeyMaterial {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// The uncompressed point.
    P256(Vec<u8>),
    Ed25519(Vec<u8>),
}

#[derive(Deserialize)]
struct Published {
    keys: Vec<Value>,
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    #[serde(rename = "use")]
    usage: Option<String>,
    key_ops: Option<Vec<String>>,
    alg: Option<String>,
    kid: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl KeySet {
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        let published: Published =
            serde_json::from_slice(bytes).map_err(|error| format!("its key set cannot be read: {error}"))?;
        let keys = published.keys.into_iter().filter_map(|key| Key::of(&serde_json::from_value(key).ok()?));
        Ok(Self(keys.collect()))
    }

    /// The key with this id for this algorithm. A token without a key id matches only if there is a single key.
    pub(super) fn find(&self, kid: Option<&str>, algorithm: Algorithm) -> Option<&Key> {
        let mut fitting = self.0.iter().filter(|key| key.public.algorithm() == algorithm);
        match kid {
            Some(kid) => fitting.find(|key| key.kid.as_deref() == Some(kid)),
            None => fitting.next().filter(|_| fitting.next().is_none()),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

impl Key {
    fn of(jwk: &Jwk) -> Option<Self> {
        let is_for_signatures = jwk.usage.as_deref().is_none_or(|usage| usage == "sig")
            && jwk.key_ops.as_ref().is_none_or(|ops| ops.iter().any(|op| op == "verify"));
        let bytes = |member: &Option<String>| BASE64_URL_SAFE_NO_PAD.decode(member.as_ref()?).ok();
        let public = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
            ("RSA", _) => KeyMaterial::Rsa { modulus: bytes(&jwk.n)?, exponent: bytes(&jwk.e)? },
            ("EC", Some("P-256")) => {
                let (x, y) = (bytes(&jwk.x)?, bytes(&jwk.y)?);
                KeyMaterial::P256([&[4], x.as_slice(), y.as_slice()].concat())
            }
            ("OKP", Some("Ed25519")) => KeyMaterial::Ed25519(bytes(&jwk.x)?),
            _ => return None,
        };
        let is_for_this = jwk.alg.as_deref().is_none_or(|name| public.is_called(name));
        (is_for_signatures && is_for_this).then(|| Self { kid: jwk.kid.clone(), public })
    }

    pub(super) fn verifies(&self, text: &str, signature: &[u8]) -> bool {
        let text = text.as_bytes();
        let checked = match &self.public {
            KeyMaterial::Rsa { modulus, exponent } => {
                let key = RsaPublicKeyComponents { n: modulus, e: exponent };
                key.verify(&RSA_PKCS1_2048_8192_SHA256, text, signature)
            }
            KeyMaterial::P256(point) => UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(text, signature),
            KeyMaterial::Ed25519(point) => UnparsedPublicKey::new(&ED25519, point).verify(text, signature),
        };
        checked.is_ok()
    }
}

impl KeyMaterial {
    /// Each key has exactly one algorithm, whatever a token claims.
    fn algorithm(&self) -> Algorithm {
        match self {
            Self::Rsa { .. } => Algorithm::Rs256,
            Self::P256(_) => Algorithm::Es256,
            Self::Ed25519(_) => Algorithm::EdDsa,
        }
    }

    fn is_called(&self, algorithm: &str) -> bool {
        match self {
            Self::Rsa { .. } => algorithm == "RS256",
            Self::P256(_) => algorithm == "ES256",
            Self::Ed25519(_) => matches!(algorithm, "EdDSA" | "Ed25519"),
        }
    }
}
