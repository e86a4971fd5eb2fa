//! Each time of a schedule gets one run, whichever process sees it and whenever one is killed.

use std::sync::Arc;
use std::time::Duration;

use pes::Instance;
use pes::config::Config;
use pes::domain::run::Run;
use pes::engine::pes::Pes;
use pes::engine::simple::{Next, SimpleCore, Transcript};
use pes::engine::step::RowKind;
use pes::runtime::clock::Manual;
use pes::service::resources::{self, Resource as _, Schedules};
use pes::service::schedules;
use pes::store::{PageAsk, Store, ThreadFilter};
use serde_json::json;
use tokio::time::timeout;

use super::probe::{Probe, equipped};
use crate::support::clocked::{DAY, MINUTE, TODAY};
use crate::support::http::soon;
use crate::support::postgres::Database;
use crate::support::store::{Mood, Moody, store_on};

const MINUTES: i64 = 1_000;

/// Replies at once: these tests check when runs start, not what they do.
struct Prompt;

impl SimpleCore for Prompt {
    fn name(&self) -> &str {
        "prompt"
    }

    fn next(&self, _: &Transcript<'_>) -> Next {
        Next::Answer("done".to_owned())
    }
}

/// The times of the runs, in order.
async fn fired(store: &dyn Store, replica: &Instance) -> Vec<i64> {
    let (service, caller) = (replica.service(), replica.caller());
    let runs = schedules::runs_of(service, caller, "s", 1_000).await.unwrap();
    let mut dues = Vec::new();
    for run in runs {
        let row = store.find_row(caller.tenant, RowKind::Run, run.run_id.as_str()).await.unwrap().unwrap().row;
        let run: Run = serde_json::from_str(&row.body).unwrap();
        dues.push(run.metadata.unwrap()["schedule"]["due"].as_i64().unwrap());
    }
    dues.sort_unstable();
    dues
}

#[tokio::test]
async fn three_replicas_that_are_killed_again_and_again_fire_each_time_once() {
    let database = Database::fresh().await;
    let clock = Arc::new(Manual::at(TODAY));
    let mut replicas: Vec<Instance> = Vec::new();
    let mut stores: Vec<Arc<dyn Store>> = Vec::new();
    for n in 0..3 {
        let store: Arc<dyn Store> = store_on(&database).await;
        let mut config = Config::default();
        config.agent.core = "prompt".to_owned();
        // Longer than the time between two checks: nobody renews it while the clock jumps.
        config.runtime.lease_ms = DAY;
        let replica = Instance::build(config).core(Arc::new(Pes::simple(Prompt)));
        let replica = replica.store(store.clone()).clock(clock.clone()).open().await.unwrap();
        // The other processes find the schedule when they start.
        if n == 0 {
            let spec = json!({ "id": "s", "everyMs": MINUTE, "query": "hello", "overlap": "allow", "jitterMs": 7_000,
                "catchUpMs": MINUTES * MINUTE });
            let spec = serde_json::from_value(spec).unwrap();
            resources::create::<Schedules>(replica.service(), replica.caller(), spec, None).await.unwrap();
        }
        replicas.push(replica);
        stores.push(store);
    }
    for minute in 0..MINUTES {
        clock.advance(MINUTE);
        let looks = replicas.iter().zip(0..).map(|(replica, n)| {
            let (service, given_up_after) = (replica.service().clone(), (minute * 7 + n * 5) % 13);
            tokio::spawn(async move {
                timeout(Duration::from_millis(given_up_after as u64), schedules::fire_due(&service)).await
            })
        });
        for look in looks.collect::<Vec<_>>() {
            if let Ok(looked) = look.await.unwrap() {
                looked.unwrap();
            }
        }
        // More than a hundred missed times are not made up for.
        if minute % 20 == 0 {
            soon(schedules::fire_due(replicas[0].service())).await.unwrap();
        }
    }
    clock.advance(MINUTE / 2);
    soon(schedules::fire_due(replicas[0].service())).await.unwrap();
    let due: Vec<i64> = (1..=MINUTES).map(|minute| TODAY + minute * MINUTE).collect();
    assert_eq!(fired(&*stores[0], &replicas[0]).await, due);
    let (tenant, page) = (replicas[0].caller().tenant, PageAsk { limit: 1_000, cursor: None });
    let threads = stores[0].threads(tenant, &ThreadFilter::default(), &page).await.unwrap();
    assert_eq!(threads.items.len(), due.len(), "a commit that came second left nothing");
}

