//! The live events of a thread, read across reconnects: each frame once, in order.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use crate::cli::Error;
use crate::cli::server::Server;
use crate::domain::Millis;
use crate::domain::ids::{ItemId, ThreadId};
use crate::domain::run::RunResource;
use crate::egress::{self, IncomingResponse};

/// Delays before reconnects, in seconds.
const PAUSES: [u64; 6] = [1, 2, 4, 8, 16, 30];

/// The delay after so many failures, and at least `wanted`, which the server asked for.
pub(super) fn pause(failures: usize, wanted: Option<Duration>) -> Duration {
    let pause = Duration::from_secs(PAUSES[failures.min(PAUSES.len() - 1)]);
    wanted.map_or(pause, |wanted| wanted.max(pause))
}

/// A frame as the API sends it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Frame {
    pub event: String,
    pub data: String,
}

/// The content of a frame, as far as it is used here. Unlike `domain::frame::Frame` it accepts observations of types that this
/// version does not know: the server may be newer.
pub(super) enum FrameContent {
    Observation(Box<ObservationFrame>),
    Token(TokenFrame),
    Run(Box<RunResource>),
    CaughtUp,
    Gap { from_seq: i64 },
    Other,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ObservationFrame {
    pub seq: i64,
    pub thread_id: ThreadId,
    pub parent_id: Option<ItemId>,
    pub timestamp: Millis,
    #[serde(rename = "type")]
    pub kind: String,
    pub content: Value,
    #[serde(default)]
    pub metadata: Option<Value>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TokenFrame {
    pub data: String,
    #[serde(default)]
    pub step_id: Option<ItemId>,
    pub stream_id: String,
}

/// The cursor in a frame.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Place {
    seq: Option<i64>,
    from_seq: Option<i64>,
    retry_in_ms: Option<u64>,
}

impl Frame {
    /// The frame in its WebSocket form.
    pub fn json(&self) -> String {
        format!(r#"{{"event":"{}","data":{}}}"#, self.event, self.data)
    }

    pub fn content(&self) -> Result<FrameContent, Error> {
        let content = match self.event.as_str() {
            "observation" => serde_json::from_str(&self.data).map(|data| FrameContent::Observation(Box::new(data))),
            "token" => serde_json::from_str(&self.data).map(FrameContent::Token),
            "run" => serde_json::from_str(&self.data).map(|data| FrameContent::Run(Box::new(data))),
            "caught_up" => Ok(FrameContent::CaughtUp),
            "gap" => serde_json::from_str(&self.data).map(|Place { from_seq, .. }| match from_seq {
                Some(from_seq) => FrameContent::Gap { from_seq },
                None => FrameContent::Other,
            }),
            _ => Ok(FrameContent::Other),
        };
        content.map_err(|error| {
            Error::Failed(format!("The server sent a frame that is none: {error}. Is it another version?"))
        })
    }
}

/// The result of one read.
pub(super) enum Next {
    Frame(Frame),
    /// The connection broke; a reconnect follows after this delay.
    Lost {
        why: String,
        again_in: Duration,
    },
}

pub(super) struct Events<'s> {
    server: &'s Server,
    thread: String,
    /// `seq` of the last observation received.
    after: i64,
    until: Option<String>,
    with_tokens: bool,
    connection: Option<(IncomingResponse, FrameReader)>,
    /// The connection has brought no frame yet.
    is_new: bool,
    /// Delay before the reconnect after a lost connection.
    pause: Duration,
    failures: usize,
}

impl<'s> Events<'s> {
    pub fn new(server: &'s Server, thread: &str, after: i64, until: Option<String>, with_tokens: bool) -> Self {
        let thread = thread.to_owned();
        let (pause, failures) = (Duration::ZERO, 0);
        Self { server, thread, after, until, with_tokens, connection: None, is_new: false, pause, failures }
    }

