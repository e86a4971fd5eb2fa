//! A WebSocket: frames out, ops in. No run ever waits for its peer.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::ws::{CloseCode, CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade, close_code};
use axum::response::Response;
use bytes::Bytes;
use futures_util::SinkExt;
use futures_util::stream::{self, FuturesUnordered, StreamExt};
use tokio::sync::oneshot;
use tokio::task::JoinError;
use tokio::time::Interval;
use tokio_util::sync::WaitForCancellationFutureOwned;
use tokio_util::task::AbortOnDropHandle;
use tungstenite::error::ProtocolError;

use super::ops::{self, Op};
use super::read_ahead::ReadAhead;
use super::sse::RETRY_MS;
use super::{Frames, WRITE_BYTES, delayed_interval, open};
use crate::auth::RECHECK_INTERVAL;
use crate::domain::caller::Caller;
use crate::domain::fault::Fault;
use crate::domain::ids::ThreadId;
use crate::http::app_state::AppState;
use crate::http::metrics;
use crate::http::reply_preferences::ReplyPreferences;
use crate::live::{Encoded, EncodedKind};
use crate::poll_gate::PollGate;

const SUBPROTOCOL: &str = "pes.v1";
/// A peer that sends nothing between two pings, not even a pong, is treated as disconnected.
const PING_INTERVAL: Duration = Duration::from_secs(20);
/// How long to wait for the peer's close frame.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// The maximum number of concurrent ops of a socket. The next one is read when one has finished.
const MAX_CONCURRENT_OPS: usize = 8;
/// "Service restart" and "try again later" of the WebSocket close code registry.
const CLOSE_RESTART: CloseCode = 1012;
const CLOSE_TRY_AGAIN: CloseCode = 1013;
/// The size of the read buffer, which every open socket has. Ops are small and rare.
const READ_BYTES: usize = 1 << 10;

/// The caller of a socket, and what its ops need.
#[derive(Clone)]
pub(super) struct SocketSession {
    pub(super) app: AppState,
    pub(super) caller: Caller,
    /// Ops without a trace of their own continue the trace of the request that opened the socket.
    pub(super) preferences: ReplyPreferences,
    /// The thread that its ops are about. `None` for a socket that shows all threads and takes no ops.
    pub(super) thread: Option<ThreadId>,
}

impl SocketSession {
    /// Continues only while the caller's key or token is valid. Boxed, like everything that a socket does rarely, so
    /// that the future which waits for the next frame stays small.
    fn check_credentials(&self) -> Pin<Box<dyn Future<Output = LoopStep> + Send + '_>> {
        Box::pin(async {
            match self.app.keys.ended(&self.preferences.pass).await {
                None => LoopStep::Continue,
                Some(ended) => LoopStep::Close(close_code::POLICY, ended.why()),
            }
        })
    }
}

/// Buffers are small: tungstenite's defaults use 128 KiB per socket and accept messages of 64 MiB. The write buffer is
/// flushed before anything else is awaited, so it holds at most `WRITE_BYTES` and one frame.
pub(super) fn upgrade(upgrade: WebSocketUpgrade, session: SocketSession, frames: Frames) -> Response {
    let largest = session.app.config.limits.ws_message_bytes;
    upgrade
        .protocols([SUBPROTOCOL])
        .read_buffer_size(READ_BYTES)
        .write_buffer_size(WRITE_BYTES)
        .max_message_size(largest)
        .max_frame_size(largest)
        .on_upgrade(|socket| async {
            let _open = (session.app.streams.token(), metrics::OpenStream::begin("websocket"));
            if let Err(error) = SocketLoop::new(socket, session, frames).run().await {
                tracing::trace!(%error, "a socket ended");
            }
        })
}

/// What the loop waits for.
enum SocketEvent {
    Message(Option<SocketResult<Message>>),
    OpDone(Result<OpResult, JoinError>),
    /// `None` at the end of the stream.
    Frames(Option<Vec<Arc<Encoded>>>),
    Ping,
    CheckCredentials,
    Stopping,
}

