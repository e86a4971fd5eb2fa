//! A process reserves a thread whose owner is gone, and then cannot continue it: another one takes it at once.

use std::pin::pin;
use std::sync::Arc;

use pes::Config;
use pes::domain::fault::Fault;
use pes::engine::pes::Pes;
use pes::engine::{Core, Loaded, Machine};

use super::probe::{Probe, ask, equipped, instance};
use super::replicas::{LONG, expire_owner, replica, store};
use crate::support::http::soon;
use crate::support::postgres::Database;
use crate::support::store::{Mood, Moody};

/// A core that only newer processes have.
struct Newer(Pes);

impl Core for Newer {
    fn name(&self) -> &str {
        "newer"
    }

    fn load(&self, loaded: Loaded) -> Result<Box<dyn Machine>, Fault> {
        self.0.load(loaded)
    }
}

fn newer() -> Arc<dyn Core> {
    Arc::new(Newer(Pes::planned()))
}

/// No lease ends before the test says so.
fn lasting(config: &mut Config) {
    config.runtime.lease_ms = LONG;
}

fn of_newer(config: &mut Config) {
    lasting(config);
    config.agent.core = "newer".to_owned();
}

#[tokio::test]
async fn a_thread_whose_core_a_process_does_not_have_goes_on_at_one_that_has_it() {
    let (database, probe) = (Database::fresh().await, Probe::new());
    let frozen = Moody::over(store(&database).await);
    let dead_store = frozen.clone();
    let dead = equipped(&probe, of_newer, |built| built.store(dead_store).core(newer())).await;
    ask(&dead, "t", "hang").await;
    probe.reaches(|tally| tally.begun == 1).await;
    let moody = Moody::over(store(&database).await);
    let _older = instance(moody.clone(), &probe, lasting).await;
    moody.set("load", Mood::Hangs);
    frozen.set("*", Mood::Hangs);
    expire_owner(&database, &dead).await;
    soon(moody.holds("load")).await;
    let shared = store(&database).await;
    let _next = equipped(&probe, of_newer, |built| built.store(shared).core(newer())).await;
    moody.set("load", Mood::Well);
    probe.reaches(|tally| tally.begun == 2).await;
}

#[tokio::test]
async fn a_thread_that_a_process_reserved_before_it_drains_is_anothers_at_once() {
    let (database, probe) = (Database::fresh().await, Probe::new());
    let frozen = Moody::over(store(&database).await);
    let dead = instance(frozen.clone(), &probe, lasting).await;
    ask(&dead, "t", "hang").await;
    probe.reaches(|tally| tally.begun == 1).await;
    let moody = Moody::over(store(&database).await);
    let draining = instance(moody.clone(), &probe, lasting).await;
    ask(&draining, "holding-up", "hang").await;
    probe.reaches(|tally| tally.begun == 2).await;
    moody.set("load", Mood::Hangs);
    frozen.set("*", Mood::Hangs);
    expire_owner(&database, &dead).await;
    soon(moody.holds("load")).await;
    let _next = replica(&database, &probe, LONG).await;
    let mut drain = pin!(draining.service().drain());
    let goes_on = async {
        moody.set("load", Mood::Well);
        probe.reaches(|tally| tally.begun == 3).await;
    };
    // The drain is polled first, so it has begun before the thread is read.
    tokio::select! {
        biased;
        () = &mut drain => panic!("the thread had to wait for the whole drain"),
        () = goes_on => {}
    }
}
