//! A thread goes back to an earlier message. `Sim` compares the fold of the log with the state after every commit.

use pes_engine::domain::facts::Fact;
use pes_engine::domain::fault::Code;
use pes_engine::domain::message::ConversationMessage;
use pes_engine::domain::model::FailureKind;
use pes_engine::domain::observation::{Observation, ObservationType};
use pes_engine::domain::tool::{CallRecord, ToolCall};
use pes_engine::event::Rewind;
use pes_engine::history::fold::Fold;
use pes_engine::history::{ShownPlan, later_calls};
use pes_engine::step::{Keep, Row, RowKind};
use serde_json::{Value, json};

use super::sim::*;

impl Sim {
    pub fn conversation(&self) -> Vec<(i64, ConversationMessage)> {
        let is_said = |row: &&Row| row.kind == RowKind::Message && row.keep != Keep::Superseded;
        let mut rows: Vec<&Row> = self.rows().filter(is_said).collect();
        rows.sort_by_key(|row| row.ord);
        rows.into_iter().map(|row| (row.ord, serde_json::from_str(&row.body).unwrap())).collect()
    }

    /// The place of the record of this message. `None`: its run never began, and changed no plan.
    fn recorded_at(&self, message: &ConversationMessage) -> Option<usize> {
        self.records.iter().map(|record| record.fact.content()).position(|content| {
            let is_queued = content["keys"].as_array().is_some_and(|keys| keys.contains(&json!("queue")));
            !is_queued && content["message"]["messageId"] == json!(message.message_id)
        })
    }

    /// Goes back to after this many messages.
    pub fn back_to(&self, messages: usize) -> Rewind {
        let mut said = self.conversation();
        let superseded = said.split_off(messages);
        let at = superseded.iter().find_map(|(_, message)| self.recorded_at(message)).unwrap_or(self.records.len());
        let mut fold = Fold::default();
        for (at, record) in self.records[..at].iter().enumerate() {
            fold.apply(&Observation::of(record.clone(), "t1".into(), at as i64 + 1)).unwrap();
        }
        let plan = ShownPlan::of(&fold.view()).unwrap();
        let ids: Vec<String> = later_calls::calls_of(&plan).iter().map(ToString::to_string).collect();
        let calls = self.rows().filter(|row| row.kind == RowKind::Call && ids.contains(&row.id));
        let calls: Vec<CallRecord> = calls.map(|row| serde_json::from_str(&row.body).unwrap()).collect();
        let history_bytes = said.iter().map(|(_, message)| message.content.len() as u64).sum();
        let (as_of, summary) = (self.records.len() as i64, fold.summary().cloned());
        let kept_at = said.last().and_then(|(_, message)| self.recorded_at(message));
        let later = self.later_calls(kept_at.map_or(0, |at| at + 1), &plan);
        Rewind { as_of, superseded, plan, calls, summary, history_bytes, askers: vec!["ann".to_owned()], later }
    }

    /// The digests of the calls after this many records that may have had an effect, where the plan is this one.
    pub fn later_calls(&self, records: usize, plan: &ShownPlan) -> Vec<String> {
        let (known, mut later) = (later_calls::known_calls(plan), later_calls::forgotten_calls(plan));
        for record in &self.records[records..] {
            let calls: Vec<&ToolCall> = if let Fact::ToolCall(body) = &record.fact {
                body.tool_calls.iter().collect()
            } else if let Fact::Plan(body) = &record.fact {
                body.todo_list.iter().flatten().flat_map(|item| &item.tool_calls).collect()
            } else {
                continue;
            };
            later.extend(calls.iter().map(|call| call.call_id.clone()).filter(|id| !known.contains(id)));
        }
        let rows = later.iter().map(|id| &self.rows[&(RowKind::Call, id.to_string())]);
        let calls = rows.map(|row| serde_json::from_str(&row.body).unwrap()).filter(later_calls::may_take_effect);
        calls.map(|call: CallRecord| later_calls::short_digest(&call.tool_name, &call.arguments)).collect()
    }

    fn contents_said(&self) -> Vec<String> {
        self.conversation().into_iter().map(|(_, message)| message.content).collect()
    }
}

/// Plans one item for the first query, and another one instead for the second; calls a tool for each.
fn planner() -> Sim {
    Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &["read"])]),
        "refinement" => says(
            r#"{"intent":"another","plan":"another","todoList":[{"id":"b","description":"b","requiredTools":["read"],"status":"pending"}]}"#,
        ),
        "synthesis" => says("done"),
        _ if request.messages.iter().any(|message| format!("{message:?}").contains("Tool {")) => says("fine"),
        _ => calls(&[("read", json!({ "x": 1 }))]),
    })
}

