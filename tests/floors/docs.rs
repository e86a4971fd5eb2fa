//! The documents match the code: paths and links exist, and every code and every metric is explained.

use std::collections::BTreeSet;

use pes::domain::fault::Code;
use pes::domain::plan::ItemCode;
use pes::domain::tool::CallCode;

use super::{collect, root};

/// Documents beside those in `docs/`.
const OTHERS: [&str; 6] = [
    "README.md",
    "clients/python/README.md",
    "clients/typescript/README.md",
    "examples/README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
];
const ROOMS: &[&str] =
    &["src/", "crates/", "tests/", "docs/", "config/", "migrations/", "examples/", "benches/", "clients/", "scripts/"];

pub fn documents() -> Vec<String> {
    let files = std::fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().file_name());
    let names = files.map(|name| name.into_string().unwrap()).filter(|name| name.ends_with(".md"));
    let mut documents: Vec<String> = names.map(|name| format!("docs/{name}")).collect();
    assert!(documents.len() > 15, "the documents are gone");
    documents.extend(OTHERS.map(str::to_owned));
    documents
}

pub fn read(document: &str) -> String {
    std::fs::read_to_string(root().join(document)).unwrap()
}

/// The texts between backticks.
pub fn quoted(text: &str) -> Vec<&str> {
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2)).collect()
}

fn missing_paths(text: &str) -> Vec<String> {
    let is_path = |text: &&str| {
        ROOMS.iter().any(|room| text.starts_with(room))
            && !text.contains(['*', '<', ' ', '{'])
            && *text != "config/local.toml"
    };
    quoted(text).into_iter().filter(is_path).filter(|path| !root().join(path).exists()).map(str::to_owned).collect()
}

#[test]
fn every_path_that_a_document_names_exists() {
    for document in documents() {
        assert_eq!(missing_paths(&read(&document)), Vec::<String>::new(), "{document}");
    }
}

/// The targets of Markdown links, without web addresses.
fn linked(text: &str) -> Vec<&str> {
    let ends = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    ends.filter(|to| !to.starts_with("http")).collect()
}

/// The fragments of a document's headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let slug = |heading: &str| {
        let kept = heading.trim_start_matches('#').trim().chars();
        let kept = kept.filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
    };
    headings.map(slug).collect()
}

/// Links of a document to missing files and headings.
fn dead_links(document: &str, text: &str) -> Vec<String> {
    let folder = root().join(document).parent().unwrap().to_owned();
    let is_dead = |to: &&str| {
        let (file, anchor) = to.split_once('#').unwrap_or((to, ""));
        let target = if file.is_empty() { root().join(document) } else { folder.join(file) };
        match std::fs::read_to_string(&target) {
            Ok(text) => !anchor.is_empty() && !anchors(&text).contains(anchor),
            Err(_) => !target.is_dir(),
        }
    };
    linked(text).into_iter().filter(is_dead).map(str::to_owned).collect()
}

#[test]
fn every_link_of_a_document_leads_somewhere() {
    for document in documents() {
        assert_eq!(dead_links(&document, &read(&document)), Vec::<String>::new(), "{document}");
    }
}

#[test]
fn every_code_is_explained_with_its_status() {
    let text = read("docs/ERRORS.md");
    let rows: Vec<Vec<&str>> =
        text.lines().filter(|line| line.starts_with("| `")).map(|line| line.split(" | ").collect()).collect();
    let documented: Vec<(String, u16)> = rows
        .iter()
        .map(|row| (row[0].trim_matches(['|', ' ', '`']).to_owned(), row[1].trim().parse().unwrap()))
        .collect();
    let expected: Vec<(String, u16)> = Code::ALL.iter().map(|code| (code.as_str().to_owned(), code.status())).collect();
    assert_eq!(documented, expected);
}

/// The codes in the first column of the table below this heading; a row may explain several.
fn codes_below(text: &str, heading: &str) -> Vec<String> {
    let section = text.split("\n## ").find(|section| section.lines().next() == Some(heading)).unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    rows.skip(1).flat_map(|codes| codes.split(", ")).map(str::to_owned).collect()
}

#[test]
fn every_code_of_a_failed_call_or_item_is_explained() {
    let text = read("docs/ERRORS.md");
    let of_calls: Vec<&str> = CallCode::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(codes_below(&text, "Errors of tool calls"), of_calls);
    let of_items: Vec<&str> = ItemCode::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(codes_below(&text, "Errors of todo items"), of_items);
}

/// Without an id `pes approve` answers the only open question, whatever it is, and `xargs` calls it once for no input.
#[test]
fn no_documented_command_answers_a_question_that_it_did_not_find() {
    for document in documents() {
        let text = read(&document);
        let calls = text.split("| xargs ").skip(1);
        assert!(calls.clone().all(|call| call.starts_with("-r ")), "{document}: xargs needs -r");
        assert!(document != "docs/OPERATIONS.md" || calls.count() > 0, "the command for restored runs is gone");
    }
}

#[test]
fn a_stale_document_is_seen() {
    assert_eq!(missing_paths("see `src/nowhere.rs` and `src/lib.rs`, `GET /x`"), ["src/nowhere.rs"]);
    let links =
        "[a](ERRORS.md) [b](NOWHERE.md) [c](OPERATIONS.md#no-such-heading) [d](OPERATIONS.md#changing-the-sealing-key)";
    assert_eq!(dead_links("docs/AGENTS.md", links), ["NOWHERE.md", "OPERATIONS.md#no-such-heading"]);
}

#[test]
fn every_family_of_metrics_is_in_its_table_and_named_as_prometheus_wants() {
    let families = [pes::http::COUNTED, pes::http::LOOKED_UP].concat();
    let row = |(name, kind, help): &pes::http::Family| {
        format!("| `{name}` | {} | {help} |", format!("{kind:?}").to_ascii_lowercase())
    };
    let expected: Vec<String> = families.iter().map(row).collect();
    let text = read("docs/METRICS.md");
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| `")).collect();
    assert_eq!(rows, expected);
    for (name, kind, help) in families {
        assert_eq!(name.ends_with("_total"), kind == pes::http::Kind::Counter, "{name}");
        assert!(kind != pes::http::Kind::Histogram || name.ends_with("_seconds") || name.ends_with("_size"), "{name}");
        assert!(help.ends_with('.'), "{name}");
    }
}

/// The crates under these headings of a manifest, as code names them.
fn dependencies(manifest: &str, headings: &[&str]) -> BTreeSet<String> {
    let manifest: toml::Table = manifest.parse().unwrap();
    let named = headings.iter().flat_map(|heading| manifest[*heading].as_table().unwrap().keys());
    named.map(|name| name.replace('-', "_")).collect()
}

#[test]
fn the_dependencies_that_the_examples_document_are_those_that_they_use() {
    let mut known = dependencies(&read("Cargo.toml"), &["dependencies", "dev-dependencies"]);
    known.insert("pes".to_owned());
    let is_path = |text: &str, name: &str| {
        text.match_indices(&format!("{name}::")).any(|(at, _)| !text[..at].ends_with(['_', ':']))
    };
    let mut examples = Vec::new();
    collect(&root().join("examples"), &mut examples);
    let used = known.into_iter().filter(|name| examples.iter().any(|example| is_path(&example.text, name))).collect();
    let readme = read("examples/README.md");
    let manifest = readme.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    assert_eq!(dependencies(manifest, &["dependencies"]), used);
}
