//! Numbers, and their text forms.

use serde_json::json;

use super::*;

fn hold(bounds: Value, value: Value) -> Option<bool> {
    NumberBounds::new(&bounds).unwrap().contains(&value)
}

#[test]
fn each_bound_means_what_it_says() {
    for (bounds, kept, broken) in [
        (json!({ "eq": 2 }), json!("2.0"), json!(3)),
        (json!({ "ne": 2 }), json!(3), json!("2")),
        (json!({ "min": 2 }), json!(2), json!(1.999)),
        (json!({ "max": 2 }), json!("-7"), json!("2.001")),
        (json!({ "above": 2 }), json!("2.5"), json!(2)),
        (json!({ "below": 2 }), json!(-2), json!("2")),
        (json!({ "min": 1, "max": 2 }), json!(1.5), json!(3)),
        (json!({ "max": 9_007_199_254_740_992.0 }), json!("9007199254740992"), json!("9007199254740993")),
        (json!({ "below": 1e300 }), json!(u64::MAX), json!(1e300)),
        (json!({ "above": -1e300 }), json!(i64::MIN), json!(-1e300)),
    ] {
        assert_eq!(hold(bounds.clone(), kept.clone()), Some(true), "{kept} {bounds}");
        assert_eq!(hold(bounds.clone(), broken.clone()), Some(false), "{broken} {bounds}");
    }
    for wrong in [json!({}), json!(5), json!({ "least": 1 }), json!({ "min": "1" }), json!({ "min": null, "max": 2 })] {
        assert!(NumberBounds::new(&wrong).is_none(), "{wrong}");
    }
}

#[test]
fn what_programs_read_differently_is_no_number() {
    for text in [
        "",
        "-",
        ".",
        "1.",
        ".5",
        "+1",
        "01",
        "010",
        "1e3",
        "1E9",
        "0x10",
        "1_000",
        "1,000",
        "1 000",
        " 1",
        "1 ",
        "1\n",
        "１",
        "٣",
        "Infinity",
        "NaN",
        "--1",
        "1.2.3",
        "1.0000000000000001",
        "18446744073709551616",
        "1-",
        "∞",
    ] {
        assert_eq!(hold(json!({ "max": 1_000_000 }), json!(text)), None, "{text:?}");
    }
    for value in [json!(null), json!(true), json!([1]), json!({ "value": 1 })] {
        assert_eq!(hold(json!({ "max": 1_000_000 }), value.clone()), None, "{value}");
    }
}
