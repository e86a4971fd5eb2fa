//! Prompts that fit into what the model reads.

use pes::domain::model::{FailureKind, ModelRequest};
use pes::domain::observation::ObservationType;
use pes::domain::prompt::PromptMessage;
use pes::domain::run::RunStatus;
use serde_json::json;

use super::sim::*;

fn all_text(request: &ModelRequest) -> String {
    let said = request.messages.iter().map(|message| match message {
        PromptMessage::System { content }
        | PromptMessage::User { content }
        | PromptMessage::Assistant { content, .. }
        | PromptMessage::Tool { content, .. } => content.as_str(),
    });
    said.collect::<Vec<_>>().join("\n")
}

/// What the figures of the last call say of its context.
fn told(sim: &Sim) -> Option<serde_json::Value> {
    let figures = sim.records.iter().rev().find(|record| record.kind == ObservationType::LlmStreamMetadata);
    figures.unwrap().metadata.as_ref().map(|metadata| metadata["context"].clone())
}

/// A thread whose conversation has ten long messages, and then a short question.
fn long_talk(window: Option<u64>) -> Sim {
    let mut sim = Sim::new(|_| says(json!({ "answer": "a".repeat(3_000), "todoList": [] }).to_string()));
    for n in 0..5 {
        sim.ask(&format!("question {n} {}", "q".repeat(3_000))).unwrap();
        sim.go();
    }
    sim.book.window = window;
    sim.ask("and now?").unwrap();
    sim.go();
    sim
}

#[test]
fn the_oldest_messages_are_left_out_and_that_is_told() {
    let sim = long_talk(Some(8_000));
    let prompt = all_text(sim.prompts.last().unwrap());
    assert!(prompt.contains("and now?") && prompt.contains("question 4") && !prompt.contains("question 0"));
    assert!(prompt.len() / 3 <= 6_000, "{}", prompt.len() / 3);
    let fit = told(&sim).unwrap();
    let (kept, left_out) = (fit["kept"].as_u64().unwrap(), fit["leftOut"].as_u64().unwrap());
    assert_eq!((kept + left_out, fit["shortened"].as_u64()), (10, Some(0)));
    assert!(kept > 0);
}

#[test]
fn a_prompt_that_fits_is_left_alone() {
    for window in [None, Some(1_000_000)] {
        let sim = long_talk(window);
        assert!(all_text(sim.prompts.last().unwrap()).contains("question 0"));
        assert_eq!(told(&sim), None);
    }
}

#[test]
fn results_of_others_are_shortened_and_the_items_own_loop_never() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[]), ("b", &["a"], &["read"])]),
        "a.1" => says("r".repeat(30_000)),
        "b.1" => calls(&[("read", json!({ "own": "o".repeat(6_000) }))]),
        _ => says("fine"),
    });
    sim.book.window = Some(12_000);
    sim.ask("go").unwrap();
    sim.go();
    let second = sim.prompts.iter().find(|prompt| which(prompt) == "b.2").unwrap();
    let prompt = all_text(second);
    assert!(prompt.contains(&"o".repeat(6_000)), "its own loop is whole");
    assert!(!prompt.contains(&"r".repeat(29_000)) && prompt.contains("more characters left out"));
    assert!(second.context.fit.unwrap().shortened > 0);
    assert_eq!(sim.run("run_1").status, RunStatus::Completed);
}

#[test]
fn a_prompt_that_the_provider_finds_too_long_is_made_half_as_long_once() {
    let mut sim = Sim::new(|request| match all_text(request).len() > 20_000 {
        true => fails(FailureKind::TooLong),
        false => says(json!({ "answer": "a".repeat(12_000), "todoList": [] }).to_string()),
    });
    for n in 0..2 {
        sim.ask(&format!("question {n}")).unwrap();
        sim.go();
    }
    sim.ask("question 2").unwrap();
    sim.go();
    assert_eq!(sim.run("run_3").status, RunStatus::Completed);
    let lengths: Vec<usize> = sim.prompts.iter().rev().take(2).map(|prompt| all_text(prompt).len()).collect();
    assert!(lengths[1] > 20_000 && lengths[0] < lengths[1] * 2 / 3, "{lengths:?}");
    assert_eq!(told(&sim).unwrap()["kept"].as_u64().unwrap() + told(&sim).unwrap()["leftOut"].as_u64().unwrap(), 4);
}