/// The result of an op.
enum OpResult {
    Answer(String),
    Subscription(ops::OpId, Result<Frames, Fault>),
    /// The credentials are no longer valid, for this reason. Nothing was done.
    NotAdmitted(&'static str),
}

/// What the loop does next.
enum LoopStep {
    Continue,
    /// Close with this code and reason.
    Close(CloseCode, &'static str),
    /// The peer has sent a close frame, and waits for ours (RFC 6455, 5.5.1).
    PeerClosed,
    Ended,
}

type SocketResult<T> = Result<T, axum::Error>;

struct SocketLoop {
    socket: WebSocket,
    session: SocketSession,
    frames: ReadAhead<Frames>,
    /// The last frame was a gap. If the stream then ends, the reader was too slow, or the store failed.
    is_behind: bool,
    /// Each op runs in its own task, so it makes progress whatever the loop waits for, and releases its connection to
    /// the store.
    ops: FuturesUnordered<AbortOnDropHandle<OpResult>>,
    /// One of the ops opens another subscription. No further message is read before that has finished.
    is_subscribing: bool,
    /// Closed when the newest op that changes something has finished. `None` if there was none.
    last_op_done: Option<oneshot::Receiver<()>>,
    pings: Interval,
    credential_checks: Interval,
    stopping: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Guards the polling of everything but the frames.
    rare_events: PollGate,
    /// Frames are polled first the next time, after a message or a finished op.
    are_frames_next: bool,
    has_peer_activity: bool,
}

impl SocketLoop {
    fn new(socket: WebSocket, session: SocketSession, frames: Frames) -> Self {
        let (pings, credential_checks) = (delayed_interval(PING_INTERVAL), delayed_interval(RECHECK_INTERVAL));
        let stopping = Box::pin(session.app.stopping.clone().cancelled_owned());
        let (ops, rare_events) = (FuturesUnordered::new(), PollGate::new());
        Self {
            socket,
            session,
            frames: ReadAhead::new(frames),
            is_behind: false,
            ops,
            is_subscribing: false,
            last_op_done: None,
            pings,
            credential_checks,
            stopping,
            rare_events,
            are_frames_next: false,
            has_peer_activity: true,
        }
    }

    async fn run(mut self) -> SocketResult<()> {
        loop {
            match self.next().await? {
                LoopStep::Continue => {}
                LoopStep::Ended => return Ok(()),
                LoopStep::PeerClosed => {
                    self.stop();
                    self.read_to_end().await;
                    return Ok(());
                }
                LoopStep::Close(code, reason) => return self.close(code, reason).await,
            }
        }
    }

    async fn next(&mut self) -> SocketResult<LoopStep> {
        match poll_fn(|context| self.poll_event(context)).await {
            SocketEvent::Message(message) => self.on_message(message).await,
            SocketEvent::OpDone(Ok(OpResult::Answer(answer))) => self.send_text(answer.into()).await,
            SocketEvent::OpDone(Ok(OpResult::Subscription(id, opened))) => self.on_subscribed(&id, opened).await,
            SocketEvent::OpDone(Ok(OpResult::NotAdmitted(why))) => Ok(LoopStep::Close(close_code::POLICY, why)),
            SocketEvent::OpDone(Err(broken)) => Err(axum::Error::new(broken)),
            SocketEvent::Frames(Some(batch)) => self.send_frames(batch).await,
            SocketEvent::Frames(None) if self.is_behind => {
                Ok(LoopStep::Close(CLOSE_TRY_AGAIN, "gap: reconnect with ?after=SEQ"))
            }
            SocketEvent::Frames(None) => Ok(LoopStep::Close(close_code::NORMAL, "stream complete")),
            SocketEvent::Ping => self.ping().await,
            SocketEvent::CheckCredentials => Ok(self.frames.poll_during(self.session.check_credentials()).await),
            SocketEvent::Stopping => {
                self.send_text(text(Encoded::draining(RETRY_MS).json())).await?;
                Ok(LoopStep::Close(CLOSE_RESTART, "draining"))
            }
        }
    }

