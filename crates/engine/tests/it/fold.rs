//! The fold of the log: lists, views and messages as of each observation.

use pes_engine::domain::observation::{Observation, ObservationType};
use pes_engine::history::fold::Fold;
use serde_json::{Value, json};

fn told(seq: i64, kind: ObservationType, content: Value) -> Observation {
    Observation {
        seq,
        id: format!("obs_{seq}").as_str().into(),
        thread_id: "t1".into(),
        run_id: "run_1".into(),
        parent_id: None,
        trace_id: "trace".into(),
        timestamp: seq * 10,
        kind,
        title: String::new(),
        content,
        metadata: None,
    }
}

fn item(id: &str, status: &str) -> Value {
    json!({
        "id": id, "description": format!("Do {id}"), "status": status, "createdTimestamp": 1, "updatedTimestamp": 1,
    })
}

fn added(id: &str) -> Value {
    json!({"type": "added", "itemId": id, "timestamp": 1, "item": item(id, "pending")})
}

fn message(id: &str) -> Value {
    json!({"messageId": id, "threadId": "t1", "role": "USER", "content": "q", "timestamp": 1})
}

fn started(message: Value) -> Value {
    json!({"query": "q", "message": message, "model": "m", "provider": "p"})
}

fn finished(status: &str) -> Value {
    let usage = json!({"inputTokens": 0, "outputTokens": 0, "thinkingTokens": 0, "cachedInputTokens": 0});
    json!({"status": status, "totalDurationMs": 1, "llmCalls": 1, "toolCalls": 0, "usage": usage})
}

fn call(id: &str) -> Value {
    json!({"callId": id, "toolName": "sum", "arguments": {}})
}

fn ended(call: &str) -> Value {
    json!({"callId": call, "toolName": "sum", "status": "success", "durationMs": 1})
}

fn called(calls: &[Value]) -> Value {
    json!({"streamId": "str_1", "iteration": 1, "toolCalls": calls})
}

/// An `approval` question about this call.
fn question(call: &str) -> Value {
    json!({
        "suspensionId": "sus_1", "kind": "approval", "message": "May it?", "callId": call,
        "feedbackSchema": {"inputType": "boolean", "prompt": "May it?"},
    })
}

/// A plan of two items, the first of which is done with a result stored as a payload.
fn planned() -> (Fold, Vec<Value>) {
    let result = json!({"$payload": "p1"});
    let output =
        json!({"stepId": "a", "description": "Do a", "stepType": "tool", "status": "completed", "rawResult": result});
    let log = [
        told(1, ObservationType::RunStarted, started(message("msg_1"))),
        told(2, ObservationType::Intent, json!({"intent": "sums"})),
        told(3, ObservationType::Title, json!({"title": "Sums"})),
        told(
            4,
            ObservationType::Plan,
            json!({"plan": "add", "planVersion": 1, "rawOutput": "{}", "changes": [added("a"), added("b")]}),
        ),
        told(5, ObservationType::PlanUpdate, json!({"planVersion": 1, "source": "planner"})),
        told(
            6,
            ObservationType::ItemStatusChange,
            json!({"itemId": "a", "from": "pending", "status": "in_progress", "attempt": 1,
                "item": {"status": "in_progress", "updatedTimestamp": 1}}),
        ),
        told(
            7,
            ObservationType::ItemStatusChange,
            json!({"itemId": "a", "from": "in_progress", "status": "completed", "attempt": 1,
            "item": {"status": "completed", "updatedTimestamp": 1, "result": result, "toolCalls": [call("call_1")]},
            "stepOutput": output}),
        ),
    ];
    let mut fold = Fold::default();
    let contents = log.iter().map(|observation| fold.apply(observation).unwrap()).collect();
    (fold, contents)
}

#[test]
fn plan_and_plan_update_hold_the_whole_list_as_of_then() {
    let (_, contents) = planned();
    let list = json!([item("a", "pending"), item("b", "pending")]);
    assert_eq!(contents[3], json!({"plan": "add", "planVersion": 1, "todoList": list, "rawOutput": "{}"}));
    let changes = json!([added("a"), added("b")]);
    let expected = json!({"planVersion": 1, "source": "planner", "todoList": list,
        "changes": {"timestamp": 50, "changes": changes, "added": changes, "modified": [], "removed": []}});
    assert_eq!(contents[4], expected);
}

#[test]
fn the_view_is_that_of_the_moment() {
    let view = planned().0.view();
    assert_eq!((&view["intent"], &view["title"], &view["plan"]), (&json!("sums"), &json!("Sums"), &json!("add")));
    assert_eq!(view["todoList"][0]["result"], json!({"$payload": "p1"}));
    assert_eq!(view["stepOutputs"]["a"]["rawResult"], json!({"$payload": "p1"}));
    assert_eq!(
        (&view["currentStepId"], &view["status"], &view["lastSeq"]),
        (&Value::Null, &json!("running"), &json!(7))
    );
}

