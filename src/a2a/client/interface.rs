//! Chooses which of an agent's interfaces is called.

use serde_json::{Value, json};
use url::Url;

use super::super::types::AgentCard;
use super::super::wire::{Binding, Method, Version};
use super::{Error, segment};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChosenInterface {
    pub url: Url,
    pub binding: Binding,
    pub version: Version,
    /// Sent with every request, if the interface names one.
    pub tenant: Option<String>,
}

/// One HTTP request.
pub(super) struct Request {
    pub verb: http::Method,
    pub url: Url,
    pub body: Option<Value>,
}

impl ChosenInterface {
    /// The first supported interface of the agent. Its order is kept, except that newer protocol versions come first.
    pub fn of(card: &AgentCard) -> Result<Self, Error> {
        let mut supported = card.interfaces.iter().filter_map(|interface| {
            let binding = Binding::named(&interface.binding)?;
            let version = match binding {
                Binding::JsonRpc => Version::named(&interface.version)?,
                Binding::HttpJson => Version::named(&interface.version)?.over_rest(),
            };
            // 0.3 has no tenants.
            let tenant = interface.tenant.clone().filter(|name| version == Version::V1 && !name.is_empty());
            Some(ChosenInterface { url: interface.url.parse().ok()?, binding, version, tenant })
        });
        let none = || Error::Refused("its card names no interface that is understood here".to_owned());
        let first = supported.next().ok_or_else(none)?;
        let newer = std::iter::once(first.clone()).chain(supported).find(|interface| interface.version == Version::V1);
        Ok(newer.unwrap_or(first))
    }

    /// The request in this binding; `path` and `verb` are those of HTTP+JSON, where the tenant precedes the path.
    pub(super) fn request(
        &self,
        method: Method,
        path: &str,
        verb: http::Method,
        mut params: Value,
    ) -> Result<Request, Error> {
        match self.binding {
            Binding::JsonRpc => {
                let unknown = || Error::Refused(format!("version {} knows no such call", self.version.as_str()));
                let name = method.name(self.version).ok_or_else(unknown)?;
                if let Some(tenant) = &self.tenant {
                    params["tenant"] = tenant.as_str().into();
                }
                let body = json!({ "jsonrpc": "2.0", "id": 1, "method": name, "params": params });
                Ok(Request { verb: http::Method::POST, url: self.url.clone(), body: Some(body) })
            }
            Binding::HttpJson => {
                let folder = match (self.version, &self.tenant) {
                    (Version::V03Rest, _) => "v1/".to_owned(),
                    (Version::V1 | Version::V03, Some(tenant)) => format!("{}/", segment(tenant)),
                    (Version::V1 | Version::V03, None) => String::new(),
                };
                let url = format!("{}/{folder}{path}", self.url.as_str().trim_end_matches('/'));
                let url = url.parse().map_err(|_| Error::Refused("its card names a URL that is none".to_owned()))?;
                let body = (verb == http::Method::POST).then_some(params);
                Ok(Request { verb, url, body })
            }
        }
    }

    /// Whether the address is a loopback address.
    pub fn is_loopback(&self) -> bool {
        match self.url.host() {
            Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
            Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
            Some(url::Host::Domain(name)) => name == "localhost",
            None => false,
        }
    }
}
