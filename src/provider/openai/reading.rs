//! A reply while it is read from the network.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use http::header::CONTENT_TYPE;

use super::body::Body;
use crate::domain::model::{Delta, ModelFailure};
use crate::egress::Answer;
use crate::provider::DeltaStream;
use crate::provider::http::of_egress;

/// After the reply the connection is given this long to end, so that it can serve the next call.
const FAREWELL: Duration = Duration::from_millis(50);

struct Reading {
    /// Gone once the reply is over.
    source: Option<(Answer, Body)>,
    said: VecDeque<Result<Delta, ModelFailure>>,
}

/// The deltas of an answer that began with success. `limit` bounds one event.
pub(super) fn stream(answer: Answer, limit: usize) -> DeltaStream {
    let kind = answer.headers().get(CONTENT_TYPE);
    let is_whole = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    let body = if is_whole { Body::whole() } else { Body::of_events(limit) };
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

impl Reading {
    /// Reads one piece, and puts the source back unless the reply ended with it.
    async fn advance(&mut self, mut answer: Answer, mut body: Body) {
        let mut deltas = Vec::new();
        let outcome = match answer.chunk().await {
            Ok(Some(bytes)) => body.take(&bytes, &mut deltas).map(|is_over| (!is_over).then_some(body)),
            Ok(None) => body.end(&mut deltas).map(|()| None),
            Err(error) => Err(of_egress(&error)),
        };
        self.said.extend(deltas.into_iter().map(Ok));
        match outcome {
            Ok(Some(body)) => self.source = Some((answer, body)),
            Ok(None) => answer.let_go(FAREWELL).await,
            Err(failure) => self.said.push_back(Err(failure)),
        }
    }
}
