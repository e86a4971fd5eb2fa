//! A thread in memory: its row, its engine, and how it gets there: read, and recovered where a holder was lost.

use super::actor::Actor;
use super::command::{CommitExtras, Refusal};
use super::probation::SUSPECT;
use super::pushes::Receivers;
use crate::domain::fault::{Code, Fault};
use crate::domain::thread::{ThreadProfile, ThreadStatus};
use crate::engine::effect::Effect;
use crate::engine::event::{CancelEvent, Event, ModelEvent, PeerEvent, SystemEvent, ToolEvent};
use crate::engine::history::fold::Fold;
use crate::engine::{Loaded, Machine};
use crate::store::{Commit, Crashes, Fence, LeaseChange, NewThread, ThreadRow};

pub(super) struct LoadedThread {
    pub(super) row: ThreadRow,
    pub(super) machine: Box<dyn Machine>,
    /// The thread does not exist yet: the first commit creates it.
    pub(super) new: Option<NewThread>,
    /// What listeners were told so far; only while there are some.
    pub(super) fold: Option<Fold>,
    pub(super) receivers: Receivers,
}

/// On what footing a commit is made.
pub(super) struct Footing {
    pub(super) lease: LeaseChange,
    /// The epoch that holds after it; `None`: without the lease.
    pub(super) holder: Option<i64>,
}

/// How a lease may be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// Ours is kept, nobody's is taken, another's is respected.
    IfFree,
    /// A new epoch in any case: what ran under the old one is lost.
    Anew,
}

/// Reads and recoveries of one thread that may fail in a row because somebody else wrote it.
pub(super) const TRIES: usize = 16;

impl Actor {
    /// Whether the stored lease is that of this process, as far as the loaded thread tells.
    pub(super) fn is_ours(&self, loaded: &LoadedThread) -> bool {
        let hold = self.shared.lease_keeper.hold();
        hold.is_some_and(|hold| loaded.row.fence.lease == Some(hold.lease))
    }

    /// While draining nothing may become `Running`: everything is decided as by a guest.
    pub(super) fn footing(&self, loaded: &LoadedThread, claim: Claim) -> Footing {
        let guest = Footing { lease: LeaseChange::Keep, holder: None };
        if self.shared.draining.is_cancelled() {
            return guest;
        }
        let Some(hold) = self.shared.lease_keeper.hold() else { return guest };
        let epoch = loaded.row.fence.epoch;
        let is_free = !loaded.row.is_owned || loaded.row.replica == Some(hold.replica);
        let taken =
            Footing { lease: LeaseChange::Claim { lease: hold.lease, replica: hold.replica }, holder: Some(epoch + 1) };
        match (claim, loaded.row.fence.lease) {
            (Claim::Anew, _) => taken,
            (Claim::IfFree, Some(lease)) if lease == hold.lease => {
                Footing { lease: LeaseChange::Keep, holder: Some(epoch) }
            }
            (Claim::IfFree, _) if is_free && !self.waits_its_turn(loaded) => taken,
            (Claim::IfFree, _) => guest,
        }
    }

    /// Whether processes died twice while they had it in hand: then it is taken up only when it was reserved.
    fn waits_its_turn(&self, loaded: &LoadedThread) -> bool {
        let replica = self.shared.lease_keeper.hold().map(|hold| hold.replica);
        let is_set_aside = loaded.row.status == ThreadStatus::Quarantined;
        loaded.row.crashes.times >= SUSPECT && loaded.row.replica != replica && !is_set_aside
    }

    /// Loads the thread if it is not in memory. What a lost holder left `Running` is settled before anything else.
    pub(super) async fn ensure_loaded(&mut self, extras: &CommitExtras) -> Result<(), Refusal> {
        for _ in 0..TRIES {
            if self.loaded.is_some() {
                return Ok(());
            }
            self.loaded = match self.load(extras).await {
                Ok(loaded) => Some(loaded),
                Err(refusal) => {
                    if refusal == Refusal::Gone {
                        self.tell_the_end();
                    }
                    return Err(refusal);
                }
            };
            self.settle().await?;
            self.reply_to_calls();
        }
        Err(contended())
    }

