//! Prompts are shortened to the model's context.

use std::collections::HashSet;

use pes_engine::HistoryQuery;
use pes_engine::domain::fault::Code;
use pes_engine::domain::message::ConversationMessage;
use pes_engine::domain::model::{FailureKind, ModelFailure, ModelReply, ModelRequest, Phase};
use pes_engine::domain::observation::{Observation, ObservationType};
use pes_engine::domain::prompt::PromptMessage;
use pes_engine::domain::run::{OnBusy, ResultStatus, RunStatus};
use pes_engine::domain::settings::{Budget, RunSettings};
use pes_engine::domain::thread::{AgentState, ForkedFrom};
use pes_engine::event::{Event, PersonEvent};
use pes_engine::history::fold::Fold;
use pes_engine::history::{ShownPlan, WentBack, later_calls, shapers};
use pes_engine::pes::Pes;
use pes_engine::step::{Keep, Row, RowKind};
use serde_json::json;

use super::sim::*;

impl Sim {
    /// Messages before the active run's own, oldest first.
    pub fn recent(&self, recent: &HistoryQuery) -> Vec<ConversationMessage> {
        let own = self.machine.run().map(|run| run.message_id.to_string()).unwrap_or_default();
        let before = self.rows.get(&(RowKind::Message, own)).map_or(i64::MAX, |row| row.ord);
        let mut rows: Vec<&Row> = self
            .rows()
            .filter(|row| row.kind == RowKind::Message && row.keep == Keep::Never && row.ord < before)
            .collect();
        rows.sort_by_key(|row| row.ord);
        let said = rows.iter().map(|row| serde_json::from_str(&row.body).unwrap()).collect();
        let mut said: Vec<ConversationMessage> = recent.kept(said, u32::MAX);
        let since = recent.since.as_ref().and_then(|since| said.iter().position(|it| it.message_id == *since));
        let newest = said.len().saturating_sub(recent.newest as usize);
        said.split_off(since.map_or(newest, |at| newest.min(at)))
    }

    /// A new thread that starts like this one did after this many of its records.
    fn forked(&self, records: usize) -> Self {
        let mut copy = talker(tells);
        copy.book.window = self.book.window;
        copy.next_run = self.next_run + 100;
        self.fork_into(copy, records)
    }

    /// Makes an empty thread a copy of this one after this many of its records.
    pub fn fork_into(&self, mut copy: Self, records: usize) -> Self {
        let mut fold = Fold::default();
        for (at, record) in self.records[..records].iter().enumerate() {
            let told = Observation::of(record.clone(), "t1".into(), at as i64 + 1);
            fold.apply(&Observation { content: self.content(record), ..told }).unwrap();
        }
        let messages = fold.messages().iter().map(|message| message.whole().unwrap());
        let (messages, summary) = (messages.collect(), fold.summary().cloned().map(Box::new));
        let edited = shapers::edited_items(self.rows());
        let state = Box::new(ShownPlan { edited, ..ShownPlan::of(&fold.view()).unwrap() });
        let from = ForkedFrom { thread_id: "t1".into(), seq: records as i64 };
        let mut went_back = WentBack::default();
        (1..).zip(&self.records[..records]).for_each(|(seq, record)| went_back.apply(seq, &record.fact));
        let mut later = later_calls::digests_of_head(&self.head);
        later.extend(self.later_calls(went_back.place().map_or(records, |place| place as usize), &state));
        copy.apply(Event::Person(PersonEvent::Forked {
            from,
            state,
            messages,
            superseded: HashSet::new(),
            agent_state: AgentState::default(),
            summary,
            shapers: shapers::of_next_run(&self.head),
            later,
        }))
        .unwrap();
        copy
    }
}

/// The context figures of the last call.
fn told(sim: &Sim) -> Option<serde_json::Value> {
    let figures = sim.records.iter().rev().find(|record| record.kind() == ObservationType::LlmStreamMetadata);
    figures.unwrap().metadata.as_ref().map(|metadata| json!(metadata.context))
}

