//! The fold of the log gives the state; this is checked after every commit of every test that drives the engine.

use pes_engine::domain::observation::{Observation, ObservationType, Record};
use pes_engine::history::fold::Fold;
use serde_json::Value;

use super::facts;

#[derive(Default)]
pub struct FoldCheck {
    fold: Fold,
    seq: i64,
    /// The state before the transition.
    before: Value,
}

impl FoldCheck {
    /// `records` are those of one transition, `view` is the state after it.
    pub fn check(&mut self, records: &[Record], view: &Value) {
        let mut has_list = false;
        let mut live = match std::mem::replace(&mut self.before, view.clone()) {
            Value::Null => Fold::of_lists(),
            before => Fold::of_view(&before).unwrap(),
        };
        for record in records {
            self.seq += 1;
            let told = Observation::of(record.clone(), "t1".into(), self.seq);
            facts::check(record);
            let whole = self.fold.apply(&told).unwrap();
            if view.get("planVersion").is_some() {
                let heard = live.record(record, &told.thread_id, self.seq);
                assert_eq!(sorted(heard.content), sorted(whole.clone()), "whoever comes now is told the same");
            }
            if let ObservationType::Plan | ObservationType::PlanUpdate = record.kind() {
                has_list = true;
                let ids = |list: &Value| {
                    list.as_array().into_iter().flatten().map(|item| item["id"].clone()).collect::<Vec<_>>()
                };
                assert_eq!(ids(&whole["todoList"]), ids(&view["todoList"]), "{whole}");
            }
        }
        if view.get("planVersion").is_none() {
            // A core from outside has a view of its own.
            return;
        }
        let folded = self.fold.view();
        for key in [
            "intent",
            "title",
            "plan",
            "planVersion",
            "stepOutputs",
            "runId",
            "isPaused",
            "currentStepId",
            "a2aWaits",
            "pendingA2ATasks",
        ] {
            assert_eq!(folded[key], view[key], "{key} after {:?}", kinds(records));
        }
        // The log has the item of a run without a plan from when it begins, and until then none. A copy is begun with that of
        // the run at its place.
        let is_of_run = view["planVersion"] == 0 && !view["runId"].is_null();
        let is_unbegun = is_of_run && view["todoList"][0]["status"] == "pending";
        if is_unbegun {
            assert_eq!(folded["todoList"], serde_json::json!([]), "after {:?}", kinds(records));
        }
        let questions = [&folded, view].map(|view| each(&view["suspensions"]).count());
        assert_eq!(questions[0], questions[1], "open questions after {:?}", kinds(records));
        for (of_fold, of_state) in each(&folded["suspensions"]).zip(each(&view["suspensions"])) {
            for key in ["suspensionId", "toolCall", "partialToolResults"] {
                assert_eq!(of_fold.get(key), of_state.get(key), "{key} of {of_state:#}");
            }
        }
        let is_planned = has_list || folded["planVersion"] != 0;
        if is_planned {
            assert_eq!(items(&folded), items(view), "after {:?}", kinds(records));
        }
    }
}

fn kinds(records: &[Record]) -> Vec<&'static str> {
    records.iter().map(|record| record.kind().as_str()).collect()
}

fn each(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// Members may be in any order.
fn sorted(mut value: Value) -> Value {
    value.sort_all_objects();
    value
}

/// The list; the set of started calls of an item is recorded when the item settles.
fn items(view: &Value) -> Vec<Value> {
    let items = each(&view["todoList"]).cloned().map(|mut item| {
        let is_settled = matches!(item["status"].as_str(), Some("completed" | "failed" | "cancelled"));
        if let (false, Some(fields)) = (is_settled, item.as_object_mut()) {
            fields.shift_remove("actualToolCalls");
        }
        sorted(item)
    });
    items.collect()
}
