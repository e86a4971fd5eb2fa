//! Retention: the terms that hold for a thread, and the deletion of what is older.

mod audit;
mod chores;
mod compact;
mod expire;
mod keys;
mod remains;
mod usage;

use std::fmt;

use serde::Serialize;
use serde_json::json;

use super::chore_metrics::set_lag;
use super::{Result, Service, threads};
use crate::domain::Millis;
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::{TenantPk, ThreadId, ThreadPk};
use crate::domain::retention::{Hold, Kept, Terms, ThreadTerms};
use crate::engine::step::{Keep, Row, RowKind};
use crate::runtime::AuditedAction;
use crate::runtime::rows::read;
use crate::store;

pub(super) use chores::run;
pub use chores::sweep;

/// The longest reason of a hold, in bytes.
const MAX_REASON_BYTES: usize = 1_000;

/// How long a thread is kept.
#[derive(Clone, Debug, PartialEq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Retention {
    /// What the thread says itself.
    #[serde(flatten)]
    pub own: Terms,
    /// Why nothing of it may be deleted; absent: it may be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<Hold>,
    /// What holds for it: what it says itself, else its tenant's settings, else the server's.
    pub effective: Terms,
}

/// The terms that a thread is to have from now on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RetentionAsk {
    pub terms: Terms,
    /// Why nothing of it may be deleted; absent: it may be.
    pub hold: Option<String>,
}

/// How long this thread is kept.
pub async fn get(service: &Service, caller: &Caller, id: &ThreadId) -> Result<Retention> {
    let row = threads::row(service, caller, id).await?;
    shown(service, row.tenant, own_terms(service, row.pk).await?).await
}

/// Replaces the retention terms of this thread. Audited.
pub async fn put(service: &Service, caller: &Caller, id: &ThreadId, ask: RetentionAsk) -> Result<Retention> {
    service.runtime.accepting()?;
    check(&ask)?;
    let row = threads::row(service, caller, id).await?;
    let before = match own_terms(service, row.pk).await {
        // Terms that cannot be read are replaced.
        Err(store::Error::Damaged(_)) => ThreadTerms::default(),
        before => before?,
    };
    // A hold with an unchanged reason keeps its author and time.
    let hold = ask.hold.map(|reason| match before.hold {
        Some(hold) if hold.reason == reason => hold,
        Some(_) | None => Hold { reason, by: caller.name.clone(), at: service.now() },
    });
    let terms = ThreadTerms { terms: ask.terms, hold };
    let detail = json!({ "terms": terms.terms, "hold": terms.hold });
    let audit = AuditedAction { actor: caller.name.clone(), action: "retention", detail };
    service.runtime.store_row(row.pk, terms_row(&terms), Some(audit)).await?;
    shown(service, row.tenant, terms).await
}

/// Limits the retention of a thread to a day, the shortest possible time. For a thread that is deleted soon in any case,
/// unless the server stops before. Not audited, because no person decided it.
pub(crate) async fn keep_shortly(service: &Service, caller: &Caller, id: &ThreadId) -> Result<()> {
    let row = threads::row(service, caller, id).await?;
    let terms = Terms { thread_days: Some(Kept::Days(1)), ..Terms::default() };
    Ok(service.runtime.store_row(row.pk, terms_row(&ThreadTerms { terms, hold: None }), None).await?)
}

fn check(ask: &RetentionAsk) -> Result<()> {
    let days = [("/logDays", ask.terms.log_days), ("/threadDays", ask.terms.thread_days)];
    for (pointer, kept) in days {
        if kept.is_some_and(|kept| !kept.is_valid()) {
            return Err(Fault::invalid(pointer, "must be 1 day or more, or \"forever\""));
        }
    }
    match &ask.hold {
        Some(reason) if reason.trim().is_empty() || reason.len() > MAX_REASON_BYTES => {
            let how = format!("must be 1 to {MAX_REASON_BYTES} bytes");
            Err(Fault::new(Code::Invalid, format!("The reason of a hold {how}.")).at("/hold/reason", how))
        }
        Some(_) | None => Ok(()),
    }
}