/// Answers with long texts, and summarises with `summary`.
fn talker(summary: impl Fn(u32) -> Result<ModelReply, ModelFailure> + 'static) -> Sim {
    let mut sums = 0;
    Sim::new(move |request| match which(request).as_str() {
        "summary" => {
            sums += 1;
            summary(sums)
        }
        _ => says(json!({ "answer": "a".repeat(3_000), "todoList": [] }).to_string()),
    })
}

fn question(sim: &mut Sim, n: usize) {
    sim.ask(&format!("question {n} {}", "q".repeat(3_000))).unwrap();
    sim.go();
}

/// A thread whose conversation has ten long messages, and then a short question.
fn long_talk(window: Option<u64>, summary: impl Fn(u32) -> Result<ModelReply, ModelFailure> + 'static) -> Sim {
    let mut sim = talker(summary);
    (0..5).for_each(|n| question(&mut sim, n));
    sim.book.window = window;
    sim.ask("and now?").unwrap();
    sim.go();
    sim
}

fn tells(n: u32) -> Result<ModelReply, ModelFailure> {
    says(format!("SUMMARY {n}"))
}

#[test]
fn the_oldest_messages_are_summed_up_and_that_is_told() {
    let sim = long_talk(Some(8_000), tells);
    let [.., summing, asking] = &sim.prompts[..] else { panic!("there are two prompts") };
    assert_eq!((first_line(summing).as_str(), summing.phase), ("Phase: summary", Phase::Planning));
    assert!(all_text(summing).contains("question 0") && !all_text(summing).contains("and now?"));
    let prompt = all_text(asking);
    assert!(prompt.contains("SUMMARY 1") && prompt.contains("and now?"));
    assert!(!prompt.contains("question 0") && prompt.len() / 3 <= 6_000, "{}", prompt.len() / 3);
    let (sums, fit) = (summing.context.fit.unwrap(), told(&sim).unwrap());
    let (kept, summarised) = (fit["kept"].as_u64().unwrap(), fit["summarised"].as_u64().unwrap());
    assert_eq!((kept + summarised, fit["shortened"].as_u64(), fit.get("leftOut")), (10, Some(0), None));
    assert!(kept > 0 && sums.summarised as u64 == summarised);
    let streams = sim.contents(ObservationType::LlmStreamStart);
    let [.., whole, summing, asking] = &streams[..] else { panic!("there are three streams") };
    assert_eq!((&summing["purpose"], &summing["phase"]), (&json!("summary"), &json!("planning")));
    assert_eq!((&whole["attempt"], &summing["attempt"], &asking["attempt"]), (&json!(1), &json!(1), &json!(2)));
    assert_eq!(sim.contents(ObservationType::LlmStreamError)[0]["code"], "overflow");
    assert_eq!(sim.run("run_6").counters.llm_calls, 2, "what was not sent is no call, a summary is one");
}

#[test]
fn no_message_is_summed_up_twice_and_the_summary_is_kept() {
    let mut sim = long_talk(Some(8_000), tells);
    let before = sim.prompts.len();
    sim.ask("once more?").unwrap();
    sim.go();
    assert_eq!(sim.prompts.len(), before + 1, "the summary stands");
    assert!(all_text(sim.prompts.last().unwrap()).contains("SUMMARY 1"));
    (10..16).for_each(|n| question(&mut sim, n));
    let sums: Vec<String> = sim.prompts.iter().filter(|it| which(it) == "summary").map(all_text).collect();
    assert!(sums.len() > 2, "{}", sums.len());
    for n in 0..16 {
        let told = sums.iter().filter(|prompt| prompt.contains(&format!("question {n} "))).count();
        assert!(told <= 1, "question {n} was summed up {told} times");
    }
    for (at, prompt) in sums.iter().enumerate().skip(1) {
        assert!(prompt.contains(&format!("SUMMARY {at}\n")), "the next one is made from the one before");
    }
    let fit = told(&sim).unwrap();
    let said = 2 * (5 + 2 + 6) - 2;
    assert_eq!((fit["kept"].as_u64().unwrap() + fit["summarised"].as_u64().unwrap(), fit.get("leftOut")), (said, None));
}

