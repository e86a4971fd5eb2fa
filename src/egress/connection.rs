//! One HTTP/1.1 connection. The reader of the response drives it; there is no background task between socket and
//! reader.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;

use super::connect::Transport;

pub(super) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    /// `None` once the connection has ended.
    http: Option<Http>,
}

type Http = http1::Connection<TokioIo<Box<dyn Transport>>, Full<Bytes>>;

/// Why there is no response.
pub(super) enum SendError {
    /// The connection had ended before any byte of the request was written: it may be sent over another one.
    Unsent(Box<Request<Full<Bytes>>>),
    Broken(hyper::Error),
}

impl Connection {
    pub(super) async fn new(transport: Box<dyn Transport>) -> hyper::Result<Self> {
        let (sender, http) = http1::handshake(TokioIo::new(transport)).await?;
        Ok(Self { sender, http: Some(http) })
    }

    /// Sends a request and waits for the head of its response.
    pub(super) async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, SendError> {
        let mut response = pin!(self.sender.try_send_request(request));
        let http = &mut self.http;
        let sent = poll_fn(|context| {
            if let Poll::Ready(sent) = response.as_mut().poll(context) {
                return Poll::Ready(sent);
            }
            drive(http, context);
            response.as_mut().poll(context)
        });
        sent.await.map_err(|mut error| match error.take_message() {
            Some(request) => SendError::Unsent(Box::new(request)),
            None => SendError::Broken(error.into_error()),
        })
    }

    /// The next bytes of the response; `None` at its end.
    pub(super) fn poll_data(
        &mut self,
        body: &mut Incoming,
        context: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Bytes>>> {
        loop {
            let frame = match Pin::new(&mut *body).poll_frame(context) {
                Poll::Ready(frame) => frame,
                Poll::Pending => {
                    drive(&mut self.http, context);
                    ready!(Pin::new(&mut *body).poll_frame(context))
                }
            };
            match frame.transpose() {
                Ok(None) => return Poll::Ready(None),
                Err(error) => return Poll::Ready(Some(Err(error))),
                Ok(Some(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Poll::Ready(Some(Ok(data)));
                    }
                }
            }
        }
    }

    /// Whether another request may be sent: the last response was read to its end, and the peer did not close.
    pub(super) fn is_reusable(&mut self) -> bool {
        drive(&mut self.http, &mut Context::from_waker(Waker::noop()));
        self.http.is_some() && self.sender.is_ready()
    }
}

/// Polls the connection. Results, including errors, surface in the response and its body.
fn drive(http: &mut Option<Http>, context: &mut Context<'_>) {
    if http.as_mut().is_some_and(|http| Pin::new(http).poll(context).is_ready()) {
        *http = None;
    }
}
