//! A reply that was cut off is never treated as complete.

use pes_engine::domain::model::{ModelReply, ModelRequest, RawToolCall, StopReason};
use pes_engine::domain::observation::ObservationType;
use pes_engine::domain::prompt::PromptMessage;
use pes_engine::domain::run::{OnBusy, ResultStatus, RunStatus};
use pes_engine::domain::settings::{Budget, ExecutionConfig, ModelChoice, OnBudget, RunSettings};
use serde_json::{Value, json};

use super::sim::*;

fn ends(stop: StopReason, reply: Reply) -> Reply {
    reply.map(|reply| ModelReply { stop, ..reply })
}

fn cut(text: &str) -> Reply {
    ends(StopReason::MaxTokens, says(text))
}

/// One item, `a`, with these replies of its steps and of the synthesis.
fn one_item(mut rest: impl FnMut(&str, &ModelRequest) -> Reply + 'static) -> Sim {
    Sim::new(move |request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[])]),
        other => rest(other, request),
    })
}

/// The error code, and the answer's text.
fn partial(sim: &Sim) -> (&'static str, String) {
    let run = sim.run("run_1");
    let outcome = run.outcome.unwrap();
    assert_eq!((run.status, outcome.status), (RunStatus::Completed, ResultStatus::Partial));
    let answer = sim.contents(ObservationType::FinalResponse)[0]["message"]["content"].clone();
    (outcome.error.unwrap().code.as_str(), answer.as_str().unwrap().to_owned())
}

#[test]
fn an_answer_that_is_cut_off_is_asked_for_again_shorter() {
    let mut sim = one_item(|which, _| match which {
        "synthesis" => cut("The answer is fort"),
        "repair" => says("Forty-two."),
        other => says(format!("result of {other}")),
    });
    sim.ask("go").unwrap();
    sim.go();
    let told = last_words(sim.prompts.last().unwrap());
    assert!(told.contains("cut off") && told.contains("shorter"), "{told}");
    assert_eq!(sim.run("run_1").outcome.unwrap().status, ResultStatus::Success);
    assert_eq!(sim.contents(ObservationType::FinalResponse)[0]["message"]["content"], "Forty-two.");
}

#[test]
fn an_answer_that_stays_cut_off_is_shown_and_named() {
    let mut sim = one_item(|which, _| match which {
        "synthesis" | "repair" => cut("The answer is fort"),
        other => says(format!("result of {other}")),
    });
    sim.ask("go").unwrap();
    sim.go();
    assert_eq!(sim.prompts.len(), 5, "a plan, a step, an answer and two repairs");
    let (code, answer) = partial(&sim);
    assert_eq!(code, "synthesis_failed");
    assert!(answer.starts_with("The answer is fort\n\nThe answer was cut off"), "{answer}");
    assert_eq!(sim.contents(ObservationType::Error)[0]["phase"], "synthesis");
}

/// Settings of the answer alone do not change how a plan or a step is written.
#[test]
fn an_answer_is_as_long_as_its_asker_allows_and_nothing_else_is_cut() {
    let mut sim = one_item(|which, _| match which {
        "synthesis" => cut("The answer is fort"),
        other => says(format!("result of {other}")),
    });
    let params = |params: Value| params.as_object().unwrap().clone();
    let settings = RunSettings {
        llm_params: params(json!({ "maxTokens": 900, "seed": 1 })),
        synthesis_params: params(json!({ "maxTokens": 5, "stop": "." })),
        ..RunSettings::default()
    };
    sim.ask_with("go", OnBusy::Enqueue, settings).unwrap();
    sim.go();
    let told: Vec<Value> = sim.prompts.iter().map(|request| Value::Object(request.params.clone())).collect();
    let others = json!({ "maxTokens": 900, "seed": 1 });
    assert_eq!(told, [others.clone(), others, json!({ "maxTokens": 5, "seed": 1, "stop": "." })]);
    assert_eq!(partial(&sim), ("synthesis_failed", "The answer is fort".to_owned()));
    assert_eq!(sim.contents(ObservationType::Error)[0]["phase"], "synthesis");
}

#[test]
fn thinking_that_leaves_no_room_for_the_answer_is_told_as_that() {
    let mut sim = one_item(|which, _| match which {
        "synthesis" | "repair" => cut(""),
        other => says(format!("result of {other}")),
    });
    sim.ask("go").unwrap();
    sim.go();
    assert!(last_words(sim.prompts.last().unwrap()).contains("cut off"));
    let (code, answer) = partial(&sim);
    assert_eq!(code, "synthesis_failed");
    assert!(answer.contains("result of a.1"), "{answer}");
}

fn on_a_budget_of_three_calls(on_budget: OnBudget) -> Sim {
    let mut sim = one_item(|which, _| match which {
        "synthesis" | "repair" => cut("The answer is fort"),
        other => says(format!("result of {other}")),
    });
    let budget = Some(Budget { max_llm_calls: Some(3), ..Budget::default() });
    let execution = ExecutionConfig { on_budget, ..ExecutionConfig::default() };
    sim.ask_with("go", OnBusy::Enqueue, RunSettings { budget, execution, ..RunSettings::default() }).unwrap();
    sim.go();
    assert_eq!(sim.prompts.len(), 3);
    sim
}

