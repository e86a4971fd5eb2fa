//! The client: built when it is first used, so that a server that calls nobody pays nothing.

use std::sync::OnceLock;
use std::time::Duration;

use http::Method;
use tokio::time::{Instant, timeout};

use super::answer::Answer;
use super::{Destination, Error, Post};

/// How long an unused connection is kept for the next call.
const IDLE: Duration = Duration::from_secs(30);

pub struct Egress {
    connect: Duration,
    client: OnceLock<Result<reqwest::Client, Error>>,
}

impl Egress {
    /// `connect` bounds the time until a connection stands.
    pub fn new(connect: Duration) -> Self {
        Self { connect, client: OnceLock::new() }
    }

    /// Sends once, and gives back status and headers as soon as they are there.
    pub async fn post(&self, post: Post) -> Result<Answer, Error> {
        self.send(Method::POST, post).await
    }

    /// The same with any method; an empty body is none.
    pub async fn send(&self, method: Method, post: Post) -> Result<Answer, Error> {
        let Destination::Operator(url) = post.to;
        let deadline = Instant::now() + post.bounds.total;
        let request = self.client()?.request(method, url).headers(post.headers).body(post.body).send();
        match timeout(post.bounds.headers.min(post.bounds.total), request).await {
            Ok(Ok(response)) => Ok(Answer::new(response, post.bounds, deadline)),
            Ok(Err(error)) => Err(of(error)),
            Err(_) => Err(Error::NoHeaders(post.bounds.headers)),
        }
    }

    fn client(&self) -> Result<&reqwest::Client, Error> {
        self.client.get_or_init(|| build(self.connect)).as_ref().map_err(Clone::clone)
    }
}

/// Makes aws-lc-rs the process's one TLS provider. Asking again changes nothing.
pub fn install_tls() {
    // The error only says that a provider is installed already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
}

fn build(connect: Duration) -> Result<reqwest::Client, Error> {
    install_tls();
    reqwest::Client::builder()
        .user_agent(concat!("pes/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .no_proxy()
        .connect_timeout(connect)
        .pool_idle_timeout(IDLE)
        .build()
        .map_err(of)
}

/// Without the URL, which may hold a secret; with the causes, which say what is wrong.
pub(super) fn of(error: reqwest::Error) -> Error {
    let (unreachable, error) = (error.is_connect() || error.is_builder(), error.without_url());
    let mut text = String::new();
    let mut cause: Option<&dyn std::error::Error> = Some(&error);
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text.push_str(if text.is_empty() { "" } else { ": " });
            text.push_str(&said);
        }
        cause = error.source();
    }
    if unreachable { Error::Unreachable(text) } else { Error::Cut(text) }
}
