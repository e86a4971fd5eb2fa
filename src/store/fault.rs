//! The fault that a caller of the server gets for a failed store call.

use std::time::Instant;

use parking_lot::Mutex;

use super::Error;
use crate::domain::fault::{Code, Fault};
use crate::domain::repeated_failure::RepeatedFailure;

/// Each request and each commit may fail by the same store.
static FAILURES: Mutex<RepeatedFailure> = Mutex::new(RepeatedFailure::new());

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        match error {
            Error::Unavailable(_) => {
                log(&error);
                let detail = "The store does not answer; try again in a moment.";
                Fault::new(Code::StoreUnavailable, detail).retry_after(1_000)
            }
            Error::Unusable(_) => {
                log(&error);
                let detail = "The database cannot be used until its operator has mended it; see the server's log.";
                Fault::new(Code::StoreUnavailable, detail)
            }
            Error::Refused(reason) => Fault::new(Code::Invalid, reason),
            Error::Damaged(_) => {
                tracing::error!(%error, "stored data cannot be read");
                Fault::new(Code::Internal, "What is stored here cannot be read; see the server's log.")
            }
        }
    }
}

fn log(error: &Error) {
    if let Some(count) = FAILURES.lock().count(Instant::now()) {
        tracing::warn!(count, %error, "the store failed");
    }
}
