//! The values of a batch, bound to its statement.

use super::batch_sql::{
    BATCH_SQL, CAPPED, DONE, DUPLICATE, EXISTS, LANDED, NOT_DUE, NOTIFYING_BATCH_SQL, SHARING_BATCH_SQL,
    SINGLE_COMMIT_SQL,
};
use super::nul::escaped;
use super::pool::PgQuery;
use crate::domain::spend::Unit;
use crate::engine::step::Row;
use crate::store::committer::{PreparedCommit, Sending};
use crate::store::log::NewEntry;
use crate::store::outbox::NewDelivery;
use crate::store::spend::{HELD_JSON, USED_JSON};
use crate::store::{AuditRow, Committed, Fire, IdempotencyRow, LeaseChange, NewLookup, SpendChange, SpendNotice};

/// The outcome of a commit with this verdict.
pub(super) fn outcome(verdict: Option<i32>) -> Committed {
    match verdict {
        None => Committed::Stale,
        Some(DONE) => Committed::Done,
        Some(CAPPED) => Committed::Capped,
        Some(NOT_DUE) => Committed::NotDue,
        Some(EXISTS) => Committed::Exists,
        Some(DUPLICATE) => Committed::Duplicate,
        Some(unknown) => unreachable!("the statement knows five verdicts, not {unknown}"),
    }
}

type Statement = PgQuery<'static>;

pub(super) fn write(prepared_commits: &[PreparedCommit], sending: Sending) -> Statement {
    if let [prepared] = prepared_commits
        && prepared.is_rows_and_log_only()
        && prepared.commit.lease == LeaseChange::Keep
    {
        return single_commit(prepared, sending);
    }
    let shares = prepared_commits.iter().any(|p| p.commit.fire.is_some() || !p.commit.spend.is_empty());
    let notices = prepared_commits.iter().any(|p| p.commit.spend.iter().any(|change| !change.notices.is_empty()));
    let sql = match (shares, notices) {
        (_, true) => &NOTIFYING_BATCH_SQL,
        (true, false) => &SHARING_BATCH_SQL,
        (false, false) => &BATCH_SQL,
    };
    let query = with_threads(sqlx::query(sql.of_sending(sending)), prepared_commits);
    let query = with_new_threads(query, prepared_commits);
    let query = with_rows(query, prepared_commits);
    let query = with_entries(query, prepared_commits);
    let query = with_keys(query, prepared_commits);
    let query = with_audit(query, prepared_commits);
    let query = with_deliveries(query, prepared_commits);
    let query = with_lookups(query, prepared_commits);
    let query = if shares { with_spend(with_fires(query, prepared_commits), prepared_commits) } else { query };
    if notices { with_notices(query, prepared_commits) } else { query }
}

fn single_commit(prepared: &PreparedCommit, sending: Sending) -> Statement {
    let PreparedCommit { commit, entry, .. } = prepared;
    let query = sqlx::query(SINGLE_COMMIT_SQL.of_sending(sending))
        .bind(commit.pk.0)
        .bind(commit.fence.version)
        .bind(commit.fence.epoch)
        .bind(commit.fence.lease)
        .bind(commit.last_seq)
        .bind(commit.token)
        .bind(commit.now)
        .bind(commit.status.as_str())
        .bind(commit.wake_at)
        .bind(commit.floor)
        .bind(prepared.records as i32)
        .bind(commit.is_activity())
        .bind(commit.head.as_deref())
        .bind(prepared.profile.as_deref())
        .bind(prepared.title.as_deref());
    let rows: Vec<&Row> = commit.rows.iter().collect();
    with_row_columns(query, &rows)
        .bind(entry.as_ref().map(|entry| entry.seq))
        .bind(entry.as_ref().map(|entry| entry.types.as_str()))
        .bind(entry.as_ref().map(|entry| entry.body.as_str()))
        .bind(entry.as_ref().and_then(|entry| entry.compressed.as_deref()))
}

pub(super) fn landed(prepared_commits: &[&PreparedCommit]) -> Statement {
    sqlx::query(LANDED)
        .bind(column(prepared_commits, |p| p.commit.pk.0))
        .bind(column(prepared_commits, |p| p.commit.token))
        .bind(column(prepared_commits, |p| p.commit.last_seq + p.records as i64))
}

fn column<'a, T, V>(items: &'a [T], value: impl Fn(&'a T) -> V) -> Vec<V> {
    items.iter().map(value).collect()
}

