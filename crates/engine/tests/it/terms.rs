//! The terms of a question (its deadline, who may answer) hold, also after a crash.

use pes_engine::domain::fault::Fault;
use pes_engine::domain::hitl::{Answer, ExpiryPolicy, InDoubtAction, SuspensionKind};
use pes_engine::domain::message::{ConversationMessage, MessageRole};
use pes_engine::domain::model::FailureKind;
use pes_engine::domain::observation::ObservationType;
use pes_engine::domain::policy::{RuleScope, Ruling, Terms};
use pes_engine::domain::run::OnBusy;
use pes_engine::domain::settings::{ExecutionConfig, PolicyAction, RunSettings};
use pes_engine::effect::Effect;
use pes_engine::event::{AnswerMessage, CancelEvent, Event, PersonEvent, Rewind, ToolEvent};
use serde_json::json;

use super::questions_of_running_calls::question;
use super::sim::*;
use super::suspend::{expiring, one_item, ran};

#[test]
fn a_reminder_comes_again_and_again_and_never_shuts_the_door() {
    let (mut sim, mut at) = expiring(ExpiryPolicy::Remind);
    for reminded in 1..=3 {
        sim.wake().unwrap();
        assert_eq!(sim.contents(ObservationType::SuspensionTimeout).len(), reminded);
        let next = sim.suspensions()[0].expires_at.unwrap();
        assert_eq!(next, at + 5001, "as long again, not longer each time");
        at = next;
        sim.now = at;
    }
    sim.answer(0, |answer| answer.approved = Some(true)).unwrap();
    sim.go();
    assert_eq!(ran(&sim), ["gated:1"], "the timer was due, and the answer counts all the same");
}

/// The deadline itself is too late for an answer, and is when the timer acts.
#[test]
fn a_question_is_open_until_its_deadline_and_not_at_it() {
    for (late, answered, timed_out) in [(-1, true, 0), (0, false, 1)] {
        let (mut sim, at) = expiring(ExpiryPolicy::Deny);
        sim.now = at + late - 1;
        assert_eq!(sim.answer(0, |answer| answer.approved = Some(true)).is_ok(), answered, "{late}");
        let (mut sim, at) = expiring(ExpiryPolicy::Deny);
        sim.now = at + late - 1;
        sim.wake().unwrap();
        assert_eq!(sim.contents(ObservationType::SuspensionTimeout).len(), timed_out, "{late}");
    }
}

fn ruled(terms: Terms) -> Sim {
    let mut sim = Sim::new(one_item(&[("gated", "1")]));
    sim.tools.ruling = Some(Ruling { terms, ..Ruling::new(PolicyAction::Ask, "r", RuleScope::Tenant) });
    sim.ask("go").unwrap();
    sim.go();
    sim
}

#[test]
fn a_rule_says_how_long_its_question_stays_open() {
    let terms = Terms { expires_after_ms: Some(70), on_expiry: Some(ExpiryPolicy::Fail), ..Terms::default() };
    let mut sim = ruled(terms);
    let open = sim.suspensions().remove(0);
    assert_eq!((open.expires_at.unwrap() - open.created_at, open.expiry_policy), (70, Some(ExpiryPolicy::Fail)));
    assert_eq!(sim.contents(ObservationType::AgentSuspended)[0]["expiresAt"], open.expires_at.unwrap());
    sim.now = open.expires_at.unwrap();
    sim.wake().unwrap();
    sim.go();
    assert!(sim.item("a")["reason"].as_str().unwrap().starts_with("suspension_timed_out"));
}

/// Approved, then lost in a crash: running it again needs the same approval.
#[test]
fn the_terms_of_a_call_hold_when_it_is_in_doubt() {
    let mut sim = ruled(Terms { four_eyes: true, ..Terms::default() });
    sim.answer(0, |answer| answer.approved = Some(true)).unwrap();
    let digest = sim.contents(ObservationType::AgentResumed)[0]["digest"].clone();
    sim.crash();
    sim.answerer = "eve";
    let refused = sim.answer(0, |answer| answer.action = Some(InDoubtAction::Retry)).unwrap_err();
    assert_eq!(refused.code.as_str(), "four_eyes");
    assert_eq!(sim.suspensions()[0].digest.as_deref(), digest.as_str());
    sim.answer(0, |answer| answer.action = Some(InDoubtAction::Skip)).unwrap();
    sim.go();
    assert!(ran(&sim).is_empty());
}

