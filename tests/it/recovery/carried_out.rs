//! What another process commits while a call of the thread's owner is under way.

use std::sync::Arc;
use std::time::Duration;

use pes::domain::run::RunStatus;
use pes::runtime::clock::{Clock as _, Manual, System};
use pes::service::runs::{self, ItemAction};

use super::probe::{Probe, ask, asked, equipped};
use super::replicas::{LONG, cancel, replica, said, store};
use crate::support::postgres::Database;

/// Nothing of the thread is due after the skip, because another question is open.
#[tokio::test]
async fn the_call_of_an_item_that_is_skipped_elsewhere_ends_at_once() {
    for query in ["both hang", "both inquire"] {
        let (database, probe) = (Database::fresh().await, Probe::new());
        let (owner, other) = (replica(&database, &probe, LONG).await, replica(&database, &probe, LONG).await);
        let run = ask(&owner, "t", query).await;
        let (question, seq) = asked(&other, "t", 0).await;
        assert_ne!(question["whileRunning"], true, "{query}: {question:#}");
        probe.reaches(|tally| tally.begun == 1).await;
        if query == "both inquire" {
            let (in_the_call, _) = asked(&other, "t", seq).await;
            assert_eq!(in_the_call["whileRunning"], true, "{query}: {in_the_call:#}");
        }
        let (service, caller) = (other.service(), other.caller());
        let skipped = ItemAction::Skip("calls".into());
        runs::act_on_item(service, caller, &"t".into(), skipped, None).await.unwrap();
        probe.reaches(|tally| tally.over == 1).await;
        let seen = runs::get(service, caller, &run).await.unwrap();
        assert_eq!(seen.status, RunStatus::Suspended, "{query}: the other question is still open");
        runs::resume(service, caller, &"t".into(), said(&question, "well"), None).await.unwrap();
        let waited = runs::wait(service, caller, &run, Duration::from_secs(15)).await.unwrap();
        assert_eq!((waited.run.status, probe.tally().begun), (RunStatus::Completed, 1), "{query}");
    }
}

/// The other process's clock may be ahead of the owner's. Its second decision finds only times of its own in the thread.
#[tokio::test]
async fn a_decision_of_a_process_whose_clock_is_ahead_is_carried_out_at_once() {
    for is_second in [false, true] {
        let (database, probe) = (Database::fresh().await, Probe::new());
        let owner = replica(&database, &probe, LONG).await;
        let run = ask(&owner, "t", "hang").await;
        probe.reaches(|tally| tally.begun == 1).await;
        let ahead = Arc::new(Manual::at(System::default().now() + 3_600_000));
        let shared = store(&database).await;
        let lease = |config: &mut pes::Config| config.runtime.lease_ms = LONG;
        let other = equipped(&probe, lease, |built| built.store(shared).clock(ahead)).await;
        if is_second {
            ask(&other, "t", "talk").await;
        }
        assert_eq!(cancel(&other).await, 1 + usize::from(is_second));
        assert_eq!(probe.tally().over, 1);
        let waited = runs::wait(owner.service(), owner.caller(), &run, Duration::from_secs(15)).await.unwrap();
        assert_eq!(waited.run.status, RunStatus::Cancelled, "second: {is_second}");
    }
}
