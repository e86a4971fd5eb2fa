//! Conditions of policy rules: no argument evades one that forbids, only the intended arguments satisfy one that
//! allows, and their cost is bounded.

use pes::domain::policy::PolicyRules;
use pes::domain::settings::PolicyAction;
use pes::tool::policy::{MAX_CONDITIONS, MAX_EXAMINED, MOST_VALUES, check};
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::policy::{decided, policy};
use super::settings;
use crate::support::cases::cases;

/// Whether a rule with this condition decides about a call with these arguments.
fn applies(action: &str, op: &str, value: &Value, arguments: &Value) -> bool {
    let rule = json!([{ "id": "rule", "action": action, "when": [{ "pointer": "/to", "op": op, "value": value }] }]);
    decided(&policy(json!([]), rule), &settings(None, &[]), arguments).rule == "rule"
}

#[rstest]
#[case::a_second_address("matches", json!("*@example.com"), json!("mallory@evil.test,a@example.com"))]
#[case::a_second_line("matches", json!("*@example.com"), json!("mallory@evil.test\na@example.com"))]
#[case::a_header("matches", json!("*@example.com"), json!("a@evil.test\r\nBcc: a@example.com"))]
#[case::something_invisible("matches", json!("note*"), json!("note\u{202e}txt"))]
#[case::another_case("eq", json!("a@example.com"), json!("A@example.com"))]
#[case::a_blank("in", json!(["a@example.com"]), json!("a@example.com "))]
#[case::what_is_only_written_otherwise("ne", json!("root"), json!("ROOT"))]
#[case::a_text_that_is_a_number("lt", json!(1000), json!("7"))]
#[case::a_list("eq", json!("a@example.com"), json!(["a@example.com"]))]
#[case::user_information("host", json!(["good.com"]), json!("https://good.com@evil.test/"))]
#[case::a_backslash("host", json!(["good.com"]), json!("https://evil.test\\@good.com/"))]
#[case::another_label("host", json!(["good.com", "*.good.com"]), json!("https://evilgood.com/"))]
#[case::a_name_behind("host", json!(["good.com"]), json!("https://good.com.evil.test/"))]
#[case::a_number_as_address("host", json!(["127.0.0.1"]), json!("http://2130706433/"))]
#[case::a_domain_before("email_domain", json!(["good.com"]), json!("a@good.com@evil.test"))]
#[case::one_address_of_two("email_domain", json!(["good.com"]), json!(["a@good.com", "b@evil.test"]))]
#[case::mail_sent_on("email_domain", json!(["good.com"]), json!("a%evil.test@good.com"))]
#[case::no_number("number", json!({ "max": 1000 }), json!("1e9"))]
#[case::nothing("number", json!({ "max": 1000 }), Value::Null)]
fn nothing_in_doubt_is_allowed(#[case] op: &str, #[case] value: Value, #[case] to: Value) {
    assert!(!applies("auto", op, &value, &json!({ "to": to })));
    assert!(!applies("auto", op, &value, &json!({})), "missing");
}

#[rstest]
#[case::another_case("eq", json!("mallory@evil.test"), json!("Mallory@EVIL.test"))]
#[case::blanks("in", json!(["mallory@evil.test"]), json!("\u{a0}mallory@evil.test\n"))]
#[case::wide_letters("eq", json!("mallory@evil.test"), json!("ｍallory@evil.test"))]
#[case::something_invisible("contains", json!("evil"), json!("e\u{200b}vil"))]
#[case::a_second_address("matches", json!("*@evil.test"), json!("Mallory@evil.test,a@example.com"))]
#[case::a_second_line("matches", json!("rm *"), json!("ls\nRM -rf /"))]
#[case::what_is_only_read_so("ne", json!("root"), json!("ROOT"))]
#[case::a_text_that_is_a_number("gt", json!(1000), json!("7000"))]
#[case::a_list("eq", json!("mallory@evil.test"), json!(["mallory@evil.test"]))]
#[case::user_information("host", json!(["evil.test"]), json!("https://good.com@evil.test/"))]
#[case::a_dot_behind("host", json!(["evil.test"]), json!("https://EVIL.test.:443/"))]
#[case::escapes("host", json!(["evil.test"]), json!("https://%65vil.test/"))]
#[case::a_number_as_address("host", json!(["127.0.0.1"]), json!("http://2130706433/"))]
#[case::an_address_within_another("host", json!(["127.0.0.1"]), json!("http://[::ffff:7f00:1]/"))]
#[case::one_address_of_two("email_domain", json!(["evil.test"]), json!("a@good.com, b@evil.test"))]
#[case::a_display_name("email_domain", json!(["evil.test"]), json!("a@good.com <b@evil.test>"))]
#[case::a_written_number("number", json!({ "above": 1000 }), json!("1001"))]
#[case::no_number("number", json!({ "above": 1000 }), json!("2e3"))]
#[case::nothing("gt", json!(1000), Value::Null)]
fn whatever_is_in_doubt_is_denied_and_asked_about(#[case] op: &str, #[case] value: Value, #[case] to: Value) {
    for action in ["deny", "ask"] {
        assert!(applies(action, op, &value, &json!({ "to": to })), "{action}");
        assert!(applies(action, op, &value, &json!({})), "{action}: missing");
    }
}

