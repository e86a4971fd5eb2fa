//! A database that was restored from a backup does not know what was done after the backup. So nothing of it goes on by
//! itself: before anything else, every run that is not over gets a question to a person, and what waits in the outbox is
//! ended. A start that is killed in the middle does the rest the next time.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::json;

use super::command::{Command, CommitExtras, Refusal};
use super::shared::Shared;
use crate::domain::Millis;
use crate::domain::ids::ThreadPk;
use crate::engine::event::{Event, SystemEvent};
use crate::store::{self, HeldBack, HoldBack};

/// Threads that are looked at together.
const PAGE: u32 = 200;

/// What is said of schedules that are held back, and of deliveries that are not made.
const HELD_SCHEDULE: &str = "held back: restored from a backup; write the schedule again to let it go on";
const HELD: &str = "not made: restored from a backup; replay it if its receiver did not get it";

/// What the person is told.
fn message(as_of: Millis) -> String {
    let then = jiff::Timestamp::from_millisecond(as_of).map_or_else(|_| "then".to_owned(), |at| at.to_string());
    format!("restored: this is as of {then}; what was done since is not known here, and may be done again. Go on?")
}

/// What is said where it is held back.
fn hold_back(as_of: Millis, now: Millis) -> HoldBack {
    let (deliveries, schedules) = (HELD.to_owned(), HELD_SCHEDULE.to_owned());
    let (actor, action, detail) = ("server".to_owned(), "restore".to_owned(), json!({ "asOf": as_of }));
    HoldBack { now, deliveries, schedules, actor, action, detail }
}

impl Shared {
    /// Has a person asked before anything of a restored database goes on. Called before anything is started.
    pub(super) async fn hold_back_restored(self: &Arc<Self>) -> store::Result<()> {
        let Some(as_of) = self.store.restored().await? else { return Ok(()) };
        // Without the lease nothing starts, and nothing that a lost process left running is settled.
        self.is_restoring.store(true, Ordering::SeqCst);
        let held = self.hold_runs_back(as_of).await;
        self.is_restoring.store(false, Ordering::SeqCst);
        let runs = held?;
        let held = self.store.hold_restored(hold_back(as_of, self.now())).await?;
        // Another process did, and what people have let go on since goes on.
        let Some(HeldBack { deliveries, schedules }) = held else { return Ok(()) };
        tracing::warn!(
            as_of,
            runs,
            deliveries,
            schedules,
            "restored from a backup: runs that were not over wait for a person, deliveries and schedules for somebody \
             to replay or write them again"
        );
        Ok(())
    }

    /// How many threads had one. Once another process has held all of them back, people may let them go on: the rest is
    /// left alone.
    async fn hold_runs_back(self: &Arc<Self>, as_of: Millis) -> store::Result<u64> {
        let (mut behind, mut held) = (ThreadPk::NONE, 0);
        loop {
            let page = self.store.unfinished_threads(behind, PAGE).await?;
            let Some(last) = page.last() else { return Ok(held) };
            behind = *last;
            for pk in page {
                if self.store.restored().await?.is_none() {
                    return Ok(held);
                }
                let event = Arc::new(Event::System(SystemEvent::Restored { message: message(as_of) }));
                let extras = Box::new(CommitExtras::default());
                match self.ask(pk, |reply| Command::Decide { event, extras, reply }).await {
                    Ok(_) => held += 1,
                    Err(Refusal::Gone) => {}
                    // Nothing starts before all are held back: the next start does the rest.
                    Err(Refusal::Fault(fault)) if fault.code.retryable() => {
                        return Err(store::Error::Unavailable(format!("a restored run is not held back yet: {fault}")));
                    }
                    // One that cannot be read goes on no further than to end by name.
                    Err(refusal) => tracing::warn!(threadPk = pk.0, ?refusal, "a restored run cannot be held back"),
                }
            }
        }
    }
}
