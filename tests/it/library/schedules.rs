//! Each time of a schedule gets one run, and overlapping runs follow its setting. The tests advance the clock.

mod faults;
mod keys;
mod late;
mod overlaps;

use std::sync::Arc;

use pes::Instance;
use pes::config::{Config, Synchronous};
use pes::domain::caller::Caller;
use pes::domain::fault::Code;
use pes::domain::ids::ThreadPk;
use pes::domain::run::{RunResource, RunStatus};
use pes::domain::schedule::{ScheduleResource, ScheduleStanding};
use pes::runtime::clock::Clock as _;
use pes::service::if_match::IfMatch;
use pes::service::resources::{self, Resource, Schedules};
use pes::service::{changes, runs, schedules};
use pes::store::sqlite::Sqlite;
use pes::store::{AuditRow, BackupStore, KeyAdded, KeyRow, PageAsk, Store};
use serde_json::{Value, json};

use crate::support::clocked::{Clocked, HOUR, MINUTE, TODAY};
use crate::support::demo;
use crate::support::http::soon;
use crate::support::store::fresh_store;

/// A call that a person must approve, so that its run does not end.
const GATED: &str = "send";

impl Clocked {
    async fn start() -> Self {
        Self::with(fresh_store().await, TODAY, |_| {}).await
    }

    /// One with the replies that most tests share.
    async fn with(store: Arc<dyn Store>, now: i64, change: impl FnOnce(&mut Config)) -> Self {
        Self::at(now, store, |config| {
            // Longer than the whole test by its clock: nobody renews it while the clock jumps.
            config.runtime.lease_ms = 24 * HOUR;
            config.models.demo.script = Some(demo::file(demo::SCRIPT));
            change(config);
        })
        .await
    }

    fn caller(&self) -> &Caller {
        self.instance.caller()
    }

    /// Every minute, unless `more` says otherwise.
    async fn schedule(&self, more: Value) {
        self.schedule_by(self.caller(), more).await;
    }

    async fn schedule_by(&self, caller: &Caller, more: Value) {
        let mut spec = json!({ "id": "s", "everyMs": MINUTE, "query": "hello" });
        json_patch::merge(&mut spec, &more);
        let spec = serde_json::from_value(spec).unwrap();
        resources::create::<Schedules>(self.instance.service(), caller, spec, None).await.unwrap();
    }

    /// A caller whose key is stored under this name.
    async fn keyed(&self, name: &str, expires_at: Option<i64>) -> Caller {
        let caller = Caller { name: name.to_owned(), ..self.caller().clone() };
        let key = KeyRow {
            key_id: name.to_owned(),
            tenant: caller.tenant,
            tenant_name: caller.tenant_name.clone(),
            name: name.to_owned(),
            hash: format!("hash of {name}"),
            scopes: "read run".to_owned(),
            created_at: TODAY,
            revoked_at: None,
            expires_at,
            used_at: None,
            former_hash: None,
            former_until: None,
        };
        let added = self.store.add_key(key, usize::MAX, self.line("make key")).await.unwrap();
        assert_eq!(added, KeyAdded::Stored);
        caller
    }

    async fn revoke(&self, caller: &Caller) {
        assert!(self.store.revoke_key(&caller.name, self.clock.now(), self.line("revoke key")).await.unwrap());
    }

    fn line(&self, action: &str) -> AuditRow {
        let (tenant, at, actor) = (self.caller().tenant, TODAY, "boss".to_owned());
        let (thread, action) = (ThreadPk::NONE, action.to_owned());
        AuditRow { tenant, thread, thread_id: None, at, actor, action, detail: json!({}) }
    }

    async fn shown(&self) -> ScheduleResource {
        Schedules::get(self.instance.service(), self.caller(), "s").await.unwrap().value
    }

    async fn change(&self, patch: Value) {
        let Value::Object(patch) = patch else { panic!("a patch is an object") };
        let service = self.instance.service();
        resources::patch::<Schedules>(service, self.caller(), "s", patch, &IfMatch::Absent, None).await.unwrap();
    }

