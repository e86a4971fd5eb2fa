//! Long results of an item's own calls are shortened if its prompt does not fit otherwise.

use pes_engine::domain::model::{FailureKind, ModelRequest};
use pes_engine::domain::prompt::PromptMessage;
use pes_engine::domain::run::{OnBusy, RunStatus};
use serde_json::json;

use super::retry::with_fallbacks;
use super::sim::*;

/// An item whose two calls return this text, which is shortened to 60,000 characters anyway; this is its second prompt.
fn with_long_results(text: &str, window: Option<u64>, most: usize) -> (Sim, Vec<ModelRequest>) {
    let mut sim = Sim::new(move |request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &["read"])]),
        "a.1" => calls(&[("read", json!({ "n": 1 })), ("read", json!({ "n": 2 }))]),
        "a.2" if all_text(request).len() > most => fails(FailureKind::TooLong),
        _ => says("fine"),
    });
    sim.tools.output = Some(json!(text));
    sim.book.window = window;
    sim.ask("go").unwrap();
    sim.go();
    let second = sim.prompts.iter().filter(|prompt| which(prompt) == "a.2").cloned().collect();
    (sim, second)
}

/// The lengths of the results of its own calls, in characters.
fn own_results(prompt: &ModelRequest) -> Vec<usize> {
    let of_tool = |message: &PromptMessage| match message {
        PromptMessage::Tool { content, .. } => Some(content.chars().filter(|c| "oö".contains(*c)).count()),
        PromptMessage::System { .. } | PromptMessage::User { .. } | PromptMessage::Assistant { .. } => None,
    };
    prompt.messages.iter().filter_map(of_tool).collect()
}

#[test]
fn results_of_the_items_own_calls_are_shortened_if_nothing_else_makes_the_prompt_fit() {
    for text in ["o".repeat(200_000), "ö".repeat(200_000)] {
        let (sim, second) = with_long_results(&text, Some(16_384), usize::MAX);
        let [prompt] = &second[..] else { panic!("{} prompts", second.len()) };
        // Three quarters of the window, and the notes on what is left out.
        assert!(all_text(prompt).len() / 3 <= 12_288 + 100, "{}", all_text(prompt).len());
        let [one, other] = own_results(prompt)[..] else { panic!("two results") };
        assert!(one.abs_diff(other) < 10 && one > 12_000 / text.chars().next().unwrap().len_utf8(), "{one} {other}");
        assert!(all_text(prompt).contains("left out; the whole is kept as call_"));
        assert_eq!(prompt.context.fit.unwrap().shortened, 2);
        assert_eq!(sim.run("run_1").status, RunStatus::Completed);
    }
}

#[test]
fn results_of_the_items_own_calls_are_shortened_where_the_provider_finds_the_prompt_too_long() {
    let (sim, second) = with_long_results(&"o".repeat(40_000), None, 50_000);
    let lengths: Vec<usize> = second.iter().map(|prompt| all_text(prompt).len()).collect();
    let [whole, shorter] = lengths[..] else { panic!("{lengths:?}") };
    assert!(whole > 80_000 && shorter < whole / 2 + 500, "{lengths:?}");
    assert_eq!(sim.item("a")["status"], "completed");
}

#[test]
fn a_prompt_that_is_too_long_is_shortened_once_then_another_model_is_asked() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &["read"])]),
        "a.1" => calls(&[("read", json!({}))]),
        "a.2" => fails(FailureKind::TooLong),
        _ => says("fine"),
    });
    sim.tools.output = Some(json!("o".repeat(10_000)));
    sim.ask_with("go", OnBusy::Enqueue, with_fallbacks(1)).unwrap();
    sim.go();
    let step: Vec<&str> = sim.prompts.iter().filter(|it| which(it) == "a.2").map(|it| it.model.as_str()).collect();
    assert_eq!(step, ["m", "m", "m1", "m1"]);
    assert_eq!(sim.item("a")["reason"], "prompt_too_long: the model is away");
}
