//! `pes config`

use toml::{Table, Value};

use super::Error;
use crate::config::layers::Layers;
use crate::config::template;

/// What is printed.
pub(super) enum Shown {
    Template,
    Effective,
    /// Each setting with the layer that it comes from.
    Sources,
}

pub(super) fn show(shown: Shown, layers: Layers) -> Result<(), Error> {
    let not_plain = |error| Error::Failed(format!("the configuration is not plain: {error}"));
    match shown {
        Shown::Template => print!("{}", template::template()),
        Shown::Effective => print!("{}", toml::to_string(&layers.load()?).map_err(not_plain)?),
        Shown::Sources => {
            let sources = layers.sources()?;
            let effective = Table::try_from(layers.load()?).map_err(not_plain)?;
            for (path, source) in sources {
                let value = value(&effective, &path).map_or_else(|| "(not set)".to_owned(), Value::to_string);
                println!("{path} = {value}  # {source}");
            }
        }
    }
    Ok(())
}

fn value<'t>(table: &'t Table, path: &str) -> Option<&'t Value> {
    let mut names = path.split('.');
    let first = table.get(names.next()?)?;
    names.try_fold(first, |value, name| value.get(name))
}
