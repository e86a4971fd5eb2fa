//! `pes keys`
use super::Error;
use super::args::KeysCommand;
use crate::config::Config;
use crate::config::env::Variables;

pub(super) async fn keys(_: KeysCommand, _: &Variables, _: impl Fn() -> Result<Config, Error>) -> Result<(), Error> {
    Ok(())
}
