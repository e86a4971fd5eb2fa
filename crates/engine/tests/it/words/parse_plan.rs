//! Plans are parsed in all the spellings that models use.

use pes_engine::domain::plan::{ItemStatus, StepType, ToolValidationMode};
use rstest::rstest;
use serde_json::json;

use super::{cut, native, plan};

const PLAIN: &str = r#"{"title":"Trip","intent":"travel","plan":"go","todoList":[{"id":"a","description":"Look","stepType":"tool","requiredTools":["web"],"expectedOutcome":"a list","status":"pending"},{"id":"b","description":"Think","stepType":"reasoning","dependencies":["a"]}]}"#;

#[rstest]
#[case::bare(PLAIN.to_owned())]
#[case::fence(format!("```json\n{PLAIN}\n```"))]
#[case::bare_fence(format!("```\n{PLAIN}\n```"))]
#[case::prose(format!("Sure! Here is {{the plan}} for [you](x):\n{PLAIN}\nHave fun."))]
#[case::markers(format!("{{\"todoList\":[{{\"id\":\"x\"}}]}}\n---JSON_OUTPUT_START---\n{PLAIN}\n---JSON_OUTPUT_END---\n{{}}"))]
#[case::open_marker(format!("---JSON_OUTPUT_START---{PLAIN}"))]
#[case::an_example_first(format!("{{\"todoList\":[{{\"id\":\"1\",\"description\":\"example\"}}]}} and now mine: {PLAIN}"))]
#[case::another_object_after(format!("{PLAIN}\n{{\"note\":\"that was it\"}}"))]
#[case::an_object_of_a_plans_after(format!("{PLAIN}\n{{\"title\":\"Trip\"}}"))]
#[case::an_intent_after(format!("{PLAIN}\n{{\"intent\":\"travel\",\"plan\":\"go\"}}"))]
#[case::envelope(format!("{{\"response\":{PLAIN}}}"))]
#[case::trailing_commas(PLAIN.replace("}]}", ",},],}"))]
#[case::comments(PLAIN.replacen('{', "{ // the plan\n /* as\nasked */ ", 1))]
#[case::single_quotes(PLAIN.replace('"', "'"))]
#[case::bare_keys(PLAIN.replace("\"title\"", "title").replace("\"todoList\"", "todoList"))]
#[case::missing_brackets(PLAIN.trim_end_matches(['}', ']']).to_owned() + "}")]
#[case::missing_last_bracket(PLAIN[..PLAIN.len() - 1].to_owned())]
fn a_plan_is_read_however_it_is_wrapped(#[case] text: String) {
    let draft = plan(&text, &[]).unwrap();
    assert_eq!(draft.title.as_deref(), Some("Trip"));
    assert_eq!(draft.plan.as_deref(), Some("go"));
    let [a, b] = draft.items.as_slice() else { panic!("{:?}", draft.items) };
    assert_eq!((a.id.as_str(), a.step_type, a.status), ("a", Some(StepType::Tool), Some(ItemStatus::Pending)));
    assert_eq!(a.required_tools, Some(vec!["web".to_owned()]));
    assert_eq!(b.dependencies, Some(vec!["a".to_owned()]));
    assert_eq!(b.status, None);
}

#[rstest]
#[case("PENDING", ItemStatus::Pending)]
#[case("Completed", ItemStatus::Completed)]
#[case("IN_PROGRESS", ItemStatus::InProgress)]
#[case("In Progress", ItemStatus::InProgress)]
#[case("in-progress", ItemStatus::InProgress)]
#[case("CANCELED", ItemStatus::Cancelled)]
fn statuses_count_in_any_case(#[case] word: &str, #[case] status: ItemStatus) {
    let text = json!({"todoList": [{"id": "a", "description": "x", "status": word}]}).to_string();
    assert_eq!(plan(&text, &[]).unwrap().items[0].status, Some(status));
}

#[test]
fn an_unknown_status_says_nothing_and_spoils_nothing() {
    let text = json!({"todoList": [{"id": "a", "description": "x", "status": "whatever", "stepType": 7}]}).to_string();
    let draft = plan(&text, &[]).unwrap();
    assert_eq!((draft.items[0].status, draft.items[0].step_type), (None, None));
}

#[test]
fn ids_may_be_numbers_and_dependencies_name_them() {
    let text = r#"{"todoList":[{"id":1,"description":"x"},{"id":2,"description":"y","dependencies":[1]},{"id":"3","description":"z","dependsOn":"1, 2"}]}"#;
    let draft = plan(text, &[]).unwrap();
    assert_eq!(draft.items.iter().map(|item| item.id.as_str()).collect::<Vec<_>>(), ["1", "2", "3"]);
    assert_eq!(draft.items[1].dependencies, Some(vec!["1".to_owned()]));
    assert_eq!(draft.items[2].dependencies, Some(vec!["1".to_owned(), "2".to_owned()]));
}

#[test]
fn ids_are_one_line_and_unique_or_not_there() {
    let text = r#"{"todoList":[{"id":"a\nPhase: planning","description":"x"},{"id":" b ","description":"y"},{"id":"b","description":"z"},{"description":"w"},"just text",null,7]}"#;
    let ids: Vec<String> = plan(text, &[]).unwrap().items.into_iter().map(|item| item.id).collect();
    assert_eq!(ids, ["a_Phase:_planning", "b", "b-3", "", ""]);
}

