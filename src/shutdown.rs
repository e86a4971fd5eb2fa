//! Serving, and stopping in order: report not ready, accept no new work, notify sockets, commit work, release leases.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::OptionFuture;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::config::Limits;
use crate::http::{self, AppState};

/// Bounds how long sockets may take to receive the notice that the server stops.
const SOCKET_NOTICE_TIMEOUT: Duration = Duration::from_secs(2);

/// Bounds how long it may take, after the drain, to store the audit of refused logins.
const AUDIT_TIMEOUT: Duration = Duration::from_secs(1);

/// Bounds how long a scrape may still take when the process ends.
const SCRAPE_TIMEOUT: Duration = Duration::from_secs(1);

/// Bounds the connections of the metrics listener.
const MAX_SCRAPERS: usize = 16;

/// Serves on `listener` until `stop` is cancelled, and for `runtime.drain_delay_ms` after that. Then drains, for at most
/// `runtime.drain_ms`. The next start recovers what is unfinished then, as after a crash.
pub async fn run(listener: TcpListener, state: AppState, stop: CancellationToken) {
    let closing = CancellationToken::new();
    let router = http::router(state.clone());
    let limits = state.config.limits.clone();
    let below = |base: &str| ["healthz", "readyz"].map(|name| format!("{base}/{name}"));
    let health = [below(""), below(&state.links.base_path)].concat();
    let serving = tokio::spawn(http::serve::serve(listener, router, limits, closing.clone(), health));
    let exporting = state.service.traces().cloned().map(|traces| {
        let closing = closing.clone();
        tokio::spawn(async move { traces.export_requests(closing).await })
    });
    let stop_auditing = CancellationToken::new();
    let auditing = tokio::spawn(state.keys.clone().audit_refused_logins(stop_auditing.clone()));
    stop.cancelled().await;
    let delay = state.config.drain_delay();
    if !delay.is_zero() {
        tracing::info!(
            delay_ms = delay.as_millis() as u64,
            "not ready any more; everything is served until the delay is over"
        );
        state.leave();
        sleep(delay).await;
    }
    tracing::info!("stopping");
    let draining = drain(&state, &closing, serving, exporting);
    let drained = timeout(Duration::from_millis(state.config.runtime.drain_ms), draining).await;
    // Hardly any requests arrive from here on, so the refused logins are complete, even if a client still reads its answer.
    stop_auditing.cancel();
    match timeout(AUDIT_TIMEOUT, auditing).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::error!(%error, "the task that audits refused logins panicked"),
        Err(_) => tracing::warn!("refused logins of the last minutes are not in the audit: the store did not answer"),
    }
    match drained {
        Ok(()) => tracing::info!("stopped"),
        Err(_) => tracing::warn!("stopped before everything was done; the next start goes on with it"),
    }
}

/// A listener that serves only `/metrics`.
pub struct MetricsListener {
    serving: JoinHandle<()>,
    closing: CancellationToken,
}

impl MetricsListener {
    /// Serves until [`close`](Self::close).
    pub fn serve(listener: TcpListener, state: AppState) -> Self {
        let closing = CancellationToken::new();
        let limits = Limits { connections: MAX_SCRAPERS, ..state.config.limits.clone() };
        let router = http::metrics_router(state);
        let serving = tokio::spawn(http::serve::serve(listener, router, limits, closing.clone(), Vec::new()));
        Self { serving, closing }
    }

    /// Finishes the responses that have begun. One that does not end soon, because the store does not answer, is given up.
    pub async fn close(self) {
        self.closing.cancel();
        match timeout(SCRAPE_TIMEOUT, self.serving).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "the accept loop of the metrics broke"),
            Err(_) => tracing::warn!("a scrape of the metrics was given up: it did not end in time"),
        }
    }
}

async fn drain(
    state: &AppState,
    closing: &CancellationToken,
    serving: JoinHandle<()>,
    exporting: Option<JoinHandle<()>>,
) {
    state.stop();
    let (_, ()) = tokio::join!(timeout(SOCKET_NOTICE_TIMEOUT, state.streams.wait()), state.service.drain());
    closing.cancel();
    if let Err(error) = serving.await {
        tracing::error!(%error, "the accept loop broke");
    }
    if let Some(Err(error)) = OptionFuture::from(exporting).await {
        tracing::error!(%error, "the task that exports request spans panicked");
    }
}

/// The exit code of a process that a second signal ended.
pub const HURRIED: i32 = 130;

/// The signals SIGINT and SIGTERM to this process.
pub struct Signals {
    /// Cancelled by the first one: the server stops in order.
    pub stop: CancellationToken,
    again: CancellationToken,
    is_again_awaited: Arc<AtomicBool>,
}

impl Signals {
    /// Completes at the second signal. From this call on it no longer ends the process; a third one does.
    pub async fn again(&self) {
        self.is_again_awaited.store(true, Ordering::SeqCst);
        self.again.cancelled().await;
    }
}

/// Hears the signals. The second one ends the process, unless it is awaited. SIGHUP, which a closed terminal sends, or an
/// operator who expects a reload, stops nothing.
pub fn on_signal() -> std::io::Result<Signals> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let mut hangup = signal(SignalKind::hangup())?;
    let signals = Signals {
        stop: CancellationToken::new(),
        again: CancellationToken::new(),
        is_again_awaited: Arc::new(AtomicBool::new(false)),
    };
    let (first, second) = (signals.stop.clone(), signals.again.clone());
    let is_again_awaited = signals.is_again_awaited.clone();
    tokio::spawn(async move {
        loop {
            tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
            if !first.is_cancelled() {
                first.cancel();
            } else if is_again_awaited.load(Ordering::SeqCst) && !second.is_cancelled() {
                second.cancel();
            } else {
                std::process::exit(HURRIED);
            }
        }
    });
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            tracing::warn!("SIGHUP changes nothing: settings are read at the start; restart the server to apply them");
        }
    });
    Ok(signals)
}
