use serde_json::{Value, json};

use super::*;
use crate::http::doors::agui::request::EarlierMessage;
use crate::http::doors::newest_messages;

fn message(id: &str, role: &str, run: &str, metadata: Value) -> ConversationMessage {
    let message = json!({
        "messageId": id, "threadId": "t", "role": role, "content": id, "timestamp": 1, "runId": run,
        "requestedBy": (role == "USER").then_some("me"),
        "metadata": metadata,
    });
    serde_json::from_value(message).unwrap()
}

fn query(id: &str, earlier: &[&str]) -> AguiQuery {
    let user = |id: &&str| EarlierMessage { role: HistoryRole::User, text: "…".into(), message_id: (*id).into() };
    AguiQuery { text: "…".into(), message_id: id.into(), earlier: earlier.iter().map(user).collect() }
}

fn own(id: &str) -> Value {
    json!({ "agui": { "id": id } })
}

/// Newest first.
fn stored() -> Vec<ConversationMessage> {
    vec![
        message("m5", "AI", "r2", Value::Null),
        message("m4", "USER", "r2", own("u2")),
        message("m3", "AI", "r1", Value::Null),
        message("m2", "USER", "r1", own("more")),
        message("m1", "USER", "r1", own("u1")),
    ]
}

#[test]
fn messages_of_the_user_are_recognised_by_the_clients_ids() {
    let mut stored = stored();
    stored.insert(0, message("m6", "USER", "r3", Value::Null));
    for (id, earlier, at) in [
        ("u3", &["u1", "u2"][..], Some(2)),
        ("u3", &["u1", "u2", "never arrived"], Some(2)),
        ("u3", &[], None),
        ("", &[""], None),
        ("m5", &["m3"], None),
        ("u2", &["u1"], Some(2)),
        ("u1", &[], Some(5)),
        ("other", &["u1", "more"], Some(4)),
        ("m6", &["u1"], Some(0)),
    ] {
        let sent = query(id, earlier);
        let shown = ShownIds::of(&sent);
        let found = stored.iter().position(|message| shown.is_query(message) || shown.is_earlier(message));
        assert_eq!(found, at, "{id} after {earlier:?}");
    }
}

#[test]
fn only_known_messages_of_the_caller_are_removed() {
    let mut stored = stored();
    let first_removed = |stored: &[ConversationMessage], removed: &[usize], caller| {
        newest_messages::first_removed(stored, removed, caller, |message| client_id(message).is_some())
    };
    assert_eq!(first_removed(&stored, &[], "me"), None);
    assert_eq!(first_removed(&stored, &[1], "me"), Some(1));
    assert_eq!(first_removed(&stored, &[1, 4], "me"), Some(4));
    assert_eq!(first_removed(&stored, &[1], "somebody else"), None);
    stored[1].metadata = None;
    assert_eq!(first_removed(&stored, &[1, 4], "me"), None);
}
