//! A promise names its tests by their full names, and a script runs every ignored test.

use std::collections::BTreeSet;

use super::docs::{documents, quoted, read};
use super::lexer::Token;
use super::{Source, all_sources, keep};

/// Functions written as tests.
const NO_TESTS: [&str; 3] = ["parse::plan", "parse::step", "parse::synthesis"];

/// A test with its modules, under `engine` or `floors` if it is in that binary.
#[derive(Debug, PartialEq)]
struct Proof {
    name: String,
    is_ignored: bool,
}

/// The modules that lead to a file.
fn modules(path: &str) -> Vec<String> {
    const ROOTS: [(&str, &str); 5] = [
        ("crates/engine/tests/it/", "engine"),
        ("crates/engine/src/", ""),
        ("tests/it/", ""),
        ("tests/", ""),
        ("src/", ""),
    ];
    let (root, room) = ROOTS.into_iter().find(|(root, _)| path.starts_with(root)).unwrap();
    let parts = std::iter::once(room).chain(path[root.len()..].trim_end_matches(".rs").split('/'));
    parts.filter(|part| !["", "main", "lib", "mod"].contains(part)).map(str::to_owned).collect()
}

/// The tokens before the bracket that closes one opened just before them.
fn inside(tokens: &[Token]) -> &[Token] {
    let mut depth = 1;
    let end = tokens.iter().position(|token| {
        depth += match token.text.as_str() {
            "(" | "[" | "{" => 1,
            ")" | "]" | "}" => -1,
            _ => 0,
        };
        depth == 0
    });
    &tokens[..end.unwrap_or(tokens.len())]
}

/// `test` of `#[tokio::test(start_paused = true)]`.
fn name_of_attribute(tokens: &[Token]) -> &str {
    let words = tokens.iter().map(|token| token.text.as_str());
    words.take_while(|word| !["(", "="].contains(word)).last().unwrap_or_default()
}

/// The cases of `on_every_store!` and `on_every_form_of_log!`: each is one test per store, and its name alone stands for all of them.
fn on_stores(tokens: &[Token]) -> Vec<String> {
    let words: Vec<&str> = tokens.iter().map(|token| token.text.as_str()).collect();
    let (stores, cases) = match words.as_slice() {
        [store, ":", cases @ ..] => (vec![*store], cases),
        cases => (vec!["sqlite", "postgres"], cases),
    };
    let cases = cases.iter().filter(|word| word.chars().all(|c| c == '_' || c.is_alphanumeric()));
    let spelled = cases.flat_map(|case| {
        let on_each = stores.iter().map(move |store| format!("{store}::{case}"));
        on_each.chain([(*case).to_owned()])
    });
    spelled.collect()
}

fn proofs(source: &Source) -> Vec<Proof> {
    let (file, tokens) = (modules(&source.path), &source.tokens);
    let text = |at: usize| tokens.get(at).map_or("", |token: &Token| token.text.as_str());
    // The open modules, with their depth.
    let mut around: Vec<(&str, usize)> = Vec::new();
    let (mut found, mut depth, mut at) = (Vec::new(), 0, 0);
    let (mut is_test, mut is_ignored) = (false, false);
    while at < tokens.len() {
        let whole = |name: &str| {
            let modules = file.iter().map(String::as_str).chain(around.iter().map(|(module, _)| *module));
            modules.chain([name]).collect::<Vec<_>>().join("::")
        };
        match (text(at), text(at + 1), text(at + 2)) {
            ("#", "[", _) => {
                let attribute = inside(&tokens[at + 2..]);
                is_test |= ["test", "rstest"].contains(&name_of_attribute(attribute));
                is_ignored |= name_of_attribute(attribute) == "ignore";
                at += 2 + attribute.len();
            }
            ("mod", module, "{") => around.push((module, depth)),
            ("{", ..) => depth += 1,
            ("}", ..) => {
                depth -= 1;
                around.pop_if(|(_, outside)| *outside == depth);
            }
            ("fn", name, _) => {
                if is_test {
                    found.push(Proof { name: whole(name), is_ignored });
                }
                (is_test, is_ignored) = (false, false);
            }
            ("on_every_store" | "on_every_form_of_log", "!", _) => {
                let cases = on_stores(inside(&tokens[at + 3..]));
                found.extend(cases.iter().map(|case| Proof { name: whole(case), is_ignored: false }));
            }
            _ => {}
        }
        at += 1;
    }
    found
}

fn all_proofs() -> Vec<Proof> {
    let all: Vec<Proof> = [all_sources("src"), all_sources("tests")].concat().into_iter().flat_map(proofs).collect();
    assert!(all.len() > 2_000, "{} tests are found", all.len());
    all
}

fn names() -> BTreeSet<String> {
    all_proofs().into_iter().map(|proof| proof.name).collect()
}

/// `module::a_test_that_says_what_holds`
fn is_name(text: &str) -> bool {
    let is_plain = |c: char| c == ':' || c == '_' || c.is_ascii_lowercase() || c.is_ascii_digit();
    text.contains("::") && text.chars().all(is_plain) && !NO_TESTS.contains(&text)
}

/// Names in a document that no test has.
fn missing_tests(text: &str, names: &BTreeSet<String>) -> Vec<String> {
    quoted(text).into_iter().filter(|name| is_name(name) && !names.contains(*name)).map(str::to_owned).collect()
}

