//! A thread starts with a conversation from elsewhere.

use std::collections::HashSet;
use std::sync::Arc;

use pes_engine::domain::fault::Code;
use pes_engine::domain::message::HistoryRole::{Assistant, User};
use pes_engine::domain::message::{ConversationMessage, MessageRole};
use pes_engine::domain::observation::ObservationType;
use pes_engine::domain::thread::{AgentState, ForkedFrom};
use pes_engine::event::{Event, PersonEvent};
use pes_engine::history::ShownPlan;
use pes_engine::pes::Pes;
use pes_engine::step::{Keep, RowKind};
use serde_json::{Value, json};

use super::sim::*;

const SAID: [(pes_engine::domain::message::HistoryRole, &str); 2] = [(User, "We are 14."), (Assistant, "Noted.")];

fn answers() -> Sim {
    Sim::new(|_| says(r#"{"answer":"yes","todoList":[]}"#))
}

/// `Sim` compares the fold of the log with the state after every commit.
#[test]
fn what_was_said_elsewhere_is_the_beginning_of_the_conversation() {
    let mut sim = answers();
    sim.ask_after(&SAID, "and how many are we?").unwrap();
    let kinds = sim.kinds();
    assert_eq!(kinds[..2], ["STATE_UPDATE", "RUN_STARTED"]);
    let told = &sim.contents(ObservationType::StateUpdate)[0];
    let said: Vec<_> = told["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["role"].as_str(), one["content"].as_str()))
        .collect();
    assert_eq!(said, [(Some("USER"), Some("We are 14.")), (Some("AI"), Some("Noted."))]);
    assert_eq!(told["keys"], serde_json::json!(["messages"]));
    sim.reload();
    sim.go();
    let prompt = format!("{:?}", sim.prompts[0].messages);
    let places = ["We are 14.", "Noted.", "and how many are we?"].map(|text| prompt.find(text));
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?} {prompt}");
}

/// Its budget, and whether it has to be summed up, depend on how long the conversation is.
#[test]
fn a_copied_message_that_counts_no_more_is_stored_beside_the_conversation() {
    let mut sim = answers();
    let message = |id: &str, content: &str| ConversationMessage {
        message_id: id.into(),
        thread_id: "t0".into(),
        role: MessageRole::User,
        content: content.to_owned(),
        timestamp: 1,
        run_id: None,
        requested_by: None,
        metadata: None,
    };
    let view = json!({
        "intent": "", "title": "", "plan": "", "planVersion": 0, "lastSeq": 0, "stepOutputs": {}, "todoList": [],
    });
    sim.apply(Event::Person(PersonEvent::Forked {
        from: ForkedFrom { thread_id: "t0".into(), seq: 1 },
        state: Box::new(ShownPlan::of(&view).unwrap()),
        messages: vec![message("msg_1", "We are 14."), message("msg_2", "Never asked of a model.")],
        superseded: HashSet::from(["msg_2".into()]),
        agent_state: AgentState::default(),
        summary: None,
        shapers: Vec::new(),
        later: Vec::new(),
    }))
    .unwrap();
    let keep = |id: &str| sim.rows[&(RowKind::Message, id.to_owned())].keep;
    assert_eq!((keep("msg_1"), keep("msg_2")), (Keep::Never, Keep::Superseded));
    let head: Value = serde_json::from_str(&sim.head).unwrap();
    assert_eq!(head["said"], "We are 14.".len());
}

/// A core without plans also shows the conversation to its model, however long the messages are.
#[test]
fn a_long_message_is_stored_once_and_told_whole() {
    let mut sim = Sim::of(Arc::new(Pes::react()), |_| says("fine"));
    let long = "long ".repeat(1_000);
    sim.ask_after(&[(User, &long)], "go on").unwrap();
    let told = &sim.contents(ObservationType::StateUpdate)[0]["messages"][0]["content"];
    assert_eq!(told.as_str(), Some(long.as_str()));
    sim.go();
    assert!(format!("{:?}", sim.prompts[0].messages).contains(&long));
}

#[test]
fn a_thread_with_a_conversation_of_its_own_takes_none_in() {
    let mut sim = answers();
    sim.ask("hello").unwrap();
    let refused = sim.ask_after(&SAID, "go on").unwrap_err();
    assert_eq!((refused.code, refused.errors[0].pointer.as_str()), (Code::ThreadExists, "/history"));
    sim.go();
    assert_eq!(sim.ask_after(&SAID, "go on").unwrap_err().code, Code::ThreadExists);
    assert!(sim.contents(ObservationType::StateUpdate).is_empty());
}
