use super::*;

fn asked(kind: &str, form: Value) -> AskedQuestion {
    let said =
        json!({ "suspensionId": "sus_1", "kind": kind, "message": "Well?", "feedbackSchema": form, "digest": "d" });
    serde_json::from_value(said).unwrap()
}

fn input_of(form: Value) -> AskedQuestion {
    let mut all = json!({ "prompt": "Well?" });
    all.as_object_mut().unwrap().extend(form.as_object().unwrap().clone());
    asked("input", all)
}

fn accept(content: Value) -> Value {
    json!({ "action": "accept", "content": content })
}

#[test]
fn an_approval_is_a_yes_or_a_no_to_what_was_shown() {
    let confirm = json!({ "inputType": "confirm", "prompt": "Well?" });
    for kind in ["approval", "plan_review", "budget"] {
        let asked = asked(kind, confirm.clone());
        let schema = &form(&asked).unwrap()["params"]["requestedSchema"];
        assert_eq!(schema["required"], json!(["approved"]), "{kind}");
        let answer = |result: Value| match parse_reply(&asked, &result) {
            FormReply::Answer(answer) => (answer.approved, answer.reason, answer.digest),
            other @ (FormReply::Declined | FormReply::Invalid) => panic!("{other:?}"),
        };
        let digest = Some("d".to_owned());
        let because = Some("late".to_owned());
        assert_eq!(answer(accept(json!({ "approved": true }))), (Some(true), None, digest.clone()));
        let no = accept(json!({ "approved": false, "reason": "late" }));
        assert_eq!(answer(no), (Some(false), because, digest.clone()));
        assert_eq!(answer(json!({ "action": "decline" })), (Some(false), None, digest));
        assert_eq!(parse_reply(&asked, &json!({ "action": "cancel" })), FormReply::Declined);
        for unclear in
            [json!({}), json!(7), accept(json!({})), accept(json!({ "approved": "yes" })), json!({ "action": "ok" })]
        {
            assert_eq!(parse_reply(&asked, &unclear), FormReply::Invalid, "{unclear}");
        }
    }
}

#[test]
fn a_pause_ends_by_a_yes_alone() {
    let asked = asked("pause", json!({ "inputType": "confirm", "prompt": "Well?" }));
    let FormReply::Answer(answer) = parse_reply(&asked, &accept(json!({ "approved": true }))) else { panic!() };
    assert_eq!(answer.approved, Some(true));
    for no in [accept(json!({ "approved": false })), json!({ "action": "decline" }), json!({ "action": "cancel" })] {
        assert_eq!(parse_reply(&asked, &no), FormReply::Declined, "{no}");
    }
}

#[test]
fn what_was_called_in_doubt_is_decided_by_a_word() {
    let asked = asked("in_doubt", json!({ "inputType": "select", "prompt": "Well?" }));
    let FormReply::Answer(answer) = parse_reply(&asked, &accept(json!({ "action": "skip" }))) else { panic!() };
    assert_eq!(answer.action, Some(InDoubtAction::Skip));
    assert_eq!(parse_reply(&asked, &accept(json!({ "action": "hope" }))), FormReply::Invalid);
    assert_eq!(parse_reply(&asked, &json!({ "action": "decline" })), FormReply::Declined, "it stays in doubt");
}

#[test]
fn an_input_is_a_form_of_its_kind() {
    let options = json!([{ "value": 1, "label": "One" }, { "value": 2, "label": "Two" }]);
    let custom = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
    let several =
        |items: Value| json!({ "type": "object", "properties": { "all": { "type": "array", "items": items } } });
    let plain = several(json!({ "type": "string", "enum": ["a", "b"] }));
    let titled = several(json!({ "anyOf": [{ "const": "a", "title": "A" }, { "const": "b", "title": "B" }] }));
    for (form_of, content, meant) in [
        (json!({ "inputType": "text" }), json!({ "value": "blue" }), json!("blue")),
        (json!({ "inputType": "number" }), json!({ "value": 2.5 }), json!(2.5)),
        (json!({ "inputType": "boolean" }), json!({ "value": false }), json!(false)),
        (json!({ "inputType": "date" }), json!({ "value": "2026-11-23" }), json!("2026-11-23")),
        (json!({ "inputType": "select", "options": options }), json!({ "value": "Two" }), json!(2)),
        (json!({ "inputType": "multiselect", "options": options }), json!({ "value": ["Two", "One"] }), json!([2, 1])),
        (json!({ "inputType": "custom", "customSchema": custom }), json!({ "name": "Ann" }), json!({ "name": "Ann" })),
        (json!({ "inputType": "custom", "customSchema": plain }), json!({ "all": ["b"] }), json!({ "all": ["b"] })),
        (json!({ "inputType": "custom", "customSchema": titled }), json!({ "all": ["b"] }), json!({ "all": ["b"] })),
    ] {
        let asked = input_of(form_of.clone());
        assert!(form(&asked).is_some(), "{form_of}");
        let FormReply::Answer(answer) = parse_reply(&asked, &accept(content)) else { panic!("{form_of}") };
        assert_eq!(answer.value, Some(meant));
        assert_eq!(parse_reply(&asked, &json!({ "action": "decline" })), FormReply::Declined);
    }
    let unknown = input_of(json!({ "inputType": "select", "options": options }));
    assert_eq!(parse_reply(&unknown, &accept(json!({ "value": "Three" }))), FormReply::Invalid);
}

#[test]
fn what_does_not_fit_a_form_is_not_asked_so() {
    let deep = json!({ "type": "object", "properties": { "a": { "type": "object", "properties": {} } } });
    let empty = json!({ "type": "object", "properties": {} });
    let open = json!({ "type": "object", "properties": { "all": { "type": "array", "items": { "type": "string" } } } });
    for form_of in [
        json!({ "inputType": "file" }),
        json!({ "inputType": "custom" }),
        json!({ "inputType": "custom", "customSchema": deep }),
        json!({ "inputType": "custom", "customSchema": empty }),
        json!({ "inputType": "custom", "customSchema": open }),
    ] {
        assert_eq!(form(&input_of(form_of.clone())), None, "{form_of}");
    }
    let confirm = json!({ "inputType": "confirm", "prompt": "Well?" });
    for kind in ["client_tool", "peer_auth"] {
        assert_eq!(form(&asked(kind, confirm.clone())), None, "{kind}");
    }
    let mut long = asked("approval", confirm);
    long.tool_name = Some("send".to_owned());
    long.tool_input = Some(json!({ "to": "x".repeat(100) }));
    let shown = form(&long).unwrap();
    assert!(shown["params"]["message"].as_str().unwrap().contains(&"x".repeat(100)), "all of it");
    long.tool_input = Some(json!({ "to": "x".repeat(2048) }));
    assert_eq!(form(&long), None);
}