    async fn passes(&self, millis: i64) {
        self.clock.advance(millis);
        soon(schedules::fire_due(self.instance.service())).await.unwrap();
    }

    /// The newest first.
    async fn runs(&self) -> Vec<RunResource> {
        schedules::runs_of(self.instance.service(), self.caller(), "s", 1_000).await.unwrap()
    }

    async fn standing(&self) -> ScheduleStanding {
        let shown = Schedules::get(self.instance.service(), self.caller(), "s").await.unwrap();
        shown.value.standing.expect("it is planned")
    }

    async fn finished(&self, run: &RunResource) -> RunStatus {
        let (service, most) = (self.instance.service(), std::time::Duration::from_secs(20));
        runs::wait(service, self.caller(), &run.run_id, most).await.unwrap().run.status
    }
}

#[tokio::test]
async fn each_time_has_one_run_on_a_thread_of_its_own() {
    let clocked = Clocked::start().await;
    clocked.schedule(json!({ "overlap": "allow" })).await;
    assert_eq!(clocked.standing().await.next_due, Some(TODAY + MINUTE));
    clocked.passes(MINUTE - 1).await;
    assert!(clocked.runs().await.is_empty());
    clocked.passes(1).await;
    clocked.passes(0).await;
    clocked.passes(MINUTE).await;
    let runs = clocked.runs().await;
    assert_eq!(runs.len(), 2);
    assert_ne!(runs[0].thread_id, runs[1].thread_id);
    assert_eq!(runs[0].requested_by, ["schedule:s", clocked.caller().name.as_str()]);
    let standing = clocked.standing().await;
    assert_eq!((standing.last_due, standing.next_due), (Some(TODAY + 2 * MINUTE), Some(TODAY + 3 * MINUTE)));
    assert_eq!(clocked.finished(&runs[0]).await, RunStatus::Completed);
}

#[tokio::test]
async fn what_was_missed_is_made_up_for_unless_it_is_too_late() {
    let clocked = Clocked::start().await;
    clocked.schedule(json!({ "overlap": "allow", "catchUpMs": 5 * MINUTE })).await;
    clocked.passes(HOUR).await;
    assert_eq!(clocked.runs().await.len(), 6, "those of the last five minutes");
    let standing = clocked.standing().await;
    assert_eq!((standing.missed, standing.last_due), (54, Some(TODAY + HOUR)));
}

#[tokio::test]
async fn a_time_that_overlaps_does_as_it_is_told_on_new_threads() {
    for (overlap, after_second) in [("skip", 1), ("queue", 1), ("cancel", 2), ("allow", 2)] {
        let clocked = Clocked::start().await;
        clocked.schedule(json!({ "overlap": overlap, "query": GATED })).await;
        clocked.passes(MINUTE).await;
        let first = clocked.runs().await.remove(0);
        assert_eq!(clocked.finished(&first).await, RunStatus::Suspended);
        clocked.passes(MINUTE).await;
        assert_eq!(clocked.runs().await.len(), after_second, "{overlap}");
        let standing = clocked.standing().await;
        let first_status = clocked.finished(&first).await;
        match overlap {
            "skip" => {
                assert_eq!(standing.last_due, Some(TODAY + 2 * MINUTE));
                assert_eq!(standing.last_error.as_deref(), Some("a run before it was not over"));
            }
            "queue" => {
                assert_eq!(standing.next_due, Some(TODAY + 2 * MINUTE));
                let (service, caller) = (clocked.instance.service(), clocked.caller());
                soon(runs::cancel(service, caller, &first.run_id, None)).await.unwrap();
                clocked.passes(1_000).await;
                assert_eq!(clocked.runs().await.len(), 2, "it waited");
            }
            "cancel" => assert_eq!(first_status, RunStatus::Cancelled),
            _ => assert_eq!(first_status, RunStatus::Suspended),
        }
    }
}

