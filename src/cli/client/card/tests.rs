use serde_json::{Value, json};

use super::{brief, card, value};
use crate::cli::client::terminal::Style;
use crate::domain::hitl::FeedbackSchema;

const PLAIN: Style = Style { unicode: true, colour: false };

fn shown(input: &Value) -> String {
    let asked = json!({
        "suspensionId": "sus_1", "kind": "approval", "message": "May it?", "toolName": "send", "toolInput": input,
        "feedbackSchema": { "inputType": "confirm", "prompt": "May it?" }
    });
    card(&serde_json::from_value(asked).unwrap(), 0, PLAIN)
}

#[test]
fn a_rule_is_told_only_where_it_asks() {
    let head = |kind: &str| {
        let asked = json!({
            "suspensionId": "sus_1", "kind": kind, "message": "Which word?", "toolName": "ask_user",
            "feedbackSchema": { "inputType": "text", "prompt": "Which word?" },
            "policy": { "action": "auto", "rule": "default for read tools = auto", "scope": "default" }
        });
        let shown = card(&serde_json::from_value(asked).unwrap(), 0, PLAIN);
        shown.lines().next().unwrap().to_owned()
    };
    assert_eq!(head("approval"), "◆ ask_user  rule default for read tools = auto");
    for (kind, words) in [
        ("input", "a question"),
        ("in_doubt", "in doubt"),
        ("client_tool", "a call of the caller"),
        ("peer_input", "a question of an agent"),
        ("peer_auth", "an agent's login"),
    ] {
        assert_eq!(head(kind), format!("◆ ask_user ({words})"));
    }
}

#[test]
fn what_is_not_seen_is_shown_as_its_code_however_deep_it_stands() {
    let hostile = "pay\u{202e}evil\u{200b}\u{7f}\u{9b}31m";
    let expected = "pay<U+202E>evil<U+200B><U+007F><U+009B>31m";
    for input in [json!({ "to": hostile }), json!({ "to": [hostile] }), json!({ "to": { "deep": { hostile: 1 } } })] {
        let shown = shown(&input);
        assert!(shown.contains(expected), "{shown:?}");
        assert!(!shown.contains(['\u{202e}', '\u{200b}', '\u{7f}', '\u{9b}']), "{shown:?}");
    }
}

#[test]
fn it_says_what_fails_if_nobody_answers() {
    let shown = |mut of: Value| {
        let mut asked = json!({
            "suspensionId": "sus_1", "kind": "approval", "message": "May it?", "expiresAt": 60_000, "expiryPolicy": "fail",
            "feedbackSchema": { "inputType": "confirm", "prompt": "May it?" }
        });
        asked.as_object_mut().unwrap().append(of.as_object_mut().unwrap());
        card(&serde_json::from_value(asked).unwrap(), 0, PLAIN)
    };
    assert!(shown(json!({ "callId": "call_1" })).ends_with(" left, then its item fails"));
    assert!(shown(json!({ "kind": "plan_review" })).ends_with(" left, then the run ends"));
}

#[test]
fn lines_of_a_nested_argument_stay_under_its_first() {
    let shown = shown(&json!({ "to": ["a", "b"] }));
    assert!(shown.ends_with("    to  [\n          \"a\",\n          \"b\"\n        ]"), "{shown}");
}

#[test]
fn names_of_arguments_are_shown_whole() {
    let (first, second) = ("recipients_of_the_invoice_who_pay", "recipients_of_the_invoice_who_wait");
    let shown = shown(&json!({ first: "a", second: "b", "to": "c" }));
    let rows: Vec<&str> = shown.lines().rev().take(3).collect();
    assert!(rows[2].starts_with(&format!("    {first}  ")) && rows[2].ends_with("  a"), "{shown}");
    assert!(rows[1].starts_with(&format!("    {second}  ")) && rows[1].ends_with("  b"), "{shown}");
    assert_eq!(rows[0], format!("    {:24}  c", "to"), "a long name does not push the others away");
}

#[test]
fn a_plan_under_review_is_shown_whole_with_what_its_tools_do() {
    let long = "Pay every invoice of the last quarter to the supplier that sent it, ".repeat(5) + "the last one twice";
    let ruling = |action: &str, rule: &str| json!({ "action": action, "rule": rule, "scope": "default" });
    let item = |id: &str, description: &str, status: &str, tool: &str, action: &str| {
        json!({
            "id": id, "description": description, "status": status,
            "mayCall": [{ "toolName": tool, "action": action }]
        })
    };
    let plan = json!({
        "planVersion": 1, "risky": true,
        "items": [
            item("look", "Look them\u{202e} up", "pending", "find", "auto"),
            item("pay", &long, "pending", "pay", "ask"),
            item("over", "Done long ago", "completed", "find", "auto"),
        ],
        "tools": [
            { "toolName": "find", "class": "read", "idempotent": true, "policy": ruling("auto", "reads") },
            { "toolName": "pay", "class": "irreversible", "idempotent": false, "policy": ruling("ask", "money") },
        ]
    });
    let shown = |plan: &Value| {
        let asked = json!({
            "suspensionId": "sus_1", "kind": "plan_review", "message": "May it?", "plan": plan,
            "feedbackSchema": { "inputType": "confirm", "prompt": "May it?" }
        });
        card(&serde_json::from_value(asked).unwrap(), 0, PLAIN)
    };
    let known = shown(&plan);
    let expected = format!(
        "    look  Look them<U+202E> up\n        find: auto (reads)\n    pay  {long}\n        pay: ask (money), cannot be undone"
    );
    assert!(known.contains(&expected), "{known}\nlacks\n{expected}");
    assert!(!known.contains("Done long ago"), "{known}");

    let mut any = plan.clone();
    any["items"][0] = json!({ "id": "look", "description": "Look", "status": "pending", "mayCallAny": true });
    let any = shown(&any);
    assert!(any.contains("        any tool\n") && any.contains("        find: auto (reads)\n"), "{any}");
    let unknown = shown(&json!({ "steps": ["Pay"] }));
    assert!(unknown.contains("\"Pay\""), "what another version wrote is shown as it is: {unknown}");
}

