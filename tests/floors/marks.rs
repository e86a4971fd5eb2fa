//! What never stands in a source: marks of unfinished work, panics that explain nothing, names that mean nothing.

use super::{Source, all_sources, keep};

const MARKS: &[&str] = &["TODO", "FIXME", "XXX", "HACK"];
const MACROS: &[&str] = &["todo", "unimplemented", "dbg"];
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
    for pair in source.tokens.windows(2) {
        if pair[1].text == "!" && MACROS.contains(&pair[0].text.as_str()) {
            breaches.push(format!("{}:{}: {}!", source.path, pair[0].line, pair[0].text));
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

fn check_unwraps(source: &Source) -> Vec<String> {
    let unwraps = source.code().windows(3).filter(|three| {
        three[0].text == "." && matches!(three[1].text.as_str(), "unwrap" | "unwrap_err") && three[2].text == "("
    });
    unwraps.map(|three| format!("{}:{}: unwrap; say why it cannot fail", source.path, three[1].line)).collect()
}

#[test]
fn nothing_is_left_for_later() {
    let all = all_sources("src")
        .into_iter()
        .chain(all_sources("tests"))
        .filter(|source| source.path != "tests/floors/marks.rs");
    keep(all.flat_map(|source| check_marks(&source)).collect());
}

#[test]
fn names_say_something() {
    keep(all_sources("src").iter().flat_map(check_names).collect());
}

#[test]
fn nothing_unwraps_outside_tests() {
    keep(all_sources("src").iter().flat_map(check_unwraps).collect());
}

#[test]
fn each_mark_is_seen() {
    for text in ["// TODO: later", "fn f() { todo!() }", "/* FIXME */"] {
        assert_eq!(check_marks(&Source::new("src/a.rs", text)).len(), 1, "{text}");
    }
    assert_eq!(check_names(&Source::new("src/a.rs", "pub struct StateManager;")).len(), 1);
    assert_eq!(check_unwraps(&Source::new("src/a.rs", "fn f() { x.unwrap(); }")).len(), 1);
    assert!(check_unwraps(&Source::new("src/a.rs", "fn f() {}\n#[cfg(test)]\nmod tests {\nx.unwrap(); }")).is_empty());
}