#[tokio::test]
async fn a_time_that_overlaps_does_as_it_is_told_on_a_fixed_thread() {
    for (overlap, runs, first_status) in
        [("skip", 1, RunStatus::Suspended), ("queue", 2, RunStatus::Suspended), ("cancel", 2, RunStatus::Cancelled)]
    {
        let clocked = Clocked::start().await;
        let thread = json!({ "mode": "fixed", "id": "t" });
        clocked.schedule(json!({ "overlap": overlap, "query": GATED, "thread": thread })).await;
        clocked.passes(MINUTE).await;
        let first = clocked.runs().await.remove(0);
        assert_eq!(clocked.finished(&first).await, RunStatus::Suspended);
        clocked.passes(MINUTE).await;
        let all = clocked.runs().await;
        assert_eq!(all.len(), runs, "{overlap}");
        assert!(all.iter().all(|run| run.thread_id.as_str() == "t"));
        assert_eq!(clocked.finished(&first).await, first_status, "{overlap}");
        assert_eq!(clocked.standing().await.last_due, Some(TODAY + 2 * MINUTE));
    }
}

#[tokio::test]
async fn a_pause_has_no_times_and_a_change_of_the_query_keeps_them() {
    let clocked = Clocked::start().await;
    clocked.schedule(json!({ "overlap": "allow" })).await;
    clocked.passes(MINUTE).await;
    clocked.change(json!({ "paused": true })).await;
    clocked.passes(10 * MINUTE).await;
    assert_eq!((clocked.runs().await.len(), clocked.standing().await.next_due), (1, None));
    clocked.change(json!({ "paused": false })).await;
    clocked.passes(0).await;
    assert_eq!(clocked.runs().await.len(), 1, "what a pause left out is not made up for");
    // Due, and not yet processed.
    clocked.clock.advance(2 * MINUTE);
    clocked.change(json!({ "query": "hello again" })).await;
    clocked.passes(0).await;
    assert_eq!(clocked.runs().await.len(), 3, "what was due still is");
    // The times change: those that were due are dropped.
    clocked.clock.advance(2 * MINUTE);
    clocked.change(json!({ "everyMs": 7 * MINUTE })).await;
    clocked.passes(0).await;
    assert_eq!(clocked.runs().await.len(), 3);
}

#[tokio::test]
async fn one_that_is_deleted_is_gone_and_another_of_its_id_begins_anew() {
    let clocked = Clocked::start().await;
    clocked.schedule(json!({ "overlap": "allow" })).await;
    clocked.passes(MINUTE).await;
    resources::delete::<Schedules>(clocked.instance.service(), clocked.caller(), "s").await.unwrap();
    clocked.passes(5 * MINUTE).await;
    clocked.schedule(json!({ "overlap": "allow" })).await;
    clocked.passes(0).await;
    assert!(clocked.runs().await.is_empty(), "neither runs nor times of the one before");
    assert_eq!(clocked.standing().await.next_due, Some(TODAY + 7 * MINUTE));
}

#[tokio::test]
async fn a_run_that_is_refused_is_told_and_may_pause_the_schedule() {
    for pauses in [false, true] {
        let clocked = Clocked::start().await;
        // A model without a price is not known before it is called.
        let options = json!({ "budget": { "maxCostUsd": 1 } });
        clocked.schedule(json!({ "options": options, "pauseOnFailure": pauses })).await;
        clocked.passes(MINUTE).await;
        let shown = Schedules::get(clocked.instance.service(), clocked.caller(), "s").await.unwrap().value;
        assert_eq!((shown.spec.paused, shown.paused_because.is_some()), (pauses, pauses));
        let standing = shown.standing.unwrap();
        assert_eq!(standing.last_due, Some(TODAY + MINUTE));
        if !pauses {
            assert!(standing.last_error.unwrap().contains("prices"), "it says why");
        }
    }
}

#[tokio::test]
async fn one_whose_run_failed_may_pause_itself() {
    let clocked = Clocked::start().await;
    clocked.schedule(json!({ "query": "fail", "pauseOnFailure": true })).await;
    clocked.passes(MINUTE).await;
    assert_eq!(clocked.finished(&clocked.runs().await[0]).await, RunStatus::Failed);
    clocked.passes(MINUTE).await;
    let shown = Schedules::get(clocked.instance.service(), clocked.caller(), "s").await.unwrap().value;
    assert_eq!((shown.spec.paused, clocked.runs().await.len()), (true, 1));
    // A person who resumes it has seen that failure.
    clocked.change(json!({ "paused": false })).await;
    clocked.passes(MINUTE).await;
    assert_eq!(clocked.runs().await.len(), 2);
}

