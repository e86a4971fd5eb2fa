//! How long things are kept: what holds for a thread, and the deletion of what is older.

mod audit;
mod chores;
mod compact;
mod expire;
mod left;
mod usage;

use std::fmt;

use serde::Serialize;
use serde_json::json;

use super::chore_metrics::lags;
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
const LONGEST_REASON: usize = 1_000;

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

/// What a thread is to say of itself from now on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RetentionAsk {
    pub terms: Terms,
    /// Why nothing of it may be deleted; absent: it may be.
    pub hold: Option<String>,
}

/// How long this thread is kept.
pub async fn get(service: &Service, caller: &Caller, id: &ThreadId) -> Result<Retention> {
    let row = threads::row(service, caller, id).await?;
    shown(service, row.tenant, own(service, row.pk).await?).await
}

/// Says how long this thread is kept, in place of what was said before. Audited.
pub async fn put(service: &Service, caller: &Caller, id: &ThreadId, ask: RetentionAsk) -> Result<Retention> {
    service.runtime.accepting()?;
    check(&ask)?;
    let row = threads::row(service, caller, id).await?;
    let before = match own(service, row.pk).await {
        // What cannot be read is replaced by this.
        Err(store::Error::Damaged(_)) => ThreadTerms::default(),
        before => before?,
    };
    // Who set a hold, and when, stays as it was while its reason does.
    let hold = ask.hold.map(|reason| match before.hold {
        Some(hold) if hold.reason == reason => hold,
        Some(_) | None => Hold { reason, by: caller.name.clone(), at: service.now() },
    });
    let terms = ThreadTerms { terms: ask.terms, hold };
    let detail = json!({ "terms": terms.terms, "hold": terms.hold });
    let audit = AuditedAction { actor: caller.name.clone(), action: "retention", detail };
    service.runtime.store_row(row.pk, stored(&terms), Some(audit)).await?;
    shown(service, row.tenant, terms).await
}

/// Keeps a thread for a day at most, the shortest time that there is: one that is erased soon in any case, unless the server stops
/// before. Nobody decided that, so it is not audited.
pub(crate) async fn keep_shortly(service: &Service, caller: &Caller, id: &ThreadId) -> Result<()> {
    let row = threads::row(service, caller, id).await?;
    let terms = Terms { thread_days: Some(Kept::Days(1)), ..Terms::default() };
    Ok(service.runtime.store_row(row.pk, stored(&ThreadTerms { terms, hold: None }), None).await?)
}

fn check(ask: &RetentionAsk) -> Result<()> {
    let days = [("/logDays", ask.terms.log_days), ("/threadDays", ask.terms.thread_days)];
    for (pointer, kept) in days {
        if kept.is_some_and(|kept| !kept.is_valid()) {
            return Err(Fault::invalid(pointer, "must be 1 day or more, or \"forever\""));
        }
    }
    match &ask.hold {
        Some(reason) if reason.trim().is_empty() || reason.len() > LONGEST_REASON => {
            let how = format!("must be 1 to {LONGEST_REASON} bytes");
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

/// As it is stored: a row that no core is given.
fn stored(terms: &ThreadTerms) -> Row {
    let body = serde_json::to_string(terms).expect("terms are plain data");
    Row { kind: RowKind::Retention, id: String::new(), ord: 0, keep: Keep::Never, body }
}

/// What an imported thread says of itself: nothing yet. Its log is found by this, as no run of it ended here.
pub(super) fn imported() -> Row {
    stored(&ThreadTerms::default())
}

/// What the thread says of itself.
async fn own(service: &Service, pk: ThreadPk) -> store::Result<ThreadTerms> {
    let row = service.store.row(pk, RowKind::Retention, "").await?;
    row.as_ref().map_or_else(|| Ok(ThreadTerms::default()), read)
}

/// What holds for a thread of a tenant for which this does; `None`: nothing of it may be deleted.
async fn effective(service: &Service, pk: ThreadPk, of_tenant: Terms) -> store::Result<Option<Terms>> {
    let own = own(service, pk).await?;
    Ok(own.hold.is_none().then(|| own.terms.or(of_tenant)))
}

/// What was done; nothing where something cannot be read: that is said, and it is left as it is, so that all else goes on.
fn done<T: Default>(result: store::Result<T>, what: impl fmt::Display) -> store::Result<T> {
    match result {
        Err(error @ (store::Error::Damaged(_) | store::Error::Refused(_))) => {
            tracing::error!(%error, "{what} is kept longer than it should be: something of it cannot be read");
            Ok(T::default())
        }
        result => result,
    }
}

/// For so long the oldest of a tenant that is to be deleted has been too old; a day may pass.
fn overdue(service: &Service, what: &'static str, tenant: TenantPk, millis: Millis) {
    let chores = service.store.chores();
    chores.overdue((what, tenant), millis, 24 * 3_600_000);
    lags(what, chores.most_overdue(what));
}

/// Nothing of a tenant is left that is to be deleted.
fn caught_up(service: &Service, what: &'static str, tenant: TenantPk) {
    let chores = service.store.chores();
    chores.caught_up((what, tenant));
    lags(what, chores.most_overdue(what));
}

/// For ever, where nobody said anything: a tenant's terms have both.
fn kept(kept: Option<Kept>) -> Kept {
    kept.unwrap_or(Kept::FOREVER)
}