fn with_threads(query: Statement, prepared_commits: &[PreparedCommit]) -> Statement {
    let (changes, leases, replicas): (Vec<_>, Vec<_>, Vec<_>) =
        prepared_commits.iter().map(|p| p.commit.lease.as_columns()).collect();
    query
        .bind(column(prepared_commits, |p| p.commit.pk.0))
        .bind(column(prepared_commits, |p| p.commit.fence.version))
        .bind(column(prepared_commits, |p| p.commit.fence.epoch))
        .bind(column(prepared_commits, |p| p.commit.fence.lease))
        .bind(column(prepared_commits, |p| p.commit.last_seq))
        .bind(column(prepared_commits, |p| p.commit.token))
        .bind(column(prepared_commits, |p| p.commit.now))
        .bind(column(prepared_commits, |p| p.commit.status.as_str()))
        .bind(column(prepared_commits, |p| p.commit.wake_at))
        .bind(column(prepared_commits, |p| p.commit.floor))
        .bind(column(prepared_commits, |p| p.records as i32))
        .bind(column(prepared_commits, |p| p.commit.is_activity()))
        .bind(column(prepared_commits, |p| p.commit.head.as_deref()))
        .bind(column(prepared_commits, |p| p.profile.as_deref()))
        .bind(column(prepared_commits, |p| p.title.as_deref()))
        .bind(changes)
        .bind(leases)
        .bind(replicas)
}

fn with_new_threads(query: Statement, prepared_commits: &[PreparedCommit]) -> Statement {
    let new = |p: &'_ PreparedCommit| p.commit.create.as_ref().map(|new| new.tenant.0);
    query
        .bind(column(prepared_commits, new))
        .bind(column(prepared_commits, |p| p.commit.create.as_ref().map(|new| escaped(new.thread_id.as_str()))))
        .bind(column(prepared_commits, |p| p.commit.create.as_ref().map(|new| new.core.as_str())))
        .bind(column(prepared_commits, |p| p.commit.create.as_ref().map(|new| new.created_at)))
        .bind(column(prepared_commits, |p| p.commit.create.as_ref().map(|new| escaped(&new.created_by))))
}

fn with_keys(query: Statement, prepared_commits: &[PreparedCommit]) -> Statement {
    let keys: Vec<(i64, &IdempotencyRow)> =
        prepared_commits.iter().filter_map(|p| Some((p.commit.pk.0, p.commit.idempotency.as_ref()?))).collect();
    query
        .bind(column(&keys, |(pk, _)| *pk))
        .bind(column(&keys, |(_, key)| key.tenant.0))
        .bind(column(&keys, |(_, key)| escaped(&key.scope)))
        .bind(column(&keys, |(_, key)| escaped(&key.key)))
        .bind(column(&keys, |(_, key)| key.fingerprint.as_str()))
        .bind(column(&keys, |(_, key)| i32::from(key.status)))
        .bind(column(&keys, |(_, key)| key.location.as_deref()))
        .bind(column(&keys, |(_, key)| key.created_at))
        .bind(column(&keys, |(_, key)| key.body.as_str()))
}

fn with_rows(query: Statement, prepared_commits: &[PreparedCommit]) -> Statement {
    let (threads, rows): (Vec<i64>, Vec<&Row>) =
        prepared_commits.iter().flat_map(|p| p.commit.rows.iter().map(|row| (p.commit.pk.0, row))).unzip();
    with_row_columns(query.bind(threads), &rows)
}

fn with_row_columns(query: Statement, rows: &[&Row]) -> Statement {
    query
        .bind(column(rows, |row| row.ord))
        .bind(column(rows, |row| row.kind.code()))
        .bind(column(rows, |row| row.keep.code()))
        .bind(column(rows, |row| escaped(&row.id)))
        .bind(column(rows, |row| row.body.as_str()))
}

fn with_entries(query: Statement, prepared_commits: &[PreparedCommit]) -> Statement {
    let entries: Vec<(&PreparedCommit, &NewEntry)> =
        prepared_commits.iter().filter_map(|p| Some((p, p.entry.as_ref()?))).collect();
    query
        .bind(column(&entries, |(p, _)| p.commit.pk.0))
        .bind(column(&entries, |(_, entry)| entry.seq))
        .bind(column(&entries, |(p, _)| p.commit.token))
        .bind(column(&entries, |(_, entry)| entry.types.as_str()))
        .bind(column(&entries, |(_, entry)| entry.body.as_str()))
        .bind(column(&entries, |(_, entry)| entry.compressed.as_deref()))
}

fn with_audit(query: Statement, prepared_commits: &[PreparedCommit]) -> Statement {
    let audit_rows: Vec<(&AuditRow, &String)> =
        prepared_commits.iter().flat_map(|p| p.commit.audit.iter().zip(&p.audit)).collect();
    query
        .bind(column(&audit_rows, |(audit_row, _)| audit_row.thread.0))
        .bind(column(&audit_rows, |(audit_row, _)| audit_row.tenant.0))
        .bind(column(&audit_rows, |(audit_row, _)| audit_row.thread_id.as_ref().map(|id| escaped(id.as_str()))))
        .bind(column(&audit_rows, |(audit_row, _)| audit_row.at))
        .bind(column(&audit_rows, |(audit_row, _)| escaped(&audit_row.actor)))
        .bind(column(&audit_rows, |(audit_row, _)| escaped(&audit_row.action)))
        .bind(column(&audit_rows, |(_, detail)| detail.as_str()))
}

