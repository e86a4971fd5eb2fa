//! Comparisons, one by one.

use serde_json::json;

use super::*;

/// The results in a rule that allows and in one that denies.
fn answers(op: Op, found: Option<&Value>, expected: &Value) -> (bool, bool) {
    let test =
        Check::new(&Condition { pointer: String::new(), op, value: expected.clone() }, &StepBudget::new()).unwrap();
    let holds = |allows| test.holds(found.map(Argument::new).as_ref(), &StepBudget::new(), allows);
    (holds(true), holds(false))
}

const YES: (bool, bool) = (true, true);
const NO: (bool, bool) = (false, false);
const IN_DOUBT: (bool, bool) = (false, true);

#[test]
fn each_comparison_means_what_it_says() {
    let cases = [
        (Op::Eq, json!(1000), json!(1000.0), YES),
        (Op::Ne, json!(1000), json!(1000.0), NO),
        (Op::Eq, json!([1, { "a": [2.0] }]), json!([1.0, { "a": [2] }]), YES),
        (Op::Eq, json!([1]), json!([1, 2]), NO),
        (Op::Eq, json!({ "a": 1 }), json!({ "b": 1 }), NO),
        (Op::Eq, json!("x"), json!(null), NO),
        (Op::Eq, json!(null), json!(null), YES),
        (Op::Lt, json!(2), json!(2), NO),
        (Op::Lt, json!(9_007_199_254_740_992_u64), json!(9_007_199_254_740_993_u64), YES),
        (Op::Gt, json!(u64::MAX), json!(-1), YES),
        (Op::Gt, json!(9_007_199_254_740_993_u64), json!(9_007_199_254_740_992.0), YES),
        (Op::Ge, json!("b"), json!("a"), YES),
        (Op::Le, json!(-0.5), json!(0), YES),
        (Op::In, json!("b"), json!(["a", "b"]), YES),
        (Op::In, json!("c"), json!(["a", "b"]), NO),
        (Op::Contains, json!("haystack"), json!("st"), YES),
        (Op::Contains, json!("haystack"), json!("needle"), NO),
        (Op::Contains, json!([1, 2]), json!(2.0), YES),
        (Op::Contains, json!([]), json!(2.0), NO),
        (Op::StartsWith, json!("https://a/"), json!("https://"), YES),
        (Op::Matches, json!("x@example.com"), json!("*@example.com"), YES),
        (Op::Matches, json!("x@example.com.evil"), json!("*@example.com"), NO),
        (Op::Exists, json!(null), json!(true), YES),
        (Op::Exists, json!(1), json!(false), NO),
        (Op::Number, json!(7), json!({ "min": 7, "below": 8 }), YES),
        (Op::Number, json!(7), json!({ "above": 7 }), NO),
    ];
    for (op, found, expected, answer) in &cases {
        assert_eq!(answers(*op, Some(found), expected), *answer, "{found} {op:?} {expected}");
    }
}

#[test]
fn what_is_read_otherwise_than_it_is_written_counts_against_the_call() {
    let cases = [
        (Op::Eq, json!("\u{e9}"), json!("e\u{301}")),
        (Op::Eq, json!(" ROOT\t"), json!("root")),
        (Op::Eq, json!("ro\u{200b}ot"), json!("root")),
        (Op::Eq, json!(["ＲＯＯＴ"]), json!(["root"])),
        (Op::Ne, json!("ROOT"), json!("root")),
        (Op::In, json!("Root"), json!(["admin", "root"])),
        (Op::Contains, json!("please DROP\u{a0}\n table x"), json!("drop table")),
        (Op::Contains, json!(["a", "ROOT"]), json!("root")),
        (Op::StartsWith, json!("  Rm -rf"), json!("rm -rf")),
        (Op::Ge, json!("Z"), json!("a")),
        (Op::Matches, json!("RM -rf /"), json!("rm *")),
        (Op::Matches, json!("ls\nRM -rf /"), json!("rm *")),
        (Op::Matches, json!("a\nb"), json!("a*")),
        (Op::Matches, json!("a\u{202e}b"), json!("a*")),
        (Op::Matches, json!("x@evil.test,a@example.com"), json!("*@example.com")),
        (Op::Matches, json!("x@evil.test,a@example.com"), json!("*@evil.test")),
        (Op::Matches, json!("<a@example.com>"), json!("*@example.com")),
        (Op::Matches, json!("x%evil.test@example.com"), json!("*@example.com")),
    ];
    for (op, found, expected) in &cases {
        assert_eq!(answers(*op, Some(found), expected), IN_DOUBT, "{found} {op:?} {expected}");
    }
}

#[test]
fn what_is_missing_or_cannot_be_compared_counts_against_the_call() {
    let cases = [
        (Op::Eq, json!("1000"), json!(1000)),
        (Op::Eq, json!(["x"]), json!("x")),
        (Op::Eq, json!(null), json!("x")),
        (Op::Ne, json!("1000"), json!(1000)),
        (Op::In, json!("1"), json!(["a", 1])),
        (Op::Gt, json!("1000000"), json!(1000)),
        (Op::Lt, json!([1]), json!(2)),
        (Op::Contains, json!({ "a": 1 }), json!("a")),
        (Op::StartsWith, json!(7), json!("7")),
        (Op::Matches, json!(["x"]), json!("*x")),
        (Op::Number, json!("1,000"), json!({ "max": 10_000 })),
        (Op::EmailDomain, json!(null), json!("example.com")),
        (Op::Host, json!({}), json!("example.com")),
    ];
    for (op, found, expected) in &cases {
        assert_eq!(answers(*op, Some(found), expected), IN_DOUBT, "{found} {op:?} {expected}");
        assert_eq!(answers(*op, None, expected), IN_DOUBT, "missing {op:?} {expected}");
    }
    assert_eq!(answers(Op::Exists, None, &json!(true)), NO);
    assert_eq!(answers(Op::Exists, None, &json!(false)), YES);
}

#[test]
fn of_several_addresses_or_hosts_each_counts() {
    let cases = [
        (Op::EmailDomain, json!("a@example.com"), YES),
        (Op::EmailDomain, json!("a@example.com, b@x.EXAMPLE.org"), YES),
        (Op::EmailDomain, json!(["a@evil.test", "b@evil.test"]), NO),
        (Op::EmailDomain, json!("a@example.com,b@evil.test"), IN_DOUBT),
        (Op::EmailDomain, json!(["a@example.com", 7]), IN_DOUBT),
        (Op::Host, json!(["https://example.com/", "wss://a.b.example.org:443"]), YES),
        (Op::Host, json!("https://example.org/"), NO),
        (Op::Host, json!(["example.com", "evil.test"]), IN_DOUBT),
    ];
    let expected = json!(["example.com", "*.example.org"]);
    for (op, found, answer) in &cases {
        assert_eq!(answers(*op, Some(found), &expected), *answer, "{found} {op:?}");
    }
}
