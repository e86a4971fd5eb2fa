//! What the log of every run must contain.

use std::collections::{BTreeMap, BTreeSet};

use pes_engine::domain::observation::ObservationType;

use super::sim::*;

/// Checks the invariants of a whole log.
pub fn check_log(sim: &Sim) {
    let mut ended = BTreeMap::new();
    let mut open_streams = BTreeMap::new();
    let mut calls: BTreeMap<String, (u32, u32)> = BTreeMap::new();
    let mut reviews = BTreeSet::new();
    for record in &sim.records {
        let run = record.run_id.to_string();
        assert!(
            !ended.contains_key(&run) || run.is_empty() || sim.is_after_the_end(record),
            "{record:?} after the end"
        );
        match record.kind() {
            ObservationType::RunFinished => assert!(ended.insert(run, ()).is_none(), "a run ends twice"),
            ObservationType::LlmStreamStart => {
                let stream = record.fact.content()["streamId"].to_string();
                assert!(open_streams.insert(stream, ()).is_none());
            }
            ObservationType::LlmStreamEnd | ObservationType::LlmStreamError => {
                let stream = record.fact.content()["streamId"].to_string();
                assert!(open_streams.remove(&stream).is_some(), "a stream ends that did not begin");
            }
            ObservationType::ToolCall => {
                for call in record.fact.content()["toolCalls"].as_array().unwrap() {
                    calls.entry(call["callId"].as_str().unwrap().to_owned()).or_default().0 += 1;
                }
            }
            ObservationType::ToolExecution => {
                calls.entry(record.fact.content()["callId"].as_str().unwrap().to_owned()).or_default().1 += 1;
            }
            ObservationType::AgentSuspended if record.fact.content()["kind"] == "plan_review" => {
                assert!(reviews.is_empty(), "two reviews of one plan");
                reviews.insert(record.fact.content()["suspensionId"].to_string());
            }
            ObservationType::AgentResumed => _ = reviews.remove(&record.fact.content()["suspensionId"].to_string()),
            ObservationType::SuspensionTimeout if record.fact.content()["policy"] != "remind" => {
                reviews.remove(&record.fact.content()["suspensionId"].to_string());
            }
            ObservationType::ItemStatusChange if record.fact.content()["status"] == "in_progress" => {
                let begins = record.fact.content()["from"] == "pending";
                assert!(!begins || reviews.is_empty(), "an item begins while its plan is reviewed");
            }
            _ => {}
        }
    }
    assert!(open_streams.is_empty(), "streams without an end");
    for (call, (made, done)) in &calls {
        assert_eq!((*made, *done), (1, 1), "call {call}");
    }
    sim.check_starts();
}
