//! Deletes audit lines that are too old, oldest first and up to a checkpoint, so that the rest of the chain is verified from
//! there. Before that, a line that records the deletion is written and chained: missing lines without such a record are
//! tampering. If there is a key, the record is signed, so that write access to the database is not enough to forge one, nor
//! to have young lines deleted: only a checkpoint that was signed proves the age of the lines before it.

use serde_json::json;

use crate::auth::Signed;
use crate::domain::Millis;
use crate::domain::actor::ServerActor;
use crate::domain::ids::TenantPk;
use crate::service::audit::verify::{Signatures, SignedBy};
use crate::service::chore_metrics::count_deleted;
use crate::service::{Service, audit};
use crate::store::chain::{FORGOTTEN, forgotten};
use crate::store::{self, AuditRow, Checkpoint, Pace};

/// The shortest time between two deletions of a tenant's lines, because each of them writes a line.
const MIN_DELETION_INTERVAL: Millis = 24 * 3_600_000;
/// About how many lines one statement deletes; it deletes up to a checkpoint.
const BATCH: i64 = 500;

pub(super) async fn of_tenant(service: &Service, tenant: TenantPk) -> store::Result<()> {
    let Some(before) = service.config.retention.audit_days.cut_off(service.now()) else { return Ok(()) };
    let Some(oldest) = service.store.chained_lines(tenant, 0, 1).await?.pop() else { return Ok(()) };
    let Some(last) = last_deletable(service, tenant, before).await? else { return Ok(()) };
    if oldest.line.at >= before - MIN_DELETION_INTERVAL || last.n < oldest.n {
        return Ok(());
    }
    let mut detail = json!({ "upto": last.n, "hash": last.hash });
    if let Some(key) = &service.audit_key {
        let mut signatures = Signatures::new(Some(key.verifying()), &[]);
        match signatures.checkpoint(last.n, last.jws.as_deref(), &last.payload("")) {
            // The server does not know former keys. `pes verify` is given them.
            Ok(SignedBy::Current | SignedBy::Former | SignedBy::Unknown(_)) => {
                let name = service.store.tenant_name(tenant).await?.unwrap_or_default();
                detail["jws"] = key.sign(Signed::Forgotten, &forgotten(&name, last.n, &last.hash)).into();
            }
            // It was made before there was a key.
            Ok(SignedBy::Nobody) => {}
            Err(why) => {
                let tenant = tenant.0;
                tracing::error!(tenant, why, "no audit lines are deleted: a checkpoint is not the one that was signed");
                return Ok(());
            }
        }
    }
    let actor = ServerActor::Retention.as_str();
    service.store.add_line(AuditRow::of_tenant(tenant, service.now(), actor, FORGOTTEN, detail)).await?;
    audit::chain_tenant_now(service, tenant).await?;
    let mut done = oldest.n - 1;
    while done < last.n {
        let pace = Pace::begin();
        // Checked again, because a thread may have been put on hold.
        let Some(upto) = last_deletable(service, tenant, before).await?.map(|now| now.n.min(last.n)) else {
            break;
        };
        if upto <= done {
            break;
        }
        let next = service.store.checkpoints(tenant, (done + BATCH).min(upto) - 1, 1).await?.pop();
        done = next.map_or(upto, |next| next.n.min(upto));
        count_deleted("audit", service.store.forget_lines(tenant, done).await?);
        pace.rest(&*service.store).await;
    }
    Ok(())
}

/// The last checkpoint up to which all lines are too old, and none belongs to a thread on hold.
async fn last_deletable(service: &Service, tenant: TenantPk, before: Millis) -> store::Result<Option<Checkpoint>> {
    let Some(last) = service.store.checkpoint_before(tenant, before).await? else { return Ok(None) };
    let Some(held) = service.store.first_held_line(tenant).await?.filter(|held| *held <= last.n) else {
        return Ok(Some(last));
    };
    let (mut after, mut kept) = (0, None);
    loop {
        let page = service.store.checkpoints(tenant, after, 500).await?;
        let Some(end) = page.last().map(|end| end.n) else { return Ok(kept) };
        after = end;
        kept = page.into_iter().rfind(|checkpoint| checkpoint.n < held).or(kept);
        if end >= held {
            return Ok(kept);
        }
    }
}