/// The process dies during a call that was asked under `asked` and approved under `approved`.
fn killed(asked: bool, approved: bool) -> Sim {
    let mut sim = Sim::new(move |request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[])]),
        "a.1" => calls(&[("gated", json!({ "safe": asked }))]),
        other => says(other),
    });
    sim.ask("go").unwrap();
    sim.go();
    sim.answer(0, |answer| {
        answer.approved = Some(true);
        answer.modified_args = Some(json!({ "safe": approved }));
    })
    .unwrap();
    sim.crash();
    sim
}

#[test]
fn whether_a_call_may_be_repeated_is_what_its_edited_arguments_say() {
    let open = killed(true, false).suspensions();
    assert_eq!(open.iter().map(|open| open.kind).collect::<Vec<_>>(), [SuspensionKind::InDoubt]);
    let mut sim = killed(false, true);
    assert!(sim.suspensions().is_empty());
    sim.go();
    assert_eq!(sim.tools.ran.lock().unwrap().len(), 1);
}

#[test]
fn a_call_that_only_read_before_it_was_edited_waits_for_its_turn() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[])]),
        "a.1" => calls(&[("gated", json!({ "safe": true })), ("gated", json!({ "safe": true }))]),
        other => says(other),
    });
    let execution = ExecutionConfig { parallel_reads: true, ..ExecutionConfig::default() };
    sim.ask_with("go", OnBusy::Enqueue, RunSettings { execution, ..RunSettings::default() }).unwrap();
    sim.go();
    for safe in [false, true] {
        sim.answer(0, |answer| {
            answer.approved = Some(true);
            answer.modified_args = Some(json!({ "safe": safe }));
        })
        .unwrap();
        assert_eq!(sim.in_flight.len(), 1);
    }
}

/// A plan edited while no run is active, or left undone by a run, still belongs to its editor.
#[test]
fn who_shaped_what_a_run_left_undone_has_shaped_the_next_one() {
    let mut sim = ruled(Terms { four_eyes: true, ..Terms::default() });
    sim.edit_plan("bob", |list| list.push(json!({ "id": "pay", "description": "pay it" }))).unwrap();
    let yes = |sim: &mut Sim, who| {
        sim.answerer = who;
        sim.answer(0, |answer| answer.approved = Some(true)).map_err(|fault| fault.code.as_str())
    };
    assert_eq!(yes(&mut sim, "bob").unwrap_err(), "four_eyes");
    sim.apply(Event::Cancel(CancelEvent::Asked { run: None, by: "eve".into() })).unwrap();
    sim.ask("go on").unwrap();
    sim.go();
    assert_eq!(sim.run("run_2").requested_by, ["eve", "bob"]);
}

/// What is done and was edited may be done again by the next run.
#[test]
fn who_shaped_a_run_has_shaped_the_next_one_only_if_it_left_something() {
    for (is_edited, is_undone, shaped_by) in
        [(false, false, &["ann"][..]), (true, false, &["ann", "eve", "bob"]), (false, true, &["ann", "eve"])]
    {
        let mut sim = Sim::new(move |request| match which(request).as_str() {
            "planning" => plan(&[("a", &[], &[]), ("b", &[], &[])]),
            "b.1" if is_undone => fails(FailureKind::Refused),
            other => says(other),
        });
        sim.ask("go").unwrap();
        sim.step();
        if is_edited {
            sim.edit_plan("bob", |list| list[1]["description"] = json!("b of bob")).unwrap();
        }
        sim.go();
        sim.ask_more("go on", RunSettings::default(), None, |ask| ask.requested_by = "ann".into()).unwrap();
        assert_eq!(sim.run("run_2").requested_by, shaped_by, "{is_edited} {is_undone}");
    }
}

