//! The end of a session over HTTP: no new request can be sent in it, while requests in flight may still be answered.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rmcp::transport::common::client_side_sse::SseRetryPolicy;
use tokio_util::sync::CancellationToken;

/// How many attempts in a row to open a broken stream may fail before the session is given up.
const MAX_FAILED_REOPENINGS: usize = 4;
/// The pause that is doubled with each failed attempt.
const REOPENING_PAUSE: Duration = Duration::from_millis(500);

/// Whether the session has ended, and why.
#[derive(Clone, Debug, Default)]
pub(super) struct SessionEnd {
    ended: CancellationToken,
    why: Arc<OnceLock<&'static str>>,
}

impl SessionEnd {
    pub(super) fn end(&self, why: &'static str) {
        self.why.get_or_init(|| why);
        self.ended.cancel();
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.is_cancelled()
    }

    /// Waits for the end and returns the reason.
    pub(super) async fn ended(&self) -> &'static str {
        self.ended.cancelled().await;
        self.why.get().copied().unwrap_or_default()
    }
}

/// How the library opens streams again that break. A server for which that fails too often is down: the session ends,
/// and so does the call that waits for the stream.
#[derive(Debug)]
pub(super) struct Reopening {
    pub(super) session: SessionEnd,
}

impl SseRetryPolicy for Reopening {
    fn retry(&self, failed: usize) -> Option<Duration> {
        if failed >= MAX_FAILED_REOPENINGS {
            self.session.end("its stream broke and could not be opened again");
            return None;
        }
        Some(REOPENING_PAUSE * (1_u32 << failed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_that_cannot_be_opened_again_ends_the_session() {
        let session = SessionEnd::default();
        let reopening = Reopening { session: session.clone() };
        let pauses: Vec<u128> = (0..4).map(|failed| reopening.retry(failed).expect("a pause").as_millis()).collect();
        assert_eq!((pauses, session.has_ended()), (vec![500, 1_000, 2_000, 4_000], false));
        assert_eq!((reopening.retry(4), session.has_ended()), (None, true));
    }
}
