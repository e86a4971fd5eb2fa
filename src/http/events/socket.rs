//! A WebSocket: frames out, ops in. Whatever its peer does, no run waits for it.

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

use super::coming::Coming;
use super::ops::{self, Op};
use super::seldom::Seldom;
use super::sse::RETRY_MS;
use super::{Frames, WRITE_BYTES, every, open};
use crate::auth::{LOOK_AGAIN, Pass};
use crate::domain::caller::Caller;
use crate::domain::fault::Fault;
use crate::domain::ids::ThreadId;
use crate::http::app_state::AppState;
use crate::http::metrics;
use crate::http::rates::RateNotice;
use crate::http::trace::TraceId;
use crate::live::{Encoded, EncodedKind};

const SUBPROTOCOL: &str = "pes.v1";
/// A peer that says nothing between two pings, not even a pong, is gone.
const PING_EVERY: Duration = Duration::from_secs(20);
/// How long a peer may take to say goodbye.
const GOODBYE: Duration = Duration::from_secs(1);
/// Ops of one socket that are under way at once; the next is read when one is answered.
const AT_ONCE: usize = 8;
/// "Service restart" and "try again later" of the WebSocket close code registry.
const RESTART: CloseCode = 1012;
const AGAIN: CloseCode = 1013;
/// What is read of a peer at once: ops are small and seldom, and every open socket has this room.
const READ_BYTES: usize = 1 << 10;

/// Who sits at the socket, and where.
#[derive(Clone)]
pub(super) struct SocketSession {
    pub(super) app: AppState,
    pub(super) caller: Caller,
    pub(super) pass: Pass,
    /// The one that its ops are about; `None`: it shows all threads and takes no ops.
    pub(super) thread: Option<ThreadId>,
    pub(super) base: String,
    /// Of the request that opened the socket: ops that name none continue it.
    pub(super) trace: TraceId,
    /// Of the same request, whose place it keeps for as long as the socket is open.
    pub(super) _rates: RateNotice,
}

impl SocketSession {
    /// Goes on as long as its caller's key or token counts. Boxed, as is all that a socket does seldom: what waits for the
    /// next frame stays small.
    fn check_credentials(&self) -> Pin<Box<dyn Future<Output = Next> + Send + '_>> {
        Box::pin(async {
            match self.app.keys.ended(&self.pass).await {
                None => Next::On,
                Some(ended) => Next::Close(close_code::POLICY, ended.why()),
            }
        })
    }
}

/// Small buffers: tungstenite's own defaults hold 128 KiB per socket and take messages of 64 MiB. What waits to be
/// written is flushed before anything else is waited for, so it is `WRITE_BYTES` and one frame at most.
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
enum Event {
    Message(Option<SocketResult<Message>>),
    Done(Result<Done, JoinError>),
    /// `None`: the stream is over.
    Frames(Option<Vec<Arc<Encoded>>>),
    Ping,
    Look,
    Stopping,
}

/// What an op came to.
enum Done {
    Answer(String),
    Subscription(ops::OpId, Result<Frames, Fault>),
}

/// How the loop goes on.
enum Next {
    On,
    /// With these last words.
    Close(CloseCode, &'static str),
    /// The peer has said its last word, and waits for ours (RFC 6455, 5.5.1).
    Closed,
    Over,
}

type SocketResult<T> = Result<T, axum::Error>;

struct SocketLoop {
    socket: WebSocket,
    session: SocketSession,
    frames: Coming<Frames>,
    /// The last frame was a gap. If nothing comes after it, the reader is too slow, or could not be served.
    is_behind: bool,
    /// Tasks of their own: whatever this one waits for, they come to their end, and give back the connections to the store
    /// that they have.
    ops: FuturesUnordered<AbortOnDropHandle<Done>>,
    /// One of them opens another subscription; nothing is read before it stands.
    is_subscribing: bool,
    /// Closed when the newest op that changes something is done; `None`: there was none.
    newest_done: Option<oneshot::Receiver<()>>,
    pings: Interval,
    looks: Interval,
    stopping: Pin<Box<WaitForCancellationFutureOwned>>,
    /// For all of those but the frames.
    others: Seldom,
    /// Frames have their turn before the next message or answer.
    are_frames_next: bool,
    was_heard: bool,
}

impl SocketLoop {
    fn new(socket: WebSocket, session: SocketSession, frames: Frames) -> Self {
        let (pings, looks) = (every(PING_EVERY), every(LOOK_AGAIN));
        let stopping = Box::pin(session.app.stopping.clone().cancelled_owned());
        let (ops, others) = (FuturesUnordered::new(), Seldom::new());
        Self {
            socket,
            session,
            frames: Coming::new(frames),
            is_behind: false,
            ops,
            is_subscribing: false,
            newest_done: None,
            pings,
            looks,
            stopping,
            others,
            are_frames_next: false,
            was_heard: true,
        }
    }

