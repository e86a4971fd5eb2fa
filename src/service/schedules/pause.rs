//! Pauses schedules automatically: after a failure of their own, and when the key that wrote a schedule last, and with whose
//! rights it runs, has ended.

use std::collections::HashMap;

use metrics::counter;
use serde_json::Value;

use crate::domain::Millis;
use crate::domain::ids::TenantPk;
use crate::domain::run::SCHEDULE_PREFIX;
use crate::domain::schedule::StoredSchedule;
use crate::service::Service;
use crate::store;
use crate::store::documents::{Change, Document, DocumentKind, Expected};

/// How often the keys are checked. Until then a schedule whose key has ended is shown as active, but it fires nothing.
const KEY_CHECK_INTERVAL: Millis = 3_000;

/// Pauses a schedule by writing its document, with the reason. Does nothing if the document was changed in the meantime. A
/// due time then gets no run.
pub(super) async fn pause(service: &Service, document: &Document, why: &str) -> store::Result<()> {
    let mut body = document.body.clone().unwrap_or_default();
    body["spec"]["paused"] = Value::Bool(true);
    body["pausedBecause"] = Value::from(why);
    let (tenant, id, by) = (document.tenant, document.id.clone(), format!("{SCHEDULE_PREFIX}{}", document.id));
    let (kind, why) = (DocumentKind::Schedule, Some(why.to_owned()));
    let change =
        Change { tenant, kind, id, body: Some(body), former: None, by, by_tenant: None, why, now: service.now() };
    let written = service.documents.write(change, Expected::Version(document.version)).await?;
    counter!("pes_schedule_fires_total", "outcome" => "paused").increment(u64::from(written.is_some()));
    Ok(())
}

/// Why the key that wrote the schedule last gives no rights any more, by the clock by which its requests are refused.
/// `None`: it is valid. The key of a caller that is not stored (one of the configuration, or of a server without keys) never
/// ends.
pub(super) async fn of_ended_key(
    service: &Service,
    tenant: TenantPk,
    stored: &StoredSchedule,
) -> store::Result<Option<String>> {
    let Some(name) = stored.writers.last() else { return Ok(None) };
    let Some(key) = service.store.key_by_name(tenant, name).await? else { return Ok(None) };
    let how = if key.revoked_at.is_some() {
        "was revoked"
    } else if key.expires_at.is_some_and(|end| end <= service.runtime.wall()) {
        "has expired"
    } else {
        return Ok(None);
    };
    Ok(Some(format!("The key `{name}`, which wrote this schedule last, {how}; write it again with a key that counts.")))
}

/// Pauses the schedules whose key has ended, due or not. Checks at most every three seconds.
pub(super) async fn all_of_ended_keys(service: &Service) -> store::Result<()> {
    let now = service.now();
    if !service.schedules.is_key_check_due(now, KEY_CHECK_INTERVAL) {
        return Ok(());
    }
    let mut known: HashMap<(TenantPk, String), Option<String>> = HashMap::new();
    for document in service.documents.all(DocumentKind::Schedule) {
        let Ok(stored) = document.legible::<StoredSchedule>() else { continue };
        let Some(name) = stored.writers.last().filter(|_| !stored.spec.paused) else { continue };
        let key = (document.tenant, name.clone());
        let why = match known.get(&key) {
            Some(why) => Ok(why.clone()),
            None => of_ended_key(service, document.tenant, &stored).await,
        };
        let paused = match &why {
            Ok(Some(why)) => pause(service, &document, why).await,
            Ok(None) => Ok(()),
            Err(error) => Err(error.clone()),
        };
        match paused {
            Err(error) if error.is_of_data() => {
                tracing::error!(%error, schedule = document.id, "whether its key has ended is not known: it cannot be read");
            }
            paused => paused?,
        }
        known.insert(key, why.unwrap_or_default());
    }
    service.schedules.set_keys_checked(now);
    Ok(())
}
