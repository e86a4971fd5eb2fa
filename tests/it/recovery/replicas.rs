//! Several processes on one PostgreSQL: the owner acts on what any of them commits, and all of them publish what the
//! owner does.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pes::Instance;
use pes::domain::fault::Code;
use pes::domain::hitl::Answer;
use pes::domain::ids::RunId;
use pes::domain::run::RunStatus;
use pes::live::EncodedKind;
use pes::service::feed::{self, After, FeedAsk};
use pes::service::once::Answered;
use pes::service::{runs, threads};
use pes::store::postgres::Postgres;
use pes::store::{Registration, Store};

use super::probe::{Probe, ask, asked, instance};
use crate::support::http::soon;
use crate::support::postgres::Database;
use crate::support::proxy::{Cut, Proxy};
use crate::support::store::{Mood, Moody, store_on};

/// Far longer than any step may take: no test relies on this time-out.
pub(super) const LONG: i64 = 600_000;
/// Waits for something that must happen at once, not at the next renewal of a lease.
const AT_ONCE: Duration = Duration::from_secs(15);

pub(super) async fn store(database: &Database) -> Arc<dyn Store> {
    store_on(database).await
}

pub(super) async fn replica(database: &Database, probe: &Probe, lease_ms: i64) -> Instance {
    instance(store(database).await, probe, |config| config.runtime.lease_ms = lease_ms).await
}

/// The lease of the owner of `t` ends, as if it had not been renewed.
pub(super) async fn expire_owner(database: &Database, owner: &Instance) {
    let store = store(database).await;
    let row = store.thread(owner.caller().tenant, &"t".into()).await.unwrap().unwrap();
    store.renew(row.replica.unwrap(), -1).await.unwrap();
}

pub(super) async fn cancel(instance: &Instance) -> usize {
    let answered = soon(runs::cancel_thread(instance.service(), instance.caller(), &"t".into(), None)).await.unwrap();
    match answered {
        Answered::Fresh(receipt) => receipt.run_ids.len(),
        Answered::Replayed(_) => panic!("there was no key"),
    }
}

/// Keeps an idle thread in this process's memory for the whole test.
async fn remember(instance: &Instance) {
    let patch = serde_json::json!({ "title": "remembered" });
    threads::patch(instance.service(), instance.caller(), &"t".into(), patch).await.unwrap();
}

async fn remembering(database: &Database, probe: &Probe) -> Instance {
    let change = |config: &mut pes::Config| {
        config.runtime.lease_ms = LONG;
        config.runtime.idle_ms = 600_000;
    };
    instance(store(database).await, probe, change).await
}

async fn finished(instance: &Instance, run: &RunId) -> RunStatus {
    runs::wait(instance.service(), instance.caller(), run, AT_ONCE).await.unwrap().run.status
}

/// The answer to a question.
pub(super) fn said(question: &serde_json::Value, value: &str) -> Answer {
    Answer {
        suspension_id: question["suspensionId"].as_str().unwrap().into(),
        value: Some(value.into()),
        digest: None,
        approved: None,
        modified_args: None,
        reason: None,
        action: None,
    }
}

#[tokio::test]
async fn a_cancel_is_answered_when_the_owner_has_stopped() {
    let (database, probe) = (Database::fresh().await, Probe::new());
    let (owner, other) = (replica(&database, &probe, LONG).await, replica(&database, &probe, LONG).await);
    let run = ask(&owner, "t", "hang").await;
    probe.reaches(|tally| tally.begun == 1).await;
    let asked = Instant::now();
    assert_eq!(cancel(&other).await, 1);
    assert_eq!(probe.tally().over, 1, "answered while the tool still ran");
    assert!(asked.elapsed() < AT_ONCE);
    let seen = runs::get(other.service(), other.caller(), &run).await.unwrap();
    assert_eq!(seen.status, RunStatus::Cancelled);
}

