//! The headers that a server's settings add to every request, which hold its credentials.

use std::collections::{BTreeMap, HashMap};

use http::{HeaderName, HeaderValue};
use secrecy::ExposeSecret;
use tokio::sync::watch;

use crate::config::Reference;
use crate::config::env::Variables;

/// Why the server of a connection refused a call for its credentials; `None`: it did not, or has carried out another since.
#[derive(Clone, Debug, Default)]
pub(super) struct Refusal(watch::Sender<Option<String>>);

impl Refusal {
    pub(super) fn record(&self, why: Option<String>) {
        self.0.send_if_modified(|known| {
            let has_changed = *known != why;
            *known = why;
            has_changed
        });
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<Option<String>> {
        self.0.subscribe()
    }
}

/// The headers as they were read when the connection was opened.
pub(super) struct Credentials {
    settings: BTreeMap<String, Reference>,
    headers: HashMap<HeaderName, HeaderValue>,
}

impl Credentials {
    /// The error text contains no secrets.
    pub(super) fn read(settings: &BTreeMap<String, Reference>) -> Result<Self, String> {
        Ok(Self { settings: settings.clone(), headers: resolved(settings)? })
    }

    pub(super) fn headers(&self) -> HashMap<HeaderName, HeaderValue> {
        self.headers.clone()
    }

    /// Whether a reference has another value by now, as after the rotation of a token in a file.
    pub(super) fn have_changed(&self) -> bool {
        resolved(&self.settings).is_ok_and(|headers| headers != self.headers)
    }
}

fn resolved(settings: &BTreeMap<String, Reference>) -> Result<HashMap<HeaderName, HeaderValue>, String> {
    let variables = Variables::of_process();
    let header = |(name, reference): (&String, &Reference)| {
        let header = HeaderName::try_from(name.as_str()).map_err(|_| format!("`{name}` is no name of a header"))?;
        let secret = reference.resolve(&variables)?;
        let value = HeaderValue::try_from(secret.expose_secret());
        let mut value = value.map_err(|_| format!("the value of `{name}` cannot be sent as a header"))?;
        value.set_sensitive(true);
        Ok((header, value))
    };
    settings.iter().map(header).collect()
}
