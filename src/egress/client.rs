//! The clients: each built when it is first used, so that a server that calls nobody pays nothing.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HOST, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING,
    UPGRADE,
};
use http::{HeaderMap, HeaderName, Method};
use tokio::time::{Instant, timeout_at};
use url::Url;

use super::answer::Answer;
use super::guard::{BadAddress, CheckedNames, Guard, Names, System, Way};
use super::{Allow, Destination, Error, Post, redirect};
use crate::domain::ids::TenantPk;

/// How long an unused connection is kept for the next call.
const IDLE: Duration = Duration::from_secs(30);
/// How many redirects are followed.
const HOPS: usize = 3;
/// Headers that say how a request travels, or to whom: only the operator sets them.
const OURS: [HeaderName; 10] = [
    CONNECTION,
    CONTENT_LENGTH,
    EXPECT,
    HOST,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// What may be called besides what the operator's settings name.
#[derive(Clone)]
pub struct Walls {
    /// For everybody.
    pub allow: Allow,
    /// For one tenant, besides that.
    pub tenants: HashMap<TenantPk, Allow>,
    /// Whether nothing is called that no allow-list names, and not the public internet.
    pub deny: bool,
    /// Whether http is called, too, where the allow-list says nothing.
    pub plain_http: bool,
    pub names: Arc<dyn Names>,
}

impl Default for Walls {
    /// The public internet and nothing else.
    fn default() -> Self {
        let (allow, tenants, names) = (Allow::default(), HashMap::new(), Arc::new(System));
        Self { allow, tenants, deny: false, plain_http: true, names }
    }
}

pub struct Egress {
    connect: Duration,
    open: Client,
    everybody: Gate,
    tenants: HashMap<TenantPk, Gate>,
}

type Client = OnceLock<Result<reqwest::Client, Error>>;

/// A guard and its own connections: none of them is shared with those whom another guard lets through.
struct Gate {
    guard: Arc<Guard>,
    names: Arc<dyn Names>,
    client: Client,
}

impl Egress {
    /// `connect` bounds the time until a connection stands. Beyond what the operator names, only the public internet is
    /// called.
    pub fn new(connect: Duration) -> Self {
        Self::behind(connect, Walls::default())
    }

    /// The same with another judgement of what the operator did not name.
    pub fn behind(connect: Duration, walls: Walls) -> Self {
        let gate = |allow: Allow| Gate {
            guard: Arc::new(Guard { allow, deny: walls.deny, plain_http: walls.plain_http }),
            names: walls.names.clone(),
            client: OnceLock::new(),
        };
        let tenants = walls.tenants.iter().map(|(tenant, own)| (*tenant, gate(walls.allow.and(own)))).collect();
        Self { connect, open: OnceLock::new(), everybody: gate(walls.allow.clone()), tenants }
    }

    /// Sends once, and gives back status and headers as soon as they are there.
    pub async fn post(&self, post: Post) -> Result<Answer, Error> {
        self.send(Method::POST, post).await
    }

    /// The same with any method; an empty body is none. A redirect is an answer like any other.
    pub async fn send(&self, method: Method, post: Post) -> Result<Answer, Error> {
        let deadline = Instant::now() + post.bounds.total;
        self.once(&method, &post, deadline).await
    }

    /// Sends, and follows up to three redirects, each judged like the first URL. The bounds hold for all of them
    /// together. Gives back the URL that answered, too.
    pub async fn follow(&self, mut method: Method, mut post: Post) -> Result<(Url, Answer), Error> {
        let deadline = Instant::now() + post.bounds.total;
        for _ in 0..=HOPS {
            let answer = self.once(&method, &post, deadline).await?;
            match redirect::next(&method, &post, &answer)? {
                None => return Ok((post.to.into_url(), answer)),
                Some(next) => (method, post) = next,
            }
        }
        Err(Error::Refused(format!("more than {HOPS} redirects are not followed")))
    }

    /// Whether a URL may be called, as far as it can be told without looking its name up: what a person configures is
    /// judged when it is written, and again at every call.
    pub fn judge(&self, to: &Destination) -> Result<(), Error> {
        match to {
            Destination::Operator(_) => Ok(()),
            Destination::Untrusted { url, tenant } => self.gate(*tenant).guard.judge(url).map(|_| ()),
        }
    }

    async fn once(&self, method: &Method, post: &Post, deadline: Instant) -> Result<Answer, Error> {
        let (client, headers) = match &post.to {
            Destination::Operator(_) => (self.client()?, post.headers.clone()),
            Destination::Untrusted { url, tenant } => {
                let gate = self.gate(*tenant);
                let client = match gate.guard.judge(url)? {
                    Way::Named => self.client()?,
                    Way::Checked => gate.client(self.connect)?,
                };
                (client, without_ours(&post.headers))
            }
        };
        let mut request = client.request(method.clone(), post.to.url().clone()).headers(headers);
        if !post.body.is_empty() {
            request = request.body(post.body.clone());
        }
        let until = deadline.min(Instant::now() + post.bounds.headers);
        match timeout_at(until, request.send()).await {
            Ok(Ok(response)) => Ok(Answer::new(response, post.bounds, deadline)),
            Ok(Err(error)) => Err(of(error)),
            Err(_) => Err(Error::NoHeaders(post.bounds.headers.min(post.bounds.total))),
        }
    }

    fn gate(&self, tenant: TenantPk) -> &Gate {
        self.tenants.get(&tenant).unwrap_or(&self.everybody)
    }

    fn client(&self) -> Result<&reqwest::Client, Error> {
        kept(&self.open, || builder(self.connect).build())
    }
}

impl Gate {
    fn client(&self, connect: Duration) -> Result<&reqwest::Client, Error> {
        let names = || CheckedNames { names: self.names.clone(), guard: self.guard.clone() };
        kept(&self.client, || builder(connect).dns_resolver(names()).build())
    }
}

fn kept(client: &Client, build: impl FnOnce() -> reqwest::Result<reqwest::Client>) -> Result<&reqwest::Client, Error> {
    client.get_or_init(|| build().map_err(of)).as_ref().map_err(Clone::clone)
}

/// Makes aws-lc-rs the process's one TLS provider. Asking again changes nothing.
pub fn install_tls() {
    // The error only says that a provider is installed already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
}

fn builder(connect: Duration) -> reqwest::ClientBuilder {
    install_tls();
    reqwest::Client::builder()
        .user_agent(concat!("pes/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .no_proxy()
        .connect_timeout(connect)
        .pool_idle_timeout(IDLE)
}

fn without_ours(headers: &HeaderMap) -> HeaderMap {
    let mut kept = headers.clone();
    OURS.iter().for_each(|name| drop(kept.remove(name)));
    kept
}

/// Without the URL, which may hold a secret, but for host and port; with the causes, which say what is wrong.
pub(super) fn of(error: reqwest::Error) -> Error {
    let unreachable = error.is_connect() || error.is_builder();
    let host = error.url().and_then(|url| Some((url.host_str()?.to_owned(), url.port_or_known_default()?)));
    let error = error.without_url();
    let mut text = String::new();
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(error) = cause {
        if let Some(bad) = error.downcast_ref::<BadAddress>() {
            return Error::Refused(bad.to_string());
        }
        let said = error.to_string();
        if !text.contains(&said) {
            text.push_str(if text.is_empty() { "" } else { ": " });
            text.push_str(&said);
        }
        cause = error.source();
    }
    match (unreachable, host) {
        (true, Some((host, port))) => Error::Unreachable(format!("{host}:{port}: {text}")),
        (true, None) => Error::Unreachable(text),
        (false, _) => Error::Cut(text),
    }
}
