//! Compression of the log's entries: a block of LZ4 with a dictionary of what most entries contain. The dictionary makes
//! even a small entry a third of its text.
//!
//! The stored form is the number of the dictionary (one byte), the length of the text (four bytes, the lowest first), and
//! the block. A dictionary that was released never changes: a better one gets the next number, and a schema that a program
//! must know.

use lz4_flex::block::{compress_with_dict, decompress_with_dict};

use super::super::Result;
use super::super::text::damaged;

/// The number of `DICTIONARY`.
const NUMBER: u8 = 1;

const DICTIONARY: &[u8] = include_bytes!("dictionary.txt");

/// A text is at most this many times as long as its block.
const MAX_RATIO: usize = 255;

/// `None`: it would be no smaller.
pub(super) fn compressed(text: &str) -> Option<Vec<u8>> {
    let length = u32::try_from(text.len()).ok()?;
    let block = compress_with_dict(text.as_bytes(), DICTIONARY);
    let stored = [&[NUMBER][..], &length.to_le_bytes(), &block].concat();
    (stored.len() < text.len()).then_some(stored)
}

pub(super) fn decompressed(stored: &[u8]) -> Result<String> {
    let Some((&[number, l0, l1, l2, l3], block)) = stored.split_first_chunk() else {
        return Err(damaged("observation", "its compressed text has no length"));
    };
    if number != NUMBER {
        return Err(damaged("observation", "its text was compressed with an unknown dictionary"));
    }
    let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
    if length > block.len().saturating_mul(MAX_RATIO) {
        return Err(damaged("observation", "its compressed text is too short for its length"));
    }
    let text = decompress_with_dict(block, length, DICTIONARY).map_err(|why| damaged("observation", why))?;
    if text.len() != length {
        return Err(damaged("observation", "its compressed text has another length"));
    }
    String::from_utf8(text).map_err(|why| damaged("observation", why))
}

#[cfg(test)]
mod tests;