    async fn run(mut self) -> SocketResult<()> {
        loop {
            match self.next().await? {
                Next::On => {}
                Next::Over => return Ok(()),
                Next::Closed => {
                    self.stop();
                    self.read_to_end().await;
                    return Ok(());
                }
                Next::Close(code, reason) => return self.close(code, reason).await,
            }
        }
    }

    async fn next(&mut self) -> SocketResult<Next> {
        match poll_fn(|context| self.poll_event(context)).await {
            Event::Message(message) => self.on_message(message).await,
            Event::Done(Ok(Done::Answer(answer))) => self.send_text(answer.into()).await,
            Event::Done(Ok(Done::Subscription(id, opened))) => self.subscribed(&id, opened).await,
            Event::Done(Err(broken)) => Err(axum::Error::new(broken)),
            Event::Frames(Some(few)) => self.show(few).await,
            Event::Frames(None) if self.is_behind => Ok(Next::Close(AGAIN, "gap: reconnect with ?after=SEQ")),
            Event::Frames(None) => Ok(Next::Close(close_code::NORMAL, "stream complete")),
            Event::Ping => self.ping().await,
            Event::Look => Ok(self.frames.beside(self.session.check_credentials()).await),
            Event::Stopping => {
                self.send_text(text(Encoded::draining(RETRY_MS).json())).await?;
                Ok(Next::Close(RESTART, "draining"))
            }
        }
    }

    /// Frames and messages take turns where both wait.
    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Event> {
        if std::mem::take(&mut self.are_frames_next)
            && let Poll::Ready(few) = self.frames.poll(context)
        {
            return Poll::Ready(Event::Frames(few));
        }
        let other = self.others.poll(context, |context| {
            if self.looks.poll_tick(context).is_ready() {
                return Poll::Ready(Event::Look);
            }
            if self.stopping.as_mut().poll(context).is_ready() {
                return Poll::Ready(Event::Stopping);
            }
            if let Poll::Ready(Some(done)) = self.ops.poll_next_unpin(context) {
                return Poll::Ready(Event::Done(done));
            }
            if self.ops.len() < AT_ONCE
                && !self.is_subscribing
                && let Poll::Ready(message) = self.socket.poll_next_unpin(context)
            {
                return Poll::Ready(Event::Message(message));
            }
            // After the socket was read: what was heard meanwhile counts.
            self.pings.poll_tick(context).map(|_| Event::Ping)
        });
        self.are_frames_next = matches!(other, Poll::Ready(Event::Message(_) | Event::Done(_)));
        match other {
            // What waits goes out before the stop.
            Poll::Ready(Event::Stopping) | Poll::Pending => match self.frames.poll(context) {
                Poll::Ready(few) => Poll::Ready(Event::Frames(few)),
                Poll::Pending => other,
            },
            Poll::Ready(Event::Look | Event::Message(_) | Event::Done(_) | Event::Ping | Event::Frames(_)) => other,
        }
    }

    /// Sends frames that waited together in one write.
    async fn show(&mut self, few: Vec<Arc<Encoded>>) -> SocketResult<Next> {
        for frame in few {
            self.socket.feed(Message::Text(text(frame.json()))).await?;
            self.is_behind = matches!(frame.kind, EncodedKind::Gap);
            if self.is_behind {
                metrics::gap();
            }
            if matches!(frame.kind, EncodedKind::Draining) {
                return Ok(Next::Close(RESTART, "draining"));
            }
        }
        self.socket.flush().await?;
        Ok(Next::On)
    }

