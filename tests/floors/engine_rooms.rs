//! Inside the engine, the rooms of PES have one order, and their modules form no cycle.
//!
//! What comes next is a returned outcome, which `decide` applies: a room names only rooms before it.

use std::collections::{BTreeMap, BTreeSet};

use super::lexer::Token;
use super::{Source, keep, sources};

const ENGINE: &str = "crates/engine/src/";

/// From the lowest room up. Rooms of one rank do not name each other.
const ORDER: &[&[&str]] = &[
    &["state"],
    &["history"],
    &["prompt"],
    &["tx"],
    &["settle"],
    &["people"],
    &["plan", "peers"],
    &["work"],
    &["run"],
    &["decide", "past"],
];

/// Rooms whose `mod.rs` has the types of its files, and names those files too.
const OVER_FILES: &[&str] = &["history", "prompt"];

/// `pes/plan/make`, or `prompt/render`.
type Module = String;

fn module(path: &str) -> Module {
    let inside = path.strip_prefix(ENGINE).unwrap_or(path);
    let inside = inside.trim_end_matches(".rs");
    inside.strip_suffix("/mod").unwrap_or(inside).to_owned()
}

fn room(module: &str) -> Option<&str> {
    let room = match module.split_once('/') {
        Some(("pes", inside)) => inside.split('/').next().unwrap_or(inside),
        Some((room, _)) => room,
        None => module,
    };
    ORDER.iter().flat_map(|rooms| rooms.iter()).find(|known| **known == room).copied()
}

fn rank(room: &str) -> usize {
    ORDER.iter().position(|rooms| rooms.contains(&room)).expect("asked for rooms that have a rank")
}

/// Every module that a source names, with the line.
fn named(source: &Source, known: &BTreeSet<Module>) -> Vec<(Module, usize)> {
    let own = module(&source.path);
    let is_folder = source.path.ends_with("/mod.rs") || known.iter().any(|other| other.starts_with(&format!("{own}/")));
    let mut found = Vec::new();
    let code = source.code();
    let mut at = 0;
    while at < code.len() {
        let begins = at == 0 || code[at - 1].text != "::";
        let is_use = at > 0 && code[at - 1].text == "use";
        let is_path = code.get(at + 1).is_some_and(|next| next.text == "::");
        let (base, start) = match code[at].text.as_str() {
            "crate" if begins && is_path => (Vec::new(), at + 2),
            "super" if begins && is_path => (parent(&own), at + 2),
            "self" if begins && is_path => (split(&own), at + 2),
            // A file below this one.
            _ if is_use && is_path && is_folder => (split(&own), at),
            _ => {
                at += 1;
                continue;
            }
        };
        let line = code[at].line;
        let mut paths = Vec::new();
        at = read_tree(code, start, base, &mut paths);
        found.extend(paths.iter().filter_map(|path| longest(path, known)).map(|module| (module, line)));
    }
    found.retain(|(module, _)| *module != own);
    found
}

fn split(module: &str) -> Vec<String> {
    module.split('/').map(str::to_owned).collect()
}

fn parent(module: &str) -> Vec<String> {
    let mut parts = split(module);
    parts.pop();
    parts
}

/// Reads the path or group after a `::`. Returns where it ends.
fn read_tree(code: &[Token], mut at: usize, mut path: Vec<String>, paths: &mut Vec<Vec<String>>) -> usize {
    while at < code.len() {
        match code[at].text.as_str() {
            "{" => {
                at += 1;
                while at < code.len() && code[at].text != "}" {
                    at = if code[at].text == "," { at + 1 } else { read_tree(code, at, path.clone(), paths) };
                }
                return at + 1;
            }
            "super" => {
                path.pop();
            }
            "self" => {}
            name => path.push(name.to_owned()),
        }
        at += 1;
        if code.get(at).is_none_or(|next| next.text != "::") {
            paths.push(path);
            return if code.get(at).is_some_and(|next| next.text == "as") { at + 2 } else { at };
        }
        at += 1;
    }
    at
}

/// The module that a path names or leads into.
fn longest(path: &[String], known: &BTreeSet<Module>) -> Option<Module> {
    (1..=path.len()).rev().map(|most| path[..most].join("/")).find(|module| known.contains(module))
}

