//! Replies of steps are parsed: native calls, JSON text, plain text.

use pes_engine::parse::{Decision, step};
use rstest::rstest;
use serde_json::json;

use super::{cut, native, reply};

#[test]
fn plain_text_is_the_content_and_an_angle_is_just_an_angle() {
    for text in [
        "It is 4.",
        "if a < b && c > d { swap(a, b) }",
        "before <last",
        "Use `{}` or [x](y).",
        r#"{"name":"x","age":3}"#,
    ] {
        let draft = step(&reply(text));
        assert_eq!((draft.content.as_str(), draft.calls.len(), draft.decision), (text, 0, None), "{text}");
    }
    assert!(step(&reply(" \n")).is_empty());
}

#[rstest]
#[case::whole(r#"{"content":"c","thoughts":"t","toolCalls":[{"toolName":"add","arguments":{"a":1}}],"nextStepDecision":"continue"}"#)]
#[case::parameters(r#"{"content":"c","thoughts":"t","toolCalls":[{"toolName":"add","parameters":{"a":1}}],"nextStepDecision":"CONTINUE"}"#)]
#[case::snake(
    r#"{"content":"c","thoughts":"t","tool_calls":[{"name":"add","args":{"a":1}}],"next_step_decision":"Continue"}"#
)]
#[case::wire(r#"{"content":"c","thoughts":"t","tool_calls":[{"type":"function","function":{"name":"add","arguments":"{\"a\":1}"}}],"nextStepDecision":"continue"}"#)]
#[case::single(r#"{"content":"c","thoughts":["t"],"toolCalls":{"toolName":"add","arguments":{"a":1}},"nextStepDecision":"continue"}"#)]
#[case::two_objects(r#"{"thoughts":"t","toolCalls":[{"toolName":"add","arguments":{"a":1}}]} {"content":"c","nextStepDecision":"continue"}"#)]
#[case::prose(
    "c\n```json\n{\"thoughts\":\"t\",\"toolCalls\":[{\"toolName\":\"add\",\"arguments\":{\"a\":1}}],\"nextStepDecision\":\"continue\"}\n```"
)]
fn a_written_step_is_read(#[case] text: &str) {
    let draft = step(&reply(text));
    assert_eq!((draft.content.as_str(), draft.thoughts.as_deref()), ("c", Some("t")));
    assert_eq!(draft.decision, Some(Decision::Continue));
    let [call] = draft.calls.as_slice() else { panic!("{draft:?}") };
    assert_eq!((call.name.as_str(), &call.provider_id, &call.arguments), ("add", &None, &Ok(json!({"a": 1}))));
}

#[rstest]
#[case(r#"{"toolName":"add","arguments":{"a":1}}"#, 1)]
#[case(r#"[{"toolName":"add","arguments":{"a":1}},{"toolName":"add","arguments":{"a":2}}]"#, 2)]
#[case("<tool_call>\n{\"name\":\"add\",\"arguments\":{\"a\":1}}\n</tool_call>", 1)]
#[case(r#"{"name":"add","arguments":{"a":1},"price":3}"#, 0)]
#[case(r#"[{"name":"add","arguments":{}},{"name":"Ann","age":3}]"#, 0)]
fn a_call_that_stands_alone_must_look_like_one_throughout(#[case] text: &str, #[case] calls: usize) {
    assert_eq!(step(&reply(text)).calls.len(), calls);
}

#[test]
fn native_calls_count_before_written_ones() {
    let mut reply =
        reply(r#"{"content":"c","toolCalls":[{"toolName":"add","arguments":{}}],"nextStepDecision":"wait"}"#);
    reply.tool_calls = vec![native("add", r#"{"a":1}"#)];
    let draft = step(&reply);
    assert_eq!((draft.calls.len(), draft.content.as_str(), draft.decision), (1, "c", Some(Decision::Wait)));
    assert_eq!(draft.calls[0].provider_id.as_deref(), Some("toolu_1"));
}

#[rstest]
#[case("{\"a\": ", "not valid JSON")]
#[case("{'a': 1}", "not valid JSON")]
#[case("{} {}", "not valid JSON")]
fn broken_native_arguments_are_told_not_guessed(#[case] arguments: &str, #[case] why: &str) {
    let mut reply = reply("");
    reply.tool_calls = vec![native("add", arguments), native("now", "")];
    let draft = step(&reply);
    assert!(draft.calls[0].arguments.as_ref().unwrap_err().contains(why));
    assert_eq!(draft.calls[1].arguments, Ok(json!({})));
}

#[rstest]
#[case::in_arguments(r#"{"toolCalls":[{"toolName":"rm","arguments":{"path":"/a"}},{"toolName":"rm","arguments":{"path":"/home/x/f"#, [true, false])]
#[case::after_a_member(r#"{"toolCalls":[{"toolName":"rm","arguments":{"path":"/a"}},{"toolName":"rm","arguments":{"path":"/b""#, [true, false])]
#[case::after_arguments(r#"{"toolCalls":[{"toolName":"rm","arguments":{"path":"/a"}},{"toolName":"rm","arguments":{"path":"/b"}}"#, [true, true])]
#[case::later(r#"{"toolCalls":[{"toolName":"rm","arguments":{"path":"/a"}},{"toolName":"rm","arguments":{"path":"/b"}}],"content":"and th"#, [true, true])]
fn a_call_that_the_replys_end_cut_off_never_runs(#[case] text: &str, #[case] is_whole: [bool; 2]) {
    let draft = step(&reply(text));
    let whole: Vec<bool> = draft.calls.iter().map(|call| call.arguments.is_ok()).collect();
    assert_eq!(whole, is_whole);
}

#[rstest]
#[case::before_its_arguments("", false)]
#[case::in_its_arguments(r#"{"path": "/home/x/f"#, false)]
#[case::after_its_arguments(r#"{"path": "/b"}"#, true)]
fn a_native_call_that_the_replys_end_cut_off_never_runs(#[case] last: &str, #[case] is_whole: bool) {
    let mut reply = cut("");
    reply.tool_calls = vec![native("now", ""), native("rm", last)];
    let draft = step(&reply);
    assert_eq!(draft.calls[0].arguments, Ok(json!({})), "another followed it");
    assert_eq!(draft.calls[1].arguments.is_ok(), is_whole);
    assert!(is_whole || draft.calls[1].arguments.as_ref().unwrap_err().contains("ended inside this call"));
}

#[test]
fn an_updated_plan_is_a_patch() {
    let text = r#"{"nextStepDecision":"update_plan","updatedPlan":{"intent":"more","todoList":[{"id":2,"status":"CANCELLED"},{"id":"new","description":"x"}]}}"#;
    let draft = step(&reply(text));
    assert_eq!(draft.decision, Some(Decision::UpdatePlan));
    let patch = draft.updated_plan.unwrap();
    assert_eq!((patch.intent.as_deref(), patch.plan, patch.items.len()), (Some("more"), None, 2));
    assert_eq!((patch.items[0].id.as_str(), &patch.items[0].description), ("2", &None));
    let torn = r#"{"content":"c","updatedPlan":{"todoList":[{"id":"a","description":"half a sen"#;
    assert_eq!(step(&reply(torn)).updated_plan, None);
}
