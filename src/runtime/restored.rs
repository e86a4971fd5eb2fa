//! A database that was restored from a backup lacks what was done after the backup. So nothing in it continues by itself:
//! before anything else, every unfinished run gets a question to a person, the deliveries that were pending are ended, and
//! schedules are held back. The deliveries that tell of these questions are made. If a start is killed in the middle, the
//! next one does the rest.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::json;

use super::actor::{CommandError, CommitExtras};
use super::shared::Shared;
use crate::domain::Millis;
use crate::domain::actor::ServerActor;
use crate::domain::ids::ThreadPk;
use crate::engine::event::{Event, SystemEvent};
use crate::store::{self, HeldCounts, RestoreHold};

/// Bounds the threads that are read together.
const PAGE_SIZE: u32 = 200;

/// The notes on schedules and deliveries that are held back.
const SCHEDULE_NOTE: &str =
    "held back: restored from a backup; resume it (`pes schedules resume ID`) or write it again";
const DELIVERY_NOTE: &str = "not made: restored from a backup; replay it if its receiver did not get it";

/// The question to the person.
fn message(as_of: Millis) -> String {
    let then = jiff::Timestamp::from_millisecond(as_of).map_or_else(|_| "then".to_owned(), |at| at.to_string());
    format!("restored: this is as of {then}; what was done since is not known here, and may be done again. Go on?")
}

/// What the store writes when it holds back deliveries and schedules.
fn hold_back(as_of: Millis, now: Millis) -> RestoreHold {
    let (deliveries, schedules) = (DELIVERY_NOTE.to_owned(), SCHEDULE_NOTE.to_owned());
    let (actor, action, detail) =
        (ServerActor::Server.as_str().to_owned(), "restore".to_owned(), json!({ "asOf": as_of }));
    RestoreHold { now, deliveries, schedules, actor, action, detail }
}

impl Shared {
    /// Holds back everything in a restored database. Called before anything is started.
    pub(super) async fn hold_back_restored(self: &Arc<Self>) -> store::Result<()> {
        let Some(as_of) = self.store.restored().await? else { return Ok(()) };
        // While this is set, commits are made without the lease: nothing starts, and effects of lost processes are not settled.
        self.is_restoring.store(true, Ordering::SeqCst);
        let held = self.hold_runs_back(as_of).await;
        self.is_restoring.store(false, Ordering::SeqCst);
        let runs = held?;
        let held = self.store.hold_restored(hold_back(as_of, self.now())).await?;
        // Another process has held everything back; people may have let some of it continue since.
        let Some(HeldCounts { deliveries, schedules }) = held else { return Ok(()) };
        tracing::warn!(
            as_of,
            runs,
            deliveries,
            schedules,
            "restored from a backup: runs that were not over wait for a person, deliveries and schedules for somebody \
             to replay or resume them"
        );
        Ok(())
    }

    /// Asks a person about every unfinished run. Returns the number of threads. Stops when another process has finished the
    /// same work: people may have let runs continue since.
    ///
    /// The mark is read before each commit, not in it. If between the two another process finishes the work and a person
    /// lets this very run continue, the person is asked about it again, and nothing else happens.
    async fn hold_runs_back(self: &Arc<Self>, as_of: Millis) -> store::Result<u64> {
        let (mut after, mut held) = (ThreadPk::NONE, 0);
        loop {
            let page = self.store.unfinished_threads(after, PAGE_SIZE).await?;
            let Some(last) = page.last() else { return Ok(held) };
            after = *last;
            for pk in page {
                if self.store.restored().await?.is_none() {
                    return Ok(held);
                }
                let event = Event::System(SystemEvent::Restored { message: message(as_of) });
                match self.decide(pk, event, CommitExtras::default()).await {
                    Ok(_) => held += 1,
                    Err(CommandError::Gone) => {}
                    // Nothing may start before all runs are held back: this start fails and the next one does the rest.
                    Err(CommandError::Fault(fault)) if fault.code.retryable() => {
                        return Err(store::Error::Unavailable(format!("a restored run is not held back yet: {fault}")));
                    }
                    // An unreadable run cannot continue anyway; it only ends with an error.
                    Err(refusal) => tracing::warn!(threadPk = pk.0, ?refusal, "a restored run cannot be held back"),
                }
            }
        }
    }
}