#[test]
fn a_budget_that_leaves_no_other_answer_leaves_half_of_this_one() {
    let (code, answer) = partial(&on_a_budget_of_three_calls(OnBudget::Stop));
    assert_eq!(code, "budget_exceeded");
    assert!(answer.starts_with("The answer is fort\n\nThe answer was cut off"), "{answer}");
    let mut asked = on_a_budget_of_three_calls(OnBudget::Ask);
    assert_eq!(asked.run("run_1").status, RunStatus::Suspended);
    asked.answer(0, |answer| answer.approved = Some(true)).unwrap();
    asked.go();
    assert_eq!((partial(&asked).0, asked.prompts.len()), ("synthesis_failed", 5));
}

#[test]
fn a_result_that_is_cut_off_is_asked_for_again() {
    let mut steps = 0;
    let mut sim = one_item(move |which, _| match which {
        "a.1" => {
            steps += 1;
            if steps == 1 { cut("first half, sec") } else { says("both halves") }
        }
        other => says(other),
    });
    sim.ask("go").unwrap();
    sim.go();
    assert_eq!((&sim.item("a")["status"], &sim.item("a")["result"]), (&json!("completed"), &json!("both halves")));
    let again = &sim.prompts[2];
    assert!(last_words(again).contains("cut off"), "{}", last_words(again));
    let shown = |message: &PromptMessage| matches!(message, PromptMessage::Assistant { content, .. } if content == "first half, sec");
    assert!(again.messages.iter().any(shown), "it sees what it said");
}

#[test]
fn a_result_that_stays_cut_off_fails_its_item() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[]), ("b", &["a"], &[])]),
        "synthesis" => says("that did not work"),
        _ => cut("first half, sec"),
    });
    sim.ask("go").unwrap();
    sim.go();
    assert_eq!(sim.prompts.len(), 5, "a plan, three steps and an answer");
    let reason = sim.item("a")["reason"].clone();
    assert!(reason.as_str().unwrap().starts_with("reply_cut_off: "), "{reason}");
    assert_eq!((&sim.item("a")["status"], &sim.item("b")["status"]), (&json!("failed"), &json!("cancelled")));
    assert_eq!(sim.run("run_1").outcome.unwrap().status, ResultStatus::Partial);
}

#[test]
fn a_call_that_is_cut_off_before_its_arguments_does_not_run() {
    let mut sim = one_item(|which, _| match which {
        "a.1" => calls(&[("read", json!({ "n": 1 }))]).map(|reply| {
            let mut tool_calls = reply.tool_calls;
            tool_calls.push(RawToolCall { id: Some("p1".into()), name: "write".into(), arguments: String::new() });
            ModelReply { tool_calls, stop: StopReason::MaxTokens, ..reply }
        }),
        other => says(other),
    });
    sim.ask("go").unwrap();
    sim.go();
    assert_eq!(*sim.tools.ran.lock().unwrap(), [("read".to_owned(), json!({ "n": 1 }))]);
    let results = sim.contents(ObservationType::ToolExecution);
    let error = results.iter().find(|result| result["toolName"] == "write").unwrap()["error"].clone();
    assert_eq!(error["code"], "invalid_arguments");
    assert!(error["message"].as_str().unwrap().contains("ended inside this call"), "{error}");
}

#[test]
fn half_a_plan_is_repaired_and_the_repair_says_that_it_was_cut_off() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => cut(r#"{"title":"T","todoList":[],"answer":"Forty-tw"#),
        "repair" => says(r#"{"title":"T","todoList":[],"answer":"Forty-two."}"#),
        other => panic!("{other}"),
    });
    sim.ask("go").unwrap();
    sim.go();
    assert!(last_words(&sim.prompts[1]).contains("cut off"));
    assert_eq!(sim.contents(ObservationType::FinalResponse)[0]["message"]["content"], "Forty-two.");
}

fn refused() -> Reply {
    ends(StopReason::Refusal, says(""))
}

#[test]
fn a_refusal_is_a_named_failure_wherever_it_comes() {
    let mut planning = Sim::new(|_| refused());
    planning.ask("go").unwrap();
    planning.go();
    let run = planning.run("run_1");
    assert_eq!((run.status, planning.prompts.len()), (RunStatus::Failed, 1));
    assert_eq!(run.outcome.unwrap().error.unwrap().code.as_str(), "model_refused");
    assert_eq!((run.counters.llm_calls, run.counters.usage.input_tokens), (1, 10), "it was paid for");

    let mut step = one_item(|which, _| if which == "a.1" { refused() } else { says("no") });
    step.ask("go").unwrap();
    step.go();
    let reason = step.item("a")["reason"].clone();
    assert!(reason.as_str().unwrap().starts_with("model_refused: "), "{reason}");

    let mut answer = one_item(|which, _| if which == "synthesis" { refused() } else { says(which) });
    answer.ask("go").unwrap();
    answer.go();
    assert_eq!((partial(&answer).0, answer.prompts.len()), ("synthesis_failed", 3));
}

#[test]
fn what_one_model_refuses_the_next_one_is_asked() {
    let mut sim = Sim::new(|request| match request.model.as_str() {
        "m" => ends(StopReason::Refusal, says("I would rather not.")),
        _ => says(r#"{"title":"T","todoList":[],"answer":"Why not."}"#),
    });
    let fallbacks = vec![ModelChoice { provider_name: "demo".into(), model_id: "other".into() }];
    sim.ask_with("go", OnBusy::Enqueue, RunSettings { fallbacks, ..RunSettings::default() }).unwrap();
    sim.go();
    let failed: Vec<Value> = sim.contents(ObservationType::LlmStreamError);
    assert_eq!((failed.len(), &failed[0]["code"]), (1, &json!("refused")));
    assert!(failed[0]["message"].as_str().unwrap().contains("I would rather not."));
    assert_eq!(sim.contents(ObservationType::FinalResponse)[0]["message"]["content"], "Why not.");
}
