//! The compiled rules of one scope: sorted, indexed by tool; each pointer is resolved once per call.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;

use super::argument::{Argument, MAX_EXAMINED};
use super::condition::Check;
use super::steps::StepBudget;
use super::{glob, normal};
use crate::domain::fault::{Code, Fault};
use crate::domain::policy::{self as domain, PolicyRule, RuleScope, Ruling, Terms};
use crate::domain::settings::{MAX_WAIT_MS, PolicyAction};
use crate::domain::tool::Proposal;

/// How many rules one scope may have.
pub const MAX_RULES: usize = 2_000;
/// How many conditions all rules of one scope may have. A call is judged by the rules of two scopes, the server's and
/// its tenant's.
pub const MAX_CONDITIONS: usize = 4_000;
/// The total size of the values of all conditions of one scope, measured like [`MAX_EXAMINED`].
pub const MOST_VALUES: usize = 8 * MAX_EXAMINED;
/// For how many tools the matching rules are cached.
const MAX_CACHED_TOOLS: usize = 4_096;

/// The rules of one scope.
#[derive(Debug, Default)]
pub struct CompiledRules {
    /// Sorted: the most specific first, then the stricter, then the first written.
    rules: Vec<Rule>,
    pointers: Vec<String>,
    threads: Vec<String>,
    by_tool: Mutex<HashMap<String, Arc<[usize]>>>,
}

#[derive(Debug)]
pub(super) struct Rule {
    pub(super) rank: Rank,
    pub(super) ruling: Ruling,
    /// Its index in `threads`.
    thread: Option<usize>,
    tool: String,
    when: Vec<Condition>,
}

/// How specific a rule is; the greater rank decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    thread: Option<(bool, usize)>,
    tool: (bool, usize),
    conditions: usize,
}

#[derive(Debug)]
struct Condition {
    /// Its index in `pointers`.
    pointer: usize,
    test: Check,
}

/// What was computed about a call so far; each entry is filled on first use.
struct CallCache<'v> {
    pointers: Vec<Option<Option<Box<Argument<'v>>>>>,
    threads: Vec<Option<bool>>,
}

impl CompiledRules {
    /// Compiles rules that [`check`] accepted.
    pub fn new(rules: &[PolicyRule], scope: RuleScope) -> Self {
        let mut compiled = Self::default();
        let (mut pointers, mut threads) = (Interner::default(), Interner::default());
        let steps = StepBudget::new();
        compiled.rules = rules.iter().map(|rule| compile(rule, scope, &mut pointers, &mut threads, &steps)).collect();
        (compiled.pointers, compiled.threads) = (pointers.texts, threads.texts);
        compiled.rules.sort_by_key(|rule| Reverse((rule.rank, rule.ruling.action)));
        compiled
    }

    /// Adds the version of the rules' document to every decision.
    pub(super) fn with_version(mut self, version: i64) -> Self {
        for rule in &mut self.rules {
            rule.ruling.version = Some(version);
        }
        self
    }

    /// The most specific rule that applies to this call.
    pub(super) fn most_specific(&self, call: &Proposal<'_>, steps: &StepBudget) -> Option<&Rule> {
        if self.rules.is_empty() {
            return None;
        }
        let mut cache = CallCache { pointers: Vec::new(), threads: vec![None; self.threads.len()] };
        cache.pointers.resize_with(self.pointers.len(), || None);
        let about = self.rules_for_tool(call.tool);
        about.iter().map(|at| &self.rules[*at]).find(|rule| {
            let allows = rule.ruling.action == PolicyAction::Auto;
            rule.thread.is_none_or(|thread| self.matches_thread(thread, call.thread.as_str(), &mut cache))
                && rule.when.iter().all(|when| {
                    let argument = self.argument(when.pointer, call, &mut cache);
                    when.test.holds(argument, steps, allows)
                })
        })
    }

    /// The rules that may apply to a tool's calls on a thread, for any arguments: first those with conditions, the most
    /// specific first; then the first rule without conditions, which ends the search.
    pub(super) fn candidates(&self, call: &Proposal<'_>) -> (Vec<&Rule>, Option<&Rule>) {
        let mut cache = CallCache { pointers: Vec::new(), threads: vec![None; self.threads.len()] };
        let mut conditional = Vec::new();
        for at in self.rules_for_tool(call.tool).iter() {
            let rule = &self.rules[*at];
            if rule.thread.is_some_and(|thread| !self.matches_thread(thread, call.thread.as_str(), &mut cache)) {
                continue;
            }
            if rule.when.is_empty() {
                return (conditional, Some(rule));
            }
            conditional.push(rule);
        }
        (conditional, None)
    }