#[tokio::test]
async fn what_a_process_remembers_of_a_thread_is_compared_before_it_says_that_nothing_runs() {
    let (database, probe) = (Database::fresh().await, Probe::new());
    let (owner, other) = (replica(&database, &probe, LONG).await, remembering(&database, &probe).await);
    let first = ask(&owner, "t", "call").await;
    assert_eq!(finished(&owner, &first).await, RunStatus::Completed);
    remember(&other).await;
    let run = ask(&owner, "t", "hang").await;
    probe.reaches(|tally| tally.begun == 2).await;
    assert_eq!(cancel(&other).await, 1, "it does run");
    assert_eq!(finished(&other, &run).await, RunStatus::Cancelled);
}

#[tokio::test]
async fn nor_does_it_say_that_a_question_is_not_there() {
    let (database, probe) = (Database::fresh().await, Probe::new());
    let (owner, other) = (replica(&database, &probe, LONG).await, remembering(&database, &probe).await);
    let first = ask(&owner, "t", "call").await;
    assert_eq!(finished(&owner, &first).await, RunStatus::Completed);
    remember(&other).await;
    let run = ask(&owner, "t", "ask").await;
    let (question, _) = asked(&owner, "t", 0).await;
    runs::resume(other.service(), other.caller(), &"t".into(), said(&question, "well"), None).await.unwrap();
    assert_eq!(finished(&other, &run).await, RunStatus::Completed);
}

#[tokio::test]
async fn the_owner_compares_too() {
    let (database, probe) = (Database::fresh().await, Probe::new());
    let (owner, other) = (replica(&database, &probe, LONG).await, replica(&database, &probe, LONG).await);
    ask(&owner, "t", "hang").await;
    probe.reaches(|tally| tally.begun == 1).await;
    let queued = ask(&other, "t", "talk").await;
    let (service, caller) = (owner.service(), owner.caller());
    let answered = soon(runs::cancel(service, caller, &queued, None)).await.unwrap();
    assert!(matches!(answered, Answered::Fresh(receipt) if receipt.run_ids == [queued.clone()]));
    assert_eq!(finished(&other, &queued).await, RunStatus::Cancelled);

    runs::pause(other.service(), other.caller(), &"t".into(), None).await.unwrap();
    let (pause, _) = asked(&other, "t", 0).await;
    runs::resume(service, caller, &"t".into(), said(&pause, "go on"), None).await.unwrap();
}

#[tokio::test]
async fn who_waits_at_the_owner_hears_that_its_queued_run_was_cancelled_elsewhere() {
    let (database, probe) = (Database::fresh().await, Probe::new());
    let (owner, other) = (replica(&database, &probe, LONG).await, replica(&database, &probe, LONG).await);
    ask(&owner, "t", "hang").await;
    probe.reaches(|tally| tally.begun == 1).await;
    let queued = ask(&owner, "t", "talk").await;
    // A wait reads the run again when its time is over, so it is given longer than the test.
    let waiting = runs::wait(owner.service(), owner.caller(), &queued, Duration::from_secs(600));
    let cancelling = async {
        // The same read as that of the wait, which began before it.
        runs::get(owner.service(), owner.caller(), &queued).await.unwrap();
        runs::cancel(other.service(), other.caller(), &queued, None).await
    };
    let (waited, cancelled) = soon(async { tokio::join!(waiting, cancelling) }).await;
    cancelled.unwrap();
    assert_eq!(waited.unwrap().run.status, RunStatus::Cancelled);
    assert_eq!(probe.tally().over, 0, "the call of the owner is still under way");
}

#[tokio::test]
async fn or_when_it_took_the_thread_from_an_owner_that_is_gone() {
    let (database, probe) = (Database::fresh().await, Probe::new());
    let frozen = Moody::over(store(&database).await);
    let owner = instance(frozen.clone(), &probe, |config| config.runtime.lease_ms = 1_500).await;
    let other = replica(&database, &probe, 1_500).await;
    let run = ask(&owner, "t", "hang").await;
    probe.reaches(|tally| tally.begun == 1).await;
    frozen.set("*", Mood::Hangs);
    assert_eq!(cancel(&other).await, 1);
    assert_eq!(probe.tally().over, 1, "answered while the tool still ran");
    let seen = runs::get(other.service(), other.caller(), &run).await.unwrap();
    assert_eq!(seen.status, RunStatus::Cancelled);
}

