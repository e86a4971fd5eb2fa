//! Failed model calls: how long they are retried, which model is called next, and which one is recorded as answering.

use pes_engine::domain::model::{FailureKind, ModelFailure, ModelReply, ModelRequest};
use pes_engine::domain::observation::ObservationType;
use pes_engine::domain::run::{OnBusy, RunStatus};
use pes_engine::domain::settings::{Budget, ModelChoice, RunSettings};
use pes_engine::domain::usage::Price;
use pes_engine::event::{Event, PersonEvent};
use serde_json::{Value, json};

use super::sim::*;
use super::suspend::{one_item, ran};

/// A run with this many fallbacks for its planner; `fail` gives a model's failure by its name.
fn asked(fallbacks: usize, mut fail: impl FnMut(&str) -> Option<FailureKind> + 'static) -> Sim {
    let mut sim = Sim::new(move |request: &ModelRequest| -> Result<ModelReply, ModelFailure> {
        match fail(&request.model) {
            Some(kind) => fails(kind),
            None => says(r#"{"answer":"yes","todoList":[]}"#).map(|reply| ModelReply {
                provider: request.provider.clone(),
                model: request.model.clone(),
                ..reply
            }),
        }
    });
    let price = Price { input_per_million: 1_000.0, output_per_million: 1_000.0, ..Price::default() };
    sim.book.price = Some(price);
    sim.ask_with("go", OnBusy::Enqueue, with_fallbacks(fallbacks)).unwrap();
    sim.go();
    sim
}

/// Settings with this many fallbacks: `m1` of `p1`, and so on.
pub fn with_fallbacks(count: usize) -> RunSettings {
    let other = |n: usize| ModelChoice { provider_name: format!("p{n}"), model_id: format!("m{n}") };
    RunSettings { fallbacks: (1..=count).map(other).collect(), ..RunSettings::default() }
}

/// The models called, in order.
fn models(sim: &Sim) -> Vec<String> {
    let starts = sim.contents(ObservationType::LlmStreamStart);
    starts.iter().map(|start| start["model"].as_str().unwrap().to_owned()).collect()
}

fn code(sim: &Sim) -> String {
    sim.run("run_1").outcome.unwrap().error.unwrap().code.as_str().to_owned()
}

/// From the first failure to the last, in milliseconds.
fn span(sim: &Sim) -> i64 {
    let errors = sim.records.iter().filter(|record| record.kind() == ObservationType::LlmStreamError);
    let times: Vec<i64> = errors.map(|record| record.timestamp).collect();
    times.last().unwrap() - times.first().unwrap()
}

#[test]
fn an_unreachable_provider_is_tried_for_thirty_seconds_a_busy_one_for_two_minutes() {
    let away = asked(0, |_| Some(FailureKind::Unreachable));
    assert!((15_000..=30_100).contains(&span(&away)), "{}", span(&away));
    assert_eq!((code(&away).as_str(), away.run("run_1").counters.llm_calls), ("model_failed", 0), "nothing was sent");
    let busy = asked(0, |_| Some(FailureKind::Retry));
    assert!((80_000..=120_100).contains(&span(&busy)), "{}", span(&busy));
}

fn not_sent(kind: FailureKind) -> Result<ModelReply, ModelFailure> {
    Err(ModelFailure { is_ours: true, ..ModelFailure::new(kind, "the store is away") })
}