    /// The next frame. Fails if the server refuses for good; one that does not answer is asked again, also the first time, as the
    /// caller had its answer to a request just before. Cancel safe.
    pub async fn next(&mut self) -> Result<Next, Error> {
        loop {
            if self.connection.is_none()
                && let Some(lost) = self.connect().await?
            {
                return Ok(lost);
            }
            let (answer, reader) = self.connection.as_mut().expect("just connected");
            if let Some(frame) = reader.next() {
                if self.leads_nowhere(&frame) {
                    self.connection = None;
                    return Ok(self.lost("it cannot read the log".to_owned(), None));
                }
                if let Some(frame) = self.take(frame) {
                    return Ok(Next::Frame(frame));
                }
                continue;
            }
            let broken = match answer.chunk().await {
                Ok(Some(bytes)) => {
                    reader.extend(&bytes);
                    continue;
                }
                Ok(None) => "the stream ended".to_owned(),
                Err(error) => broken(&error),
            };
            self.connection = None;
            return Ok(self.lost(broken, None));
        }
    }

    async fn connect(&mut self) -> Result<Option<Next>, Error> {
        if !self.pause.is_zero() {
            tokio::time::sleep(self.pause).await;
        }
        let (thread, after) = (&self.thread, self.after);
        let mut path = format!("/threads/{thread}/events?after={after}&tokens={}", self.with_tokens);
        if let Some(run) = &self.until {
            path.push_str(&format!("&until={run}"));
        }
        match self.server.events(&path).await {
            Ok(answer) => {
                self.connection = Some((answer, FrameReader::default()));
                self.is_new = true;
            }
            Err(Error::Unreachable(why)) => return Ok(Some(self.lost(why, None))),
            Err(Error::Unavailable { said, again_in } | Error::TooManyRequests { said, again_in }) => {
                return Ok(Some(self.lost(said, again_in)));
            }
            Err(error) => return Err(error),
        }
        Ok(None)
    }

    fn lost(&mut self, why: String, wanted: Option<Duration>) -> Next {
        let again_in = pause(self.failures, wanted);
        self.failures += 1;
        self.pause = again_in;
        Next::Lost { why, again_in }
    }

    /// Whether a connection begins with a gap at the place from which it was to read: another one at once would do the same.
    fn leads_nowhere(&self, frame: &Frame) -> bool {
        self.is_new && matches!(frame.content(), Ok(FrameContent::Gap { from_seq }) if from_seq == self.after + 1)
    }

    /// Updates the cursor from the frame; `None`: the frame only concerns this reader.
    fn take(&mut self, frame: Frame) -> Option<Frame> {
        self.is_new = false;
        self.failures = 0;
        self.pause = Duration::ZERO;
        if frame.event == "token" || frame.event == "run" {
            return Some(frame);
        }
        let place: Place = serde_json::from_str(&frame.data).ok()?;
        match (frame.event.as_str(), place) {
            ("observation", Place { seq: Some(seq), .. }) if seq <= self.after => return None,
            ("observation", Place { seq: Some(seq), .. }) => self.after = seq,
            ("gap", Place { from_seq: Some(from), .. }) => {
                self.after = from - 1;
                self.connection = None;
            }
            ("draining", place) => {
                self.pause = Duration::from_millis(place.retry_in_ms.unwrap_or(1000));
                self.connection = None;
            }
            _ => {}
        }
        Some(frame)
    }
}

/// Why a stream ended early. What the HTTP library says of a connection that broke tells a person nothing.
fn broken(error: &egress::Error) -> String {
    match error {
        egress::Error::Cut(_) => "the connection broke".to_owned(),
        egress::Error::Refused(_)
        | egress::Error::Unreachable(_)
        | egress::Error::NoHeaders(_)
        | egress::Error::Stalled(_)
        | egress::Error::Overdue(_)
        | egress::Error::TooLarge(_) => error.to_string(),
    }
}

/// Parses server-sent events from bytes that may be split anywhere. `egress::sse::Decoder` drops the name of an event.
#[derive(Default)]
pub(super) struct FrameReader {
    bytes: Vec<u8>,
    event: String,
}

impl FrameReader {
    pub fn extend(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Our server writes one `data` line per event.
    pub fn next(&mut self) -> Option<Frame> {
        while let Some(end) = memchr::memchr(b'\n', &self.bytes) {
            let line: Vec<u8> = self.bytes.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line[..end]);
            match line.trim_end_matches('\r').split_once(": ") {
                Some(("event", event)) => event.clone_into(&mut self.event),
                Some(("data", data)) => {
                    return Some(Frame { event: std::mem::take(&mut self.event), data: data.to_owned() });
                }
                Some(_) | None => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
