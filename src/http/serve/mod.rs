//! The accept loop: HTTP/1.1 on hyper. Everything that a client can hold open has a bound and a deadline.
//!
//! Where few places are left, connections on which nothing is asked are closed soon.
//!
//! Every answer arrives whole, also when the request's body was not read to its end. Every refusal is a problem document,
//! but for those of hyper itself, which have no body: 400 for what is not HTTP/1.1, 431 for headers of more than twice
//! `limits.header_bytes`.

mod connection;
mod line;
mod places;
mod refusal;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::Limits;
use crate::domain::fault::{Code, Fault};
use crate::http::metrics;
use connection::{Connection, KeepAlive};
use places::Places;

/// How many refused connections get an answer at one time; those beyond are closed without one.
const MAX_REFUSALS: usize = 64;

/// How many are asked at one time what they want, when all places are taken, how long they may take to say it, and how
/// long an answer about health may take: a full server is not a dead one.
const MAX_PEEKS: usize = 64;
const PEEK_TIMEOUT: Duration = Duration::from_millis(250);
const HEALTH: Duration = Duration::from_secs(5);

/// How long to wait when the system has no file descriptor left.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);

/// Serves until `closing` is cancelled, then lets what is being answered be answered. Returns when the last connection
/// is closed.
///
/// A request for one of these paths is answered also when all connections are taken.
pub(crate) async fn serve(
    listener: TcpListener,
    app: Router,
    limits: Limits,
    closing: CancellationToken,
    health: Vec<String>,
) {
    let places = Places::new(limits.connections);
    let full = Arc::new(Full { health, peeks: Semaphore::new(MAX_PEEKS), refusals: Semaphore::new(MAX_REFUSALS) });
    let connections = TaskTracker::new();
    let limits = Arc::new(limits);
    connections.spawn(metrics::fold(closing.clone()));
    while let Some(accepted) = closing.run_until_cancelled(listener.accept()).await {
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "accepting a connection failed; retrying in 50 ms");
                tokio::time::sleep(ACCEPT_BACKOFF).await;
                continue;
            }
        };
        let (app, limits, closing) = (app.clone(), limits.clone(), closing.clone());
        let connection = Connection { app, limits, closing, places: places.clone(), peer };
        if let Some(place) = places.take() {
            connections.spawn(async move {
                connection.serve(stream, KeepAlive::Yes).await;
                drop(place);
            });
        } else {
            let full = full.clone();
            connections.spawn(async move { full.receive(stream, connection).await });
        }
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

/// What becomes of those who come when all places are taken.
struct Full {
    health: Vec<String>,
    peeks: Semaphore,
    refusals: Semaphore,
}

impl Full {
    async fn receive(&self, stream: TcpStream, connection: Connection) {
        let Ok(peek) = self.peeks.try_acquire() else { return };
        if self.is_about_health(&stream).await {
            // Whoever does not come to an end is closed.
            let _ = timeout(HEALTH, connection.serve(stream, KeepAlive::No)).await;
            return;
        }
        drop(peek);
        let Ok(_refusal) = self.refusals.try_acquire() else { return };
        let fault = Fault::new(Code::TooManyConnections, "All places are taken; come back in a moment.");
        let line = line::Line::new(stream);
        line.write_now(&refusal::response(&fault));
        line.linger().await;
    }

    /// Looks at the first bytes, and leaves them where they are.
    async fn is_about_health(&self, stream: &TcpStream) -> bool {
        let mut first = [0; 256];
        let Ok(Ok(read)) = timeout(PEEK_TIMEOUT, stream.peek(&mut first)).await else { return false };
        let line = String::from_utf8_lossy(&first[..read]);
        let Some(target) = line.strip_prefix("GET ").or_else(|| line.strip_prefix("HEAD ")) else { return false };
        let path = target.split([' ', '?']).next().unwrap_or_default();
        self.health.iter().any(|known| known == path)
    }
}
