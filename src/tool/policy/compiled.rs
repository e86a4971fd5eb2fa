//! The rules of one scope, made ready: sorted, found by tool, each pointer followed once for a call.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;

use super::argument::{Argument, MOST_EXAMINED};
use super::condition::Test;
use super::steps::Steps;
use super::{glob, normal, strictness};
use crate::domain::fault::{Code, Fault};
use crate::domain::policy::{self as domain, PolicyRule, RuleScope, Ruling, Terms};
use crate::domain::settings::{MAX_WAIT_MS, PolicyAction};
use crate::domain::tool::Proposal;

/// How many rules one scope may have.
pub const MOST_RULES: usize = 2_000;
/// How many conditions all rules of one scope may have; a call is judged by the server's rules and its tenant's.
pub const MOST_CONDITIONS: usize = 4_000;
/// How large the values of all conditions of one scope may be together, counted as [`MOST_EXAMINED`] is.
pub const MOST_VALUES: usize = 8 * MOST_EXAMINED;
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
    test: Test,
    /// As it is shown.
    written: domain::Condition,
}

/// What was found out about a call, each thing when it was first asked for.
struct CallFacts<'v> {
    pointers: Vec<Option<Option<Box<Argument<'v>>>>>,
    threads: Vec<Option<bool>>,
}

impl Compiled {
    /// From rules that [`check`] passed.
    pub fn new(rules: &[PolicyRule], scope: RuleScope) -> Self {
        let mut compiled = Self::default();
        let (mut pointers, mut threads) = (Places::default(), Places::default());
        let steps = Steps::new();
        compiled.rules = rules.iter().map(|rule| compile(rule, scope, &mut pointers, &mut threads, &steps)).collect();
        (compiled.pointers, compiled.threads) = (pointers.texts, threads.texts);
        compiled.rules.sort_by_key(|rule| Reverse((rule.rank, strictness(rule.ruling.action))));
        compiled
    }

    /// Says in each decision that the rules stand in this version of a document.
    pub(super) fn of_version(mut self, version: i64) -> Self {
        for rule in &mut self.rules {
            rule.ruling.version = Some(version);
        }
        self
    }

    /// The most specific rule that is about this call.
    pub(super) fn first(&self, call: &Proposal<'_>, steps: &Steps) -> Option<&Rule> {
        if self.rules.is_empty() {
            return None;
        }
        let mut found = CallFacts { pointers: Vec::new(), threads: vec![None; self.threads.len()] };
        found.pointers.resize_with(self.pointers.len(), || None);
        let about = self.about(call.tool);
        about.iter().map(|at| &self.rules[*at]).find(|rule| {
            let allows = rule.ruling.action == PolicyAction::Auto;
            rule.thread.is_none_or(|thread| self.is_on(thread, call.thread.as_str(), &mut found))
                && rule.when.iter().all(|when| {
                    let argument = self.argument(when.pointer, call, &mut found);
                    when.test.holds(argument, steps, allows)
                })
        })
    }

    /// The rules that may decide about a tool's calls on a thread, whatever the arguments: those with conditions, the most
    /// specific first, and the first without any, which ends the search.
    pub(super) fn candidates(&self, call: &Proposal<'_>) -> (Vec<&Rule>, Option<&Rule>) {
        let mut found = CallFacts { pointers: Vec::new(), threads: vec![None; self.threads.len()] };
        let mut conditional = Vec::new();
        for at in self.about(call.tool).iter() {
            let rule = &self.rules[*at];
            if rule.thread.is_some_and(|thread| !self.is_on(thread, call.thread.as_str(), &mut found)) {
                continue;
            }
            if rule.when.is_empty() {
                return (conditional, Some(rule));
            }
            conditional.push(rule);
        }
        (conditional, None)
    }

    /// A rule's conditions, as they were written.
    pub(super) fn conditions(rule: &Rule) -> Vec<domain::Condition> {
        rule.when.iter().map(|when| when.written.clone()).collect()
    }