fn check(sources: &[&Source]) -> Vec<String> {
    let known: BTreeSet<Module> = sources.iter().map(|source| module(&source.path)).collect();
    let mut breaches = Vec::new();
    let mut names: BTreeMap<Module, BTreeSet<Module>> = BTreeMap::new();
    for source in sources {
        let own = module(&source.path);
        // The contract of the whole may name everything.
        if own == "pes" {
            continue;
        }
        let Some(own_room) = room(&own) else {
            breaches.push(format!("{}: stands in no room", source.path));
            continue;
        };
        for (other, line) in named(source, &known) {
            let Some(other_room) = room(&other) else {
                breaches.push(format!("{}:{line}: `{own}` names `{other}`, which stands over the rooms", source.path));
                continue;
            };
            if other_room != own_room && rank(other_room) >= rank(own_room) {
                breaches.push(format!("{}:{line}: `{own}` names `{other}`, which is later", source.path));
            }
            names.entry(own.clone()).or_default().insert(other);
        }
    }
    for module in names.keys().filter(|module| room(module).is_none_or(|room| !OVER_FILES.contains(&room))) {
        if leads_to(&names, module).contains(module) {
            breaches.push(format!("`{module}` leads back to itself"));
        }
    }
    breaches
}

/// Every module reachable from one.
fn leads_to<'a>(names: &'a BTreeMap<Module, BTreeSet<Module>>, from: &str) -> BTreeSet<&'a Module> {
    let mut seen = BTreeSet::new();
    let mut next: Vec<&Module> = names.get(from).into_iter().flatten().collect();
    while let Some(module) = next.pop() {
        if seen.insert(module) {
            next.extend(names.get(module).into_iter().flatten());
        }
    }
    seen
}

#[test]
fn a_room_of_pes_names_only_those_before_it() {
    let folders = ["pes", "history", "prompt"].map(|folder| sources(&format!("{ENGINE}{folder}")));
    keep(check(&folders.concat()));
}

#[test]
fn a_room_that_names_a_later_one_is_seen() {
    let at = |path: &str, text: &str| Source::new(&format!("{ENGINE}pes/{path}"), text);
    let rest = || {
        ["state/mod.rs", "tx.rs", "settle/item.rs", "settle/call.rs", "plan/mod.rs", "work/step.rs", "run/finish.rs"]
            .map(|path| at(path, ""))
    };
    let breaches = |source: Source| {
        let mut sources: Vec<Source> = rest().into_iter().filter(|other| other.path != source.path).collect();
        sources.push(source);
        check(&sources.iter().collect::<Vec<_>>()).len()
    };
    for (path, text) in [
        ("plan/make.rs", "use crate::pes::run::finish;"),
        ("plan/make.rs", "fn f() { crate::pes::work::step::begin() }"),
        ("plan/make.rs", "use crate::pes::{state::State, work::{step, batch}};"),
        ("peers/send.rs", "use crate::pes::plan::PlanOutcome;"),
        ("state/run.rs", "use super::super::tx::Tx;"),
        ("work/step.rs", "use crate::domain::run;\nuse crate::pes::run::finish::fail as f;"),
        ("attic/a.rs", ""),
    ] {
        assert_eq!(breaches(at(path, text)), 1, "{path}: {text}");
    }
    for (path, text) in [
        ("run/finish.rs", "use crate::pes::{tx::Tx, work::step};\nuse crate::domain::run;"),
        ("plan/make.rs", "// crate::pes::run::finish\nuse crate::pes::settle::{self, item};"),
    ] {
        assert_eq!(breaches(at(path, text)), 0, "{path}: {text}");
    }
}

#[test]
fn modules_that_lead_back_are_seen() {
    let at = |path: &str, text: &str| Source::new(&format!("{ENGINE}pes/{path}"), text);
    let ring = [at("work/step.rs", "use super::batch;"), at("work/batch.rs", "use crate::pes::work::{step};")];
    assert_eq!(check(&ring.each_ref()).len(), 2);
    let folder = [at("state/mod.rs", "pub use item::Item;"), at("state/item.rs", "use super::State;")];
    assert_eq!(check(&folder.each_ref()).len(), 2);
}
