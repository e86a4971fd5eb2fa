//! Comparisons, one by one.

use serde_json::json;

use super::*;

#[test]
fn each_comparison_means_what_it_says() {
    let held = [
        (Op::Eq, json!(1000), json!(1000.0)),
        (Op::Ne, json!("1000"), json!(1000)),
        (Op::Lt, json!(9_007_199_254_740_992_u64), json!(9_007_199_254_740_993_u64)),
        (Op::Gt, json!(u64::MAX), json!(-1)),
        (Op::Ge, json!("b"), json!("a")),
        (Op::Le, json!(-0.5), json!(0)),
        (Op::In, json!("b"), json!(["a", "b"])),
        (Op::Contains, json!("haystack"), json!("st")),
        (Op::Contains, json!([1, 2]), json!(2.0)),
        (Op::StartsWith, json!("https://a/"), json!("https://")),
        (Op::Matches, json!("x@example.com"), json!("*@example.com")),
        (Op::Exists, json!(null), json!(true)),
    ];
    for (op, found, expected) in &held {
        assert!(holds(*op, expected, Some(found), false), "{found} {op:?} {expected}");
    }
    let not = [
        (Op::Eq, json!("é"), json!("e\u{301}")),
        (Op::Lt, json!(2), json!(2)),
        (Op::In, json!("c"), json!(["a", "b"])),
        (Op::Contains, json!("haystack"), json!("needle")),
        (Op::Matches, json!("x@example.com.evil"), json!("*@example.com")),
        (Op::Exists, json!(1), json!(false)),
    ];
    for (op, found, expected) in &not {
        assert!(!holds(*op, expected, Some(found), true), "{found} {op:?} {expected}");
    }
}

#[test]
fn what_cannot_be_compared_is_decided_by_the_doubt_and_what_is_missing_never_is() {
    let unlike = [
        (Op::Gt, json!("1000000"), json!(1000)),
        (Op::Lt, json!([1]), json!(2)),
        (Op::Contains, json!({ "a": 1 }), json!("a")),
        (Op::StartsWith, json!(7), json!("7")),
        (Op::Matches, json!(["x"]), json!("*")),
    ];
    for (op, found, expected) in &unlike {
        assert!(holds(*op, expected, Some(found), true) && !holds(*op, expected, Some(found), false), "{op:?}");
    }
    for op in [Op::Eq, Op::Lt, Op::Le, Op::Gt, Op::Ge, Op::In, Op::Contains, Op::StartsWith, Op::Matches, Op::Exists] {
        assert!(!holds(op, &json!("x"), None, true), "{op:?}");
    }
    assert!(holds(Op::Ne, &json!("x"), None, false));
    assert!(holds(Op::Exists, &json!(false), None, false));
}
