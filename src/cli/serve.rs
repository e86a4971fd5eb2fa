//! `pes serve`

use super::Error;
use crate::config::Config;
use crate::config::env::Variables;

pub(super) async fn serve(_: Config, _: &Variables) -> Result<(), Error> {
    Ok(())
}
