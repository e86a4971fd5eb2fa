//! The fault that a caller of the server gets for a failed store call.

use super::Error;
use crate::domain::fault::{Code, Fault};

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        match error {
            Error::Unavailable(_) | Error::Unusable(_) => {
                tracing::warn!(%error, "the store failed");
                let detail = "The store does not answer; try again in a moment.";
                Fault::new(Code::StoreUnavailable, detail).retry_after(1_000)
            }
            Error::Refused(reason) => Fault::new(Code::Invalid, reason),
            Error::Damaged(_) => {
                tracing::error!(%error, "stored data cannot be read");
                Fault::new(Code::Internal, "What is stored here cannot be read; see the server's log.")
            }
        }
    }
}
