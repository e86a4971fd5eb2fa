//! Every failpoint has a test that kills the process there.

use super::{Source, all_sources, keep, sources};

/// The names of the failpoints in a source.
fn named(text: &str) -> Vec<&str> {
    text.split("failpoint::reached(\"").skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

/// Whether a test names the failpoint, with or without the number of the passage.
fn is_tried(name: &str, tests: &[&Source]) -> bool {
    let spelled = [format!("\"{name}\""), format!("\"{name}@")];
    tests.iter().any(|source| spelled.iter().any(|spelled| source.text.contains(spelled)))
}

#[test]
fn every_failpoint_is_named_by_a_test() {
    let (tests, code) = (sources("tests/it"), all_sources("src"));
    let all: Vec<(&str, &str)> =
        code.iter().flat_map(|source| named(&source.text).into_iter().map(move |name| (&*source.path, name))).collect();
    assert!(all.len() > 20, "the failpoints are gone: {all:?}");
    let untried = all.into_iter().filter(|(_, name)| !is_tried(name, &tests));
    keep(untried.map(|(path, name)| format!("{path}: no test holds the process at `{name}`")).collect());
}

#[test]
fn a_failpoint_that_no_test_names_is_seen() {
    let place = r#"x(); failpoint::reached("nowhere.held"); failpoint::reached("commit.before");"#;
    assert_eq!(named(place), ["nowhere.held", "commit.before"]);
    let test = Source::new("tests/it/x.rs", r#"#[case("commit.before@3")] #[case("nowhere.held.twice")]"#);
    assert!(is_tried("commit.before", &[&test]) && !is_tried("nowhere.held", &[&test]));
}
