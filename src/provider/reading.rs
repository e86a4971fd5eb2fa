//! A reply while it is read from the network.

use std::collections::VecDeque;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};

use super::DeltaStream;
use super::http::of_egress;
use super::wire::{Body, Wire};
use crate::domain::model::{Delta, ModelFailure};
use crate::egress::Answer;

/// After the reply the connection is given this long to end, so that it can serve the next call.
const LAST_BYTES: Duration = Duration::from_millis(50);
/// How much of what has arrived is taken before it is handed on.
const MOST_AT_ONCE: usize = 64 << 10;

struct Reading<W> {
    /// Gone once the reply is over.
    source: Option<(Answer, Body<W>)>,
    deltas: VecDeque<Delta>,
    failure: Option<ModelFailure>,
    /// The connection of a reply that is whole, on its way back.
    release: Option<BoxFuture<'static, ()>>,
}

/// The deltas of an answer that began with success. Text that has arrived in several pieces is one delta.
pub(crate) fn stream<W: Wire + 'static>(answer: Answer, body: Body<W>) -> DeltaStream {
    let mut reading = Reading { source: Some((answer, body)), deltas: VecDeque::new(), failure: None, release: None };
    stream::poll_fn(move |context| reading.poll_next(context)).boxed()
}

impl<W: Wire> Reading<W> {
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

    /// Takes what has arrived. Pending: it says nothing yet, and the reader is woken when more comes.
    fn read(&mut self, context: &mut Context<'_>) {
        let (mut deltas, mut taken) = (Vec::new(), 0);
        while let Some((answer, body)) = &mut self.source
            && (taken < MOST_AT_ONCE || deltas.is_empty())
        {
            let chunk = match answer.poll_chunk(context) {
                Poll::Pending => break,
                Poll::Ready(chunk) => chunk.map_err(|error| of_egress(&error)),
            };
            let taking = chunk.and_then(|bytes| {
                let Some(bytes) = bytes else { return Ok(Taking::Ended) };
                taken += bytes.len();
                let is_over = body.take(&bytes, &mut deltas)?;
                Ok(if is_over { Taking::Whole } else { Taking::On })
            });
            if matches!(taking, Ok(Taking::On)) {
                continue;
            }
            let Some((answer, body)) = self.source.take() else { break };
            self.failure = match taking {
                Ok(Taking::Ended) => body.end(&mut deltas).err(),
                Ok(Taking::Whole | Taking::On) => {
                    self.release = Some(answer.let_go(LAST_BYTES).boxed());
                    None
                }
                Err(failure) => Some(failure),
            };
        }
        self.deltas = joined(deltas);
    }
}

/// How a reply goes on after one of its pieces.
enum Taking {
    On,
    /// It is complete, whatever comes behind it.
    Whole,
    /// Its body has ended by itself.
    Ended,
}

/// The same with neighbouring pieces of text in one.
fn joined(deltas: Vec<Delta>) -> VecDeque<Delta> {
    let mut joined: VecDeque<Delta> = VecDeque::with_capacity(deltas.len().min(4));
    for delta in deltas {
        match (joined.back_mut(), delta) {
            (Some(Delta::Text(last)), Delta::Text(next)) | (Some(Delta::Thinking(last)), Delta::Thinking(next)) => {
                last.push_str(&next);
            }
            (_, delta) => joined.push_back(delta),
        }
    }
    joined
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
        assert_eq!(joined(said), expected);
    }
}