#[tokio::test]
async fn an_answer_given_elsewhere_is_carried_out_by_the_owner_at_once() {
    let (database, probe) = (Database::fresh().await, Probe::new());
    let owned = Moody::over(store(&database).await);
    let owner = instance(owned.clone(), &probe, |config| config.runtime.lease_ms = LONG).await;
    let other = replica(&database, &probe, LONG).await;
    let run = ask(&owner, "t", "ask").await;
    let (service, caller) = (other.service(), other.caller());
    let waited = runs::wait(service, caller, &run, AT_ONCE).await.unwrap();
    assert_eq!(waited.run.status, RunStatus::Suspended, "who waits elsewhere hears of it");
    // The owner's timer, which runs once a second, would also find the answer. It is held, so that only the watch of
    // other processes is left, which runs four times as often.
    owned.set("claimable", Mood::Hangs);
    soon(owned.holds("claimable")).await;
    let answer = said(&waited.suspensions[0], "well");
    runs::resume(service, caller, &"t".into(), answer, None).await.unwrap();
    let waited = runs::wait(service, caller, &run, AT_ONCE).await.unwrap();
    assert_eq!(waited.run.status, RunStatus::Completed);
}

#[tokio::test]
async fn a_call_that_asks_in_the_middle_is_answered_from_elsewhere_and_goes_on() {
    let (database, probe) = (Database::fresh().await, Probe::new());
    let (owner, other) = (replica(&database, &probe, LONG).await, replica(&database, &probe, LONG).await);
    let run = ask(&owner, "t", "inquire").await;
    let (question, _) = asked(&other, "t", 0).await;
    assert_eq!((&question["kind"], &question["whileRunning"]), (&"input".into(), &true.into()), "{question:#}");
    let seen = runs::get(other.service(), other.caller(), &run).await.unwrap();
    assert_eq!(seen.status, RunStatus::Running);
    let answer = said(&question, "left");
    runs::resume(other.service(), other.caller(), &"t".into(), answer, None).await.unwrap();
    let waited = runs::wait(other.service(), other.caller(), &run, AT_ONCE).await.unwrap();
    assert_eq!(waited.run.status, RunStatus::Completed);
    assert_eq!(probe.tally().begun, 1, "it went on, it did not begin again");
    let state = threads::state(other.service(), other.caller(), &"t".into(), None).await.unwrap();
    assert!(state["todoList"][0]["toolResults"][0]["output"].to_string().contains("left"), "{state:#}");
}

#[tokio::test]
async fn a_process_that_stops_does_not_wait_for_people_and_the_next_asks_again() {
    let (database, probe) = (Database::fresh().await, Probe::new());
    let (owner, other) = (replica(&database, &probe, LONG).await, replica(&database, &probe, LONG).await);
    let run = ask(&owner, "t", "inquire").await;
    let (first, seq) = asked(&other, "t", 0).await;
    let began = Instant::now();
    soon(owner.service().drain()).await;
    assert!(began.elapsed() < AT_ONCE);
    let (second, _) = asked(&other, "t", seq).await;
    let late = runs::resume(other.service(), other.caller(), &"t".into(), said(&first, "left"), None).await;
    let taken_back = late.unwrap_err().extra.unwrap();
    assert_eq!(taken_back["resolution"]["reason"], "the call is made again", "{taken_back:#?}");
    runs::resume(other.service(), other.caller(), &"t".into(), said(&second, "right"), None).await.unwrap();
    assert_eq!((finished(&other, &run).await, probe.tally().begun), (RunStatus::Completed, 2));
}

