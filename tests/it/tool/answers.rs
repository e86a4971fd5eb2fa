//! Every input type of a question: which answers are accepted, and which are refused.

use pes::config::Environment;
use pes::domain::depth::MOST_DEPTH;
use pes::domain::hitl::{FeedbackSchema, InputType};
use pes::domain::tool::Verdict;
use pes::tool::answer;
use rstest::rstest;
use serde_json::{Value, json};

use super::{everything, judge, settings};

/// The question that `ask_user` makes from its arguments.
fn form(arguments: Value) -> FeedbackSchema {
    match judge(&everything(Environment::Development), &settings(None, &[]), "ask_user", &arguments) {
        Verdict::Input { schema, .. } => schema,
        other @ (Verdict::Run { .. }
        | Verdict::Ask { .. }
        | Verdict::Client
        | Verdict::Delegate
        | Verdict::Refuse(_)) => {
            panic!("no question: {other:?}")
        }
    }
}

#[rstest]
#[case("boolean", json!(true), json!("true"))]
#[case("confirm", json!(false), json!(null))]
#[case("text", json!(""), json!(1))]
#[case("number", json!(1.5), json!("1.5"))]
#[case("date", json!("2026-02-28"), json!("2026-02-30"))]
#[case("date", json!("2026-02-28"), json!("2026-02-28T00:00:00Z"))]
#[case("datetime", json!("2026-02-28T10:00:00+01:00"), json!("2026-02-28 10:00"))]
#[case("file", json!("https://example.com/a.pdf"), json!(""))]
#[case("select", json!("a"), json!("c"))]
#[case("select", json!(7), json!(["a"]))]
#[case("multiselect", json!(["a", 7]), json!(["a", "a"]))]
#[case("multiselect", json!([]), json!("a"))]
#[case("custom", json!({ "size": 3 }), json!({ "size": "3" }))]
fn an_answer_fits_its_input_type(#[case] input_type: &str, #[case] good: Value, #[case] bad: Value) {
    let mut arguments = json!({ "question": "?", "inputType": input_type });
    if input_type.contains("select") {
        arguments["options"] = json!(["a", { "value": 7, "label": "seven" }]);
    }
    if input_type == "custom" {
        arguments["schema"] = json!({ "type": "object", "properties": { "size": { "type": "integer" } } });
    }
    let form = form(arguments);
    answer::check(&form, &good).unwrap();
    let fault = answer::check(&form, &bad).unwrap_err();
    assert!(fault.errors[0].pointer.starts_with("/value"), "{fault:?}");
}

/// What is stored must be readable again, also where the form has no schema, as that of a client's own tool.
#[test]
fn an_answer_nests_no_deeper_than_what_can_be_read_again() {
    let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!({ "a": inner }));
    let own_tool =
        FeedbackSchema { custom_schema: None, ..form(json!({ "question": "?", "inputType": "custom", "schema": {} })) };
    for form in [form(json!({ "question": "?", "inputType": "file" })), own_tool] {
        answer::check(&form, &nested(MOST_DEPTH)).unwrap();
        let fault = answer::check(&form, &nested(MOST_DEPTH + 1)).unwrap_err();
        let said = (fault.errors[0].pointer.as_str(), fault.errors[0].detail.as_str());
        assert_eq!(said, ("/value", "nests deeper than 64"), "{:?}", form.input_type);
    }
}

#[test]
fn a_question_is_text_unless_it_says_otherwise() {
    let form = form(json!({ "question": "Which one?" }));
    assert_eq!((form.input_type, form.prompt.as_str()), (InputType::Text, "Which one?"));
}

#[rstest]
#[case(json!({ "question": "?", "inputType": "select" }), "/options")]
#[case(json!({ "question": "?", "inputType": "custom" }), "/schema")]
#[case(json!({ "question": "?", "inputType": "custom", "schema": { "type": "nothing" } }), "/schema/type")]
#[case(json!({ "question": "?", "inputType": "essay" }), "/inputType")]
#[case(json!({ "question": "" }), "/question")]
fn a_question_that_nobody_could_answer_is_refused(#[case] arguments: Value, #[case] pointer: &str) {
    match judge(&everything(Environment::Development), &settings(None, &[]), "ask_user", &arguments) {
        Verdict::Refuse(error) => assert_eq!(error.pointer.as_deref(), Some(pointer)),
        other @ (Verdict::Run { .. }
        | Verdict::Ask { .. }
        | Verdict::Input { .. }
        | Verdict::Client
        | Verdict::Delegate) => {
            panic!("not refused: {other:?}")
        }
    }
}
