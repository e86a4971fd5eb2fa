//! A batch: the commits of many threads in one transaction, each with its own fence.

use rusqlite::{OptionalExtension as _, Result, Transaction, params};

use super::{audit, idempotency, lookups, outbox, schedules, spend, stored_id};
use crate::store::committer::{PreparedCommit, Sending};
use crate::store::log::NewEntry;
use crate::store::{Committed, Fence, NewThread};

/// Inserts a row, or sets the body of the stored one. It does not change one whose `ord` or `keep` differs: setting these
/// writes the indexes with them even if they stay as they are, and most rows that are written again only change their body.
const WRITE_ROW: &str = "
INSERT INTO thread_rows (pk, tenant, kind, id, ord, keep, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (pk, kind, id) DO UPDATE SET body = excluded.body WHERE ord = excluded.ord AND keep = excluded.keep";

const MOVE_ROW: &str = "UPDATE thread_rows SET ord = ?4, keep = ?5, body = ?6 WHERE pk = ?1 AND kind = ?2 AND id = ?3";

const WRITE_ENTRY: &str = "INSERT INTO observations (pk, seq, types, body, compressed) VALUES (?1, ?2, ?3, ?4, ?5)";

pub(super) fn write(tx: &Transaction<'_>, commits: &[PreparedCommit], sending: Sending) -> Result<Vec<Committed>> {
    commits.iter().map(|prepared| write_commit(tx, prepared, sending)).collect()
}

fn write_commit(tx: &Transaction<'_>, prepared: &PreparedCommit, sending: Sending) -> Result<Committed> {
    let commit = &prepared.commit;
    if sending == Sending::Again && has_landed(tx, prepared)? {
        return Ok(Committed::Done);
    }
    if let Some(key) = &commit.idempotency
        && idempotency::is_taken(tx, key)?
    {
        return Ok(Committed::Duplicate);
    }
    if let Some(new) = &commit.create
        && is_there(tx, prepared, new)?
    {
        return Ok(Committed::Exists);
    }
    // No other connection writes, so a schedule that is due now is due until this commits.
    if let Some(fire) = &commit.fire
        && !schedules::is_due(tx, fire)?
    {
        return Ok(Committed::NotDue);
    }
    if !spend::fits(tx, &commit.spend)? {
        return Ok(Committed::Capped);
    }
    if let Some(new) = &commit.create {
        if commit.fence != Fence::NEW || commit.last_seq != 0 {
            return Ok(Committed::Stale);
        }
        create(tx, prepared, new)?;
    }
    let Some(accepted) = apply_fence(tx, prepared)? else { return Ok(Committed::Stale) };
    change_indexed(tx, prepared, &accepted)?;
    write_rows(tx, prepared, accepted.tenant)?;
    write_other_tables(tx, prepared, accepted.tenant)?;
    Ok(Committed::Done)
}

/// Whether an earlier sending of this commit was stored.
fn has_landed(tx: &Transaction<'_>, prepared: &PreparedCommit) -> Result<bool> {
    let sql = "SELECT 1 FROM threads WHERE pk = ?1 AND last_commit = ?2";
    tx.prepare_cached(sql)?.exists(params![prepared.commit.pk.0, stored_id(prepared.commit.token)])
}

fn is_there(tx: &Transaction<'_>, prepared: &PreparedCommit, new: &NewThread) -> Result<bool> {
    let sql = "SELECT 1 FROM threads WHERE pk = ?1 OR (tenant = ?2 AND thread_id = ?3)";
    tx.prepare_cached(sql)?.exists(params![prepared.commit.pk.0, new.tenant.0, new.thread_id.as_str()])
}

/// Inserts the thread in its state before its first commit.
fn create(tx: &Transaction<'_>, prepared: &PreparedCommit, new: &NewThread) -> Result<()> {
    let commit = &prepared.commit;
    tx.prepare_cached(
        "INSERT INTO threads (pk, tenant, thread_id, core, version, epoch, last_commit, status, floor, last_seq,
            min_seq, created_at, updated_at, created_by, title, sheet, head)
        VALUES (?1, ?2, ?3, ?4, 0, 0, '', ?5, 0, 0, 1, ?6, ?7, ?8, '', '{}', '')",
    )?
    .execute(params![
        commit.pk.0,
        new.tenant.0,
        new.thread_id.as_str(),
        new.core,
        commit.status.as_str(),
        new.created_at,
        commit.now,
        new.created_by,
    ])?;
    Ok(())
}

/// The thread of an accepted commit, and whether it already has the commit's status and `wake_at`.
struct AcceptedThread {
    tenant: i64,
    has_status: bool,
    has_wake_at: bool,
}