    /// Alternates between frames and messages if both are ready.
    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<SocketEvent> {
        if std::mem::take(&mut self.are_frames_next)
            && let Poll::Ready(batch) = self.frames.poll(context)
        {
            return Poll::Ready(SocketEvent::Frames(batch));
        }
        let other = self.rare_events.poll(context, |context| {
            if self.credential_checks.poll_tick(context).is_ready() {
                return Poll::Ready(SocketEvent::CheckCredentials);
            }
            if self.stopping.as_mut().poll(context).is_ready() {
                return Poll::Ready(SocketEvent::Stopping);
            }
            if let Poll::Ready(Some(done)) = self.ops.poll_next_unpin(context) {
                return Poll::Ready(SocketEvent::OpDone(done));
            }
            if self.ops.len() < MAX_CONCURRENT_OPS
                && !self.is_subscribing
                && let Poll::Ready(message) = self.socket.poll_next_unpin(context)
            {
                return Poll::Ready(SocketEvent::Message(message));
            }
            // Polled after the socket was read, so that a message which has just arrived counts as activity.
            self.pings.poll_tick(context).map(|_| SocketEvent::Ping)
        });
        self.are_frames_next = matches!(other, Poll::Ready(SocketEvent::Message(_) | SocketEvent::OpDone(_)));
        match other {
            // Waiting frames are sent before the stop.
            Poll::Ready(SocketEvent::Stopping) | Poll::Pending => match self.frames.poll(context) {
                Poll::Ready(batch) => Poll::Ready(SocketEvent::Frames(batch)),
                Poll::Pending => other,
            },
            Poll::Ready(
                SocketEvent::CheckCredentials
                | SocketEvent::Message(_)
                | SocketEvent::OpDone(_)
                | SocketEvent::Ping
                | SocketEvent::Frames(_),
            ) => other,
        }
    }

    /// Sends frames that were waiting together in one write.
    async fn send_frames(&mut self, batch: Vec<Arc<Encoded>>) -> SocketResult<LoopStep> {
        for frame in batch {
            self.socket.feed(Message::Text(text(frame.json()))).await?;
            self.is_behind = matches!(frame.kind, EncodedKind::Gap | EncodedKind::LogUnreadable);
            if self.is_behind {
                metrics::gap();
            }
            if matches!(frame.kind, EncodedKind::Draining) {
                return Ok(LoopStep::Close(CLOSE_RESTART, "draining"));
            }
        }
        self.socket.flush().await?;
        Ok(LoopStep::Continue)
    }

    async fn on_message(&mut self, message: Option<SocketResult<Message>>) -> SocketResult<LoopStep> {
        self.has_peer_activity = true;
        match message {
            None => Ok(LoopStep::Ended),
            Some(Ok(Message::Close(_))) => Ok(LoopStep::PeerClosed),
            Some(Err(error)) => match broken_rule(&error) {
                Some((code, reason)) => Ok(LoopStep::Close(code, reason)),
                None => Err(error),
            },
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => Ok(LoopStep::Continue),
            Some(Ok(Message::Binary(_))) => Ok(LoopStep::Close(close_code::UNSUPPORTED, "send text")),
            Some(Ok(Message::Text(payload))) => self.handle_op(&payload).await,
        }
    }

    async fn handle_op(&mut self, payload: &str) -> SocketResult<LoopStep> {
        match ops::read(&self.session, payload) {
            Op::Reply(answer) => self.send_text(answer.into()).await,
            Op::Start(id, work) => {
                self.begin_in_turn(id, work);
                Ok(LoopStep::Continue)
            }
            Op::Subscribe(id, ask) => {
                let session = self.session.clone();
                let Some(thread) = session.thread.clone() else { return Ok(LoopStep::Continue) };
                self.is_subscribing = true;
                self.begin(async move {
                    match session.app.keys.check_again(&session.preferences.pass).await {
                        Ok(None) => OpResult::Subscription(id, open(&session.app, &session.caller, &thread, ask).await),
                        Ok(Some(ended)) => OpResult::NotAdmitted(ended.why()),
                        Err(fault) => OpResult::Subscription(id, Err(fault)),
                    }
                });
                Ok(LoopStep::Continue)
            }
        }
    }

