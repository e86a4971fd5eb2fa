//! `pes config`

use serde::Serialize;
use serde_json::json;
use toml::{Table, Value};

use super::Error;
use super::client::print;
use crate::config::Config;
use crate::config::layers::Layers;
use crate::config::template;

/// What to print.
pub(super) enum Shown {
    Template,
    Effective,
    /// Each setting with its layer.
    Sources,
}

/// `json`: prints one document.
pub(super) fn show(shown: Shown, layers: Layers, json: bool) -> Result<(), Error> {
    let not_plain = |error| Error::Failed(format!("the configuration is not plain: {error}"));
    match shown {
        Shown::Template => print(template::template().trim_end()),
        Shown::Effective if json => print_document(&Table::try_from(effective(layers)?).map_err(not_plain)?),
        Shown::Effective => {
            let text = toml::to_string(&effective(layers)?).map_err(not_plain)?;
            print(without_user_info(&text).trim_end())
        }
        Shown::Sources => {
            let sources = layers.sources()?;
            let effective = Table::try_from(effective(layers)?).map_err(not_plain)?;
            if json {
                let items = sources.iter().map(|(path, source)| {
                    let value = value(&effective, path);
                    json!({ "name": path, "value": value, "source": source })
                });
                return print_document(&json!({ "items": items.collect::<Vec<_>>() }));
            }
            sources.into_iter().try_for_each(|(path, source)| {
                let value = value(&effective, &path)
                    .map_or_else(|| "(not set)".to_owned(), |value| without_user_info(&value.to_string()));
                print(&format!("{path} = {value}  # {source}"))
            })
        }
    }
}

/// Prints it as JSON. Each value stands in a line of its own, by which the user information of a URL ends.
fn print_document(document: &impl Serialize) -> Result<(), Error> {
    let text = serde_json::to_string_pretty(document);
    let text = text.map_err(|error| Error::Failed(format!("the configuration is no JSON: {error}")))?;
    print(&without_user_info(&text))
}

/// The effective configuration. The host of Ollama may have user information without being a whole URL.
fn effective(layers: Layers) -> Result<Config, Error> {
    let mut config = layers.load()?;
    if let Some(host) = &mut config.models.ollama.host
        && !host.contains("://")
        && let Some((_, bare)) = host.rsplit_once('@')
    {
        *host = bare.to_owned();
    }
    Ok(config)
}

/// Removes the user information, which may be a password, from all URLs in a text.
fn without_user_info(text: &str) -> String {
    let mut pieces = text.split("://");
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |shown, piece| {
        let is_end = |c: char| matches!(c, '/' | '?' | '#') || c.is_whitespace();
        let authority = piece.find(is_end).map_or(piece, |end| &piece[..end]);
        let start = authority.rfind('@').map_or(0, |at| at + 1);
        shown + "://" + &piece[start..]
    })
}

fn value<'t>(table: &'t Table, path: &str) -> Option<&'t Value> {
    let mut names = path.split('.');
    let first = table.get(names.next()?)?;
    names.try_fold(first, |value, name| value.get(name))
}
