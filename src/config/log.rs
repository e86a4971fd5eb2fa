//! `[log]`

use serde::{Deserialize, Serialize};

use super::section::named;

section! {
    /// What is written to stderr.
    Log {
        /// text or json. Each line of a run carries traceId, threadId and runId.
        format: LogFormat = LogFormat::Text, named("PES_LOG_FORMAT");
        /// As in RUST_LOG: `info`, `pes=debug,warn`.
        filter: String = "info".to_owned(), named("RUST_LOG");
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}
