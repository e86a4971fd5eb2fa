//! `pes serve`

use super::Error;
use crate::config::Config;
use crate::config::env::Variables;
use crate::telemetry;

pub(super) async fn serve(config: Config, variables: &Variables) -> Result<(), Error> {
    telemetry::install(&config.log, variables)?;
    Ok(())
}
