//! Checks across settings: values that must be consistent.

use std::net::IpAddr;

use secrecy::ExposeSecret;

use super::cidr;
use super::{Config, Environment, Error, oidc};

impl Config {
    /// All checks that are possible without the store.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.server.check()?;
        self.check_bounds()?;
        self.store.check()?;
        self.auth.check(self.env)?;
        self.limits.spend.check()?;
        self.limits.tenant.check()?;
        self.check_prices()?;
        if let Some(model) = self.models.facts.keys().find(|model| !model.contains(':')) {
            return Err(Error(format!("models.facts: `{model}` must be provider:model")));
        }
        self.mcp.check()?;
        self.a2a.check()?;
        self.retention.check()?;
        if self.env == Environment::Production && self.models.is_demo() {
            return Err(Error(
                "PES_ENV=production refuses the demo model; set PES_MODEL, or the key of a provider (OPENAI_API_KEY, \
                 ANTHROPIC_API_KEY, GEMINI_API_KEY)"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    fn check_prices(&self) -> Result<(), Error> {
        for (model, price) in &self.prices {
            if !model.contains(':') || !price.is_sound() {
                return Err(Error(format!(
                    "prices: `{model}` must be provider:model or provider:*, with prices of 0 or more"
                )));
            }
        }
        Ok(())
    }

    /// Whether the server may run without keys; `stored` tells whether the store has a key that is not revoked.
    pub fn check_keys(&self, stored: bool) -> Result<(), Error> {
        if stored || !self.auth.keys.is_empty() || !self.auth.oidc.is_empty() {
            return Ok(());
        }
        const MAKE_ONE: &str = "set PES_API_KEYS or make one with `pes keys new`";
        if self.env == Environment::Production {
            return Err(Error(format!("PES_ENV=production refuses to run without API keys; {MAKE_ONE}")));
        }
        if !self.server.is_loopback() {
            return Err(Error(format!("{} is not loopback and there are no API keys; {MAKE_ONE}", self.server.host)));
        }
        Ok(())
    }
}

fn check_public_url(url: &str) -> Result<(), Error> {
    match url::Url::parse(url) {
        Ok(parsed) if !parsed.username().is_empty() || parsed.password().is_some() => Err(Error(
            "server.public_url (PES_PUBLIC_URL): it names a user or a password, which all who get a link would read; write it \
             without"
                .to_owned(),
        )),
        Ok(parsed) if matches!(parsed.scheme(), "http" | "https") => Ok(()),
        Ok(_) | Err(url::ParseError::RelativeUrlWithoutBase) => Err(Error(format!(
            "server.public_url: `{url}` is not an http or https URL; write it as https://agents.example.com"
        ))),
        Err(error) => Err(Error(format!("server.public_url: `{url}`: {error}"))),
    }
}

/// Checks the format in which a browser sends the Origin of a page.
fn check_origin(origin: &str) -> Result<(), Error> {
    let url = url::Url::parse(origin).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    if url.is_some_and(|url| url.origin().ascii_serialization() == origin.trim_end_matches('/')) {
        return Ok(());
    }
    if origin == "null" {
        return Err(Error(
            "server.cors_origins: `null` is what every page from a file or in a sandbox sends, whoever made it; serve the \
             page over HTTP, and list that origin"
                .to_owned(),
        ));
    }
    Err(Error(format!(
        "server.cors_origins: `{origin}` is not an origin like https://app.example.com; list each one, `*` is not accepted"
    )))
}

impl super::Store {
    /// Rejects unsupported URLs before a driver reports them in its own words.
    fn check(&self) -> Result<(), Error> {
        let Some(url) = &self.url else { return Ok(()) };
        // Not repeated: it may contain a password.
        let (scheme, rest) = url.expose_secret().split_once(':').unwrap_or_default();
        match scheme {
            "postgres" | "postgresql" if rest.starts_with("//") => Ok(()),
            "sqlite" => Err(Error(
                "store.url (DATABASE_URL): SQLite needs none; leave it unset and name the folder of pes.db with PES_DATA_DIR"
                    .to_owned(),
            )),
            "" | "postgres" | "postgresql" => Err(Error(
                "store.url (DATABASE_URL) is no URL; write postgres://user:password@host/database".to_owned(),
            )),
            scheme => Err(Error(format!(
                "store.url (DATABASE_URL): `{scheme}:` is not taken; PostgreSQL is, as postgres://user:password@host/database, \
                 and SQLite where it is unset"
            ))),
        }
    }
}

impl super::Server {
    fn check(&self) -> Result<(), Error> {
        self.check_host()?;
        let path = &self.base_path;
        if !path.is_empty() && (!path.starts_with('/') || path.ends_with('/')) {
            return Err(Error(format!("server.base_path: `{path}` must begin with / and not end with it")));
        }
        if let Some(url) = &self.public_url {
            check_public_url(url)?;
        }
        for origin in &self.cors_origins {
            check_origin(origin)?;
        }
        for range in &self.trusted_proxies {
            cidr::range(range).map_err(|error| Error(format!("server.trusted_proxies: {error}")))?;
        }
        Ok(())
    }

    fn check_host(&self) -> Result<(), Error> {
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        // A link-local address names its interface: `fe80::1%eth0`.
        let address = host.split_once('%').map_or(host, |(address, _)| address);
        if address.parse::<IpAddr>().is_ok() || !self.host.contains([':', '/']) {
            return Ok(());
        }
        Err(Error(format!(
            "server.host (HOST): `{}` is no host alone; the port stands in server.port (PORT), a whole URL in \
             server.public_url (PES_PUBLIC_URL)",
            self.host
        )))
    }

    /// The public URL, if other machines may reach the server by it.
    pub fn url_for_others(&self) -> Option<&str> {
        let is_for_others = |url: &&str| url::Url::parse(url).is_ok_and(|url| !oidc::is_loopback(&url));
        self.public_url.as_deref().filter(is_for_others)
    }

    /// Whether the server can only be reached from this machine, by itself: a proxy may make it public.
    pub fn is_loopback(&self) -> bool {
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}
