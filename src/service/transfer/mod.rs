//! A thread as a file: written out whole, and read in again as a new thread, here or elsewhere.
//!
//! The file is lines of JSON (`pes-thread/1`): what the thread is, its observations whole, its messages, the application's
//! state, its audit, what its model calls took, and an end with the number of lines and their sum. Each line carries the
//! sum of itself and of all before it, so that whoever reads it in can name the line that was changed.

mod archive;
mod export;
mod import;
mod lines;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::domain::Millis;
use crate::domain::ids::ThreadId;
use crate::domain::thread::ThreadProfile;

pub use export::{Export, export};
pub use import::{ImportAsk, Imported, Turn, import};

const FORMAT: &str = "pes-thread/1";

/// The longest file that is read in, in bytes: it is stored in one transaction.
pub const MOST_BYTES: usize = 64 << 20;

/// The first line.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Header {
    format: String,
    /// Of the server that wrote it.
    version: String,
    thread_id: ThreadId,
    exported_at: Millis,
    created_at: Millis,
    /// The agent core that made the thread.
    core: String,
    profile: ThreadProfile,
    /// The observations that follow: all of the log that there is.
    min_seq: i64,
    last_seq: i64,
    /// What was told before `minSeq`, where the beginning of the log was deleted because of its age.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base: Option<Value>,
}

/// The last line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct End {
    /// How many stand before it.
    lines: u64,
    /// Of everything before it.
    sha256: String,
}
