//! A commit that is serialised for writing.

use std::hash::{DefaultHasher, Hash, Hasher};

use uuid::Uuid;

use crate::store::log::{LogFormat, NewEntry};
use crate::store::{Commit, LeaseChange, text};

/// A commit with every value as the text that is stored. Serialised in the task that commits, so that a worker only copies.
pub(crate) struct PreparedCommit {
    /// Its records have become `entry`. On the heap, because it is large and passes through several queues.
    pub commit: Box<Commit>,
    pub profile: Option<String>,
    /// The title in the form in which it is searched; present whenever `profile` is.
    pub title: Option<String>,
    /// How many records there are.
    pub records: usize,
    pub entry: Option<NewEntry>,
    /// The details of `commit.audit`, in its order.
    pub audit: Vec<String>,
    /// The approximate size of the write.
    pub bytes: usize,
    /// Commits with a common key must not be in the same batch. The keys are hashes: a collision only delays a commit.
    pub(super) keys: Vec<u64>,
}

impl PreparedCommit {
    pub fn of(commit: Commit, format: LogFormat) -> Self {
        let mut commit = Box::new(commit);
        let keys = keys(&commit);
        let records = std::mem::take(&mut commit.records);
        let count = records.len();
        let entry = NewEntry::of(records, commit.last_seq).map(|entry| entry.in_format(format));
        let profile = commit.profile.as_deref().map(text::of_profile);
        let title = commit.profile.as_deref().map(text::folded_title);
        let audit: Vec<String> = commit.audit.iter().map(|audit_row| audit_row.detail.to_string()).collect();
        let bytes = commit.head.as_ref().map_or(0, String::len)
            + profile.as_ref().map_or(0, String::len)
            + commit.rows.iter().map(|row| row.body.len()).sum::<usize>()
            + entry.as_ref().map_or(0, NewEntry::bytes)
            + audit.iter().map(String::len).sum::<usize>()
            + commit.deliveries.iter().map(|new| new.body.len()).sum::<usize>()
            + commit.idempotency.as_ref().map_or(0, |row| row.body.len());
        Self { commit, profile, title, records: count, entry, audit, bytes, keys }
    }

    /// Whether it changes an existing thread and writes only rows and observations.
    pub fn is_rows_and_log_only(&self) -> bool {
        let Commit { create, idempotency, lookups, audit, deliveries, fire, spend, .. } = &*self.commit;
        let is_about_others = create.is_some() || idempotency.is_some() || fire.is_some() || !spend.is_empty();
        !is_about_others && lookups.is_empty() && audit.is_empty() && deliveries.is_empty()
    }
}

impl LeaseChange {
    /// The columns of the statement: 0 keep, 1 claim, 2 release; the new lease; its replica.
    pub(in crate::store) fn as_columns(&self) -> (i16, Option<Uuid>, Option<Uuid>) {
        match self {
            Self::Keep => (0, None, None),
            Self::Claim { lease, replica } => (1, Some(*lease), Some(*replica)),
            Self::Release => (2, None, None),
        }
    }
}

fn keys(commit: &Commit) -> Vec<u64> {
    let mut keys = vec![hash(("thread", commit.pk))];
    keys.extend(commit.create.as_ref().map(|new| hash(("id", new.tenant, &new.thread_id))));
    keys.extend(commit.idempotency.as_ref().map(|row| hash(("key", row.tenant, &row.scope, &row.key))));
    keys.extend(commit.fire.as_ref().map(|fire| hash(("schedule", fire.tenant, &fire.id))));
    keys
}

fn hash(key: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}