#[test]
fn without_a_summary_the_oldest_messages_are_left_out_and_that_is_told() {
    for no in [|_| fails(FailureKind::Refused), |_| fails(FailureKind::Unreachable), |_| says(" ")] {
        let sim = long_talk(Some(8_000), no);
        assert_eq!(sim.run("run_6").status, RunStatus::Completed);
        let prompt = all_text(sim.prompts.last().unwrap());
        assert!(prompt.contains("and now?") && prompt.contains("question 4") && !prompt.contains("question 0"));
        assert!(prompt.len() / 3 <= 6_000, "{}", prompt.len() / 3);
        let fit = told(&sim).unwrap();
        let (kept, left_out) = (fit["kept"].as_u64().unwrap(), fit["leftOut"].as_u64().unwrap());
        assert_eq!((kept + left_out, fit["summarised"].as_u64()), (10, Some(0)));
    }
}

#[test]
fn a_prompt_that_fits_is_left_alone() {
    for window in [None, Some(1_000_000)] {
        let sim = long_talk(window, tells);
        assert!(all_text(sim.prompts.last().unwrap()).contains("question 0"));
        assert_eq!(told(&sim), None);
    }
}

#[test]
fn a_crash_after_any_commit_leaves_one_summary() {
    let answers = |sim: &Sim| sim.contents(ObservationType::FinalResponse).len();
    let ended = |sim: &Sim| {
        let ends = sim.contents(ObservationType::LlmStreamEnd);
        ends.iter().filter(|end| end["text"].as_str().unwrap().starts_with("SUMMARY")).count()
    };
    for crash in 0..6 {
        let mut sim = talker(tells);
        (0..5).for_each(|n| question(&mut sim, n));
        sim.book.window = Some(8_000);
        sim.ask("and now?").unwrap();
        for _ in 0..crash {
            sim.step();
        }
        sim.crash();
        sim.go();
        assert_eq!((answers(&sim), ended(&sim)), (6, 1), "crash after {crash}");
        assert!(all_text(sim.prompts.last().unwrap()).contains("SUMMARY 1"), "crash after {crash}");
        assert_eq!(told(&sim).unwrap().get("leftOut"), None, "crash after {crash}");
    }
}

#[test]
fn a_summary_is_paid_from_the_runs_budget() {
    let mut sim = talker(tells);
    (0..5).for_each(|n| question(&mut sim, n));
    sim.book.window = Some(8_000);
    let budget = Some(Budget { max_llm_calls: Some(1), ..Budget::default() });
    sim.ask_with("and now?", OnBusy::Enqueue, RunSettings { budget, ..RunSettings::default() }).unwrap();
    sim.go();
    let outcome = sim.run("run_6").outcome.unwrap();
    assert_eq!((outcome.status, outcome.error.unwrap().code), (ResultStatus::Partial, Code::BudgetExceeded));
    assert_eq!(which(sim.prompts.last().unwrap()), "summary");
}

#[test]
fn a_run_without_a_plan_sums_up_too_and_never_its_own_loop() {
    let mut sim = Sim::of(std::sync::Arc::new(Pes::react()), |request| {
        match (first_line(request).as_str(), request.context.iteration, request.context.query.as_str()) {
            ("Phase: summary", ..) => says("SUMMARY"),
            (_, 1, "and now?") => calls(&[("read", json!({ "own": "o".repeat(6_000) }))]),
            _ => says("a".repeat(3_000)),
        }
    });
    (0..5).for_each(|n| question(&mut sim, n));
    sim.book.window = Some(9_000);
    sim.ask("and now?").unwrap();
    sim.go();
    assert_eq!(sim.run("run_6").status, RunStatus::Completed);
    let prompt = all_text(sim.prompts.last().unwrap());
    assert!(prompt.contains("SUMMARY") && !prompt.contains("question 0"));
    assert!(prompt.contains(&"o".repeat(6_000)), "its own loop is whole");
}

