//! Which members the fold of the log returns, and in which order.
//!
//! `members.ndjson` is a log with members that this version does not know, at every depth. `members.folded.ndjson`
//! holds each content as readers get it, and the view after each.

use pes_engine::domain::ids::ItemId;
use pes_engine::domain::observation::{Observation, ObservationType};
use pes_engine::history::fold::Fold;
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    #[serde(rename = "type")]
    kind: ObservationType,
    parent_id: Option<ItemId>,
    content: Value,
}

fn observation(line: &str, seq: i64) -> Observation {
    let Line { kind, parent_id, content } = serde_json::from_str(line).unwrap();
    Observation {
        seq,
        id: format!("obs_{seq}").as_str().into(),
        thread_id: "t1".into(),
        run_id: "run_1".into(),
        parent_id,
        trace_id: "trace".into(),
        timestamp: seq * 10,
        kind,
        title: String::new(),
        content,
        metadata: None,
    }
}

/// Each observation as readers get it, and the view after it.
fn folded(log: &str) -> Vec<[String; 2]> {
    let mut fold = Fold::default();
    let told = log.lines().zip(1..).map(|(line, seq)| {
        let content = fold.apply(&observation(line, seq)).unwrap();
        [content.to_string(), fold.view().to_string()]
    });
    told.collect()
}

/// Unknown members are returned at every depth. Those of an item have one order everywhere, that of `TodoItem`,
/// whichever change added them: so a past state reads like the current one.
#[test]
fn what_is_told_again_is_what_was_recorded() {
    let expected = include_str!("members.folded.ndjson").lines().collect::<Vec<_>>();
    let expected = expected.chunks_exact(2);
    let folded = folded(include_str!("members.ndjson"));
    assert_eq!(folded.len(), expected.len());
    for ([content, view], expected) in folded.iter().zip(expected) {
        assert_eq!([content, view], expected);
    }
}

/// Every item has its creation time; for one that no plan named this is its first appearance in the log.
#[test]
fn an_item_that_no_plan_named_is_as_old_as_its_first_change() {
    let told = r#"{"type":"ITEM_STATUS_CHANGE","content":{"itemId":"a","from":"pending","status":"in_progress","attempt":1,"item":{"status":"in_progress","updatedTimestamp":40}}}"#;
    let [_, view] = folded(told).remove(0);
    let item = r#""todoList":[{"id":"a","description":"","status":"in_progress","createdTimestamp":40,"updatedTimestamp":40}]"#;
    assert!(view.contains(item), "{view}");
}