    async fn on_message(&mut self, message: Option<SocketResult<Message>>) -> SocketResult<Next> {
        self.was_heard = true;
        match message {
            None => Ok(Next::Over),
            Some(Ok(Message::Close(_))) => Ok(Next::Closed),
            Some(Err(error)) if is_too_large(&error) => Ok(Next::Close(close_code::SIZE, "the message is too large")),
            Some(Err(error)) => Err(error),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => Ok(Next::On),
            Some(Ok(Message::Binary(_))) => Ok(Next::Close(close_code::UNSUPPORTED, "send text")),
            Some(Ok(Message::Text(said))) => match self.frames.beside(self.session.check_credentials()).await {
                Next::On => self.handle_op(&said).await,
                ended @ (Next::Close(..) | Next::Closed | Next::Over) => Ok(ended),
            },
        }
    }

    async fn handle_op(&mut self, said: &str) -> SocketResult<Next> {
        match ops::read(&self.session, said) {
            Op::Answered(answer) => self.send_text(answer.into()).await,
            Op::Begun(work) => {
                self.begin_in_turn(work);
                Ok(Next::On)
            }
            Op::Subscribe(id, ask) => {
                let SocketSession { app, caller, thread, .. } = self.session.clone();
                let Some(thread) = thread else { return Ok(Next::On) };
                self.is_subscribing = true;
                self.begin(async move { Done::Subscription(id, open(&app, &caller, &thread, ask).await) });
                Ok(Next::On)
            }
        }
    }

    /// Ops that change something are done in the order in which they were sent: tasks that were spawned together run in any
    /// order, and a `cancel` is about the `process` before it.
    fn begin_in_turn(&mut self, work: impl Future<Output = String> + Send + 'static) {
        let (done, is_done) = oneshot::channel::<()>();
        let before = self.newest_done.replace(is_done);
        self.begin(async move {
            if let Some(before) = before {
                // Nothing is sent: it is closed when that op is done, or its task has failed.
                let _ = before.await;
            }
            let answer = work.await;
            drop(done);
            Done::Answer(answer)
        });
    }

    fn begin(&self, work: impl Future<Output = Done> + Send + 'static) {
        self.ops.push(AbortOnDropHandle::new(tokio::spawn(work)));
    }

    async fn subscribed(&mut self, id: &ops::OpId, opened: Result<Frames, Fault>) -> SocketResult<Next> {
        self.is_subscribing = false;
        match opened {
            Ok(frames) => {
                (self.frames, self.is_behind) = (Coming::new(frames), false);
                self.send_text(id.ack(serde_json::Map::new()).into()).await
            }
            Err(fault) => self.send_text(id.nack(&self.session, &fault).into()).await,
        }
    }

    async fn ping(&mut self) -> SocketResult<Next> {
        if !self.was_heard && self.ops.is_empty() {
            return Ok(Next::Over);
        }
        self.was_heard = false;
        self.frames.beside(self.socket.send(Message::Ping(Bytes::new()))).await?;
        Ok(Next::On)
    }

    async fn send_text(&mut self, text: Utf8Bytes) -> SocketResult<Next> {
        self.frames.beside(self.socket.send(Message::Text(text))).await?;
        Ok(Next::On)
    }

    async fn close(mut self, code: CloseCode, reason: &'static str) -> SocketResult<()> {
        self.stop();
        self.socket.send(Message::Close(Some(CloseFrame { code, reason: reason.into() }))).await?;
        self.read_to_end().await;
        Ok(())
    }

    /// Ends all that nobody waits for any more, whatever it has of the store.
    fn stop(&mut self) {
        self.frames = Coming::new(Box::pin(stream::empty()));
        self.ops.clear();
    }

    /// Reads to the end: that is also what sends the answer to a peer's close.
    async fn read_to_end(&mut self) {
        let rest = async { while let Some(Ok(_)) = self.socket.recv().await {} };
        let _ = tokio::time::timeout(GOODBYE, rest).await;
    }
}

fn text(json: Bytes) -> Utf8Bytes {
    json.try_into().expect("serde_json writes UTF-8")
}

fn is_too_large(error: &axum::Error) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref());
    matches!(source, Some(tungstenite::Error::Capacity(_)))
}
