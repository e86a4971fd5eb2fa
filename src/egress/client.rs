//! The clients: what each may reach, its connections, and how a request is sent over one of them.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::Method;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;
use url::{Position, Url};

use super::answer::Answer;
use super::connect::{self, Resolver};
use super::connection::{Connection, SendError};
use super::guard::{Guard, Names, System, Way};
use super::pool::Pool;
use super::{Allow, Destination, Error, Post, redirect, request};
use crate::domain::ids::TenantPk;

/// How many redirects are followed.
const HOPS: usize = 3;
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
    operators: Client,
    everybody: Gate,
    tenants: HashMap<TenantPk, Gate>,
}

/// A guard and its own connections: none of them is shared with those whom another guard lets through.
struct Gate {
    guard: Arc<Guard>,
    client: Client,
}

/// Connections that one resolver led to.
struct Client {
    resolver: Resolver,
    connect: Duration,
    pool: Arc<Pool>,
    /// Made when it is first needed: a server that calls nobody reads no certificates.
    tls: OnceLock<Result<TlsConnector, Error>>,
}

impl Egress {
    /// `connect` bounds the time until a connection stands. Beyond what the operator names, only the public internet is
    /// called.
    pub fn new(connect: Duration) -> Self {
        Self::behind(connect, Walls::default())
    }

    /// The same with another judgement of what the operator did not name.
    pub fn behind(connect: Duration, walls: Walls) -> Self {
        let gate = |allow: Allow| {
            let guard = Arc::new(Guard { allow, deny: walls.deny, plain_http: walls.plain_http });
            let resolver = Resolver { names: walls.names.clone(), guard: Some(guard.clone()) };
            Gate { guard, client: Client::new(resolver, connect) }
        };
        let tenants = walls.tenants.iter().map(|(tenant, own)| (*tenant, gate(walls.allow.and(own)))).collect();
        let operators = Client::new(Resolver { names: Arc::new(System), guard: None }, connect);
        Self { operators, everybody: gate(walls.allow.clone()), tenants }
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
        let client = match &post.to {
            Destination::Operator(_) => &self.operators,
            Destination::Untrusted { url, tenant } => {
                let gate = self.gate(*tenant);
                match gate.guard.judge(url)? {
                    Way::Named => &self.operators,
                    Way::Checked => &gate.client,
                }
            }
        };
        let until = deadline.min(Instant::now() + post.bounds.headers);
        match timeout_at(until, client.send(method, post, deadline)).await {
            Ok(sent) => sent,
            Err(_) => Err(Error::NoHeaders(post.bounds.headers.min(post.bounds.total))),
        }
    }

    fn gate(&self, tenant: TenantPk) -> &Gate {
        self.tenants.get(&tenant).unwrap_or(&self.everybody)
    }
}

impl Client {
    fn new(resolver: Resolver, connect: Duration) -> Self {
        Self { resolver, connect, pool: Arc::default(), tls: OnceLock::new() }
    }

    /// Over a connection that is there, else over a new one.
    async fn send(&self, method: &Method, post: &Post, deadline: Instant) -> Result<Answer, Error> {
        let url = post.to.url();
        let place = &url[..Position::AfterPort];
        let mut request = request::of(method, post)?;
        loop {
            let (mut connection, is_new) = match self.pool.take(place) {
                Some(connection) => (connection, false),
                None => (self.connect(url).await?, true),
            };
            tracing::trace!(%method, to = connect::place(url), is_new, "a request is sent");
            match connection.send(request).await {
                Ok(response) => {
                    tracing::trace!(status = response.status().as_u16(), "an answer begins");
                    let kept = (self.pool.clone(), place.into());
                    return Ok(Answer::new(response, connection, kept, post.bounds, deadline));
                }
                Err(SendError::Unsent(unsent)) if !is_new => request = *unsent,
                Err(SendError::Unsent(_)) => return Err(Error::Cut("it closed the connection at once".to_owned())),
                Err(SendError::Broken(error)) => return Err(cut(&error)),
            }
        }
    }

    async fn connect(&self, url: &Url) -> Result<Connection, Error> {
        let tls = if url.scheme() == "https" { Some(self.tls()?) } else { None };
        let transport = timeout(self.connect, connect::connect(url, &self.resolver, tls)).await;
        let too_late = |_| {
            Error::Unreachable(format!("{}: no connection within {} ms", connect::place(url), self.connect.as_millis()))
        };
        Connection::new(transport.map_err(too_late)??).await.map_err(|error| cut(&error))
    }

    fn tls(&self) -> Result<&TlsConnector, Error> {
        self.tls.get_or_init(connect::tls).as_ref().map_err(Clone::clone)
    }
}

/// With the causes, which say what is wrong.
pub(super) fn cut(error: &hyper::Error) -> Error {
    let mut text = String::new();
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text.push_str(if text.is_empty() { "" } else { ": " });
            text.push_str(&said);
        }
        cause = error.source();
    }
    Error::Cut(text)
}
