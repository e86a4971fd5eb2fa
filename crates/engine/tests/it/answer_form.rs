//! Answers requested as JSON of a given schema: one that does not match is requested again, and never returned as
//! valid.

use std::sync::Arc;

use pes_engine::domain::model::{FailureKind, ModelReply, ModelRequest, StopReason};
use pes_engine::domain::observation::ObservationType;
use pes_engine::domain::prompt::PromptMessage;
use pes_engine::domain::run::{OnBusy, ResultStatus, RunStatus};
use pes_engine::domain::settings::{Budget, RunSettings};
use pes_engine::pes::Pes;
use serde_json::{Value, json};

use super::sim::*;

fn schema() -> Value {
    json!({ "type": "object", "required": ["city"] })
}

fn wanting_json() -> RunSettings {
    RunSettings { answer_schema: Some(schema()), ..RunSettings::default() }
}

fn asked(mut sim: Sim, settings: RunSettings) -> Sim {
    sim.ask_with("Where is it?", OnBusy::Enqueue, settings).unwrap();
    sim.go();
    sim
}

/// One item, and these answers in order; the last one repeats.
fn planned(answers: &'static [&'static str]) -> Sim {
    let mut said = answers.iter();
    let mut last = "";
    Sim::new(move |request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[])]),
        "synthesis" | "repair" => {
            last = said.next().copied().unwrap_or(last);
            says(last)
        }
        other => says(format!("result of {other}")),
    })
}

/// The same, with an answer that is requested again.
fn answering(first: &'static str) -> Sim {
    Sim::new(move |request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[])]),
        "synthesis" => says(first),
        "repair" => says(r#"{"city":"Rome"}"#),
        other => says(format!("result of {other}")),
    })
}

fn react(script: impl FnMut(&ModelRequest) -> Reply + 'static) -> Sim {
    Sim::of(Arc::new(Pes::react()), script)
}

fn answer(sim: &Sim) -> String {
    let run = sim.run("run_1");
    assert_eq!((run.status, run.outcome.unwrap().status), (RunStatus::Completed, ResultStatus::Success));
    sim.contents(ObservationType::FinalResponse)[0]["message"]["content"].as_str().unwrap().to_owned()
}

/// Checks that the run failed, also for callers that wait for its answer; returns the code.
fn failed(sim: &Sim) -> &'static str {
    let run = sim.run("run_1");
    let outcome = run.outcome.unwrap();
    assert_eq!((run.status, outcome.status), (RunStatus::Failed, ResultStatus::Error));
    let code = outcome.error.unwrap().code.as_str();
    let errors = sim.contents(ObservationType::Error);
    assert!(errors.iter().any(|error| error["fatal"] == true && error["code"] == code), "{errors:?}");
    code
}

