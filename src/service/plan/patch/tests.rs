//! The cost of a patch, and the list that it gives.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn limits() -> Limits {
    Limits { items_per_plan: 20, body_bytes: 4_096, json_depth: 16, ..Limits::default() }
}

fn patched(list: Value, patch: Value) -> Result<Vec<Value>> {
    apply(list, PlanPatch::JsonPatch(serde_json::from_value(patch).unwrap()), &limits())
}

#[test]
fn a_patch_is_bounded_in_operations_and_in_what_it_makes() {
    let add = |count: usize| vec![json!({ "op": "add", "path": "/0", "value": {} }); count].into();
    assert_eq!(patched(json!([]), add(40)).unwrap().len(), 40);
    assert_eq!(patched(json!([]), add(41)).unwrap_err().code, Code::TooManyItems);
    let list: Value = vec![json!({}); 30].into();
    assert_eq!(patched(list, add(11)).unwrap_err().code, Code::TooManyItems);
    let changes: Map<String, Value> = (0..41).map(|at| (at.to_string(), json!({}))).collect();
    let merged = apply(json!([]), PlanPatch::MergePatch(changes.into()), &limits());
    assert_eq!(merged.unwrap_err().code, Code::TooManyItems);
}

#[test]
fn a_patch_is_bounded_in_what_it_copies_and_in_how_deep_it_nests() {
    let list = || json!([{ "text": "x".repeat(1_000) }]);
    let doubling = |times: usize| vec![json!({ "op": "copy", "from": "/0", "path": "/0/same" }); times].into();
    assert_eq!(patched(list(), doubling(2)).unwrap().len(), 1);
    let refused = patched(list(), doubling(3)).unwrap_err();
    assert_eq!((refused.code, refused.errors[0].pointer.as_str()), (Code::Invalid, "/2"));
    let nested = |levels: usize| (0..levels).fold(json!({}), |inner, _| json!({ "in": inner }));
    let add = |levels: usize| json!([{ "op": "add", "path": "/0/a", "value": nested(levels) }]);
    assert!(patched(list(), add(13)).is_ok());
    let refused = patched(list(), add(14)).unwrap_err();
    assert!(refused.errors[0].detail.contains("nests deeper than 16"), "{refused:?}");
}

/// They do not count as part of the patch.
#[test]
fn results_do_not_count_as_written_however_long_they_are() {
    let done = json!({ "id": "a", "status": "completed", "result": "x".repeat(MAX_LIST_BYTES), "toolResults": [1] });
    let list = || json!([done, { "id": "b", "description": "old" }]);
    let after = patched(list(), json!([{ "op": "replace", "path": "/1/description", "value": "new" }])).unwrap();
    assert_eq!((&after[0], &after[1]["description"]), (&done, &json!("new")));
    let described = |length: usize| {
        let change = json!({ "b": { "description": "x".repeat(length) } });
        apply(list(), PlanPatch::MergePatch(change), &limits())
    };
    assert!(described(MAX_LIST_BYTES / 2).is_ok());
    assert_eq!(described(MAX_LIST_BYTES).unwrap_err().code, Code::TooManyItems);
}

fn any_operation() -> impl Strategy<Value = Value> {
    let path = || prop::sample::select(vec!["", "/0", "/1", "/-", "/0/a", "/0/a/b", "/1/a", "/9", "/x", "/0/a/0"]);
    let value = prop::sample::select(vec![json!({}), json!([[]]), json!({ "a": { "b": [1] } }), json!(1), json!(null)]);
    let operation = prop::sample::select(vec!["add", "remove", "replace", "move", "copy", "test"]);
    (operation, path(), path(), value)
        .prop_map(|(op, path, from, value)| json!({ "op": op, "path": path, "from": from, "value": value }))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_a_patch_does_stays_within_its_bounds(operations in prop::collection::vec(any_operation(), 0..40)) {
        let list = json!([{ "id": "a", "a": { "b": [1, 2] } }, { "id": "b", "a": [] }]);
        let Ok(operations) = serde_json::from_value::<Patch>(operations.into()) else { return Ok(()) };
        if let Ok(after) = apply(list, PlanPatch::JsonPatch(operations), &limits()) {
            prop_assert!(after.len() <= 2 * limits().items_per_plan);
            let after = Value::Array(after);
            prop_assert!(depth(&after) <= limits().json_depth);
            prop_assert!(after.to_string().len() <= 3 * limits().body_bytes);
        }
    }
}
