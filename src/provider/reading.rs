//! Streams a reply while it is read from the network.

use std::collections::VecDeque;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, Stream, stream};

use super::http::egress_failure;
use super::wire::{ReplyDecoder, Wire};
use crate::domain::model::{Delta, ModelFailure};
use crate::egress::IncomingResponse;

/// How long the connection may take to end after the reply, so that it can be reused.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(50);
/// How many bytes are decoded before the deltas are handed on.
const MAX_BYTES_PER_POLL: usize = 64 << 10;

struct ReplyStream<W> {
    /// `None` once the reply has ended.
    source: Option<(IncomingResponse, ReplyDecoder<W>)>,
    /// The deltas of the bytes that have just arrived, before they are merged.
    decoded: Vec<Delta>,
    deltas: VecDeque<Delta>,
    failure: Option<ModelFailure>,
    /// Drains the connection of a complete reply, so that it returns to the pool.
    release: Option<BoxFuture<'static, ()>>,
}

/// The deltas of a successful response. Adjacent texts that have already arrived are merged into one delta.
pub(crate) fn stream<W: Wire + 'static>(
    answer: IncomingResponse,
    body: ReplyDecoder<W>,
) -> impl Stream<Item = Result<Delta, ModelFailure>> + Send {
    let source = Some((answer, body));
    let mut reply = ReplyStream { source, decoded: Vec::new(), deltas: VecDeque::new(), failure: None, release: None };
    stream::poll_fn(move |context| reply.poll_next(context))
}

impl<W: Wire> ReplyStream<W> {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Delta, ModelFailure>>> {
        if self.deltas.is_empty() && self.source.is_some() {
            self.read(context);
        }
        match self.deltas.pop_front() {
            Some(delta) => Poll::Ready(Some(Ok(delta))),
            None if self.source.is_some() => Poll::Pending,
            None => {
                if let Some(release) = &mut self.release {
                    ready!(release.as_mut().poll(context));
                    self.release = None;
                }
                Poll::Ready(self.failure.take().map(Err))
            }
        }
    }

    /// Decodes what has arrived. If that yields no delta, the reader is woken when more arrives.
    fn read(&mut self, context: &mut Context<'_>) {
        let mut bytes_read = 0;
        while let Some((answer, body)) = &mut self.source
            && (bytes_read < MAX_BYTES_PER_POLL || self.decoded.is_empty())
        {
            let chunk = match answer.poll_chunk(context) {
                Poll::Pending => break,
                Poll::Ready(chunk) => chunk.map_err(|error| egress_failure(&error)),
            };
            let progress = chunk.and_then(|bytes| {
                let Some(bytes) = bytes else { return Ok(ReadProgress::BodyEnded) };
                bytes_read += bytes.len();
                let is_complete = body.push(&bytes, &mut self.decoded)?;
                Ok(if is_complete { ReadProgress::Complete } else { ReadProgress::More })
            });
            if matches!(progress, Ok(ReadProgress::More)) {
                continue;
            }
            let Some((answer, body)) = self.source.take() else { break };
            self.failure = match progress {
                Ok(ReadProgress::BodyEnded) => body.finish(&mut self.decoded).err(),
                Ok(ReadProgress::Complete | ReadProgress::More) => {
                    self.release = Some(answer.drain(DRAIN_TIMEOUT).boxed());
                    None
                }
                Err(failure) => Some(failure),
            };
        }
        append_merged(&mut self.deltas, self.decoded.drain(..));
    }
}

/// How the reply continues after a chunk.
enum ReadProgress {
    More,
    /// The reply is complete; further bytes are ignored.
    Complete,
    /// The body has ended.
    BodyEnded,
}

/// Merges adjacent deltas of text.
fn append_merged(merged: &mut VecDeque<Delta>, deltas: impl Iterator<Item = Delta>) {
    for delta in deltas {
        match (merged.back_mut(), delta) {
            (Some(Delta::Text(last)), Delta::Text(next)) | (Some(Delta::Thinking(last)), Delta::Thinking(next)) => {
                last.push_str(&next);
            }
            (_, delta) => merged.push_back(delta),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_text_is_one_delta_and_nothing_changes_places() {
        let text = |text: &str| Delta::Text(text.to_owned());
        let thought = |text: &str| Delta::Thinking(text.to_owned());
        let said = vec![text("a"), text("b"), thought("c"), thought("d"), text("e"), Delta::WasThinking, text("f")];
        let expected = [text("ab"), thought("cd"), text("e"), Delta::WasThinking, text("f")];
        let mut merged = VecDeque::new();
        append_merged(&mut merged, said.into_iter());
        assert_eq!(merged, expected);
    }
}
