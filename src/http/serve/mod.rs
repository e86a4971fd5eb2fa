//! The accept loop: HTTP/1.1 on hyper, with a bound and an end for everything a stranger can hold open.
//!
//! Every answer arrives whole, also when the request's body was not read to its end, and every refusal is a problem
//! document, also where hyper answers by itself.

mod connection;
mod line;
mod refusal;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::Limits;
use crate::domain::fault::{Code, Fault};
use crate::http::metrics;
use connection::Connection;

/// How many turned-away strangers are told why at one time; those beyond are just closed.
const TOLD: usize = 64;

/// How long to wait when the system has no file descriptor left.
const BREATH: Duration = Duration::from_millis(50);

/// Serves until `closing` is cancelled, then lets what is being answered be answered. Returns when the last connection
/// is closed.
pub(crate) async fn serve(listener: TcpListener, app: Router, limits: Limits, closing: CancellationToken) {
    let places = Arc::new(Semaphore::new(limits.connections));
    let told = Arc::new(Semaphore::new(TOLD));
    let connections = TaskTracker::new();
    let limits = Arc::new(limits);
    connections.spawn(metrics::fold(closing.clone()));
    while let Some(accepted) = closing.run_until_cancelled(listener.accept()).await {
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept");
                tokio::time::sleep(BREATH).await;
                continue;
            }
        };
        match places.clone().try_acquire_owned() {
            Ok(place) => {
                let (app, limits, closing) = (app.clone(), limits.clone(), closing.clone());
                connections.spawn(async move {
                    Connection { app, limits, closing, peer }.serve(stream).await;
                    drop(place);
                });
            }
            Err(_) => turn_away(stream, &told, &connections),
        }
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

fn turn_away(stream: TcpStream, told: &Arc<Semaphore>, connections: &TaskTracker) {
    let Ok(told) = told.clone().try_acquire_owned() else { return };
    connections.spawn(async move {
        let _told = told;
        let fault = Fault::new(Code::TooManyConnections, "All places are taken; come back in a moment.");
        let line = line::Line::new(stream);
        line.write_now(&refusal::response(&fault));
        line.linger().await;
    });
}