    /// Runs ops that change something in the order in which they were sent. Tasks that are spawned together run in any
    /// order, and a `cancel` refers to the `process` before it. The credentials are checked just before, for as long as
    /// that takes: an op is not carried out because a slow store has not said yet that its key was revoked.
    fn begin_in_turn(&mut self, id: ops::OpId, work: impl Future<Output = String> + Send + 'static) {
        let (done, is_done) = oneshot::channel::<()>();
        let before = self.last_op_done.replace(is_done);
        let session = self.session.clone();
        self.begin(async move {
            if let Some(before) = before {
                // Nothing is ever sent on this channel. It is closed when that op has finished or its task has failed.
                let _ = before.await;
            }
            let result = match session.app.keys.check_again(&session.preferences.pass).await {
                Ok(None) => OpResult::Answer(work.await),
                Ok(Some(ended)) => OpResult::NotAdmitted(ended.why()),
                Err(fault) => OpResult::Answer(id.nack(&session, &fault)),
            };
            drop(done);
            result
        });
    }

    fn begin(&self, work: impl Future<Output = OpResult> + Send + 'static) {
        self.ops.push(AbortOnDropHandle::new(tokio::spawn(work)));
    }

    async fn on_subscribed(&mut self, id: &ops::OpId, opened: Result<Frames, Fault>) -> SocketResult<LoopStep> {
        self.is_subscribing = false;
        match opened {
            Ok(frames) => {
                (self.frames, self.is_behind) = (ReadAhead::new(frames), false);
                self.send_text(id.ack(serde_json::Map::new()).into()).await
            }
            Err(fault) => self.send_text(id.nack(&self.session, &fault).into()).await,
        }
    }

    async fn ping(&mut self) -> SocketResult<LoopStep> {
        if !self.has_peer_activity && self.ops.is_empty() {
            return Ok(LoopStep::Ended);
        }
        self.has_peer_activity = false;
        self.frames.poll_during(self.socket.send(Message::Ping(Bytes::new()))).await?;
        Ok(LoopStep::Continue)
    }

    async fn send_text(&mut self, text: Utf8Bytes) -> SocketResult<LoopStep> {
        self.frames.poll_during(self.socket.send(Message::Text(text))).await?;
        Ok(LoopStep::Continue)
    }

    async fn close(mut self, code: CloseCode, reason: &'static str) -> SocketResult<()> {
        self.stop();
        self.socket.send(Message::Close(Some(CloseFrame { code, reason: reason.into() }))).await?;
        self.read_to_end().await;
        Ok(())
    }

    /// Drops everything that nobody waits for any more, including its connections to the store.
    fn stop(&mut self) {
        self.frames = ReadAhead::new(Box::pin(stream::empty()));
        self.ops.clear();
    }

    /// Reads until the end, which also sends the answer to a peer's close frame.
    async fn read_to_end(&mut self) {
        let rest = async { while let Some(Ok(_)) = self.socket.recv().await {} };
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, rest).await;
    }
}

fn text(json: Bytes) -> Utf8Bytes {
    json.try_into().expect("serde_json writes UTF-8")
}

/// With which code and reason to close the socket after a message that breaks a rule. `None`: the connection failed.
fn broken_rule(error: &axum::Error) -> Option<(CloseCode, &'static str)> {
    let error: &tungstenite::Error = std::error::Error::source(error)?.downcast_ref()?;
    if matches!(error, tungstenite::Error::Capacity(_)) {
        Some((close_code::SIZE, "the message is too large"))
    } else if matches!(error, tungstenite::Error::Utf8(_)) {
        Some((close_code::INVALID, "the text is not UTF-8"))
    } else if matches!(error, tungstenite::Error::Protocol(ProtocolError::ResetWithoutClosingHandshake)) {
        None
    } else {
        matches!(error, tungstenite::Error::Protocol(_)).then_some((close_code::PROTOCOL, "the frame is not valid"))
    }
}
