//! Making new keys, and the hash of them that is stored.

use sha2::{Digest, Sha256};

use crate::domain::hex;

/// A new key: readable prefix, 256 bits from the system.
pub fn mint_key() -> String {
    format!("pes_{}", hex::of(&random::<32>()))
}

/// A public name for a key, for lists and for revoking it.
pub(super) fn mint_id() -> String {
    format!("key_{}", hex::of(&random::<8>()))
}

/// What a browser holds instead of a key: as hard to guess.
pub(super) fn mint_session() -> String {
    hex::of(&random::<32>())
}

/// What is stored of a key: it has 256 bits of chance, so one round is enough.
pub fn hash(key: &str) -> String {
    hex::of(&Sha256::digest(key.as_bytes()))
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the system has random numbers, else no key may be made");
    bytes
}
