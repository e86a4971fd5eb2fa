//! Loading an actor's thread. It is read from the store, quarantined if it crashed the process too often, and recovered if a
//! lost lease holder left effects `Running` (`recovery.rs`).

use super::Actor;
use super::command::{CommandError, CommitExtras};
use super::loaded::LoadedThread;
use crate::domain::fault::{Code, Fault};
use crate::domain::thread::{ThreadProfile, ThreadStatus};
use crate::engine::Loaded;
use crate::engine::pes::runs_only;
use crate::engine::step::{Row, RowKind};
use crate::runtime::outgoing::{Receivers, TraceProgress};
use crate::store::{Commit, Committed, Crashes, Fence, LeaseChange, NewThread, ThreadRow};

/// Bounds the attempts that fail in a row because another process wrote the thread.
pub(super) const MAX_ATTEMPTS: usize = 16;

impl Actor {
    /// Loads the thread if it is not in memory. Effects that a lost holder left `Running` are settled before anything else.
    pub(super) async fn ensure_loaded(&mut self, extras: &CommitExtras) -> Result<(), CommandError> {
        for _ in 0..MAX_ATTEMPTS {
            if self.loaded.is_some() {
                return Ok(());
            }
            self.loaded = match self.load(extras).await {
                Ok(loaded) => Some(loaded),
                Err(refusal) => {
                    if refusal == CommandError::Gone {
                        self.drop_deleted_thread();
                    }
                    return Err(refusal);
                }
            };
            self.settle_lost_effects().await?;
            self.reply_to_calls();
        }
        Err(contended())
    }

    /// Whether the thread crashed the process too often and is not quarantined yet.
    pub(super) fn must_quarantine(&self, row: &ThreadRow) -> bool {
        row.crashes.attributed >= self.shared.config.runtime.crash_limit && row.status != ThreadStatus::Quarantined
    }

    /// Reads the thread, or makes the one that `extras` creates.
    async fn load(&mut self, extras: &CommitExtras) -> Result<LoadedThread, CommandError> {
        // The primary key of a new thread was just made: nothing can be stored under it.
        let is_fresh = extras.create.is_some() && !self.has_written;
        let stored = if is_fresh { None } else { self.read().await? };
        match (stored, &extras.create) {
            (Some((row, rows)), _) => self.rebuild(row, rows),
            (None, Some((new, profile))) => self.create(new.clone(), profile.clone()),
            (None, None) => Err(CommandError::Gone),
        }
    }

    /// Reads the thread from the store, and quarantines it if it has crashed the process too often.
    async fn read(&mut self) -> Result<Option<(ThreadRow, Vec<Row>)>, CommandError> {
        self.reserve_before_read().await?;
        Ok(match self.shared.store.load(self.pk).await? {
            Some((row, rows)) if self.must_quarantine(&row) => {
                self.quarantine(&row, rows.iter().any(|row| row.kind == RowKind::Run)).await?;
                self.shared.store.load(self.pk).await?
            }
            stored => stored,
        })
    }

    /// The thread as it was read.
    fn rebuild(&self, row: ThreadRow, rows: Vec<Row>) -> Result<LoadedThread, CommandError> {
        self.shared.report_if_went_back(&row, self.version);
        let (receivers, trace_progress) = (Receivers::of(&rows), TraceProgress::of(&rows));
        // It was quarantined, and crashed the process once more while its runs were to be ended.
        let must_not_rebuild = row.status == ThreadStatus::Quarantined
            && row.crashes.attributed > self.shared.config.runtime.crash_limit
            && rows.iter().any(|row| row.kind == RowKind::Run);
        let loaded = row.loaded_with(rows);
        let machine = if must_not_rebuild { runs_only(loaded) } else { self.shared.core(&row.core)?.load(loaded)? };
        self.shared.hub.publish_gap_up_to(self.pk, row.last_seq);
        Ok(LoadedThread { row, machine, new: None, fold: None, receivers, trace_progress })
    }

    /// A thread that its first commit creates.
    fn create(&self, new: NewThread, profile: ThreadProfile) -> Result<LoadedThread, CommandError> {
        let machine = self.shared.core(&new.core)?.load(Loaded::empty(new.thread_id.clone()))?;
        let row = self.new_row(&new, profile);
        let (receivers, trace_progress) = (Receivers::default(), TraceProgress::default());
        Ok(LoadedThread { row, machine, new: Some(new), fold: None, receivers, trace_progress })
    }

    /// Quarantines the thread before its machine is rebuilt from the rows: rebuilding may be what crashes. The thread stays due
    /// while it has runs, so that they are ended even if this process dies.
    pub(super) async fn quarantine(&self, row: &ThreadRow, has_runs: bool) -> Result<(), CommandError> {
        metrics::counter!("pes_threads_quarantined_total").increment(1);
        tracing::error!(
            threadId = %row.thread_id,
            crashes = row.crashes.attributed,
            "the thread is quarantined: it crashed the process too often; POST /threads/{{id}}/release lets it run again"
        );
        let commit = Commit {
            status: ThreadStatus::Quarantined,
            wake_at: has_runs.then(|| self.shared.now()),
            ..row.commit_with_lease(LeaseChange::Release, self.shared.now())
        };
        // A stale commit is no error: another process quarantined the thread or continued it.
        if self.shared.store.commit(commit).await? == Committed::Done {
            self.shared.hub.publish_change(row.tenant, row.pk, &row.thread_id);
        }
        Ok(())
    }

    fn new_row(&self, new: &NewThread, profile: ThreadProfile) -> ThreadRow {
        ThreadRow {
            pk: self.pk,
            tenant: new.tenant,
            thread_id: new.thread_id.clone(),
            fence: Fence::NEW,
            replica: None,
            core: new.core.clone(),
            head: String::new(),
            status: ThreadStatus::Idle,
            profile,
            wake_at: None,
            floor: 0,
            last_seq: 0,
            min_seq: 1,
            is_owned: false,
            crashes: Crashes::default(),
            created_at: new.created_at,
            updated_at: new.created_at,
            created_by: new.created_by.clone(),
        }
    }
}

pub(super) fn contended() -> CommandError {
    Fault::new(Code::StoreUnavailable, "The thread is being written by others; try again.").retry_after(500).into()
}
