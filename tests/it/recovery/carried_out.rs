//! What another process commits while a call of the thread's owner is under way.

use pes::domain::run::RunStatus;
use pes::service::runs::{self, ItemAction};

use super::probe::{Probe, ask, asked};
use super::replicas::{LONG, replica, said};
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
        let waited = runs::wait(service, caller, &run, std::time::Duration::from_secs(15)).await.unwrap();
        assert_eq!((waited.run.status, probe.tally().begun), (RunStatus::Completed, 1), "{query}");
    }
}
