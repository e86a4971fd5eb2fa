//! `pes config`

use super::Error;
use crate::config::{Config, template};

pub(super) fn show(is_template: bool, load: impl Fn() -> Result<Config, Error>) -> Result<(), Error> {
    if is_template {
        print!("{}", template::template());
        return Ok(());
    }
    let text =
        toml::to_string(&load()?).map_err(|error| Error::Failed(format!("the configuration is not plain: {error}")))?;
    print!("{text}");
    Ok(())
}
