//! What must hold whenever nothing runs.

use std::collections::{BTreeMap, BTreeSet};

use pes::domain::ids::ThreadPk;
use pes::domain::observation::{Observation, ObservationType};
use pes::engine::step::RowKind;
use pes::store::{ObservationAsk, Order, PageAsk};
use serde_json::{Value, json};

use super::World;
use super::effects::check_decisions;
use super::server::{Ask, TENANTS};

fn is_terminal(status: &Value) -> bool {
    matches!(status.as_str(), Some("completed" | "failed" | "cancelled"))
}

impl World {
    /// Waits until every thread is at rest or waits for a person.
    pub async fn quiet(&self) {
        for tenant in 0..TENANTS.len() {
            for thread in self.threads(tenant).await {
                while let Some(run) = self.active(tenant, &thread).await {
                    let seen = self.server().send(Ask::get(tenant, format!("/runs/{run}?wait=25"))).await;
                    let status = if seen.status == 200 { seen.json()["status"].clone() } else { json!("cancelled") };
                    assert!(status == "suspended" || is_terminal(&status), "{thread} is stuck: {}", seen.text());
                }
            }
        }
    }

    /// The run that the thread works on; `None`: it waits for a person, or has none.
    async fn active(&self, tenant: usize, thread: &str) -> Option<String> {
        let runs = self.list(tenant, &format!("/threads/{thread}/runs?limit=200")).await;
        let open: Vec<&Value> = runs.iter().filter(|run| !is_terminal(&run["status"])).collect();
        let active = open.iter().find(|run| run["status"] != "queued").or(open.first())?;
        (active["status"] != "suspended").then(|| active["runId"].as_str().unwrap().to_owned())
    }

    pub async fn check(&self) {
        if self.has("decisions") {
            check_decisions(&self.parts.calls.made(), &self.retries);
        }
        let mut runs_of: Vec<BTreeSet<String>> = Vec::new();
        for tenant in 0..TENANTS.len() {
            let mut runs = BTreeSet::new();
            for thread in self.threads(tenant).await {
                runs.extend(self.check_thread(tenant, &thread).await);
            }
            runs_of.push(runs);
        }
        if self.has("watchers") {
            self.check_watchers().await;
        }
        for (tenant, other) in [(0, 1), (1, 0)] {
            assert!(runs_of[tenant].is_disjoint(&runs_of[other]));
            if let Some(run) = runs_of[other].first() {
                assert_eq!(self.server().send(Ask::get(tenant, format!("/runs/{run}"))).await.status, 404);
            }
        }
    }

    /// Returns the ids of its runs.
    async fn check_thread(&self, tenant: usize, thread: &str) -> Vec<String> {
        let row = self.row(tenant, thread).await.unwrap();
        let ask = ObservationAsk { limit: 1_000_000, ..ObservationAsk::default() };
        let log = self.parts.store.observations(row.pk, &ask).await.unwrap();
        let seqs: Vec<i64> = log.iter().map(|told| told.seq).collect();
        assert_eq!(seqs, (row.min_seq..=row.last_seq).collect::<Vec<_>>(), "{thread} has gaps");
        let (had, from) = self.origins.get(&row.pk).cloned().unwrap_or_default();
        if row.min_seq <= from + 1 {
            let own: Vec<Observation> = log.iter().filter(|told| told.seq > from).cloned().collect();
            let mut complaints = Vec::new();
            had.follow(&own, &self.parts.calls.made(), &mut complaints);
            complaints.retain(|(check, _)| self.has(check));
            assert!(complaints.is_empty(), "{thread}: {complaints:?}");
        }
        let runs = self.list(tenant, &format!("/threads/{thread}/runs?limit=200")).await;
        self.check_readers(tenant, &row, &runs).await;
        let state = self.server().send(Ask::get(tenant, format!("/threads/{thread}/state"))).await.expect(200);
        if self.has("fold") {
            self.check_state(tenant, thread, &state).await;
        }
        let open = self.list(tenant, &format!("/suspensions?threadId={thread}&limit=100")).await;
        if self.has("agreement") {
            check_agreement(thread, &runs, &state, &open);
        }
        if self.has("usage") && row.min_seq == 1 {
            check_usage(&runs, &self.list(tenant, &format!("/usage?threadId={thread}&limit=1000")).await);
        }
        if self.has("log") {
            check_log(&log, &runs, row.min_seq == 1 && from == 0);
        }
        runs.iter().map(|run| run["runId"].as_str().unwrap().to_owned()).collect()
    }

    /// The log folds to the state.
    async fn check_state(&self, tenant: usize, thread: &str, state: &Value) {
        let at = format!("/threads/{thread}/state?at={}", state["lastSeq"]);
        let folded = self.server().send(Ask::get(tenant, at)).await.expect(200);
        for member in ["intent", "title", "plan", "planVersion", "runId", "isPaused", "minSeq", "lastSeq"] {
            assert_eq!(folded[member], state[member], "{member} of {thread}");
        }
        assert_eq!(items(&folded), items(state), "{thread}");
        assert_eq!(ids(&folded["suspensions"], "suspensionId"), ids(&state["suspensions"], "suspensionId"), "{thread}");
    }