#[tokio::test]
async fn one_is_paused_when_its_key_is_revoked_and_goes_on_once_it_is_written_again() {
    let clocked = Clocked::start().await;
    let ann = clocked.keyed("ann", None).await;
    clocked.schedule_by(&ann, json!({ "everyMs": HOUR })).await;
    clocked.passes(HOUR).await;
    assert_eq!(clocked.runs().await.len(), 1);
    clocked.revoke(&ann).await;
    clocked.passes(3_000).await;
    let shown = clocked.shown().await;
    let why = shown.paused_because.expect("it says why, long before it is due");
    assert!(shown.spec.paused && why.contains("`ann`") && why.contains("was revoked"), "{why}");
    let page = PageAsk { limit: 10, cursor: None };
    let line = clocked.store.audit_of_tenant(ann.tenant, &page).await.unwrap().items.remove(0);
    assert_eq!((line.actor.as_str(), &line.detail["why"]), ("schedule:s", &json!(why)));
    let triggered = schedules::trigger(clocked.instance.service(), clocked.caller(), "s", None).await;
    assert_eq!(triggered.unwrap_err().code, Code::Forbidden, "nobody borrows the rights of that key");
    clocked.change(json!({ "paused": false })).await;
    clocked.passes(HOUR).await;
    assert_eq!((clocked.runs().await.len(), clocked.shown().await.paused_because), (2, None));
}

#[tokio::test]
async fn a_time_whose_key_is_gone_has_no_run() {
    for expires_at in [None, Some(TODAY + 1_500)] {
        let clocked = Clocked::start().await;
        let ann = clocked.keyed("ann", expires_at).await;
        clocked.schedule_by(&ann, json!({ "everyMs": 1_000, "overlap": "allow" })).await;
        clocked.passes(1_000).await;
        if expires_at.is_none() {
            clocked.revoke(&ann).await;
        }
        // Sooner than the next check of keys.
        clocked.passes(1_000).await;
        assert_eq!(clocked.runs().await.len(), 1);
        let why = clocked.shown().await.paused_because.expect("it says why");
        assert!(why.contains(if expires_at.is_none() { "was revoked" } else { "has expired" }), "{why}");
    }
}

#[tokio::test]
async fn a_restored_one_waits_until_it_is_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let open = async || Arc::new(Sqlite::open(folder.path(), Synchronous::Normal).await.unwrap());
    let before = Clocked::with(open().await, TODAY, |_| {}).await;
    before.schedule(json!({ "overlap": "allow" })).await;
    before.instance.close().await;
    drop(before.store);
    let store = open().await;
    store.mark_restored(TODAY).await.unwrap();
    let clocked = Clocked::with(store, TODAY + MINUTE, |_| {}).await;
    clocked.passes(MINUTE).await;
    assert!(clocked.runs().await.is_empty());
    assert!(clocked.standing().await.last_error.unwrap().starts_with("held back"));
    clocked.change(json!({})).await;
    clocked.passes(MINUTE).await;
    assert_eq!(clocked.runs().await.len(), 1);
}

#[tokio::test]
async fn the_server_looks_by_itself() {
    let instance = Instance::build(demo::at_once()).store(fresh_store().await).open().await.unwrap();
    let (service, caller) = (instance.service(), instance.caller());
    let mut changes = changes::open(service, caller).await.unwrap();
    let spec = serde_json::from_value(json!({ "id": "s", "everyMs": 1_000, "query": "hello" })).unwrap();
    resources::create::<Schedules>(service, caller, spec, None).await.unwrap();
    while schedules::runs_of(service, caller, "s", 1_000).await.unwrap().len() < 2 {
        soon(changes.next()).await;
    }
}
