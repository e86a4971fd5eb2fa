//! Data blocks: text between markers that nothing inside the text can close.

use std::cell::Cell;

use super::template::{DATA, fill};
use crate::domain::prompt::{self, PromptMessage};

/// How many short nonces are tried: a prompt is rendered at most this often, and once more.
const MAX_SHORT_NONCES: usize = 4;

/// Renders a prompt with a nonce that is in its markers and nowhere between them. The nonce depends only on the
/// prompt's seed, so an author who knows the run can write the short nonces into data. If all of them occur there, the
/// nonce is the digest of the whole rendered prompt, which no text in the prompt can contain.
pub(super) fn with_markers(seed: &str, render: impl Fn(&Marker) -> Vec<PromptMessage>) -> Vec<PromptMessage> {
    let mut number = fnv(seed);
    let mut messages = Vec::new();
    for _ in 0..MAX_SHORT_NONCES {
        let marker = Marker::new(format!("{:012x}", number & 0xFFFF_FFFF_FFFF));
        messages = render(&marker);
        if !marker.occurs_in_data.get() {
            return messages;
        }
        number = fnv(&marker.nonce);
    }
    render(&Marker::new(prompt::digest(&messages)))
}

/// How the line before a block begins; the name of the block follows.
pub(super) const BLOCK_BEGINS: &str = "--- BEGIN ";

pub(super) struct Marker {
    nonce: String,
    /// Some data contains the nonce.
    occurs_in_data: Cell<bool>,
}

impl Marker {
    fn new(nonce: String) -> Self {
        Self { nonce, occurs_in_data: Cell::new(false) }
    }

    /// A block of `text`, unchanged, between lines with its name.
    pub(super) fn block(&self, name: &str, text: &str) -> String {
        let mut block = String::new();
        self.append(&mut block, name, |block| block.push_str(text));
        block
    }

    /// Appends a block; `write` adds its content.
    pub(super) fn append(&self, to: &mut String, name: &str, write: impl FnOnce(&mut String)) {
        let (name, nonce) = (one_line(name), self.nonce.as_str());
        to.extend([BLOCK_BEGINS, &name, " ", nonce, " ---\n"]);
        let begins = to.len();
        write(to);
        if to[begins..].contains(nonce) || name.contains(nonce) {
            self.occurs_in_data.set(true);
        }
        to.extend(["\n--- END ", &name, " ", nonce, " ---"]);
    }

    /// What the system prompt says about the markers.
    pub(super) fn explanation(&self) -> String {
        fill(DATA, &[("nonce", &self.nonce)])
    }
}

/// Names come from models too: they must not break out of their line.
pub(super) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The first `most` characters, followed by how many are missing and where they are.
pub(crate) fn shortened(text: &str, most: usize, note: &str) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((cut, _)) => {
            let left_out = text[cut..].chars().count();
            format!("{}\n[… {left_out} more characters left out{note}]", &text[..cut])
        }
    }
}

/// FNV-1a: the same text gives the same number in every build.
fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3))
}

#[cfg(test)]
mod tests;