#[test]
fn a_null_under_one_name_hides_nothing_under_another() {
    let text = r#"{"todoList":null,"items":[{"id":null,"itemId":"a","description":null,"task":"x","dependencies":null,"deps":["b"]}]}"#;
    let draft = plan(text, &[]).unwrap();
    let [item] = draft.items.as_slice() else { panic!("{draft:?}") };
    assert_eq!((item.id.as_str(), item.description.as_deref()), ("a", Some("x")));
    assert_eq!(item.dependencies, Some(vec!["b".to_owned()]));
}

#[test]
fn one_strange_item_does_not_spoil_the_others() {
    let text = r#"{"plan":["first","then"],"todoList":[{"id":"a","description":{"what":1},"requiredTools":[{"name":"t"},null],"toolValidationMode":"ADVISORY"},{"id":"b","task":"y"}]}"#;
    let draft = plan(text, &[]).unwrap();
    assert_eq!(draft.plan.as_deref(), Some("first\nthen"));
    assert_eq!(draft.items[0].description.as_deref(), Some(r#"{"what":1}"#));
    assert_eq!(draft.items[0].required_tools, Some(vec!["t".to_owned()]));
    assert_eq!(draft.items[0].tool_validation_mode, Some(ToolValidationMode::Advisory));
    assert_eq!(draft.items[1].description.as_deref(), Some("y"));
}

#[rstest]
#[case(r#"{"title":"t","plan":[{"id":"a","description":"x"}]}"#)]
#[case(r#"[{"id":"a","description":"x"}]"#)]
#[case(r#"{"plan":{"todoList":[{"id":"a","description":"x"}]}}"#)]
#[case(r#"{"todo_list":[{"id":"a","description":"x"}]}"#)]
fn the_list_may_stand_elsewhere(#[case] text: &str) {
    let draft = plan(text, &[]).unwrap();
    assert_eq!((draft.items.len(), draft.items[0].id.as_str(), draft.plan), (1, "a", None));
}

#[rstest]
#[case(r#"{"title":"t","intent":"i","plan":"","answer":"42","todoList":[]}"#)]
#[case(r#"{"answer":"42"}"#)]
#[case(r#"{"answer":42,"todoList":null}"#)]
#[case::the_last(r#"{"answer":"41"} or rather {"answer":"42"}"#)]
#[case::a_title_after(r#"{"answer":"42"} {"title":"t"}"#)]
fn an_answer_needs_no_list(#[case] text: &str) {
    let draft = plan(text, &[]).unwrap();
    assert_eq!((draft.answer.as_deref(), draft.items.len()), (Some("42"), 0));
}

#[rstest]
#[case::prose("I will look it up for you.", "no JSON object")]
#[case::nothing("", "no JSON object")]
#[case::only_thoughts(r#"{"title":"t","plan":"p"}"#, "no todoList")]
#[case::other_json(r#"{"weather":"fine"}"#, "neither a todoList nor an answer")]
#[case::empty_list(r#"{"title":"t","todoList":[]}"#, "no items")]
#[case::unreadable(r#"{"todoList": [{"id": <one>}]}"#, "byte 21")]
#[case::torn_list(
    r#"{"title":"t","todoList":[{"id":"a","description":"x"},{"id":"b","descr"#,
    "middle of the todoList"
)]
#[case::too_deep(&"[".repeat(100), "nested too deeply")]
fn what_is_no_plan_is_named_for_repair(#[case] text: &str, #[case] why: &str) {
    let fault = plan(text, &[]).unwrap_err().0;
    assert!(fault.contains(why), "{fault}");
}

/// A bracket that was only forgotten loses nothing; one that is missing because of the maximum length may have closed
/// more.
#[rstest]
#[case::half_an_answer(r#"{"todoList":[],"answer":"Forty-tw"#)]
#[case::an_answer_that_may_go_on(r#"{"todoList":[],"answer":"Forty-two.""#)]
#[case::a_list_that_may_go_on(r#"{"todoList":[{"id":"a","description":"x"}"#)]
fn a_plan_that_is_cut_off_is_none_and_the_fault_says_why(#[case] text: &str) {
    assert!(plan(text, &[]).is_ok());
    let fault = pes_engine::parse::plan(&cut(text)).unwrap_err().0;
    assert!(fault.starts_with("It was cut off") && fault.contains("not whole"), "{fault}");
    let whole = format!("{}\nAnd furth", r#"{"todoList":[],"answer":"42"}"#);
    assert_eq!(pes_engine::parse::plan(&cut(&whole)).unwrap().answer.as_deref(), Some("42"));
}

#[test]
fn calls_without_a_list_become_one_tool_item() {
    let native = [native("web", r#"{"q":"x"}"#), native("web", "{}"), native("calculator", "{broken")];
    let draft = plan("Let me search.", &native).unwrap();
    let [item] = draft.items.as_slice() else { panic!("{draft:?}") };
    assert_eq!((item.description.as_deref(), item.step_type), (Some("Let me search."), Some(StepType::Tool)));
    assert_eq!(item.required_tools, Some(vec!["web".to_owned(), "calculator".to_owned()]));
    assert_eq!(draft.calls[0].arguments, Ok(json!({"q": "x"})));
    assert!(draft.calls[2].arguments.is_err());
    let written = plan(r#"{"toolCalls":[{"toolName":"web","arguments":{"q":"x"}}]}"#, &[]).unwrap();
    assert_eq!((written.calls.len(), written.items[0].description.as_deref()), (1, Some("Use web")));
}

#[test]
fn a_list_beside_calls_is_the_plan() {
    let draft = plan(PLAIN, &[native("web", "{}")]).unwrap();
    assert_eq!((draft.items.len(), draft.calls.len()), (2, 0));
}
