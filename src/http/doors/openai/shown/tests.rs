use serde_json::{Value, json};

use super::*;
use crate::http::doors::recorded::{asks_approval, fact};

fn reader() -> (RunId, ShownReader) {
    let run = RunId::from("run_1");
    (run.clone(), ShownReader::new(run, None))
}

/// A question is asked and answered.
fn ask_and_answer(reader: &mut ShownReader, run: &RunId) {
    reader.apply(&asks_approval(run, json!({})));
    let answered = json!({ "suspensionId": "sus_1", "decision": "approved", "decidedBy": "local" });
    reader.apply(&fact(run, "AGENT_RESUMED", answered));
}

fn update(run: &RunId, more: Value) -> DecodedObservation {
    let mut body = json!({ "keys": ["messages"], "stateVersion": 1 });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    fact(run, "STATE_UPDATE", body)
}

#[test]
fn only_the_last_stages_of_a_run_are_looked_at() {
    let (run, mut reader) = reader();
    for _ in 0..70 {
        ask_and_answer(&mut reader, &run);
    }
    let counts: Vec<usize> = reader.end().stages.iter().map(|stage| stage.shown.as_slice().len()).collect();
    assert_eq!(counts, [70].into_iter().chain((7..=70).rev()).collect::<Vec<_>>());
}

#[test]
fn a_stage_shows_what_was_shown_then_and_counts_no_more_since() {
    let (run, mut reader) = reader();
    let message = json!({ "messageId": "msg_1", "threadId": "t", "role": "AI", "content": "Hello.", "timestamp": 1 });
    reader.apply(&update(&run, json!({ "message": message })));
    ask_and_answer(&mut reader, &run);
    reader.apply(&update(&run, json!({ "superseded": ["msg_1"] })));
    ask_and_answer(&mut reader, &run);
    let stages = reader.end().stages;
    let Shown::Question(_) = &stages[0].shown.as_slice()[0] else { panic!("{stages:?}") };
    let answer = Shown::Answer(Normal::of("Hello."));
    let question = stages[0].shown.as_slice()[0].clone();
    let shown: Vec<_> = stages.iter().map(|stage| stage.shown.as_slice().to_vec()).collect();
    let asked_twice = vec![question.clone(), question.clone()];
    assert_eq!(shown, [asked_twice.clone(), asked_twice, vec![answer, question]]);
}