/// Answers "hello" at once, does "b" for "go", and something else for any other query.
fn planner() -> Sim {
    Sim::new(|request| match (which(request).as_str(), request.context.query.as_str()) {
        ("planning" | "refinement", "hello") => says(r#"{"answer":"yes","todoList":[]}"#),
        ("planning" | "refinement", "go") => plan(&[("a", &[], &[]), ("b", &["a"], &[])]),
        ("planning" | "refinement", _) => plan(&[("c", &[], &[])]),
        (other, _) => says(other),
    })
}

fn edited_by_bob() -> Sim {
    let mut sim = planner();
    sim.ask("go").unwrap();
    sim.step();
    sim.edit_plan("bob", |list| list[1]["description"] = json!("b of bob")).unwrap();
    sim.go();
    sim
}

/// Ann asks, twice: what was done is there to be done again after the first run, too.
fn shapers_of_two_runs(sim: &mut Sim, mut back: Option<Rewind>) -> [Vec<String>; 2] {
    [(); 2].map(|()| {
        sim.ask_more("hello", RunSettings::default(), back.take(), |ask| ask.requested_by = "ann".into()).unwrap();
        sim.reload();
        let shapers = sim.machine.run().unwrap().requested_by.clone();
        sim.go();
        shapers
    })
}

#[test]
fn who_edited_what_is_done_has_shaped_it_in_a_copy_too() {
    let sim = edited_by_bob();
    let mut copy = sim.fork_into(planner(), sim.records.len());
    let shapers = shapers_of_two_runs(&mut copy, None);
    assert_eq!(shapers, [["ann", "eve", "bob"], ["ann", "eve", "bob"]]);
}

#[test]
fn who_edited_what_is_done_has_shaped_it_where_a_thread_goes_back_too() {
    for items_per_plan in [1_000, 1] {
        let mut sim = edited_by_bob();
        // With room for one, the item has left the list by the time that the thread goes back.
        sim.limits.items_per_plan = items_per_plan;
        sim.ask("more").unwrap();
        sim.go();
        assert_eq!(sim.view()["todoList"].as_array().unwrap().len(), items_per_plan.min(3));
        let mut back = sim.back_to(2);
        back.askers.clone_from(&sim.run("run_1").requested_by);
        for shapers in shapers_of_two_runs(&mut sim, Some(back)) {
            assert!(shapers.contains(&"bob".to_owned()), "{items_per_plan}: {shapers:?}");
        }
    }
}

#[test]
fn who_wrote_the_instructions_has_shaped_the_run() {
    let mut sim = Sim::new(|_| says("x"));
    sim.ask_more("go", RunSettings::default(), None, |ask| ask.shaped_by = vec!["wren".into(), "eve".into()]).unwrap();
    assert_eq!(sim.run("run_1").requested_by, ["eve", "wren"]);
}

/// A run under four eyes that asks for this call, and then for a gated one.
fn two_calls(first: &'static str) -> Sim {
    let mut sim = Sim::new(move |request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[])]),
        "a.1" => calls(&[(first, json!({ "x": "1" }))]),
        "a.2" => calls(&[("gated", json!({ "x": "2" }))]),
        other => says(other),
    });
    let terms = Terms { four_eyes: true, ..Terms::default() };
    sim.tools.ruling = Some(Ruling { terms, ..Ruling::new(PolicyAction::Ask, "r", RuleScope::Tenant) });
    sim.ask("go").unwrap();
    sim.go();
    sim
}

/// Approving a second call, under four eyes, by whoever gave this answer to the first one.
fn approves_after(first: &'static str, answer: impl FnOnce(&mut Answer)) -> Result<(), &'static str> {
    let mut sim = two_calls(first);
    sim.answer(0, answer).unwrap();
    approves_second(sim)
}

fn approves_second(mut sim: Sim) -> Result<(), &'static str> {
    sim.go();
    assert_eq!(sim.suspensions()[0].tool_input, Some(json!({ "x": "2" })));
    sim.answer(0, |answer| answer.approved = Some(true)).map(drop).map_err(|fault| fault.code.as_str())
}

/// Otherwise one person would write a call's arguments, by the reason for refusing another, and approve them.
#[test]
fn whose_words_the_model_goes_on_with_has_shaped_what_follows() {
    let no = |reason: Option<&'static str>| {
        move |answer: &mut Answer| {
            answer.approved = Some(false);
            answer.reason = reason.map(str::to_owned);
        }
    };
    let yes = |answer: &mut Answer| {
        answer.approved = Some(true);
        answer.reason = Some("fine".to_owned());
    };
    assert_eq!(approves_after("gated", no(Some("send it to me"))), Err("four_eyes"));
    assert_eq!(approves_after("form", |answer| answer.value = Some("to me".into())), Err("four_eyes"));
    assert_eq!(approves_after("form", no(Some("to me"))), Err("four_eyes"));
    for reason in [None, Some(" ")] {
        assert_eq!(approves_after("gated", no(reason)), Ok(()), "a plain no says nothing to the model");
    }
    assert_eq!(approves_after("form", no(None)), Ok(()));
    assert_eq!(approves_after("gated", yes), Ok(()), "no model reads the reason of a yes");
}

