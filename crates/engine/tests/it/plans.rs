//! The plan changes by follow-ups, by steps and by people.

use pes_engine::domain::model::{ModelFailure, ModelReply, ModelRequest};
use pes_engine::domain::observation::ObservationType;
use pes_engine::domain::run::{OnBusy, RunStatus};
use pes_engine::domain::settings::{RunSettings, StateSavingStrategy};
use pes_engine::event::{Event, PersonEvent};
use pes_engine::step::RowKind;
use serde_json::{Value, json};

use super::sim::*;

/// A first run with a completed `a` and a failed `b`, and this refinement by the follow-up.
fn followed_up(refinement: Value) -> Sim {
    let mut failed = false;
    let mut sim = Sim::new(move |request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[]), ("b", &[], &[])]),
        "refinement" => todo(refinement.clone()),
        "b.1" if !failed => {
            failed = true;
            fails(pes_engine::domain::model::FailureKind::Refused)
        }
        "synthesis" => says("done"),
        other => says(format!("result of {other}")),
    });
    sim.ask("go").unwrap();
    sim.go();
    sim.ask("and more").unwrap();
    sim.go();
    sim
}

#[test]
fn a_refinement_keeps_results_of_completed_steps_and_rearms_only_what_it_lists_as_pending() {
    let sim = followed_up(json!([
        { "id": "a", "description": "something else", "status": "PENDING" },
        { "id": "b", "description": "do b again", "status": "PENDING" },
        { "id": "c", "description": "do c" },
    ]));
    assert_eq!(sim.item("a")["result"], "result of a.1");
    assert_eq!(sim.item("a")["description"], "do a", "a completed item stays as it is");
    assert_eq!((&sim.item("b")["status"], &sim.item("b")["description"]), (&json!("completed"), &json!("do b again")));
    assert_eq!(sim.item("c")["runId"], "run_2");
    assert_eq!(sim.contents(ObservationType::RunFinished)[1]["resultStatus"], "success");
    let finished = sim.prompts.iter().filter(|prompt| which(prompt) == "a.1").count();
    assert_eq!(finished, 1, "completed items never run again");
}

#[test]
fn a_refinement_that_changes_nothing_updates_nothing() {
    let sim = followed_up(json!([{ "id": "a", "description": "do a", "status": "completed" }]));
    let updates = sim.contents(ObservationType::PlanUpdate);
    assert_eq!(updates.len(), 1, "{updates:#?}");
    assert_eq!(sim.contents(ObservationType::Plan).len(), 2, "what the planner said is told");
}

#[test]
fn a_failed_item_that_the_refinement_does_not_list_as_pending_stays_failed() {
    let sim = followed_up(json!([{ "id": "b", "description": "b" }, { "id": "c", "description": "do c" }]));
    assert_eq!(sim.item("b")["status"], "failed");
    let finished = &sim.contents(ObservationType::RunFinished)[1];
    assert_eq!(finished["resultStatus"], "success", "only items settled in this run count");
}

#[test]
fn a_model_supplied_completed_is_never_believed() {
    let sim = followed_up(json!([{ "id": "c", "description": "do c", "status": "completed" }]));
    assert_eq!(sim.item("c")["result"], "result of c.1");
}

#[test]
fn pending_items_that_a_refinement_leaves_out_are_cancelled_and_that_is_no_failure() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[]), ("b", &[], &[])]),
        "refinement" => todo(json!([{ "id": "c", "description": "c" }])),
        _ => says("fine"),
    });
    sim.ask("go").unwrap();
    sim.step();
    sim.ask_with("only c", OnBusy::Steer, RunSettings::default()).unwrap();
    sim.go();
    assert_eq!(sim.item("b")["status"], "cancelled");
    assert_eq!(sim.contents(ObservationType::RunFinished)[0]["resultStatus"], "success");
}

fn patching(patch: Value, with_call: bool) -> impl FnMut(&ModelRequest) -> Result<ModelReply, ModelFailure> {
    move |request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[]), ("b", &[], &[]), ("c", &["b"], &[])]),
        "a.1" => {
            let mut reply = json!({ "content": "done a", "updatedPlan": { "todoList": patch } });
            if with_call {
                reply["toolCalls"] = json!([{ "toolName": "read", "arguments": {} }]);
            }
            says(reply.to_string())
        }
        _ => says("fine"),
    }
}