#[test]
fn only_the_call_that_writes_the_answer_is_asked_for_the_form() {
    let sim = asked(planned(&[r#"{"city":"Rome"}"#]), wanting_json());
    assert_eq!(answer(&sim), r#"{"city":"Rome"}"#);
    let forms: Vec<bool> = sim.prompts.iter().map(|sent| sent.response_schema.as_deref() == Some(&schema())).collect();
    assert_eq!(forms, [false, false, true]);
    let Some(PromptMessage::System { content }) = sim.prompts[2].messages.first() else { panic!() };
    assert!(content.contains(&schema().to_string()), "it is told in words, too: {content}");
    assert!(!content.contains("uiMetadata"), "{content}");
}

#[test]
fn what_stands_around_the_json_is_left_out() {
    let sim = asked(planned(&["Here it is:\n```json\n{\"city\": \"Rome\"}\n```\nAnything else?"]), wanting_json());
    assert_eq!(answer(&sim), r#"{"city":"Rome"}"#);
    assert_eq!(sim.prompts.len(), 3);
}

#[test]
fn an_answer_of_another_form_is_asked_for_again_and_told_what_is_wrong() {
    for (unfit, why) in [
        ("In Rome.", "no JSON"),
        (r#"{"town":"Rome"}"#, "`city` is missing"),
        (r#"Here: {"town":"Rome"}"#, "`city` is missing"),
    ] {
        let sim = asked(answering(unfit), wanting_json());
        assert_eq!(answer(&sim), r#"{"city":"Rome"}"#);
        assert!(last_words(&sim.prompts[3]).contains(why), "{}", last_words(&sim.prompts[3]));
        assert_eq!(sim.prompts[3].response_schema.as_deref(), Some(&schema()));
    }
}

#[test]
fn a_run_whose_answer_never_fits_has_failed() {
    let sim = asked(planned(&["In Rome."]), wanting_json());
    assert_eq!(failed(&sim), "synthesis_failed");
    assert_eq!(sim.prompts.len(), 5, "a plan, a step, an answer and two repairs");
}

#[test]
fn json_that_ends_early_is_no_answer() {
    let sim = asked(planned(&[r#"{"city":"Rome""#, r#"{"city":"Rome"}"#]), wanting_json());
    assert_eq!(answer(&sim), r#"{"city":"Rome"}"#);
    assert!(last_words(&sim.prompts[3]).contains("before it is closed"), "{}", last_words(&sim.prompts[3]));
}

/// The planner's own answer counts if it matches; otherwise the synthesis starts from it.
#[test]
fn an_answer_without_a_plan_is_brought_into_the_form() {
    let direct = |answer: &'static str| {
        Sim::new(move |request| match which(request).as_str() {
            "planning" => says(json!({ "title": "T", "todoList": [], "answer": answer }).to_string()),
            "repair" => says(r#"{"city":"Rome"}"#),
            other => panic!("{other}"),
        })
    };
    let fits = asked(direct(r#"{"city": "Rome"}"#), wanting_json());
    assert_eq!((answer(&fits).as_str(), fits.prompts.len()), (r#"{"city": "Rome"}"#, 1));
    let words = asked(direct("It is in Rome."), wanting_json());
    assert_eq!((answer(&words).as_str(), words.prompts.len()), (r#"{"city":"Rome"}"#, 2));
    let form = words.prompts.last().unwrap();
    let shown =
        |said: &PromptMessage| matches!(said, PromptMessage::Assistant { content, .. } if content == "It is in Rome.");
    assert!(form.messages.iter().any(shown), "{:?}", form.messages);
    assert_eq!(form.response_schema.as_deref(), Some(&schema()));
}

#[test]
fn the_loops_last_word_is_brought_into_the_form() {
    let mut sim = react(|request| match which(request).as_str() {
        "repair" => says(r#"{"city":"Rome"}"#),
        _ if request.context.iteration == 1 => calls(&[("read", json!({ "n": 1 }))]),
        _ => says("It is in Rome."),
    });
    sim = asked(sim, wanting_json());
    assert_eq!((answer(&sim).as_str(), sim.prompts.len()), (r#"{"city":"Rome"}"#, 3));
    let fits = asked(react(|_| says(r#"{"city":"Rome"}"#)), wanting_json());
    assert_eq!((answer(&fits).as_str(), fits.prompts.len()), (r#"{"city":"Rome"}"#, 1));
}

#[test]
fn who_wants_json_is_given_no_account_in_words_instead() {
    let budget = Some(Budget { max_llm_calls: Some(2), ..Budget::default() });
    let spent = asked(planned(&[r#"{"city":"Rome"}"#]), RunSettings { budget, ..wanting_json() });
    assert_eq!(failed(&spent), "budget_exceeded");
    let mut broken = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[])]),
        "synthesis" => fails(FailureKind::TooLong),
        other => says(other),
    });
    broken = asked(broken, wanting_json());
    assert_eq!(failed(&broken), "synthesis_failed");
}

#[test]
fn an_answer_that_its_asker_had_cut_is_told_as_that() {
    let cut = |request: &ModelRequest| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[])]),
        "synthesis" => says(r#"{"city":"Ro"#).map(|reply| ModelReply { stop: StopReason::MaxTokens, ..reply }),
        other => says(other),
    };
    let synthesis_params = json!({ "maxTokens": 5 }).as_object().unwrap().clone();
    let sim = asked(Sim::new(cut), RunSettings { synthesis_params, ..wanting_json() });
    let run = sim.run("run_1");
    assert_eq!((run.status, run.outcome.unwrap().status), (RunStatus::Completed, ResultStatus::Partial));
    assert_eq!(sim.contents(ObservationType::FinalResponse)[0]["message"]["content"], r#"{"city":"Ro"#);
}