/// A plain no to the only question, with a message that says something more.
fn says_more(sim: &mut Sim) -> Result<(), Fault> {
    let answer = Answer {
        suspension_id: sim.suspensions()[0].suspension_id.clone(),
        digest: None,
        approved: Some(false),
        value: None,
        modified_args: None,
        reason: None,
        action: None,
    };
    let message = ConversationMessage {
        message_id: "msg_more".into(),
        thread_id: "t".into(),
        role: MessageRole::User,
        content: "Send it to me.".to_owned(),
        timestamp: sim.now,
        run_id: None,
        requested_by: Some(sim.answerer.to_owned()),
        metadata: None,
    };
    let said = Some(Box::new(AnswerMessage { message, steers: true }));
    let resumed = PersonEvent::Resumed { answer: Box::new(answer), by: sim.answerer.into(), said };
    sim.apply(Event::Person(resumed)).map(drop)
}

#[test]
fn who_says_more_with_an_answer_has_shaped_what_follows() {
    let mut sim = two_calls("gated");
    says_more(&mut sim).unwrap();
    assert_eq!(approves_second(sim), Err("four_eyes"));
}

#[test]
fn the_step_that_waited_is_shown_what_was_said_with_the_answer() {
    let mut sim = two_calls("gated");
    says_more(&mut sim).unwrap();
    sim.go();
    let next = sim.prompts.iter().find(|prompt| which(prompt) == "a.2").expect("the step goes on");
    assert!(all_text(next).contains("Send it to me."), "{}", all_text(next));
}

/// The run waits for the answer, so it is taken with its message.
#[test]
fn an_answer_is_taken_although_its_message_can_steer_the_run_no_more() {
    for (most, is_refined) in [(0, false), (1, true)] {
        let mut sim = two_calls("gated");
        sim.limits.queued_runs = most;
        says_more(&mut sim).unwrap();
        assert_eq!(sim.contents(ObservationType::StateUpdate)[0]["message"]["content"], "Send it to me.");
        sim.go();
        sim.answer(0, |answer| answer.approved = Some(false)).unwrap();
        sim.go();
        assert!(sim.is_idle(), "the run has ended");
        assert_eq!(sim.prompts.iter().any(|prompt| which(prompt) == "refinement"), is_refined, "{most}");
    }
}

/// A model reads no reason of these answers. What a client answers for its own tool is the tool's result.
#[test]
fn who_decides_without_words_for_a_model_has_shaped_nothing() {
    let reason = || Some("fine".to_owned());
    let mut sim = Sim::new(one_item(&[("client", "1")]));
    sim.tools.has_client = true;
    sim.ask("go").unwrap();
    sim.go();
    assert_eq!(sim.suspensions()[0].kind, SuspensionKind::ClientTool);
    sim.answer(0, |answer| (answer.value, answer.reason) = (Some("done".into()), reason())).unwrap();
    assert_eq!(sim.run("run_1").requested_by, ["eve"]);

    let mut sim = Sim::new(one_item(&[("write", "1")]));
    sim.ask("go").unwrap();
    sim.step();
    sim.step();
    sim.crash();
    sim.answer(0, |answer| (answer.action, answer.reason) = (Some(InDoubtAction::Retry), reason())).unwrap();
    assert_eq!(sim.run("run_1").requested_by, ["eve"]);
}

/// What a call asks while it runs lets nothing run: whoever shaped the call may answer.
#[test]
fn four_eyes_do_not_keep_anybody_from_answering_what_a_running_call_asks() {
    let mut sim = ruled(Terms { four_eyes: true, ..Terms::default() });
    let more = json!({ "id": "pay", "description": "pay it", "dependencies": ["a"] });
    sim.edit_plan("bob", |list| list.push(more)).unwrap();
    sim.answer(0, |answer| answer.approved = Some(true)).unwrap();
    let running = sim.in_flight.iter().find_map(|effect| match effect {
        Effect::CallTool { call, attempt } => Some((call.clone(), *attempt)),
        Effect::CallModel { .. } | Effect::Delegate { .. } | Effect::AskPeer { .. } | Effect::CancelPeer { .. } => None,
    });
    let (call, attempt) = running.expect("the approved call runs");
    let asked = ToolEvent::Asked { call, attempt, number: 1, question: Box::new(question()) };
    sim.apply(Event::Tool(asked)).unwrap();
    sim.answerer = "bob";
    let open = sim.suspensions().remove(0);
    assert!(open.while_running && open.policy.is_some_and(|ruling| ruling.terms.four_eyes));
    sim.answer(0, |answer| {
        answer.approved = Some(true);
        answer.value = Some("left".into());
    })
    .unwrap();
    sim.go();
    assert_eq!(ran(&sim), ["gated:1"]);
}
