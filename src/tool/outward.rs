//! What tools that call out have in common.

use crate::domain::tool::ToolError;
use crate::egress::{Answer, Error};

/// How much of an error's body is told.
const TOLD: usize = 1_000;

/// A call that came to nothing, for the model.
pub(super) fn failed(error: &Error) -> ToolError {
    let code = match error {
        Error::Refused(_) => "egress_refused",
        Error::NoHeaders(_) | Error::Stalled(_) | Error::Overdue(_) => "timeout",
        Error::TooLarge(_) => "output_too_large",
        Error::Unreachable(_) | Error::Cut(_) => "failed",
    };
    ToolError { code: code.to_owned(), message: error.to_string(), pointer: None }
}

/// An answer that is no success, with the beginning of what it says.
pub(super) async fn refusal(mut answer: Answer) -> ToolError {
    let status = answer.status();
    let said = answer.beginning(TOLD).await;
    let said = String::from_utf8_lossy(&said);
    ToolError {
        code: "failed".to_owned(),
        message: format!("The service answered {status}: {}", said.trim()),
        pointer: None,
    }
}

/// The body whole; an error if it is larger than the call's bounds.
pub(super) async fn whole(answer: &mut Answer) -> Result<Vec<u8>, Error> {
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await? {
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}
