use std::collections::VecDeque;

use serde_json::{Value, json};

use super::{Typed, todo_list, understood};
use crate::cli::client::input::Input;
use crate::domain::hitl::AskedQuestion;

fn asked(kind: &str) -> AskedQuestion {
    let asked = json!({
        "suspensionId": "sus_1", "kind": kind, "message": "May it?",
        "feedbackSchema": { "inputType": "confirm", "prompt": "May it?" }
    });
    serde_json::from_value(asked).unwrap()
}

/// What is sent if this is typed at a question and the input then closes; `None`: the question is asked again.
async fn sent(kind: &str, letter: &str, lines: &[&str]) -> Option<Value> {
    let mut lines: VecDeque<String> = lines.iter().map(|line| format!("{line}\n")).collect();
    let mut input = Input::of(move || Ok(lines.pop_front()));
    match understood(&asked(kind), letter, &mut input, &mut None).await {
        Ok(Typed::Answer(answer)) => Some(answer),
        Ok(Typed::Again(why)) => {
            assert_eq!(why, "\nNothing was sent.");
            None
        }
        Ok(Typed::Edited(_) | Typed::Later) => panic!("it is neither edited nor left"),
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn an_input_that_ends_where_more_is_asked_for_is_no_answer() {
    for (kind, letter) in [("in_doubt", "d"), ("approval", "x"), ("budget", "x"), ("plan_review", "x")] {
        assert_eq!(sent(kind, letter, &[]).await, None, "{kind}");
    }
    assert_eq!(sent("in_doubt", "d", &[""]).await, Some(json!({ "action": "done", "value": "" })));
    assert_eq!(sent("budget", "x", &[""]).await, Some(json!({ "approved": false, "reason": "" })));
}

#[tokio::test]
async fn a_mistyped_result_is_not_sent_as_text() {
    let mut lines = VecDeque::from(["{bad\n".to_owned()]);
    let mut input = Input::of(move || Ok(lines.pop_front()));
    let understood = understood(&asked("in_doubt"), "d", &mut input, &mut None).await;
    assert!(matches!(understood, Ok(Typed::Again(why)) if why.starts_with("This is no result: it begins like JSON: ")));
    assert_eq!(sent("in_doubt", "d", &["sent"]).await, Some(json!({ "action": "done", "value": "sent" })));
}

#[tokio::test]
async fn a_call_or_a_plan_is_refused_without_a_reason_by_whoever_says_so_twice() {
    let refused = |reason: &str| Some(json!({ "approved": false, "reason": reason }));
    for kind in ["approval", "plan_review"] {
        assert_eq!(sent(kind, "x", &["Too long."]).await, refused("Too long."));
        assert_eq!(sent(kind, "x", &["", "Too long."]).await, refused("Too long."));
        assert_eq!(sent(kind, "x", &["", ""]).await, refused(""));
        assert_eq!(sent(kind, "x", &[""]).await, None);
    }
}

#[test]
fn what_nobody_edits_of_a_plan_is_sent_as_it_is() {
    let over = json!({ "id": "bill", "description": "Compute the bill", "status": "completed", "stepType": "tool" });
    let open = json!({
        "id": "send", "description": "Send it", "status": "pending", "dependencies": ["bill"], "stepType": "tool",
        "requiredTools": ["demo_send_email"], "expectedOutcome": "It is sent", "toolValidationMode": "advisory"
    });
    let mut foreseen = open.clone();
    foreseen["mayCall"] = json!([{ "toolName": "demo_send_email", "action": "ask" }]);
    let mut other = json!({ "id": "tell", "description": "Tell them", "status": "pending" });
    let told = other.clone();
    other["mayCallAny"] = json!(true);
    let plan = json!({ "planVersion": 2, "risky": true, "items": [over, foreseen, other], "tools": [] });
    assert_eq!(todo_list(&plan), json!({ "todoList": [over, open, told] }));
}
