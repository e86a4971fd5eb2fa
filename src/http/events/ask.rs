//! The options of a subscription: `after`, `types`, `tokens`, `until`.

use axum::http::HeaderMap;
use serde::Deserialize;

use crate::domain::fault::{Code, Fault};
use crate::domain::observation::ObservationType;
use crate::http::params::{Params, wrong};
use crate::service::feed::{After, FeedAsk};

const AFTER: &str = "must be a seq or `latest`";

/// Reads the options from the query. `Last-Event-ID` wins over `after`, because a reconnecting event source repeats its
/// old URL.
pub(super) fn of_query(params: &mut Params, headers: &HeaderMap) -> Result<FeedAsk, Fault> {
    let after = params.text("after").map(|text| parse_after(&text).ok_or_else(|| wrong("after", AFTER))).transpose()?;
    Ok(FeedAsk {
        after: last_event_id(headers)?.or(after).unwrap_or(After::Seq(0)),
        types: params.list("types", ObservationType::parse)?,
        tokens: params.flag("tokens", true)?,
        until: params.text("until").map(Into::into),
        ends_suspended: false,
    })
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<After>, Fault> {
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    let seq = value.to_str().ok().and_then(|text| text.trim().parse().ok()).filter(|seq| *seq >= 0);
    let refuse = || Fault::new(Code::Malformed, "Last-Event-ID must be the id of an event of this stream.");
    seq.map(After::Seq).map(Some).ok_or_else(refuse)
}

fn parse_after(text: &str) -> Option<After> {
    match text {
        "latest" => Some(After::Latest),
        number => number.parse().ok().filter(|seq| *seq >= 0).map(After::Seq),
    }
}

/// The body of a `subscribe`.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Subscribe {
    #[serde(default)]
    #[schema(inline)]
    after: Option<AfterValue>,
    #[serde(default = "yes")]
    tokens: bool,
    #[serde(default)]
    types: Vec<ObservationType>,
}

/// A seq, or `latest`.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(untagged, expecting = "must be a seq or `latest`")]
enum AfterValue {
    Seq(u32),
    Word(String),
}

fn yes() -> bool {
    true
}

impl Subscribe {
    pub(super) fn ask(self) -> Result<FeedAsk, Fault> {
        let after = match self.after {
            None => After::Seq(0),
            Some(AfterValue::Seq(seq)) => After::Seq(seq.into()),
            Some(AfterValue::Word(word)) => parse_after(&word)
                .ok_or_else(|| Fault::new(Code::Invalid, format!("`after` {AFTER}.")).at("/after", AFTER))?,
        };
        Ok(FeedAsk { after, types: self.types, tokens: self.tokens, until: None, ends_suspended: false })
    }
}