#[test]
fn nothing_is_said_twice() {
    let shown = |kind: &str, message: &str, form: Value| {
        let asked = json!({ "suspensionId": "sus_1", "kind": kind, "message": message, "feedbackSchema": form });
        card(&serde_json::from_value(asked).unwrap(), 0, PLAIN)
    };
    let options = |label: &str| json!([{ "value": "retry", "label": label }]);
    let prompt = "May this plan run? A no with a reason has another plan made.";
    let review =
        shown("plan_review", "May this plan run? 2 steps to do.", json!({ "inputType": "confirm", "prompt": prompt }));
    assert_eq!(review, "◆ the plan\n  May this plan run? 2 steps to do.\n  A no with a reason has another plan made.");
    let same =
        shown("input", "Which?", json!({ "inputType": "select", "prompt": "Which?", "options": options("retry") }));
    assert_eq!(same, "◆ a question\n  Which?\n    retry");
    let labelled =
        shown("input", "Which?", json!({ "inputType": "select", "prompt": "One? Two?", "options": options("Again") }));
    assert_eq!(labelled, "◆ a question\n  Which?\n  One? Two?\n    retry  Again");
    let doubt = shown(
        "in_doubt",
        "It may have had its effect.",
        json!({ "inputType": "select", "prompt": "Retry it?", "options": options("retry") }),
    );
    assert_eq!(doubt, "◆ in doubt\n  It may have had its effect.\n  Retry it?");
}

#[test]
fn an_option_is_chosen_by_what_is_shown_of_it_and_sent_as_it_is() {
    let form = |input: &str| -> FeedbackSchema {
        let options = json!([
            { "value": 3, "label": "Three" }, { "value": true, "label": "Yes, all" },
            { "value": "later", "label": "3" }, { "value": { "days": 2 }, "label": "In two days" },
        ]);
        serde_json::from_value(json!({ "inputType": input, "prompt": "Which?", "options": options })).unwrap()
    };
    let select = form("select");
    for (typed, sent) in [
        ("3", json!(3)),
        ("Three", json!(3)),
        ("true", json!(true)),
        ("Yes, all", json!(true)),
        ("later", json!("later")),
        (r#"{"days":2}"#, json!({ "days": 2 })),
        ("never", json!("never")),
    ] {
        assert_eq!(value(typed, &select), sent, "{typed}");
    }
    let several = form("multiselect");
    for (typed, sent) in [
        ("3, later", json!([3, "later"])),
        ("Yes, all", json!([true])),
        ("Three,In two days", json!([3, { "days": 2 }])),
        (r#"[3, "later", "Yes, all"]"#, json!([3, "later", true])),
        ("3, never", json!([3, "never"])),
    ] {
        assert_eq!(value(typed, &several), sent, "{typed}");
    }
}

#[test]
fn a_list_shows_the_arguments_that_are_decided_on_and_the_options_that_are_chosen_from() {
    let brief = |kind: &str, input: Value, options: Value| {
        let asked = json!({
            "suspensionId": "sus_1", "kind": kind, "message": "May it?", "toolName": "send", "toolInput": input,
            "feedbackSchema": { "inputType": "select", "prompt": "May it?", "options": options }
        });
        brief(&serde_json::from_value(asked).unwrap())
    };
    let input = json!({ "order": 17, "to": "a\n\u{202e}b", "lines": [1, { "x": "y" }] });
    let expected = r#"order: 17, to: a <U+202E>b, lines: [1,{"x":"y"}]"#;
    for kind in ["approval", "in_doubt", "client_tool"] {
        assert_eq!(brief(kind, input.clone(), json!([])), expected);
    }
    let long = json!({ "a": "x".repeat(50), "b": "y".repeat(50), "c": 1, "d": "z".repeat(50) });
    let expected = format!("a: {}…, b: {}…, c: 1, d: …", "x".repeat(39), "y".repeat(39));
    assert_eq!(brief("approval", long, json!([])), expected);
    let options = json!([{ "label": "Red", "value": "red" }, { "label": "Two", "value": 2 }]);
    assert_eq!(brief("input", input.clone(), options), "of red, 2");
    for kind in ["input", "plan_review", "pause"] {
        assert_eq!(brief(kind, input.clone(), json!([])), "");
    }
}
