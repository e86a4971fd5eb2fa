//! The settings of traces, in the formats of OpenTelemetry.

use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;
use secrecy::ExposeSecret;
use url::Url;

use super::span::Attributes;
use crate::config::telemetry::Telemetry;

/// The collector's URL; `None`: traces are off.
pub(super) fn url(config: &Telemetry) -> Result<Option<Url>, String> {
    if config.disabled {
        return Ok(None);
    }
    let (name, text) = match (&config.traces_endpoint, &config.endpoint) {
        (Some(whole), _) => ("telemetry.traces_endpoint", whole.clone()),
        (None, Some(base)) => ("telemetry.endpoint", format!("{}/v1/traces", base.trim_end_matches('/'))),
        (None, None) => return Ok(None),
    };
    // The URL is not repeated: it may contain a password.
    let wrong = |why: String| format!("{name}: it is no URL of a collector: {why}");
    let url: Url = text.parse().map_err(|error: url::ParseError| wrong(error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong("it begins with http:// or https://".to_owned()));
    }
    Ok(Some(url))
}

pub(super) fn headers(config: &Telemetry) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    let pairs = pairs("telemetry.headers", config.headers.as_ref().map(ExposeSecret::expose_secret))?;
    for (at, (name, value)) in pairs.into_iter().enumerate() {
        let wrong = || format!("telemetry.headers: entry {} is no header that can be sent; write name=value", at + 1);
        let name = HeaderName::try_from(&name).map_err(|_| wrong())?;
        let mut value = HeaderValue::try_from(&value).map_err(|_| wrong())?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

/// The resource attributes of this server. If a name is given twice, the last value counts.
pub(super) fn resource(config: &Telemetry, instance: &str) -> Result<Attributes, String> {
    let given = pairs("telemetry.resource_attributes", config.resource_attributes.as_deref())?;
    let ours = [
        ("service.name", config.service_name.as_str()),
        ("service.version", env!("CARGO_PKG_VERSION")),
        ("service.instance.id", instance),
    ];
    let is_given = |name: &str| given.iter().any(|(known, _)| known == name);
    let ours = ours.into_iter().filter(|(name, _)| !is_given(name));
    let ours: Attributes = ours.map(|(name, value)| (name.into(), value.to_owned().into())).collect();
    Ok(ours.into_iter().chain(given.iter().map(|(name, value)| (name.clone().into(), value.clone().into()))).collect())
}

/// `name=value,name=value`. The error repeats none of it: it may contain a secret.
fn pairs(setting: &str, text: Option<&str>) -> Result<Vec<(String, String)>, String> {
    let pairs = text.unwrap_or_default().split(',').map(str::trim).filter(|pair| !pair.is_empty());
    pairs
        .enumerate()
        .map(|(at, pair)| {
            let (name, value) = pair.split_once('=').ok_or_else(|| format!("{setting}: write name=value"))?;
            let value = percent_decode_str(value.trim()).decode_utf8();
            let value = value.map_err(|_| format!("{setting}: the value of entry {} is no text", at + 1))?;
            Ok((name.trim().to_owned(), value.into_owned()))
        })
        .collect()
}