/// Neither a call of the run's budget, nor a reason to call another model, also if the model itself fails once.
#[test]
fn what_this_server_could_not_send_is_no_call_and_no_failure_of_its_model() {
    let mut asked_so_far = 0;
    let mut sim = Sim::new(move |_| {
        asked_so_far += 1;
        match asked_so_far {
            1..=6 | 8 => not_sent(FailureKind::Retry),
            7 => fails(FailureKind::Retry),
            _ => says(r#"{"answer":"yes","todoList":[]}"#),
        }
    });
    let other = ModelChoice { provider_name: "p1".to_owned(), model_id: "m1".to_owned() };
    let budget = Some(Budget { max_llm_calls: Some(2), ..Budget::default() });
    let settings = RunSettings { fallbacks: vec![other], budget, ..RunSettings::default() };
    sim.ask_with("go", OnBusy::Enqueue, settings).unwrap();
    sim.go();
    let run = sim.run("run_1");
    assert_eq!((models(&sim), run.counters.llm_calls), (vec!["m".to_owned(); 9], 2));
    assert_eq!(run.outcome.unwrap().error, None);

    let mut sim = Sim::new(|_| not_sent(FailureKind::Refused));
    sim.ask("go").unwrap();
    sim.go();
    assert_eq!((code(&sim).as_str(), sim.run("run_1").counters.llm_calls), ("model_refused", 0));
}

#[test]
fn answers_that_cannot_be_used_are_paid_for_and_counted() {
    let broken = asked(0, |_| Some(FailureKind::Broken));
    assert_eq!((broken.prompts.len(), broken.run("run_1").counters.llm_calls), (4, 4));
}

#[test]
fn a_reply_that_is_too_large_would_be_again_and_is_not_paid_for_twice() {
    let large = asked(0, |_| Some(FailureKind::TooLarge));
    assert_eq!((code(&large).as_str(), large.prompts.len()), ("reply_too_large", 1));
    let other = asked(1, |model| (model == "m").then_some(FailureKind::TooLarge));
    assert_eq!(models(&other), ["m", "m1"], "another model may be brief");
}

#[test]
fn each_attempt_has_a_stream_of_its_own_and_waits_longer_than_the_last_but_one() {
    let sim = asked(0, |_| Some(FailureKind::Retry));
    let starts = sim.contents(ObservationType::LlmStreamStart);
    let streams: std::collections::BTreeSet<&str> = starts.iter().map(|s| s["streamId"].as_str().unwrap()).collect();
    assert_eq!(streams.len(), starts.len());
    let errors = sim.contents(ObservationType::LlmStreamError);
    let waits: Vec<i64> = errors.iter().filter_map(|error| error["retryInMs"].as_i64()).collect();
    assert!(waits.windows(3).all(|w| w[2] > w[0] || w[2] >= 15_000), "{waits:?}");
    assert_eq!(errors.last().unwrap()["retryable"], false);
}

/// A run whose model is rate limited for this long at first.
fn put_off(retry_after_ms: i64, fallbacks: usize) -> Sim {
    let mut asked = 0;
    let mut sim = Sim::new(move |request: &ModelRequest| {
        asked += 1;
        match (asked, request.model.as_str()) {
            (1, "m") => fails(FailureKind::Retry)
                .map_err(|failure| ModelFailure { retry_after_ms: Some(retry_after_ms), ..failure }),
            _ => says(r#"{"answer":"yes","todoList":[]}"#),
        }
    });
    sim.ask_with("go", OnBusy::Enqueue, with_fallbacks(fallbacks)).unwrap();
    sim.go();
    sim
}

#[test]
fn nobody_comes_back_before_the_provider_said_and_nobody_waits_long_while_another_model_could_answer() {
    let waited = |sim: &Sim| sim.contents(ObservationType::LlmStreamError)[0]["retryInMs"].as_i64().unwrap();
    let sim = put_off(42_000, 0);
    assert_eq!((waited(&sim), models(&sim).len()), (42_000, 2));
    let sim = put_off(42_000, 1);
    assert_eq!((waited(&sim), models(&sim)), (0, ["m", "m1"].map(str::to_owned).to_vec()));
    let sim = put_off(4_000, 1);
    assert_eq!((waited(&sim), models(&sim)), (4_000, ["m", "m"].map(str::to_owned).to_vec()));
    // Longer than the whole time for retries.
    let sim = put_off(130_000, 0);
    assert_eq!((code(&sim).as_str(), models(&sim).len()), ("model_failed", 1));
}

/// Calls that failed together are not retried at the same moment.
#[test]
fn waits_differ_and_stay_in_the_upper_half() {
    let sim = asked(0, |_| Some(FailureKind::Retry));
    let errors = sim.contents(ObservationType::LlmStreamError);
    let waits: Vec<i64> = errors.iter().filter_map(|error| error["retryInMs"].as_i64()).collect();
    let most = |n: usize| (500_i64 << n.min(10)).min(30_000);
    assert!(waits.iter().enumerate().all(|(n, wait)| (most(n) / 2..=most(n)).contains(wait)), "{waits:?}");
    assert!(waits.iter().enumerate().filter(|(n, wait)| most(*n) - **wait > 10).count() > 2, "{waits:?}");
}

#[test]
fn a_refusal_goes_to_the_next_model_at_once_and_who_answered_is_recorded() {
    let sim = asked(2, |model| (model != "m2").then_some(FailureKind::Refused));
    assert_eq!(models(&sim), ["m", "m1", "m2"]);
    assert_eq!(span(&sim), 1, "without waiting");
    let figures = &sim.contents(ObservationType::LlmStreamMetadata)[0];
    assert_eq!((&figures["provider"], &figures["model"]), (&json!("p2"), &json!("m2")));
    assert_eq!(sim.run("run_1").status, RunStatus::Completed);
}

#[test]
fn a_repair_is_asked_of_the_model_that_answered() {
    let (mut steps, mut repairs) = (0, 0);
    let mut sim = Sim::new(move |request: &ModelRequest| match (request.model.as_str(), which(request).as_str()) {
        ("m", _) => fails(FailureKind::Refused),
        (_, "planning") => says("I would rather not."),
        (_, "a.1") => {
            steps += 1;
            says(if steps == 1 { " " } else { "done" })
        }
        (_, "repair") => {
            repairs += 1;
            if repairs == 1 { plan(&[("a", &[], &[])]) } else { says("all done") }
        }
        _ => says(" "),
    });
    let other = ModelChoice { provider_name: "p1".into(), model_id: "m1".into() };
    sim.ask_with("go", OnBusy::Enqueue, RunSettings { fallbacks: vec![other], ..RunSettings::default() }).unwrap();
    sim.go();
    let asked: Vec<String> = sim.prompts.iter().map(|it| format!("{} {}", it.model, which(it))).collect();
    let expected =
        ["m planning", "m1 planning", "m1 repair", "m a.1", "m1 a.1", "m1 a.1", "m synthesis", "m1 synthesis"];
    assert_eq!((&asked[..8], &asked[8..]), (&expected.map(str::to_owned)[..], &["m1 repair".to_owned()][..]));
}

#[test]
fn each_model_of_the_list_has_its_two_tries() {
    let sim = asked(2, |_| Some(FailureKind::Retry));
    assert_eq!(models(&sim)[..6], ["m", "m", "m1", "m1", "m2", "m2"]);
}

#[test]
fn a_busy_model_is_asked_twice_before_the_next() {
    let sim = asked(1, |model| (model == "m").then_some(FailureKind::Retry));
    assert_eq!(models(&sim), ["m", "m", "m1"]);
}

#[test]
fn a_saturated_or_suspended_provider_is_left_at_once_and_waited_for_when_it_is_the_only_one() {
    for kind in [FailureKind::Saturated, FailureKind::BreakerOpen] {
        let sim = asked(1, move |model| (model == "m").then_some(kind));
        assert_eq!(models(&sim), ["m", "m1"]);
        let mut left = 3;
        let sim = asked(0, move |_| {
            left -= 1;
            (left >= 0).then_some(kind)
        });
        assert_eq!((models(&sim).len(), sim.run("run_1").status), (4, RunStatus::Completed));
    }
    let code_of = |error: &Value| error["code"].as_str().unwrap().to_owned();
    let mut left = 1;
    let sim = asked(0, move |_| {
        left -= 1;
        (left >= 0).then_some(FailureKind::Saturated)
    });
    assert_eq!(code_of(&sim.contents(ObservationType::LlmStreamError)[0]), "provider_saturated");
}

/// Our own queue is no failure of the model: an accepted call waits, and then has the model's whole time for retries.
#[test]
fn who_waits_for_a_place_is_never_given_up() {
    let mut asked_so_far = 0;
    let sim = asked(0, move |_| {
        asked_so_far += 1;
        match asked_so_far {
            1..=500 => Some(FailureKind::Saturated),
            501..=503 => Some(FailureKind::Retry),
            _ => None,
        }
    });
    assert_eq!((sim.run("run_1").status, models(&sim).len()), (RunStatus::Completed, 504));
    assert!(span(&sim) > 120_000, "longer than a model is tried: {}", span(&sim));
}

/// Waiting for a permit after a failure does not count as the model's time either.
#[test]
fn a_place_that_comes_late_costs_no_patience() {
    let mut asked_so_far = 0;
    let sim = asked(0, move |_| {
        asked_so_far += 1;
        match asked_so_far {
            1 | 501 => Some(FailureKind::Retry),
            2..=500 => Some(FailureKind::Saturated),
            _ => None,
        }
    });
    assert_eq!((sim.run("run_1").status, models(&sim).len()), (RunStatus::Completed, 502));
    assert!(span(&sim) > 120_000, "longer than a model is tried: {}", span(&sim));
}

const HOUR: i64 = 3_600_000;

/// The model is busy twice, and then answers; this happens in between.
fn an_hour_passes(queued_ms: i64, between: fn(&mut Sim)) -> RunStatus {
    let mut asked = 0;
    let mut sim = Sim::new(move |_| {
        asked += 1;
        match asked {
            1 => fails(FailureKind::Retry),
            2 => fails(FailureKind::Retry).map_err(|failure| ModelFailure { queued_ms, ..failure }),
            _ => says(r#"{"answer":"yes","todoList":[]}"#),
        }
    });
    sim.ask("go").unwrap();
    sim.step();
    between(&mut sim);
    sim.go();
    sim.run("run_1").status
}

#[test]
fn time_that_is_not_the_models_does_not_count_among_what_it_is_tried_for() {
    let pause = |sim: &mut Sim| {
        sim.apply(Event::Person(PersonEvent::PauseAsked { by: "ann".into() })).unwrap();
        sim.now += HOUR;
        sim.answer(0, |_| ()).unwrap();
    };
    let under_way = |sim: &mut Sim| {
        assert!(sim.step() && !sim.in_flight.is_empty());
        sim.now += HOUR;
    };
    let lost = |sim: &mut Sim| {
        assert!(sim.step() && !sim.in_flight.is_empty());
        sim.now += HOUR;
        sim.crash();
    };
    assert_eq!(an_hour_passes(0, pause), RunStatus::Completed);
    assert_eq!(an_hour_passes(0, |sim| sim.now += HOUR), RunStatus::Completed, "nobody was there to start it");
    assert_eq!(an_hour_passes(0, lost), RunStatus::Completed, "the process was away");
    assert_eq!(an_hour_passes(HOUR, under_way), RunStatus::Completed, "it waited in the queue");
    assert_eq!(an_hour_passes(0, under_way), RunStatus::Failed, "the model took it");
}

#[test]
fn the_list_has_an_end_and_the_step_fails_with_the_last_reason() {
    let sim = asked(1, |_| Some(FailureKind::Refused));
    assert_eq!((models(&sim), code(&sim).as_str()), (vec!["m".to_owned(), "m1".to_owned()], "model_refused"));
}

/// It has nothing but the query: the next prompt would be the same.
#[test]
fn a_prompt_that_cannot_be_shorter_is_sent_once_to_each_model() {
    let sim = asked(1, |_| Some(FailureKind::TooLong));
    assert_eq!((models(&sim), code(&sim).as_str()), (vec!["m".to_owned(), "m1".to_owned()], "prompt_too_long"));
}

#[test]
fn every_call_is_paid_for_with_the_price_of_the_model_that_answered() {
    let sim = asked(1, |model| (model == "m").then_some(FailureKind::Refused));
    let rows: Vec<Value> = sim
        .rows
        .values()
        .filter(|row| row.kind == pes_engine::step::RowKind::Usage)
        .map(|row| serde_json::from_str(&row.body).unwrap())
        .collect();
    let expected = json!({
        "run": "run_1", "provider": "p1", "model": "m1", "inputTokens": 10, "outputTokens": 5, "thinkingTokens": 0,
        "cachedInputTokens": 0, "costNanos": 15_000_000,
    });
    assert_eq!(rows, [expected]);
    assert_eq!(sim.contents(ObservationType::LlmStreamMetadata)[0]["costUsd"], 0.015);
    assert_eq!(sim.contents(ObservationType::RunFinished)[0]["costUsd"], 0.015);
}

/// A step that calls these tools, of which this one fails that often, with a retry delay.
fn failing(calls: &'static [(&'static str, &'static str)], tool: &str, failures: u32, retry_after_ms: i64) -> Sim {
    let mut sim = Sim::new(one_item(calls));
    sim.tools.failures.lock().unwrap().insert(tool.into(), failures);
    sim.tools.retry_after_ms = Some(retry_after_ms);
    sim.ask("go").unwrap();
    sim.go();
    sim
}

/// Time from the first call's request to its end.
fn lasted(sim: &Sim) -> i64 {
    let at = |kind| sim.records.iter().find(|record| record.kind() == kind).unwrap().timestamp;
    at(ObservationType::ToolExecution) - at(ObservationType::ToolCall)
}

#[test]
fn an_idempotent_call_is_made_again_with_growing_pauses_and_never_before_the_service_said() {
    let brief = failing(&[("read", "1")], "read", 3, 0);
    assert_eq!(
        (ran(&brief).len(), brief.contents(ObservationType::ToolExecution)[0]["status"].as_str()),
        (4, Some("success"))
    );
    assert!((1_750..=3_600).contains(&lasted(&brief)), "{}", lasted(&brief));
    let put_off = failing(&[("read", "1")], "read", 1, 42_000);
    assert!((42_000..=42_100).contains(&lasted(&put_off)), "{}", lasted(&put_off));

    let gone = failing(&[("read", "1")], "read", 100, 0);
    let result = &gone.contents(ObservationType::ToolExecution)[0];
    assert_eq!((ran(&gone).len(), &result["error"]["message"]), (5, &json!("it broke")), "what it said last");
    // Longer than any retry delay.
    assert_eq!(ran(&failing(&[("read", "1")], "read", 100, 130_000)).len(), 1);
}

#[test]
fn what_is_not_declared_idempotent_is_not_made_again() {
    let sim = failing(&[("write", "1")], "write", 1, 0);
    assert_eq!(
        (ran(&sim).len(), sim.contents(ObservationType::ToolExecution)[0]["status"].as_str()),
        (1, Some("error"))
    );
}

#[test]
fn a_call_that_was_certainly_not_sent_is_made_again_whatever_it_declares() {
    let mut sim = Sim::new(one_item(&[("write", "1")]));
    sim.tools.failures.lock().unwrap().insert("write".into(), 1);
    (sim.tools.retry_after_ms, sim.tools.failure_code) = (Some(0), Some("unavailable"));
    sim.ask("go").unwrap();
    sim.go();
    assert_eq!(
        (ran(&sim).len(), sim.contents(ObservationType::ToolExecution)[0]["status"].as_str()),
        (2, Some("success"))
    );
}

#[test]
fn a_call_that_is_made_again_keeps_its_turn() {
    let sim = failing(&[("read", "1"), ("write", "2")], "read", 1, 5_000);
    assert_eq!(ran(&sim), ["read:1", "read:1", "write:2"]);
}
