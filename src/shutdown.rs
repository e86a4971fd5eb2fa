//! Serving, and stopping cleanly: not ready, nothing new, sockets notified, work committed, leases given back.

use std::time::Duration;

use futures_util::future::OptionFuture;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::config::Limits;
use crate::http::{self, AppState};

/// How long sockets may take to hear that the server stops.
const GOODBYES: Duration = Duration::from_secs(2);

/// How long it may take, after the drain, to write down which logins were refused.
const LAST_LINES: Duration = Duration::from_secs(1);

/// How many may read the metrics at one time.
const SCRAPERS: usize = 16;

/// Serves on `listener` until `stop` is cancelled and `runtime.drain_delay_ms` more, then drains, in at most `runtime.drain_ms`. Whatever is left after
/// that is recovered by the next start, as after a crash.
pub async fn run(listener: TcpListener, state: AppState, stop: CancellationToken) {
    let closing = CancellationToken::new();
    let router = http::router(state.clone());
    let limits = state.config.limits.clone();
    let health = ["healthz", "readyz"].map(|name| format!("{}/{name}", state.links.base_path)).to_vec();
    let serving = tokio::spawn(http::serve::serve(listener, router, limits, closing.clone(), health));
    let telling = state.service.traces().cloned().map(|traces| {
        let closing = closing.clone();
        tokio::spawn(async move { traces.send_requests(closing).await })
    });
    let served = CancellationToken::new();
    let auditing = tokio::spawn(state.keys.clone().tell_refused(served.clone()));
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
    let draining = drain(&state, &closing, serving, telling);
    let drained = timeout(Duration::from_millis(state.config.runtime.drain_ms), draining).await;
    // Hardly anybody asks any more: what was refused is there, also where somebody reads an answer slowly.
    served.cancel();
    match timeout(LAST_LINES, auditing).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::error!(%error, "the task that audits refused logins panicked"),
        Err(_) => tracing::warn!("refused logins of the last minutes are not in the audit: the store did not answer"),
    }
    match drained {
        Ok(()) => tracing::info!("stopped"),
        Err(_) => tracing::warn!("stopped before everything was done; the next start goes on with it"),
    }
}

/// Serves `/metrics` alone on `listener`, for as long as the other one serves: until the token is cancelled.
pub fn serve_metrics(listener: TcpListener, state: AppState, closing: CancellationToken) -> JoinHandle<()> {
    let limits = Limits { connections: SCRAPERS, ..state.config.limits.clone() };
    tokio::spawn(http::serve::serve(listener, http::metrics_router(state), limits, closing, Vec::new()))
}

async fn drain(
    state: &AppState,
    closing: &CancellationToken,
    serving: JoinHandle<()>,
    telling: Option<JoinHandle<()>>,
) {
    state.stop();
    let (_, ()) = tokio::join!(timeout(GOODBYES, state.streams.wait()), state.service.drain());
    closing.cancel();
    if let Err(error) = serving.await {
        tracing::error!(%error, "the accept loop broke");
    }
    if let Some(Err(error)) = OptionFuture::from(telling).await {
        tracing::error!(%error, "the task that exports request spans panicked");
    }
}

/// Cancelled by the first SIGINT or SIGTERM; the second one ends the process, which is as safe as a crash. SIGHUP, as a
/// terminal sends it that is closed, or somebody who wants the settings read again, stops nothing.
pub fn on_signal() -> std::io::Result<CancellationToken> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let mut hangup = signal(SignalKind::hangup())?;
    let stop = CancellationToken::new();
    let told = stop.clone();
    tokio::spawn(async move {
        for is_second in [false, true] {
            tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
            if is_second {
                std::process::exit(130);
            }
            told.cancel();
        }
    });
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            tracing::warn!("SIGHUP changes nothing: settings are read at the start; restart the server to apply them");
        }
    });
    Ok(stop)
}