async fn shown(service: &Service, tenant: TenantPk, own: ThreadTerms) -> Result<Retention> {
    let tenant = service.store.tenant_name(tenant).await?.unwrap_or_default();
    let effective = own.terms.or(service.config.retention.of_tenant(&tenant));
    Ok(Retention { own: own.terms, hold: own.hold, effective })
}

/// Refuses to delete a tenant if it, or one of its threads, is on hold.
pub(super) async fn check_holds(service: &Service, tenant: TenantPk, name: &str) -> Result<()> {
    const PAGE: u32 = 200;
    if let Some(reason) = service.config.retention.hold_of(name) {
        let ends = "remove `hold` of this tenant from the settings first";
        return Err(Fault::new(Code::OnHold, format!("The tenant must be kept: {reason}. To delete it, {ends}.")));
    }
    let mut after = ThreadPk::NONE;
    loop {
        let page = service.store.threads_with_terms(after, PAGE).await?;
        let Some((last, _)) = page.last() else { return Ok(()) };
        after = *last;
        for (pk, _) in page.into_iter().filter(|(_, owner)| *owner == tenant) {
            let Some(hold) = own_terms(service, pk).await?.hold else { continue };
            let Some(row) = service.store.thread_by_pk(pk).await? else { continue };
            let detail = format!(
                "Its thread `{}` must be kept: {}. PUT /threads/{{id}}/retention without `hold`, by a key of the tenant \
                 with `admin`, ends the hold.",
                row.thread_id, hold.reason
            );
            return Err(Fault::new(Code::OnHold, detail).with("by", hold.by).with("at", hold.at));
        }
    }
}

/// The row in which the terms are stored. Cores never see it.
fn terms_row(terms: &ThreadTerms) -> Row {
    let body = serde_json::to_string(terms).expect("terms are plain data");
    Row { kind: RowKind::Retention, id: String::new(), ord: 0, keep: Keep::Never, body }
}

/// The row of an imported thread: no terms yet. The sweep finds its log by this row, because none of its runs ended here.
pub(super) fn imported_terms_row() -> Row {
    terms_row(&ThreadTerms::default())
}

/// The thread's own terms.
async fn own_terms(service: &Service, pk: ThreadPk) -> store::Result<ThreadTerms> {
    let row = service.store.row(pk, RowKind::Retention, "").await?;
    row.as_ref().map_or_else(|| Ok(ThreadTerms::default()), read)
}

/// The terms that hold for a thread, given those of its tenant. `None`: the thread is on hold, and nothing of it may be
/// deleted.
async fn effective(service: &Service, pk: ThreadPk, of_tenant: Terms) -> store::Result<Option<Terms>> {
    let own = own_terms(service, pk).await?;
    Ok(own.hold.is_none().then(|| own.terms.or(of_tenant)))
}

/// Logs data that cannot be read, and returns the default for it, so that the sweep continues with the rest. Other errors
/// are returned.
fn skip_damaged<T: Default>(result: store::Result<T>, what: impl fmt::Display) -> store::Result<T> {
    match result {
        Err(error) if error.is_of_data() => {
            tracing::error!(%error, "{what} is kept longer than it should be: something of it cannot be read");
            Ok(T::default())
        }
        result => result,
    }
}

/// Reports for how long the oldest deletable data of a tenant has been too old. It counts as late after a day.
fn report_overdue(service: &Service, what: &'static str, tenant: TenantPk, millis: Millis) {
    let chores = service.store.chores();
    chores.overdue((what, tenant), millis, 24 * 3_600_000);
    set_lag(what, chores.most_overdue(what));
}

/// Reports that a tenant has nothing left to delete.
fn report_caught_up(service: &Service, what: &'static str, tenant: TenantPk) {
    let chores = service.store.chores();
    chores.caught_up((what, tenant));
    set_lag(what, chores.most_overdue(what));
}

/// Terms that are not set mean for ever. A tenant's terms have both.
fn or_forever(kept: Option<Kept>) -> Kept {
    kept.unwrap_or(Kept::FOREVER)
}