    async fn load(&self, extras: &CommitExtras) -> Result<LoadedThread, Refusal> {
        // A key that was made for a new thread is nobody else's.
        let is_fresh = extras.create.is_some() && !self.has_written;
        let stored = if is_fresh { None } else { self.shared.store.load(self.pk).await? };
        let limit = self.shared.config.runtime.crash_limit;
        let stored = match stored {
            Some((row, _)) if row.crashes.alone >= limit && row.status != ThreadStatus::Quarantined => {
                self.set_aside(&row).await?;
                self.shared.store.load(self.pk).await?
            }
            stored => stored,
        };
        if let Some((row, rows)) = stored {
            let receivers = Receivers::of(&rows)?;
            let loaded =
                Loaded { thread_id: Some(row.thread_id.clone()), head: row.head.clone(), rows, last_seq: row.last_seq };
            let machine = self.shared.core(&row.core)?.load(loaded)?;
            self.shared.hub.read_up_to(self.pk, row.last_seq);
            return Ok(LoadedThread { row, machine, new: None, fold: None, receivers });
        }
        let (new, sheet) = extras.create.clone().ok_or(Refusal::Gone)?;
        let loaded = Loaded { thread_id: Some(new.thread_id.clone()), ..Loaded::default() };
        let machine = self.shared.core(&new.core)?.load(loaded)?;
        let (row, receivers) = (self.new_row(&new, sheet), Receivers::default());
        Ok(LoadedThread { row, machine, new: Some(new), fold: None, receivers })
    }

    /// Before it is so much as rebuilt: from here on nobody takes it up, even if that is what breaks.
    async fn set_aside(&self, row: &ThreadRow) -> Result<(), Refusal> {
        tracing::error!(threadId = %row.thread_id, crashes = row.crashes.alone, "a thread is quarantined");
        let commit = Commit {
            status: ThreadStatus::Quarantined,
            wake_at: None,
            ..row.commit(LeaseChange::Release, self.shared.now())
        };
        // Whoever was faster has set it aside, or has gone on with it.
        self.shared.store.commit(commit).await.map(drop).map_err(Refusal::from)
    }

    fn new_row(&self, new: &NewThread, sheet: ThreadProfile) -> ThreadRow {
        ThreadRow {
            pk: self.pk,
            tenant: new.tenant,
            thread_id: new.thread_id.clone(),
            fence: Fence::NEW,
            replica: None,
            core: new.core.clone(),
            head: String::new(),
            status: ThreadStatus::Idle,
            sheet,
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

    /// Brings the effects in line with what was read. Slots `Running` that nobody here performs were left by a holder
    /// that is gone: the thread is claimed and they are settled in that same commit.
    async fn settle(&mut self) -> Result<(), Refusal> {
        let Some(loaded) = &self.loaded else { return Ok(()) };
        let running = loaded.machine.running();
        if self.is_ours(loaded) {
            self.work.keep_only(&running)
        } else {
            self.let_go()
        }
        let Some(loaded) = &self.loaded else { return Ok(()) };
        if loaded.machine.is_unreadable() {
            // Whoever holds the thread may still have in memory what cannot be read here.
            if self.footing(loaded, Claim::IfFree).holder.is_none() && loaded.row.is_owned {
                return Err(contended());
            }
            self.let_go();
            return self
                .attempt(Event::System(SystemEvent::Unreadable), &CommitExtras::default(), Claim::Anew)
                .await
                .map(drop);
        }
        let is_lost = running.iter().any(|effect| !self.work.holds(effect) && !self.is_uncommitted(effect));
        let is_set_aside = loaded.row.status == ThreadStatus::Quarantined && loaded.machine.run().is_some();
        if !(is_lost || is_set_aside) || self.footing(loaded, Claim::IfFree).holder.is_none() {
            return Ok(());
        }
        let crashes = loaded.row.crashes.alone;
        tracing::info!(threadId = %loaded.row.thread_id, crashes, "recovering what a lost holder left");
        self.let_go();
        let event = if is_set_aside {
            Event::System(SystemEvent::Quarantined { crashes: u32::try_from(crashes).unwrap_or(u32::MAX) })
        } else {
            Event::System(SystemEvent::Recovered)
        };
        self.attempt(event, &CommitExtras::default(), Claim::Anew).await.map(drop)
    }

    /// Whether an answer to this effect waits to be committed.
    fn is_uncommitted(&self, effect: &Effect) -> bool {
        self.uncommitted.iter().any(|event| match (&**event, effect) {
            (
                Event::Model(ModelEvent::Replied { stream, attempt, .. } | ModelEvent::Failed { stream, attempt, .. }),
                Effect::CallModel { stream: asked, attempt: current },
            ) => stream == asked && attempt == current,
            (
                Event::Tool(ToolEvent::Returned { call, attempt, .. }),
                Effect::CallTool { call: asked, attempt: current },
            ) => call == asked && attempt == current,
            (
                Event::Peer(PeerEvent::Seen { task, attempt, .. } | PeerEvent::Failed { task, attempt, .. }),
                Effect::Delegate { task: asked, attempt: current }
                | Effect::AskPeer { task: asked, attempt: current }
                | Effect::CancelPeer { task: asked, attempt: current },
            ) => task == asked && attempt == current,
            (event, _) => matches!(event, Event::Cancel(CancelEvent::EffectsStopped)),
        })
    }
}

pub(super) fn contended() -> Refusal {
    let mut fault = Fault::new(Code::StoreUnavailable, "The thread is being written by others; try again.");
    fault.retry_after_ms = Some(500);
    fault.into()
}
