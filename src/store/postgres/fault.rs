//! PostgreSQL's errors as errors of the store.

use sqlx::postgres::{PgDatabaseError, PgSeverity};

use crate::store::Error;
use crate::store::committer::BatchError;

/// Why a statement that was its own transaction failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// Values of this statement were refused.
    Data,
    /// A concurrent transaction interfered. The same statement now sees its writes.
    Raced,
    /// The server rolled it back and reported that.
    Unavailable,
    /// The same: a page or an index that it needs is damaged.
    Damaged,
    /// No response: it is unknown whether it is stored.
    Lost,
}

pub(super) fn failure(error: &sqlx::Error) -> Failure {
    let Some(error) = database_error(error) else {
        return if matches!(error, sqlx::Error::Encode(_)) { Failure::Data } else { Failure::Lost };
    };
    // A terminated session may have been terminated in the middle of its commit.
    if matches!(error.severity(), PgSeverity::Fatal | PgSeverity::Panic) {
        return Failure::Lost;
    }
    match error.code() {
        code::UNIQUE_VIOLATION | code::SERIALIZATION_FAILURE | code::DEADLOCK_DETECTED => Failure::Raced,
        code::DATA_CORRUPTED | code::INDEX_CORRUPTED => Failure::Damaged,
        other => match &other[..2] {
            code::DATA_EXCEPTION | code::CARDINALITY_VIOLATION | code::INTEGRITY_VIOLATION | code::LIMIT_EXCEEDED => {
                Failure::Data
            }
            _ => Failure::Unavailable,
        },
    }
}

/// The error of a batch for which another try would not help.
pub(super) fn batch_error(error: &sqlx::Error) -> BatchError {
    match failure(error) {
        Failure::Data => BatchError::Data(error.to_string()),
        // A race ends after a few repetitions. A row that conflicts every time was not written by this server.
        Failure::Raced if is_unique_violation(error) => BatchError::Data(error.to_string()),
        Failure::Raced | Failure::Unavailable => BatchError::Unavailable(error.to_string()),
        Failure::Damaged => BatchError::DamagedPart(error.to_string()),
        Failure::Lost => BatchError::Lost(error.to_string()),
    }
}

/// A failed read, or a failed write that may be repeated.
pub(super) fn error(error: sqlx::Error) -> Error {
    match &error {
        sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => Error::Damaged(error.to_string()),
        _ if failure(&error) == Failure::Data => Error::Refused(error.to_string()),
        _ => Error::Unavailable(error.to_string()),
    }
}

/// Whether others held a lock: it was not acquired in time, or each waited for the other and PostgreSQL ended this one.
pub(super) fn is_locked(error: &sqlx::Error) -> bool {
    database_error(error)
        .is_some_and(|error| matches!(error.code(), code::LOCK_NOT_AVAILABLE | code::DEADLOCK_DETECTED))
}

/// What sqlx makes of a connection that is closed where the answer to its first packet should come.
const CLOSED_AT_ONCE: &str = "unexpected response from SSLRequest: 0x00";

/// Whether a connection failed because the server cannot be reached, or accepts none at present: it starts, recovers after
/// a power failure, or stops. A proxy before it closes the connection then, without an answer.
pub(super) fn is_not_serving(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Io(_))
        || matches!(error, sqlx::Error::Protocol(why) if why.starts_with(CLOSED_AT_ONCE))
        || database_error(error).is_some_and(|error| error.code() == code::CANNOT_CONNECT_NOW)
}

fn is_unique_violation(error: &sqlx::Error) -> bool {
    database_error(error).is_some_and(|error| error.code() == code::UNIQUE_VIOLATION)
}

fn database_error(error: &sqlx::Error) -> Option<&PgDatabaseError> {
    error.as_database_error()?.try_downcast_ref()
}

/// <https://www.postgresql.org/docs/current/errcodes-appendix.html>; two characters name a whole class.
mod code {
    pub const CANNOT_CONNECT_NOW: &str = "57P03";
    pub const CARDINALITY_VIOLATION: &str = "21";
    pub const DATA_EXCEPTION: &str = "22";
    pub const INTEGRITY_VIOLATION: &str = "23";
    pub const UNIQUE_VIOLATION: &str = "23505";
    pub const SERIALIZATION_FAILURE: &str = "40001";
    pub const DEADLOCK_DETECTED: &str = "40P01";
    pub const LOCK_NOT_AVAILABLE: &str = "55P03";
    pub const LIMIT_EXCEEDED: &str = "54";
    pub const DATA_CORRUPTED: &str = "XX001";
    pub const INDEX_CORRUPTED: &str = "XX002";
}
