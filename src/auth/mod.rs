//! Authentication: API keys, tokens of issuers, and sessions of browsers.
//!
//! A key is `pes_` and 256 random bits; only its SHA-256 is stored, and compared in constant time. Keys come from the
//! configuration and from the store (`pes keys new`); if there are none at all, a loopback server is open.
//!
//! People use tokens of configured issuers (`oidc/`, OpenID Connect), and need no key.

mod audit_key;
mod keys;
mod ledger;
mod mint;
mod oidc;
mod people;
mod refused_logins;
mod sessions;
mod wrong_key_throttle;

pub use audit_key::{AuditKey, PublicKey, Signed, VerifyingKey, signer};
#[cfg(feature = "internals")]
pub use keys::Now;
pub use keys::{ConfiguredApiKey, Keys, OPEN_TENANT, Pass, RECHECK_INTERVAL};
pub(crate) use keys::{name_taken, too_many_keys};
pub use ledger::{
    ApiKey, IssueResult, Issued, KeyRotation, NewKey, RotationResult, check_tenant, issue, list, revoke, rotate,
};
pub(crate) use ledger::{MAX_OVERLAP, expired, overlaps};
#[cfg(feature = "internals")]
pub use mint::hash;
pub use mint::mint_key;
#[cfg(feature = "internals")]
pub use oidc::FinishedLogin;
pub use oidc::{FailedLogin, Issuers, LOGIN_TTL, Login, LoginCallback};
#[cfg(feature = "internals")]
pub use people::AccessEnd;
#[cfg(feature = "internals")]
pub use refused_logins::AUDIT_INTERVAL;
#[cfg(feature = "internals")]
pub use sessions::SESSION_TTL;
pub use sessions::{PersonSession, Session};