/// Until its owner has stopped it, or another process has taken its thread.
#[tokio::test]
async fn a_run_that_takes_long_to_stop_holds_up_no_other_schedule() {
    let (database, probe, clock) = (Database::fresh().await, Probe::new(), Arc::new(Manual::at(TODAY)));
    let replica = async |store: Arc<dyn Store>| {
        let clock = clock.clone();
        equipped(&probe, |config| config.runtime.lease_ms = DAY, |built| built.store(store).clock(clock)).await
    };
    let schedule = async |replica: &Instance, id: &str, query: &str| {
        let spec = json!({ "id": id, "everyMs": MINUTE, "query": query, "overlap": "cancel" });
        let (service, spec) = (replica.service(), serde_json::from_value(spec).unwrap());
        resources::create::<Schedules>(service, replica.caller(), spec, None).await.unwrap();
    };
    let frozen = Moody::over(store_on(&database).await);
    let owner = replica(frozen.clone()).await;
    schedule(&owner, "s", "hang").await;
    clock.advance(MINUTE);
    soon(schedules::fire_due(owner.service())).await.unwrap();
    probe.reaches(|tally| tally.begun == 1).await;
    frozen.set("*", Mood::Hangs);
    let other = replica(store_on(&database).await).await;
    clock.advance(MINUTE);
    soon(schedules::fire_due(other.service())).await.unwrap();
    let standing = Schedules::get(other.service(), other.caller(), "s").await.unwrap().value.standing.unwrap();
    assert_eq!(standing.last_error.as_deref(), Some("A run before it is cancelled, and has not stopped yet."));
    schedule(&other, "t", "talk").await;
    clock.advance(MINUTE);
    soon(schedules::fire_due(other.service())).await.unwrap();
    let runs = async |id: &str| schedules::runs_of(other.service(), other.caller(), id, 9).await.unwrap().len();
    assert_eq!((runs("s").await, runs("t").await), (1, 1));
}

mod killed {
    use pes::runtime::clock::{Clock as _, System};
    use rstest::rstest;
    use serde_json::{Value, json};

    use crate::support::demo;
    use crate::support::http::until;
    use crate::support::process::{Address, Place, Server};

    /// The times of the thread's runs, in the order of their queries.
    async fn dues(address: Address) -> Vec<i64> {
        let said = address.ask("GET", "/threads/t/messages?limit=1000").send().await;
        let items = if said.status == 200 { said.json()["items"].clone() } else { json!([]) };
        let due = |message: &Value| message["metadata"]["schedule"]["due"].as_i64();
        items.as_array().unwrap().iter().filter_map(due).collect()
    }

    async fn survives(place: Place, failpoint: &str) {
        let mut server = Server::start(&place, Some(failpoint)).await;
        // Later than the response to this request, so that no time has passed before the schedule exists.
        let first = System::default().now() + 3_000;
        let spec = json!({ "id": "s", "everyMs": 1_000, "startAt": first, "query": "hello", "overlap": "queue",
            "catchUpMs": 600_000, "thread": { "mode": "fixed", "id": "t" } });
        server.address.ask("POST", "/schedules").json(&spec).send().await.expect(201);
        server.must_reach().await;
        server.kill().await;
        let server = Server::start(&place, None).await;
        let mut told = Vec::new();
        let are_told = async || {
            // Answered once its last run has ended.
            let runs = server.address.ask("GET", "/schedules/s/runs?limit=1").send().await.expect(200);
            if let Some(run) = runs["items"][0]["runId"].as_str() {
                server.address.ask("GET", &format!("/runs/{run}?wait=1")).send().await.expect(200);
            }
            told = dues(server.address).await;
            told.len() >= 3
        };
        until("three times have a run", are_told).await;
        let each: Vec<i64> = (0..told.len()).map(|n| first + 1_000 * n as i64).collect();
        assert_eq!(told, each, "oldest first, none lost, none twice");
        server.kill().await;
    }

    #[rstest]
    #[case("schedule.asking@1")]
    #[case("schedule.asking@2")]
    #[case("commit.before@1")]
    #[case("commit.after@1")]
    #[case("schedule.asked@1")]
    #[case("schedule.asked@2")]
    #[tokio::test]
    async fn a_process_that_dies_fires_each_time_once(#[case] failpoint: &str) {
        survives(Place::sqlite(demo::SCRIPT), failpoint).await;
    }

    #[rstest]
    #[case("schedule.asking@2")]
    #[case("commit.after@1")]
    #[tokio::test]
    async fn so_does_one_on_postgresql(#[case] failpoint: &str) {
        survives(Place::postgres(demo::SCRIPT).await, failpoint).await;
    }
}
