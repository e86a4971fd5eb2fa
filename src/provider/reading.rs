//! A reply while it is read from the network.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::{StreamExt, stream};

use super::DeltaStream;
use super::http::of_egress;
use super::wire::{Body, Wire};
use crate::domain::model::{Delta, ModelFailure};
use crate::egress::Answer;

/// After the reply the connection is given this long to end, so that it can serve the next call.
const LAST_BYTES: Duration = Duration::from_millis(50);

struct Reading<W> {
    /// Gone once the reply is over.
    source: Option<(Answer, Body<W>)>,
    said: VecDeque<Result<Delta, ModelFailure>>,
}

/// The deltas of an answer that began with success.
pub(crate) fn stream<W: Wire + 'static>(answer: Answer, body: Body<W>) -> DeltaStream {
    let reading = Reading { source: Some((answer, body)), said: VecDeque::new() };
    stream::unfold(reading, |mut reading| async move {
        while reading.said.is_empty()
            && let Some((answer, body)) = reading.source.take()
        {
            reading.advance(answer, body).await;
        }
        reading.said.pop_front().map(|said| (said, reading))
    })
    .boxed()
}

impl<W: Wire> Reading<W> {
    /// Reads one piece, and puts the source back unless the reply ended with it.
    async fn advance(&mut self, mut answer: Answer, mut body: Body<W>) {
        let mut deltas = Vec::new();
        let outcome = match answer.chunk().await {
            Ok(Some(bytes)) => body.take(&bytes, &mut deltas).map(|is_over| (!is_over).then_some(body)),
            Ok(None) => body.end(&mut deltas).map(|()| None),
            Err(error) => Err(of_egress(&error)),
        };
        self.said.extend(deltas.into_iter().map(Ok));
        match outcome {
            Ok(Some(body)) => self.source = Some((answer, body)),
            Ok(None) => answer.let_go(LAST_BYTES).await,
            Err(failure) => self.said.push_back(Err(failure)),
        }
    }
}
