//! Lines of the audit that are too old are forgotten, oldest first and up to a checkpoint, so that the rest of the chain is
//! verified from there. A line says so before, and is chained before: lines that are missing without one were taken away.
//! Where there is a key it is signed: whoever can only write to the database can write no such line.

use serde_json::json;

use crate::auth::Signed;
use crate::domain::Millis;
use crate::domain::ids::{TenantPk, ThreadPk};
use crate::service::chore_metrics::deleted;
use crate::service::{Service, audit};
use crate::store::chain::{FORGOTTEN, forgotten};
use crate::store::{AuditRow, Checkpoint, Pace, Result};

/// Lines are forgotten so seldom at most: each time leaves a line.
const EVERY: Millis = 24 * 3_600_000;
/// About so many lines are deleted at once: those up to a checkpoint.
const BATCH: i64 = 500;

pub(super) async fn of_tenant(service: &Service, tenant: TenantPk) -> Result<()> {
    let Some(before) = service.config.retention.audit_days.cut_off(service.now()) else { return Ok(()) };
    let Some(oldest) = service.store.chained_lines(tenant, 0, 1).await?.pop() else { return Ok(()) };
    let Some(last) = last(service, tenant, before).await? else { return Ok(()) };
    if oldest.line.at >= before - EVERY || last.n < oldest.n {
        return Ok(());
    }
    let mut detail = json!({ "upto": last.n, "hash": last.hash });
    if let Some(key) = &service.audit_key {
        let name = service.store.tenant_name(tenant).await?.unwrap_or_default();
        detail["jws"] = key.sign(Signed::Forgotten, &forgotten(&name, last.n, &last.hash)).into();
    }
    let line = AuditRow {
        tenant,
        thread: ThreadPk::NONE,
        thread_id: None,
        at: service.now(),
        actor: "retention".to_owned(),
        action: FORGOTTEN.to_owned(),
        detail,
    };
    service.store.add_line(line).await?;
    audit::chain_tenant_now(service, tenant).await?;
    let mut done = oldest.n - 1;
    while done < last.n {
        let pace = Pace::begin();
        // A thread may be on hold by now.
        let Some(upto) = self::last(service, tenant, before).await?.map(|now| now.n.min(last.n)) else { break };
        if upto <= done {
            break;
        }
        let next = service.store.checkpoints(tenant, (done + BATCH).min(upto) - 1, 1).await?.pop();
        done = next.map_or(upto, |next| next.n.min(upto));
        deleted("audit", service.store.forget_lines(tenant, done).await?);
        pace.rest(&*service.store).await;
    }
    Ok(())
}

/// The checkpoint up to which all lines are too old, and of no thread that is on hold.
async fn last(service: &Service, tenant: TenantPk, before: Millis) -> Result<Option<Checkpoint>> {
    let Some(last) = service.store.checkpoint_before(tenant, before).await? else { return Ok(None) };
    let Some(held) = first_held_line(service, tenant).await?.filter(|held| *held <= last.n) else {
        return Ok(Some(last));
    };
    let (mut behind, mut kept) = (0, None);
    loop {
        let page = service.store.checkpoints(tenant, behind, 500).await?;
        let Some(end) = page.last().map(|end| end.n) else { return Ok(kept) };
        behind = end;
        kept = page.into_iter().rfind(|checkpoint| checkpoint.n < held).or(kept);
        if end >= held {
            return Ok(kept);
        }
    }
}

async fn first_held_line(service: &Service, tenant: TenantPk) -> Result<Option<i64>> {
    const PAGE: u32 = 200;
    let (mut behind, mut first) = (ThreadPk::NONE, None);
    loop {
        let page = service.store.threads_with_terms(behind, PAGE).await?;
        let Some((end, _)) = page.last() else { return Ok(first) };
        behind = *end;
        for (pk, _) in page.into_iter().filter(|(_, of)| *of == tenant) {
            if super::own(service, pk).await?.hold.is_none() {
                continue;
            }
            let Some(row) = service.store.thread_by_pk(pk).await? else { continue };
            let lines = service.store.chained_lines_of_thread(tenant, &row.thread_id).await?;
            let n = lines.first().map(|line| line.n);
            first = first.into_iter().chain(n).min();
        }
    }
}
