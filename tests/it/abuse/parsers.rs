//! Arbitrary input from other agents is either read or refused, and nothing panics.

use pes::a2a::wire::{Version, read_card};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::Value;

use crate::support::cases::cases;

/// JSON of the protocol's member names in any order.
fn anything() -> impl Strategy<Value = Value> {
    let words = prop::sample::select(vec![
        "kind",
        "message",
        "task",
        "status",
        "state",
        "parts",
        "text",
        "data",
        "file",
        "raw",
        "url",
        "bytes",
        "id",
        "taskId",
        "contextId",
        "role",
        "artifact",
        "artifacts",
        "history",
        "configuration",
        "metadata",
        "timestamp",
        "pageSize",
        "historyLength",
        "pushNotificationConfig",
        "skills",
        "capabilities",
        "supportedInterfaces",
    ]);
    let known = prop::sample::select(vec!["message", "task", "text", "user", "ROLE_USER", "working", "status-update"]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-zA-Z0-9_:.=-]{0,24}".prop_map(Value::from),
        known.prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 6, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((words.clone(), inner), 0..6).prop_map(|members| {
                Value::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
            }),
        ]
    })
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn no_json_breaks_a_reader_of_the_protocol(value in anything()) {
        for version in [Version::V1, Version::V03, Version::V03Rest] {
            let _ = (version.read_event(&value), version.read_send_request(&value), version.read_list_query(&value));
            let _ = (version.read_push(&value), version.read_push_page(&value), version.read_push_query(&value));
            let _ = (version.read_push_list_query(&value), version.read_task_query(&value), version.read_sent(&value));
            let _ = (version.read_task_page(&value), version.read_task(&value), version.read_part(&value));
        }
        let _ = read_card(&value);
    }
}
