//! `pes verify`: whether the audit in the database is what it was. Reads only, also beside a running server.

use std::path::Path;

use super::Error;
use crate::auth::AuditKey;
use crate::config::Config;
use crate::domain::Millis;
use crate::runtime::clock::{Clock as _, System};
use crate::service::audit::verify::{self, Since, Verified, VerifyAsk};
use crate::store;

pub(super) async fn verify(config: &Config, since: Since, file: Option<&Path>) -> Result<(), Error> {
    let kept = match file {
        None => Vec::new(),
        Some(file) => {
            let name = file.display().to_string();
            let text = std::fs::read_to_string(file).map_err(|error| Error::NotFound(format!("{name}: {error}")))?;
            verify::kept(&name, &text).map_err(Error::Usage)?
        }
    };
    let key = config.auth.audit_key.as_ref().and_then(AuditKey::of);
    let oldest = config.retention.audit_days.cut_off(System::default().now()).unwrap_or(Millis::MIN);
    let store = store::open_beside(&config.store).await?;
    let found =
        verify::verify(&*store, &VerifyAsk { key: key.as_ref(), since, kept: &kept, oldest: Some(oldest) }).await;
    store.close().await;
    let found = found?;
    for Verified { tenant, lines, checkpoints, signed, unchained, forgotten, broken } in &found {
        match broken {
            Some(broken) => println!("FAIL {tenant}  {broken}"),
            None => {
                let old =
                    if *forgotten > 0 { format!("; {forgotten} were too old and forgotten") } else { String::new() };
                println!(
                    "ok   {tenant}  {lines} lines, {checkpoints} checkpoints, {signed} signed; {unchained} lines not chained \
                     yet{old}"
                );
            }
        }
    }
    if key.is_none() {
        println!("signatures were not looked at: PES_AUDIT_KEY is not set");
    }
    match found.iter().filter(|tenant| tenant.broken.is_some()).count() {
        0 => Ok(()),
        count => Err(Error::Failed(format!("the audit of {count} of {} tenants is not what it was", found.len()))),
    }
}

/// A line, a day or a moment.
pub(super) fn since(text: &str) -> Result<Since, String> {
    if let Ok(line) = text.parse() {
        return Ok(Since::Line(line));
    }
    let moment = text.parse::<jiff::Timestamp>().or_else(|_| {
        let day = text.parse::<jiff::civil::Date>()?;
        Ok::<_, jiff::Error>(day.to_zoned(jiff::tz::TimeZone::UTC)?.timestamp())
    });
    let moment = moment
        .map_err(|_| format!("`{text}` is no line and no time; write 4711, 2026-11-21 or 2026-11-21T08:00:00Z"))?;
    Ok(Since::Time(moment.as_millisecond()))
}
