//! Sources contain no marks of unfinished work, and no names without meaning.

use super::{Source, all_sources, keep};

const MARKS: &[&str] = &["TODO", "FIXME", "XXX", "HACK"];
const EMPTY_NAMES: &[&str] = &["Manager", "Helper", "Helpers", "Util", "Utils", "Impl"];

fn check_marks(source: &Source) -> Vec<String> {
    let mut breaches = Vec::new();
    for (index, line) in source.text.lines().enumerate() {
        for mark in MARKS {
            if line.split(|c: char| !c.is_alphanumeric()).any(|word| word == *mark) {
                breaches.push(format!("{}:{}: {mark}", source.path, index + 1));
            }
        }
    }
    breaches
}

fn check_names(source: &Source) -> Vec<String> {
    let declares = |word: &str| matches!(word, "struct" | "enum" | "trait" | "type");
    let pairs = source.tokens.windows(2).filter(|pair| declares(&pair[0].text));
    pairs
        .filter(|pair| EMPTY_NAMES.iter().any(|empty| pair[1].text.ends_with(empty)))
        .map(|pair| format!("{}:{}: the name `{}` says nothing", source.path, pair[1].line, pair[1].text))
        .collect()
}

#[test]
fn nothing_is_left_for_later() {
    let all = all_sources("src")
        .into_iter()
        .chain(all_sources("tests"))
        .filter(|source| source.path != "tests/floors/marks.rs");
    keep(all.flat_map(check_marks).collect());
}

/// These macros panic when their output is a closed pipe, which would change the exit code.
fn check_prints(source: &Source) -> Vec<String> {
    let prints = |word: &str| matches!(word, "print" | "println" | "eprint" | "eprintln");
    let pairs = source.tokens.windows(2).filter(|pair| prints(&pair[0].text) && pair[1].text == "!");
    pairs
        .map(|pair| {
            let word = &pair[0].text;
            format!("{}:{}: `{word}!` panics at a closed pipe; use `terminal`", source.path, pair[0].line)
        })
        .collect()
}

#[test]
fn nothing_is_printed_that_panics_at_a_closed_pipe() {
    keep(all_sources("src").into_iter().flat_map(check_prints).collect());
}

#[test]
fn names_say_something() {
    keep(all_sources("src").into_iter().flat_map(check_names).collect());
}

#[test]
fn each_mark_is_seen() {
    for text in ["// TODO: later", "/* FIXME */"] {
        assert_eq!(check_marks(&Source::new("src/a.rs", text)).len(), 1, "{text}");
    }
    assert_eq!(check_names(&Source::new("src/a.rs", "pub struct StateManager;")).len(), 1);
    assert_eq!(check_prints(&Source::new("src/a.rs", "fn f() { eprintln!(\"gone\"); }")).len(), 1);
}