#[tokio::test]
async fn who_listens_elsewhere_hears_every_observation() {
    let (database, probe) = (Database::fresh().await, Probe::new());
    let (owner, other) = (replica(&database, &probe, LONG).await, replica(&database, &probe, LONG).await);
    let run = ask(&owner, "t", "wait").await;
    probe.reaches(|tally| tally.begun == 1).await;
    let ask = FeedAsk { after: After::Seq(0), types: Vec::new(), tokens: true, until: Some(run), ends_suspended: true };
    let mut feed = feed::open(other.service(), other.caller(), &"t".into(), ask).await.unwrap();
    let mut heard = Vec::new();
    probe.release();
    while let Some(frame) = soon(feed.next()).await {
        if let EncodedKind::Observation { seq, .. } = &frame.kind {
            heard.push(*seq);
        }
    }
    let log = feed::page(other.service(), other.caller(), &"t".into(), FeedAsk::default(), 500).await.unwrap();
    assert_eq!(heard, (1..=log.last_seq).collect::<Vec<_>>());
}

#[tokio::test]
async fn who_listens_to_the_owner_hears_what_is_queued_elsewhere_while_its_call_is_under_way() {
    let (database, probe) = (Database::fresh().await, Probe::new());
    let (owner, other) = (replica(&database, &probe, LONG).await, replica(&database, &probe, LONG).await);
    ask(&owner, "t", "hang").await;
    probe.reaches(|tally| tally.begun == 1).await;
    let listen = FeedAsk { after: After::Latest, types: Vec::new(), tokens: true, until: None, ends_suspended: false };
    let mut feed = feed::open(owner.service(), owner.caller(), &"t".into(), listen).await.unwrap();
    while soon(feed.next()).await.unwrap().kind != EncodedKind::CaughtUp {}
    let queued = ask(&other, "t", "talk").await;
    loop {
        let frame = soon(feed.next()).await.unwrap();
        if matches!(&frame.kind, EncodedKind::Observation { .. })
            && String::from_utf8_lossy(&frame.json()).contains(queued.as_str())
        {
            break;
        }
    }
    assert_eq!(probe.tally().over, 0, "the call of the owner is still under way");
}

#[tokio::test]
async fn what_a_draining_process_has_finished_with_is_anothers_at_once() {
    let (database, probe) = (Database::fresh().await, Probe::new());
    let (owner, other) = (replica(&database, &probe, LONG).await, replica(&database, &probe, LONG).await);
    ask(&owner, "holding-up", "hang").await;
    probe.reaches(|tally| tally.begun == 1).await;
    let run = ask(&owner, "t", "wait").await;
    probe.reaches(|tally| tally.begun == 2).await;
    tokio::select! {
        biased;
        () = owner.service().drain() => panic!("the other thread's call is under way"),
        status = async { probe.release(); finished(&other, &run).await } => assert_eq!(status, RunStatus::Completed),
    }
}

#[tokio::test]
async fn a_thread_that_is_erased_elsewhere_is_let_go_of_by_its_owner_and_all_who_follow_it_hear() {
    let (database, probe) = (Database::fresh().await, Probe::new());
    let (owner, other) = (replica(&database, &probe, LONG).await, replica(&database, &probe, LONG).await);
    let run = ask(&owner, "t", "hang").await;
    probe.reaches(|tally| tally.begun == 1).await;
    let mut feeds = Vec::new();
    let mut waits = Vec::new();
    for instance in [&owner, &other] {
        let ask = FeedAsk { after: After::Latest, types: Vec::new(), tokens: true, until: None, ends_suspended: false };
        feeds.push(feed::open(instance.service(), instance.caller(), &"t".into(), ask).await.unwrap());
        let (service, caller, run) = (instance.service().clone(), instance.caller().clone(), run.clone());
        waits.push(tokio::spawn(async move { runs::wait(&service, &caller, &run, Duration::from_secs(600)).await }));
    }
    threads::delete(other.service(), other.caller(), &"t".into()).await.unwrap();
    probe.reaches(|tally| tally.over == 1).await;
    for mut feed in feeds {
        while soon(feed.next()).await.is_some() {}
    }
    for wait in waits {
        assert_eq!(soon(wait).await.unwrap().unwrap_err().code, Code::NotFound);
    }
}