#[test]
fn what_is_certain_is_decided_so() {
    for (op, value, inside, outside) in [
        ("email_domain", json!(["good.com", "*.good.com"]), json!(["a@good.com", "b@x.good.com"]), json!("a@bad.com")),
        ("host", json!("*.good.com"), json!("https://api.good.com:8443/x?y#z"), json!("https://good.com/")),
        ("number", json!({ "min": 1, "max": 9 }), json!("7.5"), json!(10)),
        ("matches", json!("*@good.com"), json!("a.b@good.com"), json!("a.b@bad.com")),
        ("in", json!(["a", "b"]), json!("b"), json!("c")),
    ] {
        for action in ["auto", "deny"] {
            assert!(applies(action, op, &value, &json!({ "to": inside })), "{action} {op} {inside}");
            assert!(!applies(action, op, &value, &json!({ "to": outside })), "{action} {op} {outside}");
        }
    }
}

#[test]
fn a_guard_leaves_calls_alone_that_have_no_such_argument() {
    let rule = json!([{ "id": "rule", "tool": "*", "action": "deny", "when": [
        { "pointer": "/to", "op": "exists" }, { "pointer": "/to", "op": "matches", "value": "*@evil.test" }] }]);
    let policy = policy(json!([]), rule);
    let rule_of = |arguments: Value| decided(&policy, &settings(None, &[]), &arguments).rule;
    assert_ne!(rule_of(json!({ "expression": "1 + 1" })), "rule");
    assert_eq!(rule_of(json!({ "to": "a@evil.test" })), "rule");
    assert_eq!(rule_of(json!({ "to": null })), "rule");
}

#[test]
fn an_argument_is_normalised_once_however_many_conditions_look_at_it() {
    let rules = (0..1_000)
        .map(|at| json!({ "action": "deny", "when": [{ "pointer": "/to", "op": "eq", "value": at.to_string() }] }));
    let policy = policy(json!([]), rules.collect());
    let arguments = json!({ "to": "ﬁ".repeat(MAX_EXAMINED / 3 - 10) });
    assert_eq!(decided(&policy, &settings(None, &[]), &arguments).action, PolicyAction::Auto);
}

#[test]
fn what_would_cost_too_much_counts_against_the_call() {
    let searches = |action: &str, conditions: usize| {
        let when = json!({ "pointer": "/to", "op": "contains", "value": "x" });
        json!([{ "id": "rule", "action": action, "when": vec![when; conditions] }])
    };
    let rule_of = |rules: Value, to: &str| {
        decided(&policy(json!([]), rules), &settings(None, &[]), &json!({ "to": to })).rule == "rule"
    };
    let (short, long) = ("a".repeat(MAX_EXAMINED - 16), "a".repeat(MAX_EXAMINED));
    assert!(!rule_of(searches("deny", 1), &short), "it is looked at whole");
    assert!(rule_of(searches("deny", 1), &long), "it is too long to be looked at");
    let found = format!("x{}", &short[1..]);
    assert!(rule_of(searches("auto", 10), &found), "ten searches are made");
    assert!(!rule_of(searches("auto", 1_000), &found), "a thousand are not");
    let many = (0..1_000).map(|at| {
        json!({ "id": format!("{at}"), "action": "deny", "when": [
        { "pointer": "/to", "op": "contains", "value": format!("x{at}") }] })
    });
    let policy = policy(json!([]), many.collect());
    assert_eq!(decided(&policy, &settings(None, &[]), &json!({ "to": short })).action, PolicyAction::Deny);
}