#[test]
fn what_was_said_after_the_place_counts_no_more() {
    let mut sim = Sim::new(|_| says(r#"{"answer":"yes","todoList":[]}"#));
    for query in ["first", "second", "third"] {
        sim.ask(query).unwrap();
        sim.go();
    }
    let back = sim.back_to(2);
    let gone: Vec<Value> = back.superseded.iter().map(|(_, message)| json!(message.message_id)).collect();
    let rows = sim.rows.len();
    sim.ask_again("second, once more", back).unwrap();
    let update = sim.contents(ObservationType::StateUpdate).pop().unwrap();
    assert_eq!((&update["superseded"], &update["keys"]), (&json!(gone), &json!(["messages"])));
    assert_eq!(gone.len(), 4);
    sim.reload();
    sim.go();
    assert_eq!(sim.contents_said(), ["first", "yes", "second, once more", "yes"]);
    let prompt = format!("{:?}", sim.prompts.last().unwrap().messages);
    assert!(prompt.contains("first") && !prompt.contains("third"), "{prompt}");
    assert!(sim.rows.len() > rows, "nothing is deleted");
    let to_the_start = sim.back_to(0);
    sim.ask_again("anew", to_the_start).unwrap();
    assert_eq!(sim.machine.prompt_needs(&sim.machine.running()[0]).history, None, "nothing is said but the query");
    sim.go();
    assert_eq!(sim.contents_said(), ["anew", "yes"]);
}

/// With its calls, which a process that claims the thread reads again.
#[test]
fn the_plan_is_that_of_then_under_a_number_of_its_own() {
    let mut sim = planner();
    sim.ask("first").unwrap();
    sim.go();
    let then = sim.machine.view();
    assert_eq!(then["todoList"][0]["toolCalls"].as_array().map(Vec::len), Some(1), "{then:#}");
    sim.ask("second").unwrap();
    sim.go();
    let changed = sim.machine.view();
    assert!(changed["todoList"].to_string().contains("\"b\""), "{changed:#}");
    let back = sim.back_to(2);
    sim.ask_again("second, otherwise", back).unwrap();
    let told = sim.contents(ObservationType::Plan).pop().unwrap();
    assert_eq!(told["todoList"], then["todoList"]);
    let version = changed["planVersion"].as_i64().unwrap() + 1;
    assert_eq!(told["planVersion"], json!(version));
    let view = sim.machine.view();
    for key in ["intent", "plan", "todoList", "stepOutputs"] {
        assert_eq!(view[key], then[key], "{key}");
    }
    sim.reload();
    sim.go();
    assert!(sim.is_idle());
}

#[test]
fn a_thread_goes_back_to_its_start_without_a_plan() {
    let mut sim = planner();
    sim.ask("first").unwrap();
    sim.go();
    let back = sim.back_to(0);
    sim.ask_again("anew", back).unwrap();
    assert_eq!(sim.machine.view()["todoList"], json!([]));
    assert_eq!(sim.contents(ObservationType::LlmStreamStart).pop().unwrap()["phase"], "planning");
    sim.reload();
    sim.go();
    assert_eq!(sim.item("a")["status"], "completed");
}

#[test]
fn a_thread_with_a_run_and_one_that_moved_do_not_go_back() {
    let mut sim = Sim::new(|_| says(r#"{"answer":"yes","todoList":[]}"#));
    sim.ask("first").unwrap();
    sim.go();
    let back = sim.back_to(0);
    sim.ask("second").unwrap();
    let running = sim.back_to(0);
    assert_eq!(sim.ask_again("anew", running).unwrap_err().code, Code::ThreadBusy);
    sim.go();
    assert_eq!(sim.ask_again("anew", back).unwrap_err().code, Code::ThreadBusy);
    assert_eq!(sim.contents_said().len(), 4);
}

#[test]
fn a_query_that_is_refused_has_taken_nothing_back() {
    let mut sim = planner();
    for query in ["first", "second"] {
        sim.ask(query).unwrap();
        sim.go();
    }
    let back = sim.back_to(2);
    let (said, view, records) = (sim.contents_said(), sim.view(), sim.records.len());
    sim.admission = pes_engine::RunAdmission::Later;
    sim.limits.queued_runs = 0;
    let refused = sim.ask_again("third", back).unwrap_err();
    assert_eq!(refused.code, Code::QueueFull);
    assert_eq!((sim.contents_said(), sim.view(), sim.records.len()), (said, view, records));
    assert!(sim.machine.run().is_none());
}

/// What the restored plan left undone, the next run may do: whoever asked for it has shaped that run.
#[test]
fn who_asked_for_what_is_undone_again_has_shaped_the_next_run() {
    for (is_undone, shaped_by) in [(true, &["eve", "ann"][..]), (false, &["eve"])] {
        let mut sim = Sim::new(move |request| match which(request).as_str() {
            "planning" => plan(&[("a", &[], &[])]),
            "refinement" => todo(json!([{ "id": "b", "description": "b" }])),
            "a.1" if is_undone => fails(FailureKind::Refused),
            other => says(other),
        });
        for query in ["first", "second"] {
            sim.ask(query).unwrap();
            sim.go();
        }
        let back = sim.back_to(2);
        sim.ask_again("second, otherwise", back).unwrap();
        assert_eq!(sim.run("run_3").requested_by, shaped_by, "{is_undone}");
    }
}