#[test]
fn results_of_others_are_shortened_before_those_of_the_items_own_calls() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[]), ("b", &["a"], &["read"])]),
        "a.1" => says("r".repeat(30_000)),
        "b.1" => calls(&[("read", json!({ "own": "o".repeat(6_000) }))]),
        _ => says("fine"),
    });
    sim.book.window = Some(8_500);
    sim.ask("go").unwrap();
    sim.go();
    let second = sim.prompts.iter().find(|prompt| which(prompt) == "b.2").unwrap();
    let prompt = all_text(second);
    assert!(prompt.contains(&"o".repeat(6_000)), "its own loop is whole");
    assert!(!prompt.contains(&"r".repeat(6_000)), "another's result is shorter than what stays whole");
    assert!(prompt.contains("more characters left out"));
    let own = json!({ "own": "o".repeat(6_000) });
    let has_own = |message: &PromptMessage| match message {
        PromptMessage::Assistant { tool_calls, .. } => tool_calls.iter().any(|call| call.arguments == own),
        PromptMessage::System { .. } | PromptMessage::User { .. } | PromptMessage::Tool { .. } => false,
    };
    assert!(second.messages.iter().any(has_own), "and so is what it asked for");
    assert!(second.context.fit.unwrap().shortened > 0);
    assert_eq!(sim.run("run_1").status, RunStatus::Completed);
}

#[test]
fn a_prompt_that_the_provider_finds_too_long_is_made_half_as_long_once() {
    let mut sim = Sim::new(|request| {
        if all_text(request).len() > 20_000 {
            fails(FailureKind::TooLong)
        } else if which(request) == "summary" {
            says("SUMMARY")
        } else {
            says(json!({ "answer": "a".repeat(12_000), "todoList": [] }).to_string())
        }
    });
    for n in 0..2 {
        sim.ask(&format!("question {n}")).unwrap();
        sim.go();
    }
    sim.ask("question 2").unwrap();
    sim.go();
    assert_eq!(sim.run("run_3").status, RunStatus::Completed);
    let lengths: Vec<usize> = sim.prompts[2..].iter().map(|prompt| all_text(prompt).len()).collect();
    let [whole, summing, shorter, asking] = lengths[..] else { panic!("{lengths:?}") };
    assert!(whole > 20_000 && summing > 20_000 && shorter < summing * 2 / 3 && asking < whole / 2, "{lengths:?}");
    assert_eq!((told(&sim).unwrap()["summarised"].as_u64(), told(&sim).unwrap().get("leftOut")), (Some(4), None));
}

#[test]
fn what_a_vendor_wants_back_stands_whole_with_its_calls() {
    let blocks = json!({ "wire": "w", "model": "m", "blocks": "s".repeat(5_000) });
    let given = blocks.clone();
    let mut sim = Sim::new(move |request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &["read"])]),
        "a.1" => calls(&[("read", json!({}))]).map(|reply| ModelReply { replay: Some(given.clone()), ..reply }),
        _ => says("fine"),
    });
    sim.ask("go").unwrap();
    sim.go();
    let second = sim.prompts.iter().find(|prompt| which(prompt) == "a.2").unwrap();
    let replayed = second.messages.iter().find_map(|message| match message {
        PromptMessage::Assistant { replay, tool_calls, .. } if !tool_calls.is_empty() => Some(replay.clone()),
        PromptMessage::System { .. }
        | PromptMessage::User { .. }
        | PromptMessage::Assistant { .. }
        | PromptMessage::Tool { .. } => None,
    });
    assert_eq!(replayed, Some(Some(blocks)));
}

/// How many of these queries a prompt contains word for word.
fn questions(prompt: &ModelRequest, of: std::ops::Range<usize>) -> usize {
    of.filter(|n| all_text(prompt).contains(&format!("question {n} "))).count()
}

