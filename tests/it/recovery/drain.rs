//! On a stop the running step is recorded and nothing new starts; the next start continues.

use std::time::Duration;

use pes::domain::fault::Code;
use pes::domain::observation::ObservationType;
use pes::domain::run::RunStatus;
use pes::live::EncodedKind;
use pes::service::feed::{self, After, FeedAsk};
use pes::service::if_match::IfMatch;
use pes::service::policy::Policy;
use pes::service::{offers, resources, runs, threads};
use pes::tool::policy::POLICY_ID;
use serde_json::{Value, json};

use super::probe::{Probe, ask, instance};
use super::replicas::{LONG, replica, store};
use crate::support::http::{Events, soon};
use crate::support::postgres::Database;
use crate::support::process::{Place, Server};
use crate::support::store::{Mood, Moody};

/// The only item calls the counting tool, and then the model says nothing more.
const SCRIPT: &str = r#"
[[reply]]
when = { phase = "planning" }
json = { title = "T", intent = "I", plan = "P", todoList = [
    { id = "one", description = "Count", stepType = "tool", requiredTools = ["test_count"] },
] }

[[reply]]
when = { phase = "execution", iteration = 1 }
delay_ms = 3000
calls = [{ tool = "test_count", arguments = { path = "{counted}" } }]

[[reply]]
when = { phase = "execution" }
text = "Counted."

[[reply]]
when = { phase = "synthesis" }
text = "Done."
"#;

async fn begun(server: &Server) -> String {
    let ask = server.address.ask("POST", "/threads/t/process").json(&json!({ "query": "count" }));
    let receipt = ask.send().await.expect(202);
    calls_of_the_item(server, 1).await;
    receipt["runId"].as_str().expect("an id").to_owned()
}

/// The thread's events from there on where the item's model has been called so often.
async fn calls_of_the_item(server: &Server, times: usize) -> Events {
    let mut events =
        server.address.ask("GET", "/threads/t/events").header("accept", "text/event-stream").events().await;
    let mut begun = 0;
    while begun < times {
        let event = soon(events.next()).await.expect("the stream goes on");
        // A call is running once its stream has started.
        begun += usize::from(event.event == "observation" && is_item_stream(&event.data));
    }
    events
}

fn is_item_stream(seen: &Value) -> bool {
    seen["type"] == "LLM_STREAM_START" && seen["parentId"] == "one"
}

