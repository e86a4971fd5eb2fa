//! The rules of one scope, made ready: sorted, found by tool, each pointer followed once for a call.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::{condition, glob, strictness};
use crate::domain::fault::{Code, Fault};
use crate::domain::policy::{Op, PolicyRule, RuleScope, Ruling, Terms};
use crate::domain::settings::{LONGEST_SPAN, PolicyAction};
use crate::domain::tool::Proposal;

/// How many rules one scope may have.
pub const MOST_RULES: usize = 2_000;
/// Of how many tools it is remembered which rules are about them.
const MOST_TOOLS: usize = 4_096;

/// The rules of one scope.
#[derive(Debug, Default)]
pub struct Compiled {
    /// The most specific first, then the stricter, then the first written.
    rules: Vec<Rule>,
    pointers: Vec<String>,
    threads: Vec<String>,
    by_tool: Mutex<HashMap<String, Arc<[usize]>>>,
}

#[derive(Debug)]
pub(super) struct Rule {
    pub(super) rank: Rank,
    pub(super) ruling: Ruling,
    /// Its place in `threads`.
    thread: Option<usize>,
    tool: String,
    when: Vec<Condition>,
}

/// How specific a rule is; the greater decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    thread: Option<(bool, usize)>,
    tool: (bool, usize),
    conditions: usize,
}

#[derive(Debug)]
struct Condition {
    /// Its place in `pointers`.
    pointer: usize,
    op: Op,
    expected: Value,
}

/// What was found out about a call, each thing when it was first asked for.
struct Found<'v> {
    pointers: Vec<Option<Option<&'v Value>>>,
    threads: Vec<Option<bool>>,
}

impl Compiled {
    /// From rules that [`check`] passed.
    pub fn new(rules: &[PolicyRule], scope: RuleScope) -> Self {
        let mut compiled = Self::default();
        compiled.rules = rules.iter().map(|rule| compiled.rule(rule, scope)).collect();
        compiled.rules.sort_by_key(|rule| Reverse((rule.rank, strictness(rule.ruling.action))));
        compiled
    }

    fn rule(&mut self, rule: &PolicyRule, scope: RuleScope) -> Rule {
        let when: Vec<Condition> = rule
            .when
            .iter()
            .map(|when| Condition {
                pointer: place(&mut self.pointers, &when.pointer),
                op: when.op,
                expected: when.value.clone(),
            })
            .collect();
        Rule {
            rank: Rank {
                thread: rule.thread.as_deref().map(glob::specificity),
                tool: glob::specificity(&rule.tool),
                conditions: rule.when.len(),
            },
            when,
            thread: rule.thread.as_ref().map(|thread| place(&mut self.threads, thread)),
            tool: rule.tool.clone(),
            ruling: Ruling {
                action: rule.action,
                rule: rule.id.clone().unwrap_or_else(|| super::words(&rule.tool, rule.action)),
                scope,
                reason: rule.reason.clone(),
                terms: Terms {
                    approvers: rule.approvers.clone(),
                    four_eyes: rule.four_eyes,
                    expires_after_ms: rule.expires_after_ms,
                    on_expiry: rule.on_expiry,
                },
            },
        }
    }

    /// The most specific rule that is about this call.
    pub(super) fn first(&self, call: &Proposal<'_>) -> Option<&Rule> {
        if self.rules.is_empty() {
            return None;
        }
        let mut found = Found { pointers: vec![None; self.pointers.len()], threads: vec![None; self.threads.len()] };
        let about = self.about(call.tool);
        about.iter().map(|at| &self.rules[*at]).find(|rule| {
            rule.thread.is_none_or(|thread| self.is_on(thread, call.thread.as_str(), &mut found))
                && rule.when.iter().all(|when| self.holds(when, rule.ruling.action, call.arguments, &mut found))
        })
    }

    fn is_on(&self, thread: usize, name: &str, found: &mut Found<'_>) -> bool {
        *found.threads[thread].get_or_insert_with(|| glob::matches(&self.threads[thread], name))
    }

    fn holds<'v>(&self, when: &Condition, action: PolicyAction, arguments: &'v Value, found: &mut Found<'v>) -> bool {
        let value =
            *found.pointers[when.pointer].get_or_insert_with(|| arguments.pointer(&self.pointers[when.pointer]));
        condition::holds(when.op, &when.expected, value, action != PolicyAction::Auto)
    }

    /// The places of the rules that name this tool, in their order.
    fn about(&self, tool: &str) -> Arc<[usize]> {
        let mut by_tool = self.by_tool.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = by_tool.get(tool) {
            return known.clone();
        }
        let about = self.rules.iter().enumerate().filter(|(_, rule)| glob::matches(&rule.tool, tool));
        let about: Arc<[usize]> = about.map(|(at, _)| at).collect();
        if by_tool.len() >= MOST_TOOLS {
            by_tool.clear();
        }
        by_tool.insert(tool.to_owned(), about.clone());
        about
    }
}

/// Where a text stands in a list that holds each once.
fn place(list: &mut Vec<String>, text: &str) -> usize {
    list.iter().position(|known| known == text).unwrap_or_else(|| {
        list.push(text.to_owned());
        list.len() - 1
    })
}

/// Refuses rules that cannot mean anything, each with its pointer into `/rules`.
pub fn check(rules: &[PolicyRule]) -> Result<(), Fault> {
    let mut wrong = Vec::new();
    if rules.len() > MOST_RULES {
        wrong.push(("/rules".to_owned(), format!("has {} rules; at most {MOST_RULES} are taken", rules.len())));
    }
    let mut ids = HashSet::new();
    for (at, rule) in rules.iter().enumerate() {
        let mut refuse = |place: String, how: &str| wrong.push((format!("/rules/{at}/{place}"), how.to_owned()));
        match &rule.id {
            Some(id) if id.is_empty() || id.len() > 128 => refuse("id".to_owned(), "must have 1 to 128 bytes"),
            Some(id) if !ids.insert(id) => refuse("id".to_owned(), "stands there twice"),
            Some(_) | None => {}
        }
        if rule.tool.is_empty() {
            refuse("tool".to_owned(), "must be a name or a glob");
        }
        if rule.expires_after_ms.is_some_and(|span| !(1..=LONGEST_SPAN).contains(&span)) {
            refuse("expiresAfterMs".to_owned(), "must be 1 to 315360000000, which is ten years");
        }
        for (of, when) in rule.when.iter().enumerate() {
            if let Err((member, how)) = condition::check(when) {
                refuse(format!("when/{of}/{member}"), how);
            }
        }
    }
    if wrong.is_empty() {
        return Ok(());
    }
    let fault = Fault::new(Code::Invalid, "These rules cannot be used.");
    Err(wrong.into_iter().take(8).fold(fault, |fault, (pointer, how)| fault.at(pointer, how)))
}
