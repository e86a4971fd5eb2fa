//! Replicas on machines whose clocks differ: all of them go by the clock of the database.

use std::sync::Arc;
use std::time::Duration;

use pes::Instance;
use pes::domain::Millis;
use pes::domain::run::RunStatus;
use pes::runtime::clock::{Clock, Shifted, System};
use pes::service::resources::{self, Resource, Schedules};
use pes::service::{runs, schedules};
use serde_json::json;
use tokio::sync::watch;

use super::probe::{Probe, ask, equipped};
use super::replicas::{LONG, replica, store};
use crate::support::clocked::{DAY, HOUR, MINUTE};
use crate::support::http::soon;
use crate::support::postgres::Database;
use crate::support::store::{Mood, Moody};

/// A replica on a machine with this clock.
async fn clocked(database: &Database, probe: &Probe, clock: Arc<dyn Clock>) -> Instance {
    let store = store(database).await;
    equipped(probe, |config| config.runtime.lease_ms = LONG, |built| built.store(store).clock(clock)).await
}

/// How many times of the schedule had no run, and the next one, after this replica has looked at what is due.
async fn looks(replica: &Instance) -> (u64, Option<Millis>) {
    let (service, caller) = (replica.service(), replica.caller());
    soon(schedules::fire_due(service)).await.unwrap();
    assert!(schedules::runs_of(service, caller, "s", 10).await.unwrap().is_empty());
    let standing = Schedules::get(service, caller, "s").await.unwrap().value.standing.unwrap();
    (standing.missed, standing.next_due)
}

#[tokio::test]
async fn a_replica_whose_clock_is_ahead_uses_up_no_time_of_a_schedule() {
    let (database, probe) = (Database::fresh().await, Probe::new());
    let right = replica(&database, &probe, LONG).await;
    let first = System::default().now() + 10 * MINUTE;
    let spec = json!({ "id": "s", "startAt": first, "everyMs": 10 * MINUTE, "query": "call" });
    let spec = serde_json::from_value(spec).unwrap();
    resources::create::<Schedules>(right.service(), right.caller(), spec, None).await.unwrap();
    assert_eq!(looks(&right).await, (0, Some(first)));

    let clock = Arc::new(Shifted::by(2 * HOUR));
    let wrong = clocked(&database, &probe, clock.clone()).await;
    assert_eq!(looks(&wrong).await, (0, Some(first)));
    // The lease is not renewed meanwhile.
    clock.put_forward(HOUR);
    assert_eq!(looks(&wrong).await, (0, Some(first)), "its clock jumps while it runs");
    let run = ask(&wrong, "t", "call").await;
    runs::wait(wrong.service(), wrong.caller(), &run, Duration::from_secs(15)).await.unwrap();
    let started_later = replica(&database, &probe, LONG).await;
    assert_eq!(looks(&started_later).await, (0, Some(first)), "and nothing that it stored puts others forward");
}

/// It dies when it is about to make the second attempt, which was due 200 ms after the first.
#[tokio::test]
async fn what_a_replica_whose_clock_is_ahead_leaves_is_continued_when_it_is_due() {
    let (database, probe) = (Database::fresh().await, Probe::new());
    let dying = Moody::over(store(&database).await);
    let (shared, clock) = (dying.clone(), Arc::new(Shifted::by(2 * HOUR)));
    let wrong =
        equipped(&probe, |config| config.runtime.lease_ms = 1_500, |built| built.store(shared).clock(clock)).await;
    let other = replica(&database, &probe, LONG).await;
    // The query is committed; the next commits are those of the failed attempt, and of the beginning of another.
    dying.set("commit", Mood::HangsNext);
    let run = ask(&wrong, "t", "retry").await;
    soon(dying.holds("commit")).await;
    dying.set("commit", Mood::HangsNext);
    soon(dying.holds("commit")).await;
    for call in ["*", "commit"] {
        dying.set(call, Mood::Fails);
    }
    let waited = runs::wait(other.service(), other.caller(), &run, Duration::from_secs(15)).await.unwrap();
    assert_eq!(waited.run.status, RunStatus::Completed);
    assert!((System::default().now() - waited.run.created_at).abs() < MINUTE, "the times of its run are right too");
}

/// Records what it is told of the database's clock.
struct Told {
    system: System,
    times: watch::Sender<Vec<Millis>>,
}

impl Clock for Told {
    fn now(&self) -> Millis {
        self.system.now()
    }
    fn uptime(&self) -> Duration {
        self.system.uptime()
    }
    fn seed(&self) -> u64 {
        self.system.seed()
    }
    fn follow(&self, time: Millis, asked: Duration) -> Option<Millis> {
        self.times.send_modify(|times| times.push(time));
        self.system.follow(time, asked)
    }
}

#[tokio::test]
async fn the_database_tells_its_time_with_each_renewal_of_the_lease() {
    let (database, probe) = (Database::fresh().await, Probe::new());
    let times = watch::channel(Vec::new()).0;
    let mut told = times.subscribe();
    let (shared, clock) = (store(&database).await, Arc::new(Told { system: System::default(), times }));
    let lease = |config: &mut pes::Config| config.runtime.lease_ms = 1_500;
    let _replica = equipped(&probe, lease, |built| built.store(shared).clock(clock)).await;
    let told = soon(told.wait_for(|times| times.len() >= 3)).await.unwrap().clone();
    assert!(told.is_sorted() && told.iter().all(|time| (System::default().now() - time).abs() < MINUTE), "{told:?}");
}

#[tokio::test]
async fn a_start_with_a_clock_that_is_more_than_a_day_off_is_refused() {
    for (off, is_refused) in [(DAY + HOUR, true), (-DAY - HOUR, true), (DAY - HOUR, false), (HOUR - DAY, false)] {
        let database = Database::fresh().await;
        let opening = Instance::build(pes::Config::default()).store(store(&database).await);
        let opened = opening.clock(Arc::new(Shifted::by(off))).open().await;
        let why = opened.err().map(|error| error.to_string()).unwrap_or_default();
        assert_eq!(why.contains("differ by more than a day: here it is 20"), is_refused, "{off}: {why}");
    }
}