#[tokio::test]
async fn a_stop_records_the_step_under_way_and_the_next_start_goes_on() {
    let place = Place::sqlite(SCRIPT);
    let mut server = Server::start(&place, None).await;
    let run = begun(&server).await;
    server.stop();
    assert!(server.ended().await.success(), "a stop is no failure");
    assert_eq!(place.lines().len(), 0, "no call may start once it stops");
    let server = Server::start(&place, None).await;
    let ended = server.address.ask("GET", &format!("/runs/{run}?wait=30")).send().await.expect(200);
    assert_eq!(ended["status"], "completed", "{ended:#}");
    assert_eq!(ended["llmCalls"], 4, "the reply that came during the stop was not asked for again: {ended:#}");
    assert_eq!(place.lines().len(), 1);
    server.kill().await;
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once_and_counts_against_no_thread() {
    // Longer than sending the signal twice takes.
    let place = Place::sqlite(&SCRIPT.replace("delay_ms = 3000", "delay_ms = 6000"));
    let mut server = Server::start(&place, None).await;
    let run = begun(&server).await;
    // After so many crashes the thread would be quarantined, and its run would have failed.
    for times in 1..=3 {
        let mut events = calls_of_the_item(&server, times).await;
        server.stop();
        // Two signals that arrive together count as one.
        while soon(events.next()).await.expect("it is told that the server stops").event != "draining" {}
        server.stop();
        assert_eq!(server.ended().await.code(), Some(130), "it waits for nothing any more");
        if times < 3 {
            server = Server::start(&place, None).await;
        }
    }
    let server = Server::start(&place, None).await;
    let ended = server.address.ask("GET", &format!("/runs/{run}?wait=30")).send().await.expect(200);
    assert_eq!(ended["status"], "completed", "{ended:#}");
    assert_eq!(place.lines().len(), 1);
    server.kill().await;
}

/// The request was accepted before the stop, and reaches its thread after the end of the drain.
#[tokio::test]
async fn a_request_that_a_stop_overtakes_is_told_to_ask_again() {
    let (store, probe) = (Moody::fresh().await, Probe::new());
    let instance = instance(store.clone(), &probe, |_| {}).await;
    ask(&instance, "t", "call").await;
    probe.reaches(|tally| tally.over == 1).await;
    store.set("thread", Mood::Hangs);
    let (service, caller, id) = (instance.service(), instance.caller(), "t".into());
    let patching = threads::patch(service, caller, &id, json!({ "title": "T" }));
    let stopping = async {
        store.holds("thread").await;
        service.drain().await;
        store.set("thread", Mood::Well);
    };
    let (patched, ()) = soon(async { tokio::join!(patching, stopping) }).await;
    let fault = patched.unwrap_err();
    assert_eq!((fault.code, fault.retry_after_ms.is_some()), (Code::Draining, true), "{fault:?}");
}

#[tokio::test]
async fn a_check_of_the_models_ends_with_the_drain_and_none_begins_after_it() {
    let (store, probe) = (Moody::fresh().await, Probe::new());
    // The drain waits for nothing.
    let instance = instance(store.clone(), &probe, |config| config.runtime.drain_ms = 1).await;
    store.set("add_usage", Mood::Hangs);
    let (service, caller) = (instance.service(), instance.caller());
    let checking = offers::check_models(service, caller);
    let stopping = async {
        store.holds("add_usage").await;
        service.drain().await;
    };
    let (checked, ()) = soon(async { tokio::join!(checking, stopping) }).await;
    assert_eq!(checked.unwrap_err().code, Code::Draining);
    store.set("add_usage", Mood::Well);
    let calls = store.calls("add_usage");
    let fault = offers::check_models(service, caller).await.unwrap_err();
    assert_eq!((fault.code, fault.retry_after_ms.is_some()), (Code::Draining, true), "{fault:?}");
    assert_eq!((calls, store.calls("add_usage")), (1, 0));
}

/// The reply that orders a call comes while its process drains, and a rule that denies the call is written elsewhere before that.
#[tokio::test]
async fn a_call_that_is_judged_during_the_drain_is_judged_by_the_rules_of_then() {
    let (database, probe) = (Database::fresh().await, Probe::new());
    let moody = Moody::over(store(&database).await);
    let owner = instance(moody.clone(), &probe, |config| config.runtime.lease_ms = LONG).await;
    let other = replica(&database, &probe, LONG).await;
    // The first commit accepts the query, the second begins the item. The third, with the call, is held.
    moody.set("commit", Mood::HangsNext);
    let run = ask(&owner, "t", "call").await;
    soon(moody.holds("commit")).await;
    moody.set("commit", Mood::HangsNext);
    soon(moody.holds("commit")).await;
    let writing = async {
        moody.set("documents_since", Mood::Hangs);
        moody.holds("documents_since").await;
        let denied = serde_json::from_value(json!({ "rules": [{ "id": "no", "tool": "probe", "action": "deny" }] }));
        let (service, caller) = (other.service(), other.caller());
        let (spec, on) = (denied.unwrap(), IfMatch::Absent);
        resources::put::<Policy>(service, caller, POLICY_ID, spec, &on, None).await.unwrap();
        // The second poll begins after the first has taken what it read.
        moody.set("documents_since", Mood::HangsNext);
        moody.holds("documents_since").await;
        // The decision that is held becomes stale, and is made again.
        threads::patch(service, caller, &"t".into(), json!({ "title": "T" })).await.unwrap();
        moody.set("documents_since", Mood::Well);
        moody.set("commit", Mood::Well);
    };
    soon(async { tokio::join!(owner.service().drain(), writing) }).await;
    let waited = runs::wait(other.service(), other.caller(), &run, Duration::from_secs(15)).await.unwrap();
    assert_eq!((waited.run.status, probe.tally().begun), (RunStatus::Completed, 0));
}

/// Its first model call has failed and is tried again later.
#[tokio::test]
async fn a_thread_that_waits_for_its_time_when_a_process_drains_is_anothers_at_once() {
    let (database, probe) = (Database::fresh().await, Probe::new());
    let (draining, next) = (replica(&database, &probe, LONG).await, replica(&database, &probe, LONG).await);
    ask(&draining, "holding-up", "hang").await;
    probe.reaches(|tally| tally.begun == 1).await;
    let types = vec![ObservationType::LlmStreamError];
    let run = ask(&draining, "t", "retry").await;
    let failures = FeedAsk { after: After::Seq(0), types, ..FeedAsk::default() };
    let mut failures = feed::open(draining.service(), draining.caller(), &"t".into(), failures).await.unwrap();
    while !matches!(soon(failures.next()).await.unwrap().kind, EncodedKind::Observation { .. }) {}
    tokio::select! {
        biased;
        () = draining.service().drain() => panic!("the thread had to wait for the whole drain"),
        waited = runs::wait(next.service(), next.caller(), &run, Duration::from_secs(20)) => {
            assert_eq!(waited.unwrap().run.status, RunStatus::Completed);
        }
    }
}
