//! SQLite's errors as errors of the store.

use std::fmt::Display;

use sqlx::migrate::MigrateError;

use super::damage::RESTORE;
use crate::store::Error;

/// Why a transaction failed. It was rolled back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// Values of this transaction were refused.
    Data,
    /// The disk failed: its contents are known only after the file is opened again.
    Lost,
    /// Nothing was written.
    Unavailable,
    /// Nothing was written: the file is damaged.
    Damaged,
}

pub(super) fn failure(error: &rusqlite::Error) -> Failure {
    match written_code(error) {
        Some(code::ERROR | code::TOOBIG | code::CONSTRAINT | code::MISMATCH | code::RANGE) => Failure::Data,
        Some(code::IOERR) => Failure::Lost,
        Some(code::CORRUPT | code::NOT_A_DATABASE) => Failure::Damaged,
        Some(_) => Failure::Unavailable,
        // The error is not from SQLite: a value does not have the type of its column.
        None => Failure::Data,
    }
}

fn written_code(error: &rusqlite::Error) -> Option<u32> {
    let code = error.sqlite_error()?.extended_code;
    Some(code.unsigned_abs() & 0xFF)
}

/// SQLite's result code without its extension (https://sqlite.org/rescode.html).
fn primary_code(error: &sqlx::Error) -> Option<u32> {
    Some(extended_code(error)? & 0xFF)
}

fn extended_code(error: &sqlx::Error) -> Option<u32> {
    match error {
        sqlx::Error::Migrate(failed) => match &**failed {
            MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => extended_code(error),
            _ => None,
        },
        error => error.as_database_error()?.code()?.parse().ok(),
    }
}

/// Why a file cannot be opened, for the operator.
pub(super) fn why_not_opened(error: &sqlx::Error) -> String {
    advice(extended_code(error), error)
}

/// Why an open file cannot be read or written, for the operator.
pub(super) fn why_not_used(error: &rusqlite::Error) -> String {
    advice(error.sqlite_error().map(|error| error.extended_code.unsigned_abs()), error)
}

/// Whether SQLite found the file damaged.
pub(super) fn is_damaged(error: &rusqlite::Error) -> bool {
    failure(error) == Failure::Damaged
}

/// The error, and what to do. If the shared-memory file cannot grow, SQLite reports an IO error whatever the reason.
fn advice(code: Option<u32>, error: &dyn Display) -> String {
    let is_full = code.is_some_and(|code| code & 0xFF == code::FULL || code == code::IOERR_SHMSIZE);
    if is_full {
        format!("there is no room left on its disk; make room, then start again ({error})")
    } else if code.is_some_and(|code| matches!(code & 0xFF, code::CORRUPT | code::NOT_A_DATABASE)) {
        format!("it is damaged ({error}); {RESTORE}")
    } else if code.is_some_and(|code| matches!(code & 0xFF, code::READONLY | code::CANNOT_OPEN)) {
        format!(
            "it, a file beside it (pes.db-wal, pes.db-shm) or their folder cannot be written; make all of them the own ones of \
             the user who runs this ({error})"
        )
    } else {
        error.to_string()
    }
}

mod code {
    pub const ERROR: u32 = 1;
    pub const READONLY: u32 = 8;
    pub const IOERR: u32 = 10;
    pub const CORRUPT: u32 = 11;
    pub const FULL: u32 = 13;
    pub const CANNOT_OPEN: u32 = 14;
    pub const IOERR_SHMSIZE: u32 = 4874;
    pub const NOT_A_DATABASE: u32 = 26;
    pub const TOOBIG: u32 = 18;
    pub const CONSTRAINT: u32 = 19;
    pub const MISMATCH: u32 = 20;
    pub const RANGE: u32 = 25;
}

/// Whether it failed because the file was opened read-only.
pub(super) fn is_read_only(error: &sqlx::Error) -> bool {
    primary_code(error) == Some(code::READONLY)
}

pub(super) fn unavailable(error: impl Display) -> Error {
    Error::Unavailable(error.to_string())
}

/// The error of a failed write other than a batch.
pub(super) fn unwritten(error: &rusqlite::Error) -> Error {
    match failure(error) {
        Failure::Data => Error::Refused(error.to_string()),
        Failure::Lost | Failure::Unavailable => Error::Unavailable(why_unavailable(error)),
        Failure::Damaged => Error::Unusable(damage(error)),
    }
}

/// Why nothing is written now, for the operator and for whoever asks whether the server is ready.
pub(super) fn why_unavailable(error: &rusqlite::Error) -> String {
    match written_code(error) {
        Some(code::FULL) => format!("there is no room left on its disk; make room ({error})"),
        Some(_) | None => error.to_string(),
    }
}

/// How the open database is damaged, for the operator and for whoever asks whether the server is ready.
pub(super) fn damage(error: &dyn Display) -> String {
    format!("the database is damaged ({error}); stop the server and {RESTORE}")
}

/// The same if it is damage why a read failed.
pub(super) fn damage_of_read(error: &sqlx::Error) -> Option<String> {
    let is_damage = matches!(primary_code(error), Some(code::CORRUPT | code::NOT_A_DATABASE));
    Some(damage(&error.as_database_error().filter(|_| is_damage)?.message()))
}

/// The error of a failed read.
pub(super) fn unreadable(error: sqlx::Error) -> Error {
    match primary_code(&error) {
        Some(code::CORRUPT | code::NOT_A_DATABASE) => Error::Damaged(format!("{error}; {RESTORE}")),
        Some(_) | None if matches!(error, sqlx::Error::ColumnDecode { .. }) => Error::Damaged(error.to_string()),
        Some(_) | None => Error::Unavailable(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file or folder of another user, and one beside the database that a command of root left.
    #[test]
    fn a_file_that_cannot_be_written_is_told_with_what_to_do() {
        for code in [1544, 14] {
            let error = rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), Some("why".to_owned()));
            let told = "it, a file beside it (pes.db-wal, pes.db-shm) or their folder cannot be written; make all of them the \
                        own ones of the user who runs this (why)";
            assert_eq!(why_not_used(&error), told);
        }
    }
}