    fn matches_thread(&self, thread: usize, name: &str, cache: &mut CallCache<'_>) -> bool {
        *cache.threads[thread].get_or_insert_with(|| glob::matches(&self.threads[thread], name))
    }

    fn argument<'f, 'v>(
        &self,
        at: usize,
        call: &Proposal<'v>,
        cache: &'f mut CallCache<'v>,
    ) -> Option<&'f Argument<'v>> {
        let find = || call.arguments.pointer(&self.pointers[at]).map(|value| Box::new(Argument::new(value)));
        cache.pointers[at].get_or_insert_with(find).as_deref()
    }

    /// The indices of the rules that match this tool, in their order.
    fn rules_for_tool(&self, tool: &str) -> Arc<[usize]> {
        let mut by_tool = self.by_tool.lock();
        if let Some(cached) = by_tool.get(tool) {
            return cached.clone();
        }
        let about = self.rules.iter().enumerate().filter(|(_, rule)| glob::matches(&rule.tool, tool));
        let about: Arc<[usize]> = about.map(|(at, _)| at).collect();
        if by_tool.len() >= MAX_CACHED_TOOLS {
            by_tool.clear();
        }
        by_tool.insert(tool.to_owned(), about.clone());
        about
    }
}

/// Assigns each distinct text an index.
#[derive(Default)]
struct Interner<'r> {
    texts: Vec<String>,
    indices: HashMap<&'r str, usize>,
}

impl<'r> Interner<'r> {
    fn intern(&mut self, text: &'r str) -> usize {
        *self.indices.entry(text).or_insert_with(|| {
            self.texts.push(text.to_owned());
            self.texts.len() - 1
        })
    }
}

fn compile<'r>(
    rule: &'r PolicyRule,
    scope: RuleScope,
    pointers: &mut Interner<'r>,
    threads: &mut Interner<'r>,
    steps: &StepBudget,
) -> Rule {
    let condition = |when: &'r domain::Condition| {
        let test = Check::new(when, steps).expect("check passed the rule");
        Condition { pointer: pointers.intern(&when.pointer), test }
    };
    Rule {
        rank: Rank {
            thread: rule.thread.as_deref().map(glob::specificity),
            tool: glob::specificity(&rule.tool),
            conditions: rule.when.len(),
        },
        when: rule.when.iter().map(condition).collect(),
        thread: rule.thread.as_ref().map(|thread| threads.intern(thread)),
        tool: rule.tool.clone(),
        ruling: Ruling {
            action: rule.action,
            rule: rule.id.clone().unwrap_or_else(|| super::entry_name(&rule.tool, rule.action)),
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

/// Rejects unusable rules; each error has a pointer into `/rules`.
pub fn check(rules: &[PolicyRule]) -> Result<(), Fault> {
    let mut errors = Vec::new();
    if rules.len() > MAX_RULES {
        errors.push(("/rules".to_owned(), format!("has {} rules; at most {MAX_RULES} are taken", rules.len())));
    }
    let mut ids = HashSet::new();
    for (at, rule) in rules.iter().enumerate() {
        let mut refuse = |place: String, how: &str| errors.push((format!("/rules/{at}/{place}"), how.to_owned()));
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
    errors.extend(condition_errors(rules));
    if errors.is_empty() {
        return Ok(());
    }
    let fault = Fault::new(Code::Invalid, "These rules cannot be used.");
    Err(errors.into_iter().take(8).fold(fault, |fault, (pointer, how)| fault.at(pointer, how)))
}

/// The conditions that cannot be used. The first one beyond a bound is reported, and the rest is not examined.
fn condition_errors(rules: &[PolicyRule]) -> Vec<(String, String)> {
    let (mut errors, mut room, steps) = (Vec::new(), MOST_VALUES, StepBudget::new());
    let conditions = rules.iter().enumerate().flat_map(|(at, rule)| {
        rule.when.iter().enumerate().map(move |(of, when)| (format!("/rules/{at}/when/{of}"), when))
    });
    for (number, (place, when)) in conditions.enumerate() {
        if number == MAX_CONDITIONS {
            errors.push((place, format!("is one condition too many; at most {MAX_CONDITIONS} are taken in all rules")));
            break;
        }
        let Some(size) = normal::size(&when.value, room) else {
            let how = format!("is too large with those before it; at most {} KiB are taken in all", MOST_VALUES / 1024);
            errors.push((format!("{place}/value"), how));
            break;
        };
        room -= size;
        if let Err((member, how)) = Check::new(when, &steps) {
            errors.push((format!("{place}/{member}"), how.to_owned()));
        }
    }
    errors
}
