use serde_json::{Value, json};

use super::*;
use crate::http::doors::agui::request::EarlierMessage;

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

#[test]
fn a_query_goes_back_to_what_its_client_shows_before_it() {
    let own = |id: &str| json!({ "agui": { "id": id } });
    let mut stored = vec![
        message("m1", "USER", "r1", own("u1")),
        message("m2", "USER", "r1", own("more")),
        message("m3", "AI", "r1", Value::Null),
        message("m4", "USER", "r2", own("u2")),
        message("m5", "AI", "r2", Value::Null),
    ];
    let after = |id: &str| Some(ContinueAt::After(id.into()));
    for (id, earlier, at) in [
        ("u3", &["u1", "u2"][..], None),
        ("u3", &["u1", "u2", "never arrived"], None),
        ("u3", &[], None),
        ("", &[], None),
        ("u2", &["u1"], after("m3")),
        ("u1", &[], Some(ContinueAt::Start)),
        ("other", &["u1"], after("m3")),
        ("other", &["u1", "more"], after("m3")),
        ("more", &["u1"], after("m3")),
    ] {
        let sent = query(id, earlier);
        let found = of_resent(&stored, &sent).or_else(|| of_new(&stored, &sent, "me"));
        assert_eq!(found, at, "{id} after {earlier:?}");
    }
    assert_eq!(of_new(&stored, &query("other", &["u1"]), "somebody else"), None);
    stored.push(message("m6", "USER", "r3", Value::Null));
    assert_eq!(of_new(&stored, &query("other", &["u1"]), "me"), None);
    assert_eq!(of_resent(&stored, &query("m6", &["u1", "u2"])), after("m5"));
}
