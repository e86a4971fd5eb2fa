//! Arguments that a person edited: on whose terms the call is asked about again.

use pes_engine::domain::digest;
use pes_engine::domain::hitl::{Answer, Suspension, SuspensionKind};
use pes_engine::domain::policy::{RuleScope, Ruling, Terms};
use pes_engine::domain::settings::PolicyAction;
use pes_engine::effect::Effect;
use pes_engine::step::Step;
use rstest::rstest;
use serde_json::json;

use super::sim::*;
use super::suspend::{one_item, ran};

fn rule(action: PolicyAction, four_eyes: bool, approvers: &[&str]) -> Ruling {
    let approvers = approvers.iter().map(|name| (*name).to_owned()).collect();
    let terms = Terms { four_eyes, approvers, ..Terms::default() };
    Ruling { terms, ..Ruling::new(action, "r", RuleScope::Tenant) }
}

/// A call is asked about under one rule, and its arguments will be judged by another.
fn asked(under: Ruling, then: Ruling) -> Sim {
    let mut sim = Sim::new(one_item(&[("gated", "1")]));
    sim.tools.ruling = Some(under);
    sim.ask("go").unwrap();
    sim.go();
    sim.tools.ruling = Some(then);
    sim
}

fn answers(sim: &mut Sim, by: &'static str, answer: impl FnOnce(&mut Answer)) -> Result<Step, String> {
    sim.answerer = by;
    sim.answer(0, |given| {
        given.approved = Some(true);
        answer(given);
    })
    .map_err(|fault| fault.code.as_str().to_owned())
}

fn edits(sim: &mut Sim, by: &'static str) -> Result<Step, String> {
    answers(sim, by, |answer| answer.modified_args = Some(json!({ "x": "2" })))
}

fn approves(sim: &mut Sim, by: &'static str) -> Result<Step, String> {
    answers(sim, by, |_| ())
}

fn open(sim: &Sim) -> Suspension {
    let [open] = &sim.suspensions()[..] else { panic!("{:?}", sim.suspensions()) };
    open.clone()
}

/// Four eyes of either rule are enough. The approvers are those of the rule that asks, or else of the first one.
#[rstest]
#[case::the_rule_that_asked(rule(PolicyAction::Ask, true, &["ann", "bob"]), rule(PolicyAction::Auto, false, &[]), "bob")]
#[case::the_rule_of_the_edit(rule(PolicyAction::Ask, false, &[]), rule(PolicyAction::Ask, true, &["ann", "eva"]), "eva")]
#[case::the_edit_asks_of_anybody(rule(PolicyAction::Ask, true, &["ann", "bob"]), rule(PolicyAction::Ask, false, &[]), "bob")]
#[case::the_edit_asks_of_others(rule(PolicyAction::Ask, true, &["ann", "bob"]), rule(PolicyAction::Ask, false, &["ann", "eva"]), "eva")]
fn a_second_approver_is_one_that_a_rule_names_and_not_the_editor(
    #[case] under: Ruling,
    #[case] then: Ruling,
    #[case] other: &'static str,
) {
    let mut sim = asked(under, then);
    let first = open(&sim);
    edits(&mut sim, "ann").unwrap();
    let second = open(&sim);
    assert_ne!(second.suspension_id, first.suspension_id);
    assert_eq!(second.tool_input, Some(json!({ "x": "2" })), "it shows what would run");
    assert!(second.policy.is_some_and(|ruling| ruling.terms.four_eyes), "on these terms it is answered");
    assert_eq!(approves(&mut sim, "ann").unwrap_err(), "four_eyes");
    assert_eq!(approves(&mut sim, "mallory").unwrap_err(), "not_an_approver");
    approves(&mut sim, other).unwrap();
    sim.go();
    assert_eq!(ran(&sim), ["gated:2"]);
}

#[test]
fn without_four_eyes_the_editor_has_approved() {
    let asks = || rule(PolicyAction::Ask, false, &[]);
    let mut sim = asked(asks(), asks());
    edits(&mut sim, "ann").unwrap();
    sim.go();
    assert_eq!(ran(&sim), ["gated:2"]);
}

#[test]
fn whom_the_rule_of_the_edit_does_not_name_cannot_edit_like_this() {
    let mut sim = asked(rule(PolicyAction::Ask, false, &[]), rule(PolicyAction::Ask, false, &["bob"]));
    assert_eq!(edits(&mut sim, "ann").unwrap_err(), "not_an_approver");
    assert_eq!(open(&sim).tool_input, Some(json!({ "x": "1" })), "the question is as it was");
    let mut sim = asked(rule(PolicyAction::Ask, false, &[]), rule(PolicyAction::Ask, true, &[]));
    assert_eq!(edits(&mut sim, "eve").unwrap_err(), "four_eyes", "eve asked for the run");
}

/// The process dies during the call, and a person decides about it once more.
#[test]
fn a_call_in_doubt_is_shown_as_it_was_edited_on_the_terms_of_the_rule_of_the_edit() {
    let then = rule(PolicyAction::Ask, false, &["ann", "bob"]);
    let mut sim = asked(rule(PolicyAction::Ask, false, &[]), then.clone());
    edits(&mut sim, "ann").unwrap();
    sim.crash();
    let open = open(&sim);
    assert_eq!((open.kind, open.tool_input), (SuspensionKind::InDoubt, Some(json!({ "x": "2" }))));
    assert_eq!(open.digest, Some(digest::of_call("gated", &json!({ "x": "2" }))));
    assert_eq!(open.policy, Some(then));
}

/// Each question is asked with four eyes, so none of the editors may approve.
#[test]
fn arguments_that_are_edited_again_are_those_that_run() {
    let four_eyes = || rule(PolicyAction::Ask, true, &[]);
    let mut sim = asked(four_eyes(), four_eyes());
    edits(&mut sim, "ann").unwrap();
    answers(&mut sim, "bob", |answer| answer.modified_args = Some(json!({ "x": "3" }))).unwrap();
    for editor in ["ann", "bob"] {
        assert_eq!(approves(&mut sim, editor).unwrap_err(), "four_eyes");
    }
    approves(&mut sim, "boss").unwrap();
    sim.go();
    assert_eq!(ran(&sim), ["gated:3"]);
}

#[test]
fn a_delegation_goes_to_the_agent_that_the_edited_arguments_name() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[])]),
        "a.1" => calls(&[("gated_peer", json!({ "agentId": "near", "taskType": "t", "x": "1" }))]),
        other => says(other),
    });
    sim.ask("go").unwrap();
    sim.go();
    let edited = json!({ "agentId": "far", "taskType": "u", "x": "2" });
    answers(&mut sim, "ann", |answer| answer.modified_args = Some(edited.clone())).unwrap();
    let [Effect::Delegate { task, .. }] = &sim.in_flight[..] else { panic!("{:?}", sim.in_flight) };
    let (task, arguments) = sim.peer_call_input(task);
    assert_eq!((&*task.task.agent_id, &*task.task.task_type, arguments), ("far", "u", edited));
}

#[test]
fn calls_that_only_read_after_they_were_edited_run_together() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[])]),
        "a.1" => calls(&[("gated", json!({ "safe": true })), ("gated", json!({ "safe": true }))]),
        other => says(other),
    });
    sim.ask("go").unwrap();
    sim.go();
    for running in 1..=2 {
        answers(&mut sim, "ann", |answer| answer.modified_args = Some(json!({ "safe": true, "x": running }))).unwrap();
        assert_eq!(sim.in_flight.len(), running);
    }
}