    /// Nothing of a deleted thread is left.
    pub async fn check_deleted(&self, tenant: usize, pk: ThreadPk, thread: &str) {
        let store = &self.parts.store;
        assert!(store.thread_by_pk(pk).await.unwrap().is_none(), "{thread} is there");
        // The rows of a large thread are removed later.
        while store.erase_rows(1_000).await.unwrap() > 0 {}
        let ask = ObservationAsk { limit: 10, ..ObservationAsk::default() };
        assert!(store.observations(pk, &ask).await.unwrap().is_empty(), "{thread} has a log");
        for kind in RowKind::ALL.into_iter().filter(|kind| *kind != RowKind::Usage) {
            let page = PageAsk { limit: 10, ..PageAsk::default() };
            let rows = store.rows(pk, kind, Order::Ascending, &page).await.unwrap().items;
            assert!(rows.is_empty(), "{thread} has rows: {rows:?}");
        }
        let again = self.row(tenant, thread).await;
        assert!(again.is_none_or(|row| row.pk != pk));
    }
}

fn ids(list: &Value, member: &str) -> BTreeSet<String> {
    list.as_array().into_iter().flatten().map(|one| one[member].as_str().unwrap().to_owned()).collect()
}

/// The list; the calls that were started are recorded when their item settles.
fn items(state: &Value) -> Vec<Value> {
    let items = state["todoList"].as_array().into_iter().flatten().cloned().map(|mut item| {
        if let (false, Some(members)) = (is_terminal(&item["status"]), item.as_object_mut()) {
            members.remove("actualToolCalls");
        }
        item.sort_all_objects();
        item
    });
    items.collect()
}

/// Runs, items and questions agree.
fn check_agreement(thread: &str, runs: &[Value], state: &Value, open: &[Value]) {
    let active: Vec<&Value> =
        runs.iter().filter(|run| !is_terminal(&run["status"]) && run["status"] != "queued").collect();
    assert!(active.len() <= 1, "{thread}: {active:?}");
    let active = active.first().map(|run| run["runId"].clone());
    for asked in open {
        assert_eq!(Some(&asked["runId"]), active.as_ref(), "a question of no run: {asked:#}");
    }
    let listed: BTreeSet<String> =
        open.iter().map(|asked| asked["suspensionId"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids(&state["suspensions"], "suspensionId"), listed, "{thread}");
    assert_eq!(open.is_empty(), active.is_none(), "{thread}: {runs:#?}");
    for item in state["todoList"].as_array().into_iter().flatten() {
        let is_open = matches!(item["status"].as_str(), Some("in_progress" | "waiting"));
        assert!(active.is_some() || !is_open, "of an ended run: {item:#}");
    }
    for run in runs.iter().filter(|run| is_terminal(&run["status"])) {
        assert!(run["finishedAt"].is_number(), "{run:#}");
    }
}

/// What each run has used is the sum of its calls.
fn check_usage(runs: &[Value], sums: &[Value]) {
    for run in runs {
        let sum = sums.iter().find(|sum| sum["runId"] == run["runId"]);
        for member in ["inputTokens", "outputTokens"] {
            let of_calls = sum.map_or(0, |sum| sum[member].as_u64().unwrap());
            assert_eq!(run["usage"][member], of_calls, "{member} of {run:#}");
        }
    }
}

/// Everything of a run that begins ends once, and the run last.
fn check_log(log: &[Observation], runs: &[Value], is_whole: bool) {
    let mut ended: BTreeMap<String, Value> = BTreeMap::new();
    let mut streams = BTreeSet::new();
    let mut calls: BTreeMap<String, String> = BTreeMap::new();
    for told in log {
        let (run, content) = (told.run_id.to_string(), &told.content);
        let text = |member: &str| content[member].as_str().unwrap_or_default().to_owned();
        match told.kind {
            ObservationType::RunFinished => {
                assert!(ended.insert(run.clone(), content["status"].clone()).is_none(), "{run} ends twice");
                let open: Vec<_> = calls.iter().filter(|(_, of)| **of == run).collect();
                assert!(open.is_empty() || !is_whole, "calls of {run} are open at its end: {open:?}");
            }
            ObservationType::LlmStreamStart => assert!(streams.insert(text("streamId")), "a stream begins twice"),
            ObservationType::LlmStreamEnd | ObservationType::LlmStreamError => {
                assert!(streams.remove(&text("streamId")) || !is_whole, "a stream ends that did not begin");
            }
            ObservationType::ToolCall => {
                for call in content["toolCalls"].as_array().into_iter().flatten() {
                    let id = call["callId"].as_str().unwrap().to_owned();
                    assert!(calls.insert(id.clone(), run.clone()).is_none(), "{id} is called twice");
                }
            }
            ObservationType::ToolExecution => {
                assert!(calls.remove(&text("callId")).is_some() || !is_whole, "{} ends twice", text("callId"));
            }
            _ => {}
        }
    }
    for run in runs.iter().filter(|run| is_whole && is_terminal(&run["status"])) {
        let began =
            log.iter().any(|told| told.run_id.as_str() == run["runId"] && told.kind == ObservationType::RunStarted);
        let end = ended.get(run["runId"].as_str().unwrap());
        assert!(!began || end == Some(&run["status"]), "{end:?} in the log: {run:#}");
    }
}
