//! The accept loop: HTTP/1.1 on hyper. Everything that a client can hold open has a limit and a timeout.
//!
//! When few connection slots are free, idle connections are closed early.
//!
//! Every response arrives completely, even if the request's body was not read to its end. Every error response is a
//! problem document, except hyper's own, which have no body: 400 for what is not HTTP/1.1, 431 for headers of more than
//! twice `limits.header_bytes`.

mod client_socket;
mod connection;
mod connection_slots;
mod refusal;
mod unread_body;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::Limits;
use crate::domain::fault::{Code, Fault};
use crate::domain::repeated_failure::RepeatedFailure;
use crate::http::metrics;
use connection::{Connection, KeepAlive};
use connection_slots::ConnectionSlots;

/// How many refused connections get a response at one time. Those beyond are closed without one.
const MAX_REFUSALS: usize = 64;

/// When all connection slots are taken: how many connections are checked for a health probe at one time, how long their
/// first bytes may take, and how long the answer to a probe may take. A full server is not a dead one.
const MAX_PEEKS: usize = 64;
const PEEK_TIMEOUT: Duration = Duration::from_millis(250);
const HEALTH_TIMEOUT: Duration = Duration::from_secs(5);

/// The pause when the system has no file descriptor left.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);

/// Serves until `closing` is cancelled, then finishes the responses that have begun. Returns when the last connection
/// is closed.
///
/// A request for one of the paths in `health` is answered even if all connection slots are taken.
pub(crate) async fn serve(
    listener: TcpListener,
    app: Router,
    limits: Limits,
    closing: CancellationToken,
    health: Vec<String>,
) {
    let slots = ConnectionSlots::new(limits.connections);
    let overload =
        Arc::new(OverloadHandler { health, peeks: Semaphore::new(MAX_PEEKS), refusals: Semaphore::new(MAX_REFUSALS) });
    let connections = TaskTracker::new();
    let limits = Arc::new(limits);
    let mut failed = RepeatedFailure::new();
    connections.spawn(metrics::run_upkeep(closing.clone()));
    while let Some(accepted) = closing.run_until_cancelled(listener.accept()).await {
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                if let Some(count) = failed.count(Instant::now()) {
                    tracing::warn!(count, %error, "accepting connections failed; it is tried again every 50 ms");
                }
                tokio::time::sleep(ACCEPT_BACKOFF).await;
                continue;
            }
        };
        let (app, limits, closing) = (app.clone(), limits.clone(), closing.clone());
        let connection = Connection { app, limits, closing, slots: slots.clone(), peer };
        if let Some(slot) = slots.try_take() {
            connections.spawn(async move {
                connection.serve(stream, KeepAlive::Yes).await;
                drop(slot);
            });
        } else {
            let overload = overload.clone();
            connections.spawn(async move { overload.receive(stream, connection).await });
        }
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

/// Handles connections that arrive when all connection slots are taken.
struct OverloadHandler {
    health: Vec<String>,
    peeks: Semaphore,
    refusals: Semaphore,
}

impl OverloadHandler {
    async fn receive(&self, stream: TcpStream, connection: Connection) {
        let Ok(peek) = self.peeks.try_acquire() else { return };
        if self.is_about_health(&stream).await {
            // A probe that does not finish in time is closed.
            let _ = timeout(HEALTH_TIMEOUT, connection.serve(stream, KeepAlive::No)).await;
            return;
        }
        drop(peek);
        let Ok(_refusal) = self.refusals.try_acquire() else { return };
        let fault = Fault::new(
            Code::TooManyConnections,
            "The server has as many connections as it takes; try again in a moment.",
        );
        let socket = client_socket::ClientSocket::new(stream);
        socket.write_now(&refusal::response(&fault));
        socket.linger().await;
    }

    /// Peeks at the first bytes without consuming them.
    async fn is_about_health(&self, stream: &TcpStream) -> bool {
        let mut first = [0; 256];
        let Ok(Ok(read)) = timeout(PEEK_TIMEOUT, stream.peek(&mut first)).await else { return false };
        let line = String::from_utf8_lossy(&first[..read]);
        let Some(target) = line.strip_prefix("GET ").or_else(|| line.strip_prefix("HEAD ")) else { return false };
        let path = target.split([' ', '?']).next().unwrap_or_default();
        self.health.iter().any(|known| known == path)
    }
}