fn with_deliveries(query: Statement, prepared_commits: &[PreparedCommit]) -> Statement {
    let of = |p: &'_ PreparedCommit| (p.commit.pk.0, p.commit.now);
    let new: Vec<((i64, i64), &NewDelivery)> =
        prepared_commits.iter().flat_map(|p| p.commit.deliveries.iter().map(move |new| (of(p), new))).collect();
    query
        .bind(column(&new, |((pk, _), _)| *pk))
        .bind(column(&new, |((_, now), _)| *now))
        .bind(column(&new, |(_, new)| new.id.as_str()))
        .bind(column(&new, |(_, new)| new.kind.as_str()))
        .bind(column(&new, |(_, new)| escaped(&new.target)))
        .bind(column(&new, |(_, new)| new.ordering_key.as_deref().map(escaped)))
        .bind(column(&new, |(_, new)| new.event.as_str()))
        .bind(column(&new, |(_, new)| new.body.as_str()))
}

fn with_lookups(query: Statement, prepared_commits: &[PreparedCommit]) -> Statement {
    let new: Vec<(&PreparedCommit, &NewLookup)> =
        prepared_commits.iter().flat_map(|p| p.commit.lookups.iter().map(move |new| (p, new))).collect();
    query
        .bind(column(&new, |(p, _)| p.commit.pk.0))
        .bind(column(&new, |(p, _)| p.commit.now))
        .bind(column(&new, |(_, new)| new.key.kind))
        .bind(column(&new, |(_, new)| new.key.digest.as_str()))
        .bind(column(&new, |(_, new)| new.run.as_str()))
}

fn with_fires(query: Statement, prepared_commits: &[PreparedCommit]) -> Statement {
    let fires: Vec<(i64, &Fire)> =
        prepared_commits.iter().filter_map(|p| Some((p.commit.pk.0, p.commit.fire.as_ref()?))).collect();
    query
        .bind(column(&fires, |(pk, _)| *pk))
        .bind(column(&fires, |(_, fire)| fire.tenant.0))
        .bind(column(&fires, |(_, fire)| escaped(&fire.id)))
        .bind(column(&fires, |(_, fire)| fire.version))
        .bind(column(&fires, |(_, fire)| fire.due))
        .bind(column(&fires, |(_, fire)| fire.next.map(|next| next.due)))
        .bind(column(&fires, |(_, fire)| fire.next.map(|next| next.look_at)))
}

fn with_spend(query: Statement, prepared_commits: &[PreparedCommit]) -> Statement {
    let changes: Vec<(i64, &SpendChange)> =
        prepared_commits.iter().flat_map(|p| p.commit.spend.iter().map(|change| (p.commit.pk.0, change))).collect();
    query
        .bind(column(&changes, |(pk, _)| *pk))
        .bind(column(&changes, |(_, change)| change.key.tenant.0))
        .bind(column(&changes, |(_, change)| escaped(&change.key.key_name)))
        .bind(column(&changes, |(_, change)| change.key.stored_period()))
        .bind(column(&changes, |(_, change)| change.used))
        .bind(column(&changes, |(_, change)| change.held))
        .bind(column(&changes, |(_, change)| change.cap))
}

fn with_notices(query: Statement, prepared_commits: &[PreparedCommit]) -> Statement {
    let mut notices: Vec<(&PreparedCommit, &SpendChange, &SpendNotice, &NewDelivery)> = Vec::new();
    for prepared in prepared_commits {
        for change in &prepared.commit.spend {
            for notice in &change.notices {
                notices.extend(notice.deliveries.iter().map(|new| (prepared, change, notice, new)));
            }
        }
    }
    query
        .bind(column(&notices, |(p, ..)| p.commit.pk.0))
        .bind(column(&notices, |(p, ..)| p.commit.now))
        .bind(column(&notices, |(_, change, ..)| change.key.tenant.0))
        .bind(column(&notices, |(_, change, ..)| escaped(&change.key.key_name)))
        .bind(column(&notices, |(_, change, ..)| change.key.stored_period()))
        .bind(column(&notices, |(_, change, ..)| match change.key.unit {
            Unit::Usd => 1_000_000_000_i64,
            Unit::Tokens => 1,
        }))
        .bind(column(&notices, |(_, _, notice, _)| notice.percent))
        .bind(column(&notices, |(_, _, notice, _)| notice.from))
        .bind(column(&notices, |(_, _, notice, _)| notice.cap))
        .bind(column(&notices, |(.., new)| new.id.as_str()))
        .bind(column(&notices, |(.., new)| new.kind.as_str()))
        .bind(column(&notices, |(.., new)| escaped(&new.target)))
        .bind(column(&notices, |(.., new)| new.ordering_key.as_deref().map(escaped)))
        .bind(column(&notices, |(.., new)| new.event.as_str()))
        .bind(column(&notices, |(.., new)| new.body.as_str()))
        .bind(USED_JSON)
        .bind(HELD_JSON)
}
