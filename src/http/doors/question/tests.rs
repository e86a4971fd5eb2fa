use serde_json::json;

use super::*;

fn suspension(change: Value) -> Suspension {
    let mut whole = json!({
        "suspensionId": "sus_1", "threadId": "t", "runId": "run_1", "kind": "approval", "status": "pending",
        "callId": "call_1", "toolName": "send", "toolInput": { "to": "a@example.com" }, "message": "Send it?",
        "feedbackSchema": { "inputType": "confirm", "prompt": "Send it?" }, "digest": "abc", "createdAt": 1,
    });
    for (name, value) in change.as_object().unwrap() {
        whole[name] = value.clone();
    }
    serde_json::from_value(whole).unwrap()
}

fn url() -> Option<ConsoleUrls> {
    ConsoleUrls::of("https://pes.example", true)
}

#[test]
fn a_question_says_what_it_is_about_and_how_to_answer() {
    let asked = suspension(json!({})).asked();
    let expected = "Send it?\n\nTool `send`:\n\n```json\n{\n  \"to\": \"a@example.com\"\n}\n```\n\n\
                    Reply `yes` to approve or `no` to reject. Or answer at https://pes.example/#/questions/sus_1";
    assert_eq!(text(&asked, url().as_ref()), expected);
    let fenced = suspension(json!({ "toolInput": { "body": "```\nReply yes\n````" } })).asked();
    assert!(text(&fenced, None).contains("\n`````json\n"), "{}", text(&fenced, None));
    let select = json!({ "inputType": "select", "prompt": "", "options": [{ "value": 1, "label": "One" }] });
    let input = suspension(json!({ "kind": "input", "feedbackSchema": select, "toolInput": null, "toolName": null }));
    assert_eq!(text(&input.asked(), None), "Send it?\n\nReply with one of `One`.");
}

#[test]
fn only_a_bare_yes_approves_and_the_answer_is_bound_to_what_was_shown() {
    let open = suspension(json!({}));
    let yes = answer(&open, " Yes! ").unwrap();
    assert_eq!((yes.approved, yes.digest.as_deref()), (Some(true), Some("abc")));
    assert_eq!(answer(&open, "no").unwrap().approved, Some(false));
    let no = answer(&open, "No, it is too late").unwrap();
    assert_eq!((no.approved, no.reason.as_deref()), (Some(false), Some("it is too late")));
    for said in ["yes, but only 100", "no problem", "What is it about?", "", "now", "nö"] {
        assert_eq!(answer(&open, said), None, "{said}");
    }
}

#[test]
fn what_is_grave_or_not_shown_whole_is_only_rejected_by_text() {
    let long = suspension(json!({ "toolInput": { "body": "é".repeat(MAX_SHOWN_BYTES) } }));
    let how = "\n…\n```\n\nReply `no` to reject it. Approve it at https://pes.example/";
    assert!(text(&long.asked(), url().as_ref()).contains(how), "it is cut");
    for open in [long, suspension(json!({ "riskLevel": "high" })), suspension(json!({ "riskLevel": "critical" }))] {
        assert_eq!(answer(&open, "yes"), None);
        let no = answer(&open, "no, because it is late").unwrap();
        assert_eq!((no.approved, no.reason.as_deref()), (Some(false), Some("because it is late")));
        assert_eq!(answer(&open, "No.").unwrap().approved, Some(false));
        let text = text(&open.asked(), None);
        let how = "\n\nReply `no` to reject it. Approve it in the page of this server, under Questions.";
        assert!(text.ends_with(how) && !text.contains("yes"), "{text}");
    }
    assert!(answer(&suspension(json!({ "riskLevel": "medium" })), "yes").is_some());
}

#[test]
fn a_call_in_doubt_that_is_grave_or_not_shown_whole_is_only_given_up_by_text() {
    let doubt = |change: Value| {
        let mut whole = json!({ "kind": "in_doubt", "feedbackSchema": { "inputType": "select", "prompt": "Well?" } });
        whole.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        suspension(whole)
    };
    let action = |open: &Suspension, said: &str| answer(open, said).and_then(|answer| answer.action);
    let (retry, done) = (InDoubtAction::Retry, InDoubtAction::Done);
    let plain = doubt(json!({ "riskLevel": "medium" }));
    assert_eq!((action(&plain, "retry"), action(&plain, "Done")), (Some(retry), Some(done)));
    assert!(text(&plain.asked(), None).contains("Reply `retry`, `done`, `skip` or `abort`."));
    for open in
        [doubt(json!({ "toolInput": { "body": "é".repeat(MAX_SHOWN_BYTES) } })), doubt(json!({ "riskLevel": "high" }))]
    {
        assert_eq!((answer(&open, "retry"), answer(&open, "done")), (None, None));
        assert_eq!(action(&open, "skip"), Some(InDoubtAction::Skip));
        assert_eq!(action(&open, "abort"), Some(InDoubtAction::Abort));
        let text = text(&open.asked(), url().as_ref());
        assert!(text.contains("\n\nReply `skip` or `abort`. Or answer at https://"), "{text}");
    }
}

#[test]
fn a_pause_ends_by_a_yes_alone() {
    let open = suspension(json!({ "kind": "pause", "toolInput": null, "toolName": null }));
    assert_eq!(answer(&open, "And what about Rome?"), None);
    assert_eq!(answer(&open, "go ahead").unwrap().approved, Some(true));
}
