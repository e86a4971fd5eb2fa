//! The person who is asked sees the prompt that the model got.

use pes_engine::domain::prompt::PromptMessage;
use pes_engine::step::RowKind;
use serde_json::{Value, json};

use super::sim::*;

/// `b` depends on `a` and asks two questions, one after the other.
fn asking() -> Sim {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &["read"]), ("b", &["a"], &["gated"])]),
        "a.1" => calls(&[("read", json!({ "x": "y".repeat(2_000) }))]),
        "b.1" | "b.2" => calls(&[("gated", json!({ "x": 1 }))]),
        other => says(format!("result of {other}")),
    });
    sim.ask("go").unwrap();
    sim.go();
    sim
}

fn of(sim: &Sim) -> Vec<Value> {
    sim.view()["suspension"]["iterationState"].as_array().unwrap().clone()
}

#[test]
fn a_question_shows_the_prompt_from_its_system_prompt_to_its_last_turn() {
    let mut sim = asking();
    let [system, context, task, said] = &of(&sim)[..] else { panic!("{:#?}", of(&sim)) };
    let prompt = sim.prompts.iter().find(|prompt| which(prompt) == "b.1").unwrap();
    let PromptMessage::System { content } = &prompt.messages[0] else { panic!("{prompt:?}") };
    assert_eq!((&system["role"], &system["content"]), (&json!("system"), &json!(content)));
    assert_eq!((&context["role"], &context["content"]["stepId"]), (&json!("user"), &json!("a")));
    assert_eq!(context["content"]["rawResult"], "result of a.2");
    assert_eq!(context["content"]["toolResults"][0]["output"]["of"]["x"], "y".repeat(2_000));
    assert_eq!((&task["role"], &task["content"]), (&json!("user"), &json!("Task: do b\n\nRequired tools: gated")));
    assert_eq!((&said["role"], &said["toolCalls"][0]["toolName"]), (&json!("assistant"), &json!("gated")));
    sim.reload();
    sim.answer(0, |answer| answer.approved = Some(true)).unwrap();
    sim.go();
    let roles: Vec<Value> = of(&sim).iter().map(|message| message["role"].clone()).collect();
    assert_eq!(roles, ["system", "user", "user", "assistant", "tool", "assistant"]);
}

/// It is stored when the first question opens, and later questions refer to it.
#[test]
fn what_a_prompt_began_with_is_stored_once() {
    let mut sim = asking();
    sim.answer(0, |answer| answer.approved = Some(true)).unwrap();
    sim.go();
    assert_eq!(sim.suspensions().len(), 1, "the second question is open");
    let kept = sim.rows().filter(|row| row.kind == RowKind::Payload && row.body.contains("Phase: execution b"));
    assert_eq!(kept.count(), 1);
}
