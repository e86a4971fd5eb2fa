//! A request that is sent again, to another process, while the first process still works on it.

use std::sync::Arc;

use pes::Instance;
use pes::domain::fault::Fault;
use pes::domain::ids::{RunId, ThreadId};
use pes::domain::run::{OnBusy, RunStatus};
use pes::service::once::{Answered, Idempotent};
use pes::service::runs::{self, ContinueAt, ProcessAsk, Receipt};
use serde_json::Value;

use super::probe::{Probe, ask, asked, instance};
use super::replicas::{LONG, replica, said, store};
use crate::support::http::soon;
use crate::support::postgres::Database;
use crate::support::store::{Mood, Moody};

fn key() -> Option<Idempotent> {
    let (scope, fingerprint) = ("POST /threads/t/process".to_owned(), "the body".to_owned());
    Some(Idempotent { key: "k".to_owned(), scope, fingerprint })
}

/// A process whose store can be held.
async fn held(database: &Database, probe: &Probe) -> (Arc<Moody>, Instance) {
    let moody = Moody::over(store(database).await);
    let instance = instance(moody.clone(), probe, |config| config.runtime.lease_ms = LONG).await;
    (moody, instance)
}

fn first(answered: Result<Answered<Receipt>, Fault>) -> RunId {
    match answered.unwrap() {
        Answered::Fresh(receipt) => receipt.run_id,
        Answered::Replayed(stored) => panic!("it is the first: {stored:?}"),
    }
}

fn repeated(answered: Result<Answered<Receipt>, Fault>) -> RunId {
    match answered.unwrap() {
        Answered::Replayed(stored) => {
            let receipt: Value = serde_json::from_str(&stored.body).unwrap();
            receipt["runId"].as_str().unwrap().into()
        }
        Answered::Fresh(receipt) => panic!("it was answered before: {receipt:?}"),
    }
}

/// The other process is held before it has read which runs to cancel, and after it.
#[tokio::test]
async fn a_query_that_goes_back_does_not_cancel_its_own_run_from_another_process() {
    for call in ["messages", "find_row"] {
        let (database, probe) = (Database::fresh().await, Probe::new());
        let owner = replica(&database, &probe, LONG).await;
        let (moody, other) = held(&database, &probe).await;
        let id: ThreadId = "t".into();
        let former = ask(&owner, "t", "hang").await;
        probe.reaches(|tally| tally.begun == 1).await;
        let sent = async |instance: &Instance| {
            let (continue_at, on_busy) = (Some(ContinueAt::Start), OnBusy::Interrupt);
            let ask = ProcessAsk { query: "hang".to_owned(), continue_at, on_busy, ..ProcessAsk::default() };
            runs::process(instance.service(), instance.caller(), &id, ask, key()).await
        };
        moody.set(call, Mood::Hangs);
        let accepted = async {
            moody.holds(call).await;
            let answered = sent(&owner).await;
            probe.reaches(|tally| tally.begun == 2).await;
            moody.set(call, Mood::Well);
            answered
        };
        let (again, answered) = soon(async { tokio::join!(sent(&other), accepted) }).await;
        let run = first(answered);
        assert_eq!(repeated(again), run, "{call}");
        let stands = async |run: &RunId| runs::get(owner.service(), owner.caller(), run).await.unwrap().status;
        assert_eq!((stands(&former).await, stands(&run).await), (RunStatus::Cancelled, RunStatus::Running), "{call}");
    }
}

#[tokio::test]
async fn an_answer_that_is_sent_to_another_process_too_is_answered_as_the_first() {
    let (database, probe) = (Database::fresh().await, Probe::new());
    let owner = replica(&database, &probe, LONG).await;
    let (moody, other) = held(&database, &probe).await;
    let id: ThreadId = "t".into();
    ask(&owner, "t", "ask").await;
    let (question, _) = asked(&owner, "t", 0).await;
    let sent = async |instance: &Instance| {
        runs::resume(instance.service(), instance.caller(), &id, said(&question, "well"), key()).await
    };
    moody.set("load", Mood::Hangs);
    let accepted = async {
        moody.holds("load").await;
        let answered = sent(&owner).await;
        moody.set("load", Mood::Well);
        answered
    };
    let (again, answered) = soon(async { tokio::join!(sent(&other), accepted) }).await;
    assert_eq!(repeated(again), first(answered));
}

#[tokio::test]
async fn a_query_that_is_sent_to_another_process_too_is_not_refused_because_of_its_own_run() {
    let (database, probe) = (Database::fresh().await, Probe::new());
    let owner = replica(&database, &probe, LONG).await;
    let (moody, other) = held(&database, &probe).await;
    let id: ThreadId = "t".into();
    let earlier = ask(&owner, "t", "call").await;
    let waited = runs::wait(owner.service(), owner.caller(), &earlier, std::time::Duration::from_secs(15)).await;
    assert_eq!(waited.unwrap().run.status, RunStatus::Completed);
    let sent = async |instance: &Instance| {
        let ask = ProcessAsk { query: "hang".to_owned(), on_busy: OnBusy::Reject, ..ProcessAsk::default() };
        runs::process(instance.service(), instance.caller(), &id, ask, key()).await
    };
    moody.set("load", Mood::Hangs);
    let accepted = async {
        moody.holds("load").await;
        let answered = sent(&owner).await;
        probe.reaches(|tally| tally.begun == 2).await;
        moody.set("load", Mood::Well);
        answered
    };
    let (again, answered) = soon(async { tokio::join!(sent(&other), accepted) }).await;
    assert_eq!(repeated(again), first(answered));
}
