//! Arguments made to be read in two ways: the value that is judged, shown, approved and run is always the same.

use serde_json::{Value, json};

use super::{Scene, calls, one_item};

/// Small amounts to a friend are allowed without a question; everything else is denied.
fn rules() -> Value {
    json!([
        { "id": "friend", "tool": "pay", "action": "auto", "when": [
            { "pointer": "/to", "op": "eq", "value": "friend" },
            { "pointer": "/amount", "op": "le", "value": 10 }] },
        { "id": "others", "tool": "pay", "action": "deny" },
    ])
}

#[tokio::test]
async fn only_what_was_judged_runs() {
    let smuggled = [
        // The same key twice: the value that is used is the one that is judged.
        r#"'{"to": "friend", "to": "evil", "amount": 1}'"#,
        r#"'{"amount": 1, "amount": 1000, "to": "friend"}'"#,
        // Looks the same, and is another.
        "{ to = \"fr\u{456}end\", amount = 1 }",
        "{ to = \"friend\u{200b}\", amount = 1 }",
        "{ to = \"\u{202e}dneirf\", amount = 1 }",
        "{ to = \"FRIEND\", amount = 1 }",
        "{ to = \"friend \", amount = 1 }",
        // Escapes that decode to the same text are equal; a NUL is not empty.
        r#"'{"to": "friend\u0000evil", "amount": 1}'"#,
        // JSON inside JSON, numbers as text and texts as lists.
        r#"'"{\"to\": \"friend\", \"amount\": 1}"'"#,
        r#"'[{"to": "friend", "amount": 1}]'"#,
        r#"'{"to": {"$eq": "friend"}, "amount": 1}'"#,
        r#"'{"to": ["friend"], "amount": 1}'"#,
        r#"'{"to": "friend", "amount": "1"}'"#,
        r#"'{"to": "friend", "amount": 1e400}'"#,
        r#"'{"to": "friend", "amount": 10.000000001}'"#,
        r#"'{"to": "friend", "amount": 1, "__proto__": {"to": "evil"}}'"#,
        r#"'{"to": "friend", "amount": 1} {"to": "evil", "amount": 1000}'"#,
    ];
    let made: Vec<(&str, &str)> = smuggled.iter().map(|arguments| ("pay", *arguments)).collect();
    let scene = Scene::of(&one_item(&[&calls(&made)]), rules()).await;
    scene.ask("t", "go").await.unwrap();
    assert_eq!(scene.ran(), []);
    let ends = scene.ends("t").await;
    assert_eq!(ends.len(), smuggled.len());
    assert!(ends.iter().all(|end| end == "denied" || end == "invalid_arguments"), "{ends:?}");
}

#[tokio::test]
async fn what_is_meant_honestly_runs_as_it_was_judged() {
    let honest = [
        r#"'{"to": "fr\u0069end", "amount": 1e0}'"#,
        r#"'{ "amount": 10, "to": "friend" }'"#,
        r#"'{"to": "evil", "to": "friend", "amount": 7}'"#,
    ];
    let made: Vec<(&str, &str)> = honest.iter().map(|arguments| ("pay", *arguments)).collect();
    let scene = Scene::of(&one_item(&[&calls(&made)]), rules()).await;
    scene.ask("t", "go").await.unwrap();
    let ran = scene.ran();
    assert_eq!(ran.len(), 3, "{ran:?}");
    assert!(ran.iter().all(|(_, arguments)| arguments["to"] == "friend"), "{ran:?}");
}