#[test]
fn an_updated_plan_merges_by_id_and_never_cancels_by_absence() {
    let patch = json!([
        { "id": "a", "description": "mine", "status": "in_progress" },
        { "id": "b", "status": "cancelled" },
        { "id": "d", "description": "new" },
    ]);
    let mut sim = Sim::new(patching(patch, false));
    sim.ask("go").unwrap();
    sim.go();
    assert_eq!((&sim.item("a")["status"], &sim.item("a")["result"]), (&json!("completed"), &json!("done a")));
    assert_eq!(sim.item("b")["status"], "cancelled");
    assert_eq!(sim.item("d")["status"], "completed");
    let update = &sim.contents(ObservationType::PlanUpdate)[1];
    assert_eq!((&update["source"], &update["planVersion"]), (&json!("agent"), &json!(2)));
    assert_eq!(update["changes"].as_array().unwrap().len(), 2);
    assert_eq!(sim.run("run_1").status, RunStatus::Completed);
}

#[test]
fn an_updated_plan_beside_calls_is_recorded_after_their_results() {
    let mut sim = Sim::new(patching(json!([{ "id": "d", "description": "new" }]), true));
    sim.ask("go").unwrap();
    for _ in 0..2 {
        sim.step();
    }
    sim.reload();
    sim.go();
    let kinds = sim.kinds();
    let at = |kind: &str| kinds.iter().position(|k| k == kind).unwrap();
    assert!(at("TOOL_CALL[a]") < at("TOOL_EXECUTION[a]") && at("TOOL_EXECUTION[a]") < at("PLAN_UPDATE[a]"));
}

#[test]
fn required_tools_are_enforced_without_using_up_iterations_and_then_fail() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &["read", "write"])]),
        "synthesis" => says("done"),
        _ => says("I need no tool"),
    });
    sim.ask("go").unwrap();
    sim.go();
    let of_item: Vec<String> = sim.prompts.iter().map(which).filter(|which| which.starts_with('a')).collect();
    assert_eq!(of_item, ["a.1", "a.1", "a.1"], "two enforcements, the same iteration");
    assert!(format!("{:?}", sim.prompts[2].messages).contains("write"));
    assert!(sim.item("a")["reason"].as_str().unwrap().starts_with("required_tools"));
}

#[test]
fn calls_beside_a_missing_required_tool_are_carried_out() {
    let mut sim = Sim::new(|request| match (which(request).as_str(), request.context.iteration) {
        ("planning", _) => plan(&[("a", &[], &["read"])]),
        ("a.1", _) => calls(&[("write", json!({ "x": "kept" }))]),
        ("a.2", _) => calls(&[("read", json!({}))]),
        _ => says("done"),
    });
    sim.ask("go").unwrap();
    sim.go();
    assert_eq!(sim.tools.ran.lock().unwrap().len(), 2);
    assert_eq!(sim.item("a")["validationStatus"], "passed");
}

#[test]
fn a_required_tool_must_have_been_called_successfully() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &["read"])]),
        "a.1" => calls(&[("read", json!({}))]),
        "a.2" if !format!("{:?}", request.messages).contains("I give up") => says("I give up"),
        "a.2" => calls(&[("read", json!({}))]),
        _ => says("done"),
    });
    sim.tools.failures.lock().unwrap().insert("read".into(), 1);
    sim.ask("go").unwrap();
    sim.go();
    assert_eq!(sim.item("a")["status"], "completed");
    assert_eq!(sim.tools.ran.lock().unwrap().len(), 2);
    assert_eq!(sim.contents(ObservationType::RunFinished)[0]["resultStatus"], "success");
}

#[test]
fn an_advisory_item_completes_and_says_that_its_tools_are_missing() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => todo(json!([
            { "id": "a", "description": "a", "requiredTools": ["read"], "toolValidationMode": "advisory" }
        ])),
        _ => says("no tool"),
    });
    sim.ask("go").unwrap();
    sim.go();
    assert_eq!((&sim.item("a")["status"], &sim.item("a")["validationStatus"]), (&json!("completed"), &json!("failed")));
}

#[test]
fn a_refused_call_becomes_an_error_result_with_its_pointer_and_does_not_start() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[])]),
        "a.1" => calls(&[("read", json!({ "bad": 1 })), ("nonsense", json!({})), ("denied", json!({}))]),
        _ => says("fine"),
    });
    sim.ask("go").unwrap();
    sim.go();
    assert!(sim.tools.ran.lock().unwrap().is_empty());
    let results = sim.contents(ObservationType::ToolExecution);
    let codes: Vec<&str> = results.iter().map(|result| result["error"]["code"].as_str().unwrap()).collect();
    assert_eq!(codes, ["invalid_arguments", "unknown_tool", "denied"]);
    assert_eq!(results[0]["error"]["pointer"], "/x");
    assert_eq!(sim.run("run_1").counters.tool_errors, 2, "what a policy denied is no error of the tool");
    assert!(format!("{:?}", sim.prompts[2].messages).contains("unknown_tool"));
    assert_eq!(sim.contents(ObservationType::RunFinished)[0]["resultStatus"], "partial");
}

