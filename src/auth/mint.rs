//! Creates new keys, and the hashes that are stored.

use sha2::{Digest, Sha256};

use crate::domain::hex;

/// A new key: readable prefix, 256 bits from the system.
pub fn mint_key() -> String {
    format!("pes_{}", hex::of(&random::<32>()))
}

/// A public id for a key, for lists and revocation.
pub(super) fn mint_id() -> String {
    format!("key_{}", hex::of(&random::<8>()))
}

/// A browser's session token, as hard to guess as a key.
pub(super) fn mint_session() -> String {
    hex::of(&random::<32>())
}

/// The stored form of a key. A key has 256 random bits, so one round of hashing is enough.
pub fn hash(key: &str) -> String {
    hex::of(&Sha256::digest(key.as_bytes()))
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the system has random numbers, else no key may be made");
    bytes
}
