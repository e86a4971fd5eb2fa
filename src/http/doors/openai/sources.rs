//! The sources of an answer as OpenAI's citations, which cover the whole text.

use serde_json::{Value, json};

use crate::domain::facts::FinalResponseBody;

/// A web address with the members that both APIs send for it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Citation(Value);

/// Only web addresses are taken, because clients make links of them.
pub(super) fn of(answer: &FinalResponseBody) -> Vec<Citation> {
    let sources = answer.ui_metadata.as_ref().and_then(|beside| beside["sources"].as_array());
    let end = answer.message.content.as_str().unwrap_or_default().chars().count();
    let is_web = |url: &&str| url.starts_with("https://") || url.starts_with("http://");
    let citation = |source: &Value| {
        let url = source["url"].as_str().filter(is_web)?;
        let title = source["sourceName"].as_str().unwrap_or(url);
        Some(Citation(json!({ "url": url, "title": title, "start_index": 0, "end_index": end })))
    };
    sources.into_iter().flatten().filter_map(citation).collect()
}

impl Citation {
    /// As a chat completion has it.
    pub(super) fn nested(&self) -> Value {
        json!({ "type": "url_citation", "url_citation": self.0 })
    }

    /// As an item of a response has it.
    pub(super) fn flat(&self) -> Value {
        let mut flat = self.0.clone();
        flat["type"] = "url_citation".into();
        flat
    }
}