#[test]
fn every_test_that_a_document_names_exists() {
    let names = names();
    for document in documents() {
        assert_eq!(missing_tests(&read(&document), &names), Vec::<String>::new(), "{document}");
    }
}

/// The rows of the tables of guarantees.
fn rows(guarantees: &str) -> Vec<&str> {
    let is_row =
        |line: &&str| line.starts_with("| ") && !line.starts_with("| promise ") && !line.starts_with("| input ");
    let rows: Vec<&str> = guarantees.lines().filter(is_row).collect();
    assert!(rows.len() > 50, "the tables of guarantees are gone");
    rows
}

#[test]
fn every_guarantee_names_its_test() {
    for row in rows(&read("docs/GUARANTEES.md")) {
        assert!(quoted(row).into_iter().any(is_name), "without a test: {row}");
    }
}

/// Whether all tests that a row names are ignored, and it does not say by which script they are run.
fn hides_that_it_is_ignored(row: &str, ignored: &BTreeSet<String>) -> bool {
    let quoted = quoted(row);
    let mut named = quoted.iter().filter(|text| is_name(text));
    named.all(|name| ignored.contains(*name)) && !quoted.iter().any(|text| text.starts_with("scripts/test --"))
}

#[test]
fn a_guarantee_whose_tests_are_all_ignored_says_what_runs_them() {
    let (guarantees, ignored) = (read("docs/GUARANTEES.md"), all_proofs().into_iter().filter(|proof| proof.is_ignored));
    let ignored: BTreeSet<String> = ignored.map(|proof| proof.name).collect();
    keep(
        rows(&guarantees)
            .into_iter()
            .filter(|row| hides_that_it_is_ignored(row, &ignored))
            .map(str::to_owned)
            .collect(),
    );
    let ignored = BTreeSet::from(["a::slow".to_owned()]);
    assert!(hides_that_it_is_ignored("| it holds | `a::slow` |", &ignored));
    assert!(!hides_that_it_is_ignored("| it holds | `a::slow`, `a::quick` |", &ignored));
    assert!(!hides_that_it_is_ignored("| it holds (`scripts/test --all`) | `a::slow` |", &ignored));
}

/// The words of a script without its comments.
fn commands(script: &str) -> Vec<&str> {
    let lines = script.lines().filter(|line| !line.trim_start().starts_with('#'));
    lines.flat_map(str::split_whitespace).collect()
}

#[test]
fn every_page_that_a_guarantee_names_is_run_by_ci() {
    let (guarantees, ci, core) = (read("docs/GUARANTEES.md"), read(".ci/run"), read("scripts/browser.sh"));
    assert!(commands(&ci).windows(2).any(|words| words == ["scripts/test", "--page"]), ".ci/run leaves out the page");
    let pages: Vec<&str> = quoted(&guarantees).into_iter().filter(|path| path.starts_with("tests/e2e/")).collect();
    assert!(!pages.is_empty(), "no guarantee names a page");
    let missing = pages.into_iter().filter(|page| !commands(&core).contains(page));
    keep(missing.map(|page| format!("page_core of scripts/browser.sh lacks {page}")).collect());
}

/// The words by which a script selects ignored tests.
fn chosen(script: &str) -> Vec<&str> {
    let mut words = commands(script).into_iter();
    let mut chosen = Vec::new();
    while words.any(|word| word == "--ignored") {
        chosen.extend(words.by_ref().take_while(|word| !word.starts_with("2>")));
    }
    chosen
}

#[test]
fn every_test_that_is_ignored_is_run_by_a_script() {
    let script = read("scripts/test");
    let chosen = chosen(&script);
    let is_left = |proof: &Proof| proof.is_ignored && !chosen.iter().any(|word| proof.name.contains(word));
    let left = all_proofs().into_iter().filter(is_left);
    keep(left.map(|proof| format!("scripts/test never runs {}", proof.name)).collect());
}

#[test]
fn what_is_no_test_is_seen() {
    let text = "`front::tenants::operations` `front::tenants` `elsewhere::what_belongs_to_another_tenant_is_not_there` \
        `front::tenants::what_belongs_to_another_tenant_is_not_there` `Code::ALL`";
    let missing =
        ["front::tenants::operations", "front::tenants", "elsewhere::what_belongs_to_another_tenant_is_not_there"];
    assert_eq!(missing_tests(text, &names()), missing);
    let source = "super::on_every_store!(a, b); on_every_store!(sqlite: c);
        fn d() { if x { y } } mod e { #[rstest] #[case(1)] fn f() {} mod g { #[tokio::test(start_paused = true)] #[ignore = \"x\"]
        async fn h() {} } #[test] fn i() {} } fn j() {} #[test] fn k() {}";
    let found = proofs(&Source::new("tests/it/store/rows.rs", source));
    let names: Vec<&str> = found.iter().map(|proof| proof.name.strip_prefix("store::rows::").unwrap()).collect();
    let on_stores = ["sqlite::a", "postgres::a", "a", "sqlite::b", "postgres::b", "b", "sqlite::c", "c"];
    assert_eq!(names, [on_stores.as_slice(), &["e::f", "e::g::h", "e::i", "k"]].concat());
    assert_eq!(found.iter().filter(|proof| proof.is_ignored).count(), 1);
    assert_eq!(
        chosen("x --test it -- \\\n  --ignored a b 2>&1 | y\n# --ignored c\nx --ignored d 2>&1"),
        ["a", "b", "d"]
    );
}
