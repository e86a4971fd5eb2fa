//! What the calls of a thread's items have done, by its log and by its tools: nothing is done twice unless a person
//! said so.

use std::collections::{BTreeMap, BTreeSet};

use pes::domain::observation::{Observation, ObservationType};

use super::tools::{Made, is_safe};

/// Of one item: the tools whose effect it had.
#[derive(Clone, Debug, Default)]
struct Had {
    /// In its attempts before this one.
    before: BTreeSet<String>,
    now: BTreeSet<String>,
}

/// What is wrong: in a word that names the check, and in full.
pub type Complaint = (&'static str, String);

/// By item.
#[derive(Clone, Debug, Default)]
pub struct Effects(BTreeMap<String, Had>);

/// The answers of people in a log, by call.
#[derive(Default)]
struct Answers {
    approved: BTreeSet<String>,
    rejected: BTreeSet<String>,
    /// Calls that an open question holds back.
    held_back: BTreeSet<String>,
}

impl Answers {
    fn of(log: &[Observation]) -> Self {
        let (mut all, mut open) = (Self::default(), BTreeMap::new());
        for told in log {
            let content = &told.content;
            let question = content["suspensionId"].as_str().unwrap_or_default().to_owned();
            match told.kind {
                ObservationType::AgentSuspended if content["kind"] == "approval" => {
                    let call = content["callId"].as_str().unwrap_or_default().to_owned();
                    open.insert(question, (call, told.run_id.clone()));
                }
                ObservationType::SuspensionTimeout if content["policy"] == "remind" => {}
                ObservationType::AgentResumed | ObservationType::SuspensionTimeout => {
                    if let Some((call, _)) = open.remove(&question) {
                        match content["decision"].as_str() {
                            Some("approved" | "modified") => all.decide(call, true),
                            _ => all.decide(call, false),
                        }
                    }
                }
                ObservationType::RunFinished => open.retain(|_, (_, run)| *run != told.run_id),
                _ => {}
            }
        }
        all.held_back = open.into_values().map(|(call, _)| call).collect();
        all
    }

    /// The last answer about a call counts.
    fn decide(&mut self, call: String, is_approved: bool) {
        self.approved.remove(&call);
        self.rejected.remove(&call);
        if is_approved {
            self.approved.insert(call);
        } else {
            self.rejected.insert(call);
        }
    }
}

impl Effects {
    /// What had been done, or begun, at the end of this part of a log. Whoever copies it has this before all.
    pub fn copied(&self, log: &[Observation], made: &[Made]) -> Self {
        let held_back = Answers::of(log).held_back;
        let made: Vec<Made> = made.iter().filter(|call| !held_back.contains(&call.call)).cloned().collect();
        self.follow(log, &made, &mut Vec::new()).settled()
    }

    /// Everything was done before.
    fn settled(mut self) -> Self {
        for had in self.0.values_mut() {
            had.before.append(&mut had.now);
        }
        self
    }

    /// Follows a whole log. It complains of an effect that a later attempt of an item has again though nobody approved
    /// that, and of calls that were made against what people said.
    pub fn follow(&self, log: &[Observation], made: &[Made], complaints: &mut Vec<Complaint>) -> Self {
        let answers = Answers::of(log);
        let had_effect: BTreeSet<&str> =
            made.iter().filter(|call| !call.failed && !is_safe(call.tool)).map(|call| call.call.as_str()).collect();
        let mut all = self.clone();
        let mut went_back = None;
        for (at, told) in log.iter().enumerate() {
            let content = &told.content;
            match told.kind {
                ObservationType::StateUpdate if content["superseded"].as_array().is_some_and(|ids| !ids.is_empty()) => {
                    went_back = Some(began(&log[..at], &content["superseded"]));
                }
                ObservationType::Plan if content["todoList"].is_array() => {
                    match went_back.take() {
                        Some(Some(length)) => all = self.follow(&log[..length], made, &mut Vec::new()).settled(),
                        // What came before this log is not known.
                        Some(None) => all = Self::default(),
                        None => {}
                    }
                    let kept: BTreeSet<&str> =
                        content["todoList"].as_array().unwrap().iter().filter_map(|item| item["id"].as_str()).collect();
                    all.0.retain(|item, _| kept.contains(item.as_str()));
                }
                ObservationType::Plan | ObservationType::PlanUpdate => {
                    for gone in content["changes"].as_array().into_iter().flatten() {
                        if gone["type"] == "removed" {
                            all.0.remove(gone["itemId"].as_str().unwrap_or_default());
                        }
                    }
                }
                ObservationType::ItemStatusChange if content["from"] == "pending" => {
                    let had = all.0.entry(content["itemId"].as_str().unwrap_or_default().to_owned()).or_default();
                    had.before.append(&mut had.now);
                }
                ObservationType::ToolCall => {
                    let Some(item) = told.parent_id.as_ref() else { continue };
                    let had = all.0.entry(item.to_string()).or_default();
                    for call in content["toolCalls"].as_array().into_iter().flatten() {
                        let (id, tool) = (
                            call["callId"].as_str().unwrap_or_default(),
                            call["toolName"].as_str().unwrap_or_default(),
                        );
                        if !had_effect.contains(id) {
                            continue;
                        }
                        let is_approved = answers.approved.contains(id);
                        if had.before.contains(tool) && !is_approved {
                            complaints.push(("again", format!("{id} of {item} has the effect of {tool} again")));
                        }
                        if answers.rejected.contains(id) {
                            complaints.push(("rejected", format!("{id} of {item} was rejected")));
                        }
                        if tool == "pay" && !is_approved {
                            complaints.push(("unapproved", format!("{id} of {item} was not approved")));
                        }
                        had.now.insert(tool.to_owned());
                    }
                }
                _ => {}
            }
        }
        all
    }
}

/// How long the log was when the first of these messages was recorded. `None`: it does not say so.
fn began(log: &[Observation], messages: &serde_json::Value) -> Option<usize> {
    let position = |wanted: &serde_json::Value| {
        log.iter().position(|told| {
            let content = &told.content;
            let is_queued = content["keys"].as_array().is_some_and(|keys| keys.iter().any(|key| key == "queue"));
            let many = content["messages"].as_array().into_iter().flatten();
            !is_queued && many.chain([&content["message"]]).any(|message| message["messageId"] == *wanted)
        })
    };
    messages.as_array().into_iter().flatten().find_map(position)
}

/// A decision of the model is carried out once, and once more each time that a person says so.
pub fn check_decisions(made: &[Made], retries: &BTreeMap<String, usize>) {
    let mut decisions: BTreeMap<u64, Vec<&Made>> = BTreeMap::new();
    for call in made.iter().filter(|call| !is_safe(call.tool)) {
        decisions.entry(call.n).or_default().push(call);
    }
    for (n, calls) in decisions {
        let ids: BTreeSet<&String> = calls.iter().map(|call| &call.call).collect();
        let allowed = 1 + ids.iter().filter_map(|id| retries.get(*id)).sum::<usize>();
        assert!(calls.len() <= allowed, "decision {n} was carried out {} times, not {allowed}: {calls:?}", calls.len());
    }
}
