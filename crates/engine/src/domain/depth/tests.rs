use serde_json::json;

use super::*;

#[test]
fn only_containers_count() {
    assert!(!exceeds(&json!(1), 0));
    assert!(exceeds(&json!([]), 0));
    assert!(!exceeds(&json!({"a": [1, "x"]}), 2));
    assert!(exceeds(&json!([1, {"a": {}}]), 2));
    let deep = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!([inner]));
    assert!(!exceeds(&deep(MOST_DEPTH), MOST_DEPTH));
    assert!(exceeds(&deep(MOST_DEPTH + 1), MOST_DEPTH));
}
