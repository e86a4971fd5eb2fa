//! Who may write a thread, who takes care of it, and what is known of those who did.

use crate::domain::ids::ThreadPk;

/// Who may write a thread: compared as a whole under the row lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    pub epoch: i64,
    pub lease: Option<uuid::Uuid>,
    pub version: i64,
}

impl Fence {
    /// What the commit that creates a thread must carry.
    pub const NEW: Fence = Fence { epoch: 0, lease: None, version: 0 };
}

/// What a commit does to the lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseChange {
    Keep,
    /// Take an unowned thread, one whose owner's registration has ended, or one that this replica already owns (its
    /// engine was lost, not the process): epoch + 1 and this lease. `Stale` while another's registration owns it.
    Claim {
        lease: uuid::Uuid,
        replica: uuid::Uuid,
    },
    /// Give it back; the next one claims.
    Release,
}

/// Processes that died while they had a thread in hand, since it last got on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crashes {
    pub times: i64,
    /// Those of them that point at this thread: nothing else was in hand, or its own task broke.
    pub alone: i64,
    /// Of how many threads it was one, at the fewest; 0: there was no crash.
    pub among: i64,
}

/// A thread that nobody takes care of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claimable {
    pub pk: ThreadPk,
    pub crashes: Crashes,
}

/// A process, as long as it says so.
#[derive(Clone, Debug)]
pub struct Registration {
    pub replica: uuid::Uuid,
    /// At most one process of a name is alive: whoever starts with it takes the place of the one before.
    pub name: Option<String>,
    /// What this very process was registered as before: that ended without a crash.
    pub former: Option<uuid::Uuid>,
}

/// How far a thread has come: what tells that somebody wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    pub pk: ThreadPk,
    pub version: i64,
    pub last_seq: i64,
}