#[test]
fn what_comes_after_a_summary_is_told_however_few_messages_a_prompt_shows() {
    let mut sim = long_talk(Some(8_000), tells);
    (sim.book.window, sim.history_limit) = (Some(1_000_000), 4);
    for n in 10..20 {
        question(&mut sim, n);
        let fit = told(&sim).unwrap();
        let (kept, summarised) = (fit["kept"].as_u64().unwrap(), fit["summarised"].as_u64().unwrap());
        assert_eq!((kept + summarised, fit.get("leftOut")), (2 * (n as u64 - 4), None), "before question {n}");
        assert!((2..=4).contains(&kept), "{kept}");
        let sums: Vec<&ModelRequest> = sim.prompts.iter().filter(|it| which(it) == "summary").collect();
        let last = sim.prompts.last().unwrap();
        for known in (0..5).chain(10..n) {
            let at = known..known + 1;
            let summed = sums.iter().map(|prompt| questions(prompt, at.clone())).sum::<usize>();
            assert_eq!(summed + questions(last, at), 1, "question {known} is told once, before question {n}");
        }
    }
    let sums = sim.prompts.iter().filter(|it| which(it) == "summary").count();
    assert!((4..=7).contains(&sums), "half of what is shown is left each time: {sums}");
}

#[test]
fn where_nothing_was_summed_up_only_the_newest_messages_are_told() {
    let mut sim = talker(tells);
    sim.history_limit = 4;
    (0..5).for_each(|n| question(&mut sim, n));
    assert_eq!((sim.prompts.len(), questions(sim.prompts.last().unwrap(), 0..4)), (5, 2));
    assert_eq!(told(&sim), None);
}

#[test]
fn messages_that_cannot_be_summed_up_are_left_out_and_that_is_told() {
    let mut sim = long_talk(Some(8_000), |n| if n == 1 { tells(n) } else { fails(FailureKind::Refused) });
    (sim.book.window, sim.history_limit) = (Some(1_000_000), 2);
    (10..13).for_each(|n| question(&mut sim, n));
    assert_eq!(sim.run("run_9").status, RunStatus::Completed);
    let fit = told(&sim).unwrap();
    let [kept, summarised, left_out] = ["kept", "summarised", "leftOut"].map(|key| fit[key].as_u64().unwrap_or(0));
    assert!((kept, left_out) == (2, 16 - 2 - summarised) && left_out > 0, "{fit}");
    let last = sim.prompts.last().unwrap();
    assert!(all_text(last).contains("SUMMARY 1") && questions(last, 10..12) == 1);
}

#[test]
fn a_copy_begins_with_the_summary_that_stood_then() {
    let sim = long_talk(Some(8_000), tells);
    let mut copy = sim.forked(sim.records.len());
    assert!(
        copy.records.iter().any(|record| record.fact.content()["summary"].is_object()),
        "its own copies know of it, too"
    );
    copy.ask("and now?").unwrap();
    copy.go();
    assert_eq!(copy.prompts.len(), 1, "nothing is summed up again");
    let prompt = all_text(&copy.prompts[0]);
    assert!(prompt.contains("SUMMARY 1") && !prompt.contains("question 0") && prompt.contains("question 4"));
    let fit = told(&copy).unwrap();
    assert_eq!(fit["kept"].as_u64().unwrap() + fit["summarised"].as_u64().unwrap(), 12);
}

#[test]
fn a_copy_of_what_was_before_the_summary_makes_its_own() {
    let sim = long_talk(Some(8_000), tells);
    let summed = sim.records.iter().position(|record| record.fact.content()["summary"].is_object()).unwrap();
    let mut copy = sim.forked(summed);
    copy.ask("and now?").unwrap();
    copy.go();
    let [summing, asking] = &copy.prompts[..] else { panic!("{}", copy.prompts.len()) };
    assert!(which(summing) == "summary" && all_text(summing).contains("question 0"));
    assert!(all_text(asking).contains("SUMMARY 1") && !all_text(asking).contains("question 0"));
}
