//! `pes health`: for `HEALTHCHECK` in an image that has no shell.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use url::Url;

use super::Error;
use super::args::Flags;
use super::client::{line, print};
use super::server::address;
use super::which_server::{named_url, of_this_machine, only_asks};
use crate::config::Config;
use crate::config::env::Variables;

const PATIENCE: Duration = Duration::from_secs(5);

pub(super) async fn health(
    url: Option<String>,
    flags: &Flags,
    variables: &Variables,
    load: impl Fn() -> Result<Config, Error>,
) -> Result<(), Error> {
    only_asks(flags)?;
    let base = match named_url(url, flags, variables)? {
        Some(url) => url,
        None => match of_this_machine(&load()?, flags) {
            // Docker knows only 0 and 1.
            Err(Error::NoServer(why)) => return Err(Error::Failed(why)),
            found => found?,
        },
    };
    let (url, base) = address(&base)?;
    let (status, failing) = match tokio::time::timeout(PATIENCE, ask(&url)).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(why)) => return Err(Error::Failed(format!("{base} does not answer: {why}"))),
        Err(_) => return Err(Error::Failed(format!("{base} does not answer within {} s", PATIENCE.as_secs()))),
    };
    if !status.starts_with("200") {
        return Err(Error::Failed(format!("{base} is not ready: {status}{failing}")));
    }
    print("ready")
}

/// The status of `GET /readyz`, as in its first line, and the failing parts, if the body names them.
async fn ask(url: &Url) -> Result<(String, String), String> {
    if url.scheme() != "http" {
        return Err("only plain http is asked for health".to_owned());
    }
    let host = url.host_str().ok_or("no host")?;
    let port = url.port_or_known_default().ok_or("no port")?;
    let address = (host.trim_start_matches('[').trim_end_matches(']'), port);
    let mut stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
    let path = url.path().trim_end_matches('/');
    let request = format!("GET {path}/readyz HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.map_err(|error| error.to_string())?;
    let mut reply = Vec::new();
    stream.take(64 * 1024).read_to_end(&mut reply).await.map_err(|error| error.to_string())?;
    let reply = String::from_utf8_lossy(&reply);
    // Proxies and other servers may answer in HTTP/1.0.
    let status = reply.lines().next().and_then(|line| line.strip_prefix("HTTP/1.")?.split_once(' '));
    let (_, status) = status.ok_or_else(|| "it does not speak HTTP".to_owned())?;
    let (_, body) = reply.split_once("\r\n\r\n").unwrap_or_default();
    Ok((line(status), failing(body)))
}

/// The failing parts that a problem document names, to follow the status.
fn failing(body: &str) -> String {
    let problem: Value = serde_json::from_str(body).unwrap_or_default();
    let failing = problem["failing"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let failing: Vec<String> = failing.map(line).collect();
    if failing.is_empty() { String::new() } else { format!(": {}", failing.join("; ")) }
}
