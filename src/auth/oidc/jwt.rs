//! Parses a JSON Web Token (RFC 7515, RFC 7519) and its claims. Pure: it has no keys and no clock.

use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::config::Algorithm;
use crate::domain::Millis;

/// Longer tokens are rejected; tokens with hundreds of groups are shorter.
const MAX_TOKEN_BYTES: usize = 16 << 10;

/// Why a token is rejected: the rest of a sentence that begins with "the token".
pub(super) type RejectReason = String;

/// A parsed token whose signature was not verified yet.
pub(super) struct Jwt<'t> {
    pub(super) algorithm: Algorithm,
    /// The id of the key, if the issuer uses ids.
    pub(super) kid: Option<String>,
    pub(super) claims: Claims,
    /// The signed part of the text.
    pub(super) signed: &'t str,
    pub(super) signature: Vec<u8>,
}

/// Whether a text has the form of a token: three parts.
pub(in crate::auth) fn is_token(text: &str) -> bool {
    text.bytes().filter(|byte| *byte == b'.').count() == 2
}

impl<'t> Jwt<'t> {
    pub(super) fn read(token: &'t str) -> Result<Self, RejectReason> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(format!("has more than {MAX_TOKEN_BYTES} bytes"));
        }
        let unreadable = || "is no signed JSON Web Token".to_owned();
        let (signed, signature) = token.rsplit_once('.').ok_or_else(unreadable)?;
        let (header, claims) = signed.split_once('.').ok_or_else(unreadable)?;
        let header = part(header)?;
        // Critical extensions are not supported.
        if header.0.contains_key("crit") {
            return Err("has a critical header, and this server knows none".to_owned());
        }
        let typ = header.text("typ").unwrap_or("JWT").to_ascii_lowercase();
        if !matches!(typ.trim_start_matches("application/"), "jwt" | "at+jwt") {
            return Err(format!("is of the type `{typ}`, which lets nobody in"));
        }
        let algorithm = match header.text("alg") {
            Some("RS256") => Algorithm::Rs256,
            Some("ES256") => Algorithm::Es256,
            Some("EdDSA") => Algorithm::EdDsa,
            Some(_) | None => return Err("is not signed with RS256, ES256 or EdDSA".to_owned()),
        };
        Ok(Self {
            algorithm,
            kid: header.text("kid").map(str::to_owned),
            claims: part(claims)?,
            signed,
            signature: decoded(signature)?,
        })
    }
}

fn part(text: &str) -> Result<Claims, RejectReason> {
    serde_json::from_slice(&decoded(text)?).map_err(|error| format!("has a part that cannot be read: {error}"))
}

fn decoded(text: &str) -> Result<Vec<u8>, RejectReason> {
    BASE64_URL_SAFE_NO_PAD.decode(text).map_err(|_| "has a part that is not base64url".to_owned())
}

/// The members of a token. Duplicates are rejected: other readers might use the other value.
#[derive(Clone, Debug, Default)]
pub(super) struct Claims(pub(super) Map<String, Value>);

impl Claims {
    /// A member of the token. A name that begins with `/` is a JSON Pointer, such as `/realm_access/roles`.
    fn get(&self, name: &str) -> Option<&Value> {
        let Some(path) = name.strip_prefix('/') else { return self.0.get(name) };
        let (first, rest) = path.find('/').map_or((path, ""), |at| path.split_at(at));
        self.0.get(&first.replace("~1", "/").replace("~0", "~"))?.pointer(rest)
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.as_str()
    }

    /// A text, or the only one of a list.
    pub(super) fn one_text(&self, name: &str) -> Option<&str> {
        match self.get(name)? {
            Value::Array(many) if many.len() == 1 => many[0].as_str(),
            value => value.as_str(),
        }
    }

    /// Seconds since 1970, possibly with a fraction, converted to milliseconds.
    pub(super) fn time(&self, name: &str) -> Result<Option<Millis>, RejectReason> {
        let Some(value) = self.0.get(name) else { return Ok(None) };
        let seconds = value.as_f64().filter(|seconds| (0.0..1e12).contains(seconds));
        #[allow(clippy::cast_possible_truncation, reason = "the range was looked at")]
        let millis = seconds.map(|seconds| (seconds * 1000.0) as Millis);
        millis.map(Some).ok_or_else(|| format!("has a claim `{name}` that is no time"))
    }

    /// A list of texts; a single text counts as a list of one.
    pub(super) fn list(&self, name: &str) -> Vec<&str> {
        match self.get(name) {
            Some(Value::String(one)) => vec![one],
            Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).collect(),
            Some(_) | None => Vec::new(),
        }
    }

    /// The same, but a single text is split at spaces.
    pub(super) fn words(&self, name: &str) -> Vec<&str> {
        self.list(name).into_iter().flat_map(str::split_whitespace).collect()
    }
}

impl<'de> Deserialize<'de> for Claims {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct UniqueMembers;

        impl<'de> Visitor<'de> for UniqueMembers {
            type Value = Claims;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Claims, A::Error> {
                let mut found = Map::new();
                while let Some((name, value)) = members.next_entry::<String, Value>()? {
                    if found.contains_key(&name) {
                        return Err(A::Error::custom(format!("`{name}` stands in it twice")));
                    }
                    found.insert(name, value);
                }
                Ok(Claims(found))
            }
        }

        from.deserialize_map(UniqueMembers)
    }
}