/// Updates the thread if the fence matches, and if its lease may be taken.
fn apply_fence(tx: &Transaction<'_>, prepared: &PreparedCommit) -> Result<Option<AcceptedThread>> {
    let commit = &prepared.commit;
    let (change, lease, replica) = commit.lease.as_columns();
    let mut statement = tx.prepare_cached(
        "UPDATE threads SET
            version = version + 1,
            epoch = epoch + (?1 = 1),
            lease = CASE ?1 WHEN 0 THEN lease WHEN 1 THEN ?2 END,
            last_commit = ?3,
            floor = ?4,
            last_seq = last_seq + ?5,
            title = coalesce(?6, title),
            sheet = coalesce(?7, sheet),
            head = coalesce(?8, head)
        WHERE pk = ?9 AND version = ?10 AND epoch = ?11 AND lease IS ?12 AND last_seq = ?13
            AND (?14 IS NULL OR replica IS NULL OR replica = ?14 OR NOT EXISTS (
                SELECT 1 FROM replicas r WHERE r.id = threads.replica))
        RETURNING tenant, status = ?15, wake_at IS ?16",
    )?;
    let arguments = params![
        change,
        lease.map(stored_id),
        stored_id(commit.token),
        commit.floor,
        i64::try_from(prepared.records).unwrap_or(i64::MAX),
        prepared.title,
        prepared.profile,
        commit.head,
        commit.pk.0,
        commit.fence.version,
        commit.fence.epoch,
        commit.fence.lease.map(stored_id),
        commit.last_seq,
        replica.map(stored_id),
        commit.status.as_str(),
        commit.wake_at,
    ];
    let moved = |row: &rusqlite::Row<'_>| {
        Ok(AcceptedThread { tenant: row.get(0)?, has_status: row.get(1)?, has_wake_at: row.get(2)? })
    };
    statement.query_row(arguments, moved).optional()
}

/// Setting a column writes its indexes even if its value does not change, and each is one more page to sync. So indexed
/// columns are set only if they change.
fn change_indexed(tx: &Transaction<'_>, prepared: &PreparedCommit, accepted: &AcceptedThread) -> Result<()> {
    let commit = &prepared.commit;
    if commit.is_activity() || !accepted.has_status {
        tx.prepare_cached("UPDATE threads SET updated_at = ?2, status = ?3 WHERE pk = ?1")?.execute(params![
            commit.pk.0,
            commit.now,
            commit.status.as_str()
        ])?;
    }
    let (change, _, replica) = commit.lease.as_columns();
    if change != 0 || !accepted.has_wake_at {
        tx.prepare_cached(
            "UPDATE threads SET wake_at = ?2, replica = CASE ?3 WHEN 0 THEN replica WHEN 1 THEN ?4 END WHERE pk = ?1",
        )?
        .execute(params![commit.pk.0, commit.wake_at, change, replica.map(stored_id)])?;
    }
    Ok(())
}

/// Rows and the entry of the log.
fn write_rows(tx: &Transaction<'_>, prepared: &PreparedCommit, tenant: i64) -> Result<()> {
    let pk = prepared.commit.pk.0;
    let mut write = tx.prepare_cached(WRITE_ROW)?;
    for row in &prepared.commit.rows {
        let (kind, keep) = (row.kind.code(), row.keep.code());
        if write.execute(params![pk, tenant, kind, row.id, row.ord, keep, row.body])? == 0 {
            tx.prepare_cached(MOVE_ROW)?.execute(params![pk, kind, row.id, row.ord, keep, row.body])?;
        }
    }
    if let Some(entry) = &prepared.entry {
        write_entry(tx, pk, entry)?;
    }
    Ok(())
}

pub(super) fn write_entry(tx: &Transaction<'_>, pk: i64, entry: &NewEntry) -> Result<()> {
    let values = params![pk, entry.seq, entry.types, entry.body, entry.compressed];
    tx.prepare_cached(WRITE_ENTRY)?.execute(values).map(drop)
}

/// Idempotency key, lookup keys, audit lines, deliveries, the next time of a schedule and what is spent.
fn write_other_tables(tx: &Transaction<'_>, prepared: &PreparedCommit, tenant: i64) -> Result<()> {
    let commit = &prepared.commit;
    if let Some(key) = &commit.idempotency {
        idempotency::insert(tx, commit.pk, key)?;
    }
    for new in &commit.lookups {
        lookups::insert(tx, commit.pk, tenant, new, commit.now)?;
    }
    for (audit_row, detail) in commit.audit.iter().zip(&prepared.audit) {
        audit::insert_prepared(tx, audit_row, detail)?;
    }
    for new in &commit.deliveries {
        outbox::insert(tx, commit.pk, tenant, new, commit.now)?;
    }
    if let Some(fire) = &commit.fire {
        schedules::fire(tx, fire)?;
    }
    spend::change(tx, &commit.spend, commit.now)
}