    fn is_on(&self, thread: usize, name: &str, found: &mut CallFacts<'_>) -> bool {
        *found.threads[thread].get_or_insert_with(|| glob::matches(&self.threads[thread], name))
    }

    fn argument<'f, 'v>(
        &self,
        at: usize,
        call: &Proposal<'v>,
        found: &'f mut CallFacts<'v>,
    ) -> Option<&'f Argument<'v>> {
        let find = || call.arguments.pointer(&self.pointers[at]).map(|value| Box::new(Argument::new(value)));
        found.pointers[at].get_or_insert_with(find).as_deref()
    }

    /// The places of the rules that name this tool, in their order.
    fn about(&self, tool: &str) -> Arc<[usize]> {
        let mut by_tool = self.by_tool.lock();
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

/// Texts, each once, and where each stands.
#[derive(Default)]
struct Places<'r> {
    texts: Vec<String>,
    places: HashMap<&'r str, usize>,
}

impl<'r> Places<'r> {
    fn of(&mut self, text: &'r str) -> usize {
        *self.places.entry(text).or_insert_with(|| {
            self.texts.push(text.to_owned());
            self.texts.len() - 1
        })
    }
}

fn compile<'r>(
    rule: &'r PolicyRule,
    scope: RuleScope,
    pointers: &mut Places<'r>,
    threads: &mut Places<'r>,
    steps: &Steps,
) -> Rule {
    let condition = |when: &'r domain::Condition| {
        let test = Test::new(when, steps).expect("check passed the rule");
        Condition { pointer: pointers.of(&when.pointer), test, written: when.clone() }
    };
    Rule {
        rank: Rank {
            thread: rule.thread.as_deref().map(glob::specificity),
            tool: glob::specificity(&rule.tool),
            conditions: rule.when.len(),
        },
        when: rule.when.iter().map(condition).collect(),
        thread: rule.thread.as_ref().map(|thread| threads.of(thread)),
        tool: rule.tool.clone(),
        ruling: Ruling {
            action: rule.action,
            rule: rule.id.clone().unwrap_or_else(|| super::words(&rule.tool, rule.action)),
            scope,
            version: None,
            reason: rule.reason.clone(),
            when: rule.when.clone(),
            terms: Terms {
                approvers: rule.approvers.clone(),
                four_eyes: rule.four_eyes,
                expires_after_ms: rule.expires_after_ms,
                on_expiry: rule.on_expiry,
            },
        },
    }
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
        if rule.expires_after_ms.is_some_and(|span| !(1..=MAX_WAIT_MS).contains(&span)) {
            refuse("expiresAfterMs".to_owned(), "must be 1 to 315360000000, which is ten years");
        }
    }
    wrong.extend(wrong_conditions(rules));
    if wrong.is_empty() {
        return Ok(());
    }
    let fault = Fault::new(Code::Invalid, "These rules cannot be used.");
    Err(wrong.into_iter().take(8).fold(fault, |fault, (pointer, how)| fault.at(pointer, how)))
}

/// The conditions that cannot be used. What goes beyond the bounds is named once, and not looked at.
fn wrong_conditions(rules: &[PolicyRule]) -> Vec<(String, String)> {
    let (mut wrong, mut room, steps) = (Vec::new(), MOST_VALUES, Steps::new());
    let conditions = rules.iter().enumerate().flat_map(|(at, rule)| {
        rule.when.iter().enumerate().map(move |(of, when)| (format!("/rules/{at}/when/{of}"), when))
    });
    for (number, (place, when)) in conditions.enumerate() {
        if number == MOST_CONDITIONS {
            wrong.push((place, format!("is one condition too many; at most {MOST_CONDITIONS} are taken in all rules")));
            break;
        }
        let Some(size) = normal::size(&when.value, room) else {
            let how = format!("is too large with those before it; at most {} KiB are taken in all", MOST_VALUES / 1024);
            wrong.push((format!("{place}/value"), how));
            break;
        };
        room -= size;
        if let Err((member, how)) = Test::new(when, &steps) {
            wrong.push((format!("{place}/{member}"), how.to_owned()));
        }
    }
    wrong
}
