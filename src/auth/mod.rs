//! Who may call: API keys of tenants, with scopes.
//!
//! A key is 256 random bits behind `pes_`; only its SHA-256 is stored, and compared in constant time. Keys come from the
//! configuration and from the store (`pes keys new`); where there is none at all, a loopback server is open.
//!
//! People come with tokens of issuers that are configured (`oidc/`, OpenID Connect), and need no key.

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
pub(crate) use keys::taken;
pub use keys::{Keys, LOOK_AGAIN, OPEN_TENANT, Pass};
pub(crate) use ledger::overlaps;
pub use ledger::{ApiKey, Issued, KeyRotation, NewKey, Rotated, check_tenant, issue, list, revoke, rotate};
#[cfg(feature = "internals")]
pub use mint::hash;
pub use mint::mint_key;
pub use oidc::{Issuers, LOGIN, Returned};
#[cfg(feature = "internals")]
pub use people::Ended;
#[cfg(feature = "internals")]
pub use refused_logins::SUMMED_UP;
#[cfg(feature = "internals")]
pub use sessions::SESSION;
pub use sessions::Session;