/// A core without plans records only the changes of its item's status.
#[test]
fn the_only_item_of_a_run_without_a_plan_is_described_by_its_query() {
    let change = |seq, from: &str, status: &str, output: Option<&str>| {
        let output = output
            .map(|said| json!({"stepId": "run_1", "description": said, "stepType": "reasoning", "status": status}));
        let content = json!({"itemId": "run_1", "from": from, "status": status, "attempt": 1, "stepOutput": output,
            "item": {"status": status, "updatedTimestamp": 1}});
        told(seq, ObservationType::ItemStatusChange, content)
    };
    let described = |fold: &Fold| fold.view()["todoList"][0]["description"].clone();
    let mut message = message("msg_1");
    message["runId"] = json!("run_1");
    let mut whole = Fold::default();
    whole.apply(&told(1, ObservationType::RunStarted, started(message))).unwrap();
    whole.apply(&change(2, "pending", "in_progress", None)).unwrap();
    assert_eq!(described(&whole), "q");
    let mut without_start = Fold::default();
    without_start.apply(&change(2, "pending", "in_progress", None)).unwrap();
    assert_eq!(described(&without_start), "");
    without_start.apply(&change(3, "in_progress", "completed", Some("q"))).unwrap();
    assert_eq!(described(&without_start), "q");
}

/// People change, remove and reorder; a changed item keeps its calls.
#[test]
fn an_edit_names_what_was_before() {
    let (mut fold, _) = planned();
    let rearmed = json!({"type": "modified", "itemId": "a", "timestamp": 2, "item": item("a", "pending")});
    let removed = json!({"type": "removed", "itemId": "b", "timestamp": 2});
    let edit =
        json!({"planVersion": 2, "source": "user", "changes": [rearmed, removed, added("c")], "order": ["c", "a"]});
    let whole = fold.apply(&told(8, ObservationType::PlanUpdate, edit)).unwrap();
    assert_eq!(whole["todoList"][0], item("c", "pending"));
    assert_eq!(whole["todoList"][1].get("toolCalls"), None, "it goes on");
    let before = &whole["changes"]["modified"][0]["previousItem"];
    assert_eq!((&before["status"], &before["toolCalls"]), (&json!("completed"), &json!([call("call_1")])));
    assert_eq!(
        whole["changes"]["removed"],
        json!([{"type": "removed", "itemId": "b", "timestamp": 2, "previousItem": item("b", "pending")}])
    );
    assert_eq!(whole["changes"]["added"], json!([added("c")]));
    assert_eq!(fold.view()["stepOutputs"], json!({}));
}

/// Only a copy's first list contains what the copy started with.
#[test]
fn an_item_that_was_copied_and_is_begun_again_keeps_its_calls() {
    let (call, result) = (call("call_1"), ended("call_1"));
    let mut done = item("a", "failed");
    (done["toolCalls"], done["toolResults"]) = (json!([call]), json!([result]));
    let mut fold = Fold::default();
    fold.apply(&told(
        1,
        ObservationType::Plan,
        json!({"plan": "p", "planVersion": 1, "rawOutput": "", "todoList": [done]}),
    ))
    .unwrap();
    let again = json!({"type": "modified", "itemId": "a", "timestamp": 2, "item": item("a", "pending")});
    let edit = json!({"planVersion": 2, "source": "refinement", "changes": [again]});
    assert_eq!(
        fold.apply(&told(2, ObservationType::PlanUpdate, edit)).unwrap()["todoList"],
        json!([item("a", "pending")])
    );
    let shown = &fold.view()["todoList"][0];
    assert_eq!((&shown["toolCalls"], &shown["toolResults"]), (&json!([call]), &json!([result])));
}

#[test]
fn a_fold_goes_on_from_a_view() {
    let (mut whole, _) = planned();
    let mut late = Fold::of_view(&whole.view()).unwrap();
    let next =
        told(8, ObservationType::PlanUpdate, json!({"planVersion": 2, "source": "agent", "changes": [added("c")]}));
    assert_eq!(late.apply(&next).unwrap(), whole.apply(&next).unwrap());
    assert_eq!(late.view()["todoList"], whole.view()["todoList"]);
}

#[test]
fn questions_are_open_until_answered() {
    let (mut fold, _) = planned();
    fold.apply(&told(8, ObservationType::ToolCall, called(&[call("call_2")]))).unwrap();
    assert_eq!(fold.view()["status"], "running");
    fold.apply(&told(9, ObservationType::AgentSuspended, question("call_2"))).unwrap();
    let view = fold.view();
    assert_eq!((&view["status"], &view["isPaused"]), (&json!("suspended"), &json!(true)));
    assert_eq!(view["suspension"]["suspensionId"], "sus_1");
    fold.apply(&told(10, ObservationType::SuspensionTimeout, json!({"suspensionId": "sus_1", "policy": "remind"})))
        .unwrap();
    assert_eq!(fold.view()["isPaused"], true);
    fold.apply(&told(
        11,
        ObservationType::AgentResumed,
        json!({"suspensionId": "sus_1", "decision": "approved", "decidedBy": "ann"}),
    ))
    .unwrap();
    assert_eq!((&fold.view()["status"], &fold.view()["suspensions"]), (&json!("running"), &json!([])));
    fold.apply(&told(12, ObservationType::RunFinished, finished("completed"))).unwrap();
    assert_eq!((&fold.view()["status"], &fold.view()["runId"]), (&json!("idle"), &Value::Null));
}