fn edit(sim: &mut Sim, expected: i64, change: impl FnOnce(&mut Vec<Value>)) -> Result<pes_engine::step::Step, String> {
    let mut list = sim.view()["todoList"].as_array().unwrap().clone();
    change(&mut list);
    let result = sim.apply(Event::Person(PersonEvent::PlanEdited {
        expected,
        list,
        by: "ann".into(),
        settings: Default::default(),
    }));
    result.map_err(|fault| fault.code.as_str().to_owned())
}

fn three_items() -> Sim {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[]), ("b", &[], &[]), ("c", &["b"], &[])]),
        "b.1" => says(
            json!({ "content": "b", "updatedPlan": { "todoList": [
                { "id": "c", "description": "the model's c" }, { "id": "x", "description": "x" }] } })
            .to_string(),
        ),
        other => says(format!("result of {other}")),
    });
    sim.ask("go").unwrap();
    sim.step();
    sim
}

#[test]
fn people_edit_pending_items_only_with_the_right_version_and_never_into_a_cycle() {
    let mut sim = three_items();
    let edited = |code: Result<pes_engine::step::Step, String>| code.unwrap_err();
    assert_eq!(edited(edit(&mut sim, 7, |_| ())), "precondition_failed");
    assert_eq!(edited(edit(&mut sim, 1, |list| list[0]["description"] = json!("x"))), "item_in_progress");
    assert_eq!(edited(edit(&mut sim, 1, |list| drop(list.remove(0)))), "item_in_progress");
    assert_eq!(edited(edit(&mut sim, 1, |list| list[1]["dependencies"] = json!(["c"]))), "plan_invalid");
    assert_eq!(edited(edit(&mut sim, 1, |list| list[1]["dependencies"] = json!(["nowhere"]))), "plan_invalid");
    assert_eq!(edited(edit(&mut sim, 1, |list| list[1]["requiredTools"] = json!(["nothing"]))), "plan_invalid");
    assert_eq!(edited(edit(&mut sim, 1, |list| list[1]["status"] = json!("completed"))), "plan_invalid");
    assert_eq!(edited(edit(&mut sim, 1, |list| list[1]["colour"] = json!("red"))), "plan_invalid");
    let misspelt = sim.edit_plan("ann", |list| list[1] = json!({ "id": "b", "descripton": "x" })).unwrap_err();
    assert_eq!(misspelt.errors[0].pointer, "/1/descripton", "{misspelt:?}");
    let nameless = sim.edit_plan("ann", |list| list[1] = json!({ "description": "x" })).unwrap_err();
    assert_eq!(nameless.errors[0].pointer, "/1/id", "{nameless:?}");
    sim.step();
    assert_eq!(edited(edit(&mut sim, 1, |list| list[0]["description"] = json!("x"))), "finished_item");
    edit(&mut sim, 1, |list| {
        list[2]["description"] = json!("a person's c");
        list.push(json!({ "id": "d", "description": "added" }));
    })
    .unwrap();
    assert_eq!(sim.view()["planVersion"], 2);
    let update = &sim.contents(ObservationType::PlanUpdate)[1];
    assert_eq!(update["source"], "user");
    sim.reload();
    sim.go();
    assert_eq!(sim.item("d")["status"], "completed");
}

#[test]
fn a_persons_edit_is_newer_than_what_the_model_saw_and_wins() {
    let mut sim = three_items();
    sim.step();
    assert_eq!(sim.item("b")["status"], "in_progress");
    edit(&mut sim, 1, |list| list[2]["description"] = json!("a person's c")).unwrap();
    sim.go();
    assert_eq!(sim.item("c")["description"], "a person's c");
    assert_eq!(sim.item("x")["status"], "completed", "the rest of the patch is taken");
}

#[test]
fn an_item_that_a_person_removed_is_not_brought_back_by_a_model_that_had_seen_it() {
    let mut sim = three_items();
    sim.step();
    edit(&mut sim, 1, |list| drop(list.remove(2))).unwrap();
    sim.reload();
    sim.go();
    assert!(sim.view()["todoList"].as_array().unwrap().iter().all(|item| item["id"] != "c"));
}

#[test]
fn a_plan_cannot_be_edited_while_it_is_made_and_can_on_an_idle_thread() {
    let mut sim = three_items();
    sim.go();
    let edits = edit(&mut sim, 2, |list| list.push(json!({ "id": "later", "description": "later" })));
    assert!(edits.unwrap().records.len() == 1);
    sim.ask("go on").unwrap();
    assert_eq!(edit(&mut sim, 3, |_| ()).unwrap_err(), "plan_not_editable");
}

