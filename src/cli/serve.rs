//! `pes serve`

use std::io::{ErrorKind, IsTerminal, Write};
use std::net::SocketAddr;

use tokio::net::TcpListener;

use super::which_server::local_url;
use super::{Error, open_files};
use crate::app::{self, App, checks};
use crate::config::Config;
use crate::config::env::Variables;
use crate::config::models::ModelRef;
use crate::shutdown::MetricsListener;
use crate::store::{self, sqlite};
use crate::{shutdown, telemetry};

pub(super) async fn serve(mut config: Config, variables: &Variables) -> Result<(), Error> {
    telemetry::install(&config.log, variables)?;
    open_files::fit(&mut config.limits);
    // Before the database is awaited, migrated or made: settings that these checks refuse change nothing. Whether there are
    // keys is known only from the database.
    if let Some(error) = checks::check(&config).into_iter().next() {
        return Err(unusable(error));
    }
    let listener = bind(&config).await?;
    let metrics = bind_metrics(&config).await?;
    let address = listener.local_addr().map_err(|error| Error::Failed(format!("no address: {error}")))?;
    let signals = shutdown::on_signal().map_err(|error| Error::Failed(format!("signals cannot be heard: {error}")))?;
    tokio::select! {
        connected = store::await_connection(&config.store) => connected?,
        () = signals.stop.cancelled() => return Ok(()),
    }
    let app = App::build_at(config, address).await.map_err(unusable)?;
    let state = app.state(address).map_err(|fault| Error::Failed(fault.in_full()))?;
    if app.config.store.url.is_none()
        && let Err(error) = sqlite::announce(&app.config.store.data_dir, &local_url(&app.config.server, address.port()))
    {
        tracing::warn!(%error, "commands beside this server will not find it");
    }
    for (issuer, settings) in &app.config.auth.oidc {
        if let Some(why) = settings.login_warning() {
            tracing::warn!(issuer, why, "people of an issuer may get no rights");
        }
    }
    let mut facts = facts(&app, address, state.url(), variables).await;
    let metrics = metrics.map(|(listener, address)| {
        facts.push(format!("metrics  http://{address}/metrics"));
        MetricsListener::serve(listener, state.clone())
    });
    // The last line: the server answers.
    facts.push("ready".to_owned());
    say(&facts);
    let service = app.service.clone();
    let serving = async {
        shutdown::run(listener, state, signals.stop.clone()).await;
        if let Some(metrics) = metrics {
            metrics.close().await;
        }
        app.close().await;
    };
    tokio::select! {
        () = serving => Ok(()),
        () = signals.again() => {
            // The leases are given back first: whoever sent the signal ended this process, and no thread crashed it.
            service.give_up().await;
            std::process::exit(shutdown::HURRIED)
        }
    }
}

/// Binds before anything is opened: a second server on the same port changes nothing.
async fn bind(config: &Config) -> Result<TcpListener, Error> {
    let host = config.server.host.trim_start_matches('[').trim_end_matches(']');
    let bound = TcpListener::bind((host, config.server.port)).await;
    bound.map_err(|error| {
        let what_to_do = match error.kind() {
            ErrorKind::AddrInUse => {
                "; stop what listens there, or choose another with --port or PORT (0 = any that is free)"
            }
            _ => "",
        };
        Error::Failed(format!("{}:{} cannot be bound: {error}{what_to_do}", config.server.host, config.server.port))
    })
}

/// The separate listener of `/metrics`, if configured.
async fn bind_metrics(config: &Config) -> Result<Option<(TcpListener, SocketAddr)>, Error> {
    let Some(wanted) = config.metrics.listen else { return Ok(None) };
    let failed = |error: std::io::Error| {
        Error::Failed(format!("metrics.listen (PES_METRICS_LISTEN): {wanted} cannot be bound: {error}"))
    };
    let listener = TcpListener::bind(wanted).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok(Some((listener, address)))
}

fn unusable(error: app::Error) -> Error {
    match error {
        app::Error::Store(error) => Error::Store(error),
        app::Error::Config(fault) => Error::Config(crate::config::Error(fault.in_full())),
        app::Error::InvalidConfig(error) => Error::Config(error),
    }
}

/// The startup lines, one fact each.
async fn facts(app: &App, address: SocketAddr, url: String, variables: &Variables) -> Vec<String> {
    let config = &app.config;
    let auth = match app.keys.is_open().await {
        Ok(true) => open_to(config),
        Ok(false) | Err(_) => "keys".to_owned(),
    };
    let is_bold = telemetry::is_coloured(variables) && std::io::stdout().is_terminal();
    let mut facts = vec![format!("pes      {}", env!("CARGO_PKG_VERSION")), format!("url      {url}")];
    // A proxy in front needs the bound address.
    facts.extend(config.server.public_url.as_ref().map(|_| format!("bound    http://{address}")));
    facts.extend([format!("store    {}", app.store.describe())]);
    facts.extend(app.store.weakness().map(|why| format!("durable  NO: {why}")));
    facts.extend([format!("model    {}", model(config, is_bold)), format!("auth     {auth}")]);
    facts
}

/// Who is admitted without a key. A server that is bound to loopback may be public all the same, behind a proxy.
fn open_to(config: &Config) -> String {
    match config.server.url_for_others() {
        Some(url) => format!("NO KEYS: whoever reaches {url} may do everything; set PES_API_KEYS"),
        None => "open: no keys, loopback only".to_owned(),
    }
}

fn model(config: &Config, is_bold: bool) -> String {
    let chosen: Vec<String> = config.models.chosen().iter().map(ModelRef::to_string).collect();
    let chosen = chosen.join(", ");
    if !config.models.is_demo() {
        return chosen;
    }
    let line = format!("DEMO {chosen}: answers are scripted; set PES_MODEL or a provider's key for a real model");
    if is_bold { format!("\u{1b}[1m{line}\u{1b}[0m") } else { line }
}

/// Prints the lines. A closed stdout is no error.
fn say(lines: &[String]) {
    let mut out = std::io::stdout();
    for line in lines {
        let _ = writeln!(out, "{line}");
    }
    let _ = out.flush();
}