/// A stop need not write anything of an idle thread: the next process asked claims it.
#[tokio::test]
async fn a_thread_at_rest_is_nobodys() {
    let (database, probe) = (Database::fresh().await, Probe::new());
    let (one, other) = (replica(&database, &probe, LONG).await, replica(&database, &probe, LONG).await);
    let first = ask(&one, "t", "call").await;
    assert_eq!(finished(&one, &first).await, RunStatus::Completed);
    let read = store(&database).await;
    let row = read.thread(one.caller().tenant, &"t".into()).await.unwrap().unwrap();
    assert_eq!((row.fence.lease, row.replica), (None, None));
    let run = ask(&other, "t", "hang").await;
    probe.reaches(|tally| tally.begun == 2).await;
    let held = read.thread(one.caller().tenant, &"t".into()).await.unwrap().unwrap();
    assert!(held.is_owned);
    soon(one.service().drain()).await;
    assert_eq!(cancel(&other).await, 1);
    assert_eq!(finished(&other, &run).await, RunStatus::Cancelled);
}

#[tokio::test]
async fn who_starts_again_under_its_name_takes_its_threads_at_once() {
    let (database, probe) = (Database::fresh().await, Probe::new());
    let named = |config: &mut pes::Config| {
        config.runtime.lease_ms = LONG;
        config.runtime.replica = Some("pes-0".to_owned());
    };
    let frozen = Moody::over(store(&database).await);
    let dead = instance(frozen.clone(), &probe, named).await;
    ask(&dead, "t", "hang").await;
    probe.reaches(|tally| tally.begun == 1).await;
    frozen.set("*", Mood::Fails);
    let again = instance(store(&database).await, &probe, named).await;
    probe.reaches(|tally| tally.begun == 2).await;
    let row = store(&database).await.thread(again.caller().tenant, &"t".into()).await.unwrap().unwrap();
    assert_eq!((row.fence.epoch, row.crashes.attributed), (2, 1), "fenced as ever, and counted");
}

#[tokio::test]
async fn a_name_that_another_process_took_is_not_taken_back() {
    let database = Database::fresh().await;
    let store = store(&database).await;
    let named = |replica, former| Registration { replica, name: Some("pes-0".to_owned()), former };
    let (old, new) = (uuid::Uuid::new_v4(), uuid::Uuid::new_v4());
    store.register(named(old, None), LONG).await.unwrap();
    store.register(named(new, None), LONG).await.unwrap();
    assert!(!store.renew(old, LONG).await.unwrap().is_renewed(), "one process of a name");
    let refused = store.register(named(uuid::Uuid::new_v4(), Some(old)), LONG).await.unwrap_err().to_string();
    assert!(refused.contains("`pes-0`") && refused.contains("PES_REPLICA"), "{refused}");
    assert!(store.renew(new, LONG).await.unwrap().is_renewed());
}

#[tokio::test]
async fn a_registration_whose_answer_was_lost_does_not_lock_its_own_process_out() {
    let (database, probe) = (Database::fresh().await, Probe::new());
    let proxy = Proxy::before(database.socket()).await;
    let store = Postgres::open(&database.url_through(proxy.port).into(), 4).await.unwrap();
    let named = |config: &mut pes::Config| {
        config.runtime.lease_ms = 6_000;
        config.runtime.replica = Some("pes-0".to_owned());
    };
    let named = instance(Arc::new(store), &probe, named).await;
    let mut admin = database.connect().await;
    proxy.cut("pes-0", Cut::After);
    sqlx::query("DELETE FROM replicas").execute(&mut admin).await.unwrap();
    let lost: uuid::Uuid = soon(async {
        loop {
            let found = sqlx::query_scalar("SELECT id FROM replicas").fetch_optional(&mut admin).await.unwrap();
            if let Some(lost) = found {
                break lost;
            }
        }
    })
    .await;
    assert!(proxy.has_cut());
    let run = ask(&named, "t", "call").await;
    assert_eq!(finished(&named, &run).await, RunStatus::Completed);
    let registered: Vec<uuid::Uuid> =
        sqlx::query_scalar("SELECT id FROM replicas").fetch_all(&mut admin).await.unwrap();
    assert_eq!(registered, [lost], "it waited for its own registration to end");
}
