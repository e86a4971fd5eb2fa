//! `pes verify`: whether the audit in the database is what it was. Reads only, also beside a running server.

use super::Error;
use crate::config::Config;
use crate::service::audit::verify::{self, Verified};
use crate::store;

pub(super) async fn verify(config: &Config) -> Result<(), Error> {
    let store = store::open_beside(&config.store).await?;
    let found = verify::verify(&*store).await;
    store.close().await;
    let found = found?;
    for Verified { tenant, lines, checkpoints, unchained, broken } in &found {
        match broken {
            Some(broken) => println!("FAIL {tenant}  {broken}"),
            None => {
                println!("ok   {tenant}  {lines} lines, {checkpoints} checkpoints; {unchained} lines not chained yet")
            }
        }
    }
    match found.iter().filter(|tenant| tenant.broken.is_some()).count() {
        0 => Ok(()),
        count => Err(Error::Failed(format!("the audit of {count} of {} tenants is not what it was", found.len()))),
    }
}
