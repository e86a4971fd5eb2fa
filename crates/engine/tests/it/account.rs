//! The report that replaces an answer which could not be written.

use pes_engine::domain::model::{FailureKind, ModelFailure, ModelReply};
use pes_engine::domain::observation::ObservationType;
use pes_engine::step::RowKind;
use serde_json::json;

use super::sim::*;

/// The answer of a run whose only item has this result, and whose synthesis fails.
fn account(result: Result<ModelReply, ModelFailure>, required: &'static [&'static str]) -> (String, Sim) {
    let mut result = Some(result);
    let mut sim = Sim::new(move |request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], required)]),
        "a.1" if !required.is_empty() => calls(&[(required[0], json!({ "n": 1 }))]),
        "synthesis" => fails(FailureKind::Refused),
        _ => result.take().unwrap(),
    });
    sim.ask("go").unwrap();
    while !sim.is_idle() {
        sim.crash();
        assert!(sim.step());
    }
    let answer = sim.contents(ObservationType::FinalResponse)[0]["message"]["content"].as_str().unwrap().to_owned();
    (answer, sim)
}

#[test]
fn a_long_result_is_told_as_far_as_there_is_room_and_where_it_was_cut() {
    let long = format!("It begins. {}It ends.", "é".repeat(5_000));
    let (answer, sim) = account(says(long.clone()), &[]);
    assert!(answer.contains("- do a: completed — It begins. éé"), "{answer}");
    assert!(!answer.contains("It ends."));
    assert!(answer.contains(&format!("more characters of {}", long.chars().count())), "{answer}");
    assert!(answer.len() < 4_000, "{}", answer.len());
    let row = sim.rows().find(|row| row.kind == RowKind::Progress).unwrap();
    assert!(row.body.len() < 3_000, "what is written of an item does not grow with its result: {}", row.body.len());
    assert_eq!(sim.item("a")["result"], json!(long), "the item has the whole");
}

#[test]
fn a_result_that_is_a_little_too_long_to_stand_with_the_item_is_told_whole() {
    let text = format!("{} and that is all", "word ".repeat(120));
    let (answer, _) = account(says(text.clone()), &[]);
    assert!(answer.contains(&text) && !answer.contains("more characters"), "{answer}");
}

#[test]
fn a_result_without_words_is_told_too() {
    let (answer, _) = account(says(r#"{"nextStepDecision":"complete_item"}"#), &["read"]);
    assert!(answer.contains(r#"completed — {"tool":"read","of":{"n":1}}"#), "{answer}");
}
