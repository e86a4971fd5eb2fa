//! A thread as a file: exported whole, and imported as a new thread, here or elsewhere.
//!
//! The file is lines of JSON (`pes-thread/1`): the thread's header, its observations with payloads, its messages, the
//! application's state, its audit, the usage of its model calls, and an end with the number of lines and their sum. Each
//! line has the sum of itself and of all before it, so that the import can name a line that was changed.

mod archive;
mod export;
mod import;
mod lines;
mod recent;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::domain::Millis;
use crate::domain::ids::ThreadId;
use crate::domain::thread::ThreadProfile;

pub use export::{Export, export};
pub use import::{ImportAsk, ImportTurn, Imported, import};
pub(super) use recent::RecentExports;

const FORMAT: &str = "pes-thread/1";

/// The largest file that can be imported, in bytes: it is stored in one transaction.
pub const MAX_FILE_BYTES: usize = 64 << 20;

/// The first line.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Header {
    format: String,
    /// The version of the server that wrote the file.
    version: String,
    thread_id: ThreadId,
    exported_at: Millis,
    created_at: Millis,
    /// The agent core that made the thread.
    core: String,
    profile: ThreadProfile,
    /// The range of the observations that follow: the whole log as far as it is kept.
    min_seq: i64,
    last_seq: i64,
    /// The base that replaces the log before `minSeq`, if that part was deleted because of its age.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base: Option<Value>,
    /// The digests of the calls that the thread asks a person about before it makes them again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    later: Vec<String>,
}

/// The last line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct EndLine {
    /// The number of lines before this one.
    lines: u64,
    /// The hash of everything before this line.
    sha256: String,
}
