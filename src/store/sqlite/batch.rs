//! A batch as one call.
//!
//! Small values travel as JSON arrays, one per row (a lone thread's as they are), and `json_each` reads them back as tables;
//! bodies, and names that we did not choose, travel beside them as one blob per table, and `substr` cuts them out again: no
//! body is escaped or parsed, and no text ends early (SQLite's JSON stops at `\u0000`). Only one connection writes, so what
//! is judged first holds until it is written.
//!
//! The end of each statement wakes whoever waits for the call. A batch is therefore one statement, an insert into a view
//! whose trigger does the work, and so a transaction by itself. The verdicts are read after it: only this connection
//! writes them, in memory.

use uuid::Uuid;

use super::batch_sql::{BATCH_SQL, SINGLE_COMMIT_SQL};
use super::packed_rows::PackedRows;
use super::writer::Script;
use crate::domain::ids::ThreadId;
use crate::store::committer::{PreparedCommit, Sending};

pub(super) const DONE: i64 = 0;
pub(super) const STALE: i64 = 1;
pub(super) const EXISTS: i64 = 2;
pub(super) const DUPLICATE: i64 = 3;
/// Written by an earlier sending of the same batch.
pub(super) const LANDED: i64 = 4;

pub(super) fn script(prepared_commits: &[PreparedCommit], sending: Sending) -> Script {
    if let ([prepared], Sending::First) = (prepared_commits, sending)
        && prepared.is_rows_and_log_only()
    {
        return bound(single_commit(prepared), [rows(prepared_commits), log(prepared_commits)]);
    }
    let mut threads = PackedRows::new();
    prepared_commits.iter().for_each(|prepared| thread(&mut threads, prepared));
    let [keys, audit, deliveries] = beside(prepared_commits);
    let (rows, log) = (rows(prepared_commits), log(prepared_commits));
    bound(sqlx::query(BATCH_SQL), [threads, rows, log, keys, audit, deliveries])
}

fn rows(prepared_commits: &[PreparedCommit]) -> PackedRows {
    let mut rows = PackedRows::new();
    for PreparedCommit { commit, .. } in prepared_commits {
        for row in &commit.rows {
            rows.row(commit.pk).cell(row.kind.code()).body(Some(&row.id)).cell(row.ord);
            rows.cell(row.keep.code()).body(Some(&row.body));
        }
    }
    rows
}

fn log(prepared_commits: &[PreparedCommit]) -> PackedRows {
    let mut log = PackedRows::new();
    for PreparedCommit { commit, entry, .. } in prepared_commits {
        if let Some(entry) = entry {
            log.row(commit.pk).cell(entry.seq).cell(&entry.types).body(Some(&entry.body));
        }
    }
    log
}

/// Idempotency keys, audit lines and deliveries.
fn beside(prepared_commits: &[PreparedCommit]) -> [PackedRows; 3] {
    let [mut keys, mut audit, mut deliveries] = [const { PackedRows::new() }; 3];
    for PreparedCommit { commit, audit: details, .. } in prepared_commits {
        if let Some(key) = &commit.idempotency {
            keys.row(commit.pk)
                .cell(key.tenant)
                .cell(&key.scope)
                .cell(&key.key)
                .cell(&key.fingerprint)
                .cell(key.status);
            keys.cell(&key.location).cell(key.created_at).body(Some(&key.body));
        }
        for (audit_row, detail) in commit.audit.iter().zip(details) {
            let thread_id = audit_row.thread_id.as_ref().map(ThreadId::as_str);
            audit.row(commit.pk).cell(audit_row.thread).cell(audit_row.tenant).cell(audit_row.at).body(thread_id);
            audit.body(Some(&audit_row.actor)).cell(&audit_row.action).body(Some(detail));
        }
        for new in &commit.deliveries {
            deliveries
                .row(commit.pk)
                .cell(&new.id)
                .cell(new.kind.as_str())
                .body(Some(&new.target))
                .cell(&new.ordering_key);
            deliveries.cell(&new.event).body(Some(&new.body));
        }
    }
    [keys, audit, deliveries]
}

fn bound<const N: usize>(query: Script, packed: [PackedRows; N]) -> Script {
    packed.into_iter().fold(query, |query, packed_rows| {
        let (rows, bodies) = packed_rows.finish();
        query.bind(rows).bind(bodies)
    })
}

fn single_commit(prepared: &PreparedCommit) -> Script {
    let commit = &prepared.commit;
    let (change, lease, replica) = commit.lease.as_columns();
    let text = |id: Option<Uuid>| id.map(|id| id.simple().to_string());
    sqlx::query(SINGLE_COMMIT_SQL)
        .bind(commit.pk.0)
        .bind(text(Some(commit.token)))
        .bind(commit.fence.version)
        .bind(commit.fence.epoch)
        .bind(text(commit.fence.lease))
        .bind(commit.last_seq)
        .bind(commit.now)
        .bind(commit.status.as_str())
        .bind(commit.wake_at)
        .bind(commit.floor)
        .bind(prepared.records as i64)
        .bind(commit.is_activity())
        .bind(change)
        .bind(text(lease))
        .bind(text(replica))
        .bind(commit.head.as_deref())
        .bind(prepared.profile.as_deref())
        .bind(prepared.title.as_deref())
}

fn thread(threads: &mut PackedRows, prepared: &PreparedCommit) {
    let commit = &prepared.commit;
    let (change, lease, replica) = commit.lease.as_columns();
    threads.row(commit.pk).id(Some(commit.token)).cell(commit.fence.version).cell(commit.fence.epoch);
    threads.id(commit.fence.lease).cell(commit.last_seq).cell(commit.now).cell(commit.status).cell(commit.wake_at);
    threads.cell(commit.floor).cell(prepared.records).cell(u8::from(commit.is_activity()));
    threads.cell(change).id(lease).id(replica);
    let new = commit.create.as_ref();
    threads.cell(new.map(|new| new.tenant)).cell(new.map(|new| &new.thread_id));
    threads.cell(new.map(|new| &new.core)).cell(new.map(|new| new.created_at));
    threads.body(commit.head.as_deref()).body(prepared.profile.as_deref()).body(prepared.title.as_deref());
    let key = commit.idempotency.as_ref();
    threads.cell(key.map(|key| key.tenant)).cell(key.map(|key| &key.scope)).cell(key.map(|key| &key.key));
    threads.cell(new.map(|new| &new.created_by));
}