/// Also once the log before was compacted, until another run begins.
#[test]
fn a_thread_whose_last_run_failed_has_failed() {
    let (mut fold, _) = planned();
    fold.apply(&told(8, ObservationType::RunFinished, finished("failed"))).unwrap();
    assert_eq!((&fold.view()["status"], &fold.view()["runId"]), (&json!("failed"), &Value::Null));
    let mut fold = Fold::of_text(&fold.text()).unwrap();
    assert_eq!(fold.view()["status"], "failed");
    fold.apply(&told(9, ObservationType::RunStarted, started(message("msg_2")))).unwrap();
    assert_eq!(fold.view()["status"], "running");
    fold.apply(&told(10, ObservationType::RunFinished, finished("cancelled"))).unwrap();
    assert_eq!(fold.view()["status"], "idle");
}

/// A call that asks during its work continues to run, and so does its run.
#[test]
fn a_question_of_a_running_call_suspends_nothing() {
    let (mut fold, _) = planned();
    fold.apply(&told(8, ObservationType::ToolCall, called(&[call("call_2")]))).unwrap();
    let mut question = question("call_2");
    question["whileRunning"] = json!(true);
    fold.apply(&told(9, ObservationType::AgentSuspended, question)).unwrap();
    let view = fold.view();
    assert_eq!((&view["status"], &view["isPaused"]), (&json!("running"), &json!(true)));
    assert_eq!(view["suspension"]["whileRunning"], true);
    fold.apply(&told(10, ObservationType::ToolExecution, ended("call_2"))).unwrap();
    assert_eq!(fold.view()["status"], "suspended", "now only the question is left");
}

#[test]
fn messages_come_in_the_order_of_their_runs() {
    let (mut fold, _) = planned();
    fold.apply(&told(
        8,
        ObservationType::StateUpdate,
        json!({"keys": ["queue"], "stateVersion": 0, "message": message("queued")}),
    ))
    .unwrap();
    fold.apply(&told(
        9,
        ObservationType::StateUpdate,
        json!({"keys": ["messages"], "stateVersion": 0, "message": message("steered")}),
    ))
    .unwrap();
    fold.apply(&told(10, ObservationType::FinalResponse, json!({"message": message("answer")}))).unwrap();
    fold.apply(&told(11, ObservationType::RunStarted, started(message("queued")))).unwrap();
    let ids: Vec<&str> = fold.messages().iter().map(|message| message.message_id.as_str()).collect();
    assert_eq!(ids, ["msg_1", "steered", "answer", "queued"]);
}

#[test]
fn a_conversation_that_was_held_elsewhere_is_one_update() {
    let mut fold = Fold::default();
    let content = json!({"keys": ["messages"], "stateVersion": 0, "messages": [message("first"), message("second")]});
    fold.apply(&told(1, ObservationType::StateUpdate, content)).unwrap();
    fold.apply(&told(2, ObservationType::RunStarted, started(message("query")))).unwrap();
    let ids: Vec<&str> = fold.messages().iter().map(|message| message.message_id.as_str()).collect();
    assert_eq!(ids, ["first", "second", "query"]);
}

#[test]
fn the_applications_state_is_told_as_it_was_written() {
    let (mut fold, mut seq) = (Fold::default(), 0);
    let mut tell = |fold: &mut Fold, content: Value| {
        seq += 1;
        fold.apply(&told(seq, ObservationType::StateUpdate, content)).unwrap();
        fold.agent_state().map(|told| told.state()).map(|state| (state.version, state.data))
    };
    let patched = tell(&mut fold, json!({"keys": ["queue"], "stateVersion": 1, "patch": {"queue": 1, "b": 2}}));
    assert_eq!(patched, Some((1, json!({"queue": 1, "b": 2}))));
    let whole = tell(&mut fold, json!({"keys": ["a"], "stateVersion": 2, "data": {"a": 1}}));
    assert_eq!(whole, Some((2, json!({"a": 1}))));
    assert_eq!(tell(&mut fold, json!({"keys": ["messages"], "stateVersion": 2})), whole);
    let patched = tell(&mut fold, json!({"keys": ["a"], "stateVersion": 3, "patch": {"a": null, "c": 3}}));
    assert_eq!(patched, Some((3, json!({"c": 3}))));
    // Early logs recorded only the keys.
    assert_eq!(tell(&mut fold, json!({"keys": ["a"], "stateVersion": 4})), None);
    assert_eq!(tell(&mut fold, json!({"keys": ["a"], "stateVersion": 5, "patch": {"a": 1}})), None);
    assert_eq!(tell(&mut fold, json!({"keys": [], "stateVersion": 6, "data": 7})), Some((6, json!(7))));
}
