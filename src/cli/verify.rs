//! `pes verify`: checks that the audit in the database is unchanged. Only reads, also beside a running server.

use std::path::Path;

use serde_json::json;

use super::Error;
use super::client::print;
use crate::auth::{AuditKey, VerifyingKey};
use crate::config::Config;
use crate::domain::Millis;
use crate::runtime::clock::{Clock as _, System};
use crate::service::audit::verify::{self, ChainReport, Since, VerifyAsk};
use crate::store;

pub(super) async fn verify(
    config: &Config,
    since: Since,
    (checkpoints, keys): (Option<&Path>, Option<&Path>),
    json: bool,
) -> Result<(), Error> {
    let kept = checkpoints
        .map(|file| verify::parse_checkpoints(&name(file), &text(file)?).map_err(Error::Usage))
        .transpose()?;
    let kept = kept.unwrap_or_default();
    let set = |file| VerifyingKey::of_set(&text(file)?).map_err(|why| Error::Usage(format!("{} is {why}", name(file))));
    let former = keys.map(set).transpose()?.unwrap_or_default();
    let key = config.auth.audit_key.as_ref().and_then(AuditKey::of);
    let oldest = config.retention.audit_days.cut_off(System::default().now()).unwrap_or(Millis::MIN);
    let store = store::open_beside(&config.store).await?;
    let ask = VerifyAsk { key: key.as_ref(), former: &former, since, kept: &kept, oldest: Some(oldest) };
    let found = verify::verify(&*store, &ask).await;
    store.close().await;
    let found = found?;
    let has_keys = key.is_some() || !former.is_empty();
    let told = if json { vec![document(&found, has_keys)] } else { lines(&found, has_keys) };
    let printed = told.iter().try_for_each(|line| print(line));
    // The exit code stays correct if stdout is closed.
    match found.iter().filter(|tenant| tenant.broken.is_some()).count() {
        0 if !found.is_empty() && found.iter().all(|tenant| tenant.is_shorter) => Err(Error::NotFound(
            "nothing was verified: no tenant has the line that --since names; name an earlier one".to_owned(),
        )),
        0 => printed,
        count => Err(Error::Failed(format!("the audit of {count} of {} tenants is not what it was", found.len()))),
    }
}

/// The lines for people.
fn lines(found: &[ChainReport], has_keys: bool) -> Vec<String> {
    let mut lines: Vec<String> = found.iter().map(|tenant| words(tenant, has_keys)).collect();
    if found.is_empty() {
        lines.push("nothing was looked at: the database has no tenant yet".to_owned());
    } else if !has_keys {
        lines.push("signatures were not looked at: PES_AUDIT_KEY is not set".to_owned());
    }
    lines
}

/// `signed` is absent if signatures were not checked, `broken` if everything is unchanged.
fn document(found: &[ChainReport], has_keys: bool) -> String {
    let tenant = |found: &ChainReport| {
        let ChainReport { tenant, lines, checkpoints, signed, unchained, forgotten, is_shorter, broken } = found;
        let mut told = json!({
            "tenant": tenant, "ok": broken.is_none(), "lines": lines, "checkpoints": checkpoints, "unchained": unchained,
            "forgotten": forgotten, "isShorter": is_shorter
        });
        if has_keys {
            told["signed"] = json!(signed);
        }
        if let Some(broken) = broken {
            told["broken"] = json!(broken);
        }
        told
    };
    let is_well = found.iter().all(|tenant| tenant.broken.is_none());
    json!({ "ok": is_well, "tenants": found.iter().map(tenant).collect::<Vec<_>>() }).to_string()
}

/// The result for a tenant's audit.
fn words(found: &ChainReport, has_keys: bool) -> String {
    let ChainReport { tenant, lines, checkpoints, signed, unchained, forgotten, is_shorter: _, broken } = found;
    if let Some(broken) = broken {
        return format!("FAIL {tenant}  {broken}");
    }
    let old = if *forgotten > 0 { format!("; {forgotten} were too old and forgotten") } else { String::new() };
    let signed = if has_keys { format!("{signed} signed") } else { "signatures not looked at".to_owned() };
    let (lines, checkpoints) = (counted(*lines, "line"), counted(*checkpoints, "checkpoint"));
    let unchained = counted(*unchained, "line");
    format!("ok   {tenant}  {lines}, {checkpoints}, {signed}; {unchained} not chained yet{old}")
}

fn counted(number: impl ToString, one: &str) -> String {
    let number = number.to_string();
    let end = if number == "1" { "" } else { "s" };
    format!("{number} {one}{end}")
}

fn name(file: &Path) -> String {
    file.display().to_string()
}

fn text(file: &Path) -> Result<String, Error> {
    std::fs::read_to_string(file).map_err(|error| Error::NotFound(format!("{}: {error}", name(file))))
}

/// Parses a line number, a day or a time.
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

#[cfg(test)]
mod tests {
    use super::lines;

    #[test]
    fn where_there_is_nothing_to_verify_this_is_said() {
        for has_keys in [false, true] {
            assert_eq!(lines(&[], has_keys), ["nothing was looked at: the database has no tenant yet"]);
        }
    }
}
