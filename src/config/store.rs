//! `[store]`

use std::path::PathBuf;

use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use super::section::{by_path, named};

section! {
    /// The database.
    Store {
        /// A postgres:// URL. Unset = SQLite in `data_dir`.
        #[serde(with = "super::secret")]
        url: Option<SecretString> = None, named("DATABASE_URL").secret().example("\"postgres://pes:password@localhost/pes\"");
        /// The folder of `pes.db`. Only one process can use it at a time.
        data_dir: PathBuf = PathBuf::from("./data"), named("PES_DATA_DIR");
        /// SQLite's `synchronous`: with `normal` the last commits before a power cut may be lost.
        synchronous: Synchronous = Synchronous::Full, by_path();
        /// PostgreSQL connections for reads, half for the engine and half for clients; four more are used for
        /// everything else.
        connections: u32 = 16, by_path();
        /// Writes the log of observations compressed, at about a quarter of its size. Irrevocable: versions of pes that do not
        /// know this setting can never use the database again. Unset = if the database has no threads when a server starts
        /// on it, and no other server, and from then on. Set it for an older database when every server knows it.
        compress_log: Option<bool> = None, by_path().example("true");
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Synchronous {
    #[default]
    Full,
    Normal,
}