#[test]
fn a_tools_state_patch_commits_with_its_result_and_explicit_saving_takes_it_only_from_its_own_tool() {
    use StateSavingStrategy::{Explicit, Implicit};
    for (strategy, tool, saved) in [
        (Implicit, "set_agent_state", 1),
        (Implicit, "write", 1),
        (Explicit, "set_agent_state", 1),
        (Explicit, "write", 0),
    ] {
        let mut sim = Sim::new(move |request| match which(request).as_str() {
            "planning" => plan(&[("a", &[], &[])]),
            "a.1" => calls(&[(tool, json!({ "patch": true }))]),
            _ => says("fine"),
        });
        let settings = RunSettings { state_saving: strategy, ..RunSettings::default() };
        sim.ask_with("go", OnBusy::Enqueue, settings).unwrap();
        sim.go();
        let updates = sim.contents(ObservationType::StateUpdate);
        assert_eq!(updates.len(), saved, "{strategy:?} {tool}");
        for update in &updates {
            assert_eq!((&update["stateVersion"], &update["keys"]), (&json!(1), &json!(["k"])));
        }
        let stored = sim.rows().filter(|row| row.kind == RowKind::AgentState).count();
        assert_eq!(stored, saved, "{strategy:?} {tool}");
        assert_eq!(sim.item("a")["status"], "completed");
    }
}

#[test]
fn a_client_writes_the_application_state_against_its_version() {
    let mut sim = Sim::new(|_| says("x"));
    let put = |data: Value, expected| Event::Person(PersonEvent::StatePut { data, expected, by: "ann".into() });
    sim.apply(put(json!({ "a": 1 }), Some(0))).unwrap();
    let stale = sim.apply(put(json!({}), Some(0))).unwrap_err();
    assert_eq!(stale.code.as_str(), "precondition_failed");
    sim.limits.state_bytes = 10;
    let large = sim.apply(put(json!("x".repeat(20)), None)).unwrap_err();
    assert_eq!(large.code.as_str(), "state_too_large");
    sim.reload();
}

#[test]
fn a_full_plan_says_what_it_left_out() {
    let mut sim =
        Sim::new(patching(json!([{ "id": "d", "description": "d" }, { "id": "e", "description": "e" }]), false));
    sim.limits.items_per_plan = 4;
    sim.ask("go").unwrap();
    sim.go();
    assert_eq!(sim.view()["todoList"].as_array().unwrap().len(), 4);
    let error = &sim.contents(ObservationType::Error)[0];
    assert_eq!((&error["code"], &error["fatal"]), (&json!("too_many_items"), &json!(false)), "{error:#}");
    assert!(error["message"].as_str().unwrap().contains("(e)"), "{error:#}");
}

#[test]
fn a_refinement_that_does_not_fit_is_asked_for_again() {
    let mut asked = 0;
    let mut sim = Sim::new(move |request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[]), ("b", &[], &[])]),
        "refinement" | "repair" => {
            asked += 1;
            let more: Vec<Value> =
                (asked..3).map(|n| json!({ "id": format!("n{n}"), "description": "more" })).collect();
            todo(json!(more))
        }
        other => says(format!("result of {other}")),
    });
    sim.limits.items_per_plan = 3;
    sim.ask("go").unwrap();
    sim.step();
    sim.ask_with("and two more", OnBusy::Steer, RunSettings::default()).unwrap();
    sim.go();
    let asked_again =
        sim.prompts.iter().any(|prompt| format!("{:?}", prompt.messages).contains("at most 3 are allowed"));
    assert!(asked_again, "the planner is told");
    assert_eq!(sim.item("n2")["status"], "completed");
    assert_eq!(sim.run("run_1").status, RunStatus::Completed);
}

#[test]
fn what_a_first_plan_lists_as_cancelled_is_not_run() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => todo(json!([
            { "id": "a", "description": "a" }, { "id": "b", "description": "b", "status": "cancelled" },
        ])),
        other => says(format!("result of {other}")),
    });
    sim.ask("go").unwrap();
    sim.go();
    let ids: Vec<Value> = sim.view()["todoList"].as_array().unwrap().iter().map(|item| item["id"].clone()).collect();
    assert_eq!(ids, ["a"]);
}

#[test]
fn a_person_cannot_require_an_unknown_tool_of_an_idle_thread_either() {
    let mut sim = Sim::new(|_| says("fine"));
    let new = |tool: &str| json!({ "id": "n", "description": "n", "requiredTools": [tool] });
    assert_eq!(edit(&mut sim, 0, |list| list.push(new("nothing"))).unwrap_err(), "plan_invalid");
    edit(&mut sim, 0, |list| list.push(new("read"))).unwrap();
}
