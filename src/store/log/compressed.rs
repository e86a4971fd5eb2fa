//! Compression of the log's entries: ids are written as bytes, then all is a block of LZ4 with a dictionary of what most
//! entries contain. The dictionary makes even a small entry a third of its text, the bytes for ids make that a quarter.
//!
//! The stored form is its number (one byte), the length of the text (four bytes, the lowest first), and the block. What a
//! number stands for never changes, nor does the dictionary: a better form gets the next number, and a schema that a program
//! must know.

mod packed;

use lz4_flex::block::{compress_with_dict, decompress_with_dict};

use self::packed::{packed, unpacked};
use super::super::Result;
use super::super::text::damaged;

/// The block is that of the text itself. Such entries are only read.
const PLAIN: u8 = 1;

/// The block is that of the text with ids as bytes.
const PACKED: u8 = 2;

const DICTIONARY: &[u8] = include_bytes!("dictionary.txt");

/// A block holds at most this many times its own length.
const MAX_RATIO: usize = 255;

/// `None`: it would be no smaller.
pub(super) fn compressed(text: &str) -> Option<Vec<u8>> {
    let length = u32::try_from(text.len()).ok()?;
    let block = compress_with_dict(&packed(text), DICTIONARY);
    let stored = [&[PACKED][..], &length.to_le_bytes(), &block].concat();
    (stored.len() < text.len()).then_some(stored)
}

pub(super) fn decompressed(stored: &[u8]) -> Result<String> {
    let Some((&[form, l0, l1, l2, l3], block)) = stored.split_first_chunk() else {
        return Err(damaged("observation", "its compressed text has no length"));
    };
    let longest = block.len().saturating_mul(MAX_RATIO);
    let unpacks = match form {
        PLAIN => false,
        PACKED => true,
        _ => return Err(damaged("observation", "its text was compressed in an unknown form")),
    };
    let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
    let longest_text = if unpacks { longest.saturating_mul(packed::MAX_RATIO) } else { longest };
    if length > longest_text {
        return Err(damaged("observation", "its compressed text is too short for its length"));
    }
    // A packed text is no longer than the text.
    let held = decompress_with_dict(block, length.min(longest), DICTIONARY);
    let held = held.map_err(|why| damaged("observation", why))?;
    let text = if unpacks { unpacked(&held, length) } else { (held.len() == length).then_some(held) };
    let text = text.ok_or_else(|| damaged("observation", "its compressed text has another length"))?;
    String::from_utf8(text).map_err(|why| damaged("observation", why))
}

#[cfg(test)]
mod tests;