#[test]
fn conditions_that_cannot_be_used_are_refused_at_their_place() {
    let refused = |rules: Value| {
        let rules: PolicyRules = serde_json::from_value(json!({ "rules": rules })).unwrap();
        check(&rules.rules).unwrap_err().errors.remove(0).pointer
    };
    let when = |op: &str, value: Value| {
        refused(json!([{ "action": "ask", "when": [{ "pointer": "/to", "op": op, "value": value }] }]))
    };
    for (op, value, place) in [
        ("email_domain", json!([]), "value"),
        ("email_domain", json!(["example.com", "a@example.com"]), "value/1"),
        ("email_domain", json!("192.0.2.1"), "value"),
        ("host", json!("https://example.com/"), "value"),
        ("host", json!(["example.com:80"]), "value/0"),
        ("host", json!("*"), "value"),
        ("number", json!(5), "value"),
        ("number", json!({ "atLeast": 5 }), "value"),
        ("contains", json!("\u{200b} "), "value"),
        ("matches", json!(""), "value"),
        ("in", json!(["x".repeat(MAX_EXAMINED)]), "value"),
    ] {
        assert_eq!(when(op, value), format!("/rules/0/when/0/{place}"), "{op}");
    }
    let pointer = format!("/{}", "x".repeat(1_024));
    let rules = json!([{ "action": "ask", "when": [{ "pointer": pointer, "op": "eq" }] }]);
    assert_eq!(refused(rules), "/rules/0/when/0/pointer");

    let condition = json!({ "pointer": "/to", "op": "exists" });
    let whole = json!({ "action": "ask", "when": vec![condition.clone(); MAX_CONDITIONS] });
    let one = json!({ "action": "ask", "when": [condition] });
    assert_eq!(refused(json!([whole, one])), "/rules/1/when/0");
    let large = json!({ "pointer": "/to", "op": "eq", "value": "x".repeat(MAX_EXAMINED - 16) });
    let large = json!({ "action": "ask", "when": vec![large; MOST_VALUES / MAX_EXAMINED + 1] });
    let growing = json!({ "pointer": "/to", "op": "eq", "value": "\u{fdfa}".repeat(10_000) });
    assert_eq!(
        refused(json!([{ "action": "ask", "when": [growing] }])),
        "/rules/0/when/0/value",
        "normalised it is too long"
    );
    assert_eq!(refused(json!([large])), format!("/rules/0/when/{}/value", MOST_VALUES / MAX_EXAMINED));
}

#[test]
fn the_examples_of_the_manual_are_rules() {
    let manual = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/POLICY.md")).unwrap();
    let examples: Vec<PolicyRules> = manual
        .match_indices("{\"rules\": [")
        .filter_map(|(at, _)| serde_json::Deserializer::from_str(&manual[at..]).into_iter().next()?.ok())
        .collect();
    assert_eq!(examples.len(), 2, "each example is read");
    for example in examples {
        check(&example.rules).unwrap();
    }
}

/// Text that looks like `text` to people.
fn variant(text: &'static str) -> impl Strategy<Value = String> {
    let change = prop::sample::select(vec!["", "\u{200b}", "\u{ad}", "\u{2060}", "\u{fe0f}", "\u{0}"]);
    let changes = prop::collection::vec((any::<bool>(), any::<bool>(), change), text.chars().count());
    let blank = prop::sample::select(vec!["", " ", "\t", "\n", "\u{a0}", "\u{3000}", "\r\n"]);
    (blank.clone(), changes, blank).prop_map(move |(before, changes, after)| {
        let changed = text.chars().zip(changes).map(|(c, (is_upper, is_wide, invisible))| {
            let cased: String = if is_upper { c.to_uppercase().collect() } else { c.to_string() };
            let wide = |c: char| char::from_u32(u32::from(c) + 0xFEE0).unwrap();
            let widened = cased.chars().map(|c| if is_wide && c.is_ascii_graphic() { wide(c) } else { c });
            widened.chain(invisible.chars()).collect::<String>()
        });
        format!("{before}{}{after}", changed.collect::<String>())
    })
}

proptest! {
    #![proptest_config(cases(128))]

    #[test]
    fn every_variant_of_what_is_denied_is_denied(text in variant("mallory-straße.é@evil.test")) {
        let arguments = json!({ "to": text });
        for (op, value) in [
            ("eq", json!("mallory-straße.é@evil.test")),
            ("in", json!(["x", "Mallory-STRASSE.e\u{301}@evil.test"])),
            ("contains", json!("straße.é")),
            ("starts_with", json!("mallory")),
            ("matches", json!("*@evil.test")),
            ("matches", json!("mallory*")),
            ("email_domain", json!("evil.test")),
        ] {
            prop_assert!(applies("deny", op, &value, &arguments), "{op} {value} {arguments}");
        }
    }

    #[test]
    fn nothing_outside_of_what_is_allowed_is_allowed(text in "[ab@.,; \n\u{200b}A%<]{0,4}(@|,)?(a\\.b|ａ\\.b|b\\.a|a\\.b\\.a)?[ ,\n.]?") {
        let arguments = json!({ "to": text });
        if applies("auto", "in", &json!(["a@a.b", "b"]), &arguments) {
            prop_assert!(["a@a.b", "b"].contains(&text.as_str()), "{text:?}");
        }
        for (op, value) in [("matches", json!("*@a.b")), ("email_domain", json!(["a.b"]))] {
            if applies("auto", op, &value, &arguments) {
                for address in text.split(',').map(|address| address.trim_start_matches(' ').trim_end_matches('.')) {
                    let (local, domain) = address.split_once('@').unwrap();
                    prop_assert!(domain.eq_ignore_ascii_case("a.b"), "{op} {text:?}");
                    prop_assert!(!local.contains([' ', '\n', '@', '<', '%', '\u{200b}']), "{op} {text:?}");
                }
            }
        }
    }
}
