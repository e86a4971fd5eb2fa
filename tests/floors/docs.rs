//! The documents match the code: paths and links exist, and every code and every metric is explained.

use std::collections::BTreeSet;

use pes::domain::fault::Code;

use super::{all_sources, root};

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

/// The error codes of tool calls and todo items, as the sources write them.
fn failing_codes() -> BTreeSet<String> {
    // The text before such a code, up to its quotes; between the last two there is one argument.
    const BEFORE: [&str; 10] = [
        "tool_failed(",
        "ToolError::new(",
        "code: ",
        "refuse(",
        "item::fail(tx, ",
        "ends(TaskStatus::",
        "end_without_report(tx, task, ",
        "end_undeliverable(tx, task, ",
        "give_up(tx, &task.call_id, ",
        "RequiredTools::Failed(",
    ];
    let mut codes = BTreeSet::new();
    for source in all_sources("src") {
        let last = source.text.lines().count() - source.test_lines();
        let code: String = source.text.lines().take(last).flat_map(|line| [line.trim(), " "]).collect();
        for (place, before) in BEFORE.iter().flat_map(|before| code.match_indices(before)) {
            let rest = code[place + before.len()..].trim_start();
            let own = rest.split([';', '{']).next().unwrap_or_default();
            let takes_more =
                ["item::fail(tx, ", "ends(TaskStatus::", "end_without_report(tx, task, "].contains(&before);
            let quoted = if takes_more { own.split_once(", ").map(|(_, rest)| rest) } else { Some(own) };
            let word = quoted.and_then(|text| text.trim_start().strip_prefix('"')?.split('"').next());
            let is_code = |word: &&str| word.len() > 3 && word.chars().all(|c| c == '_' || c.is_ascii_lowercase());
            codes.extend(word.filter(is_code).map(str::to_owned));
        }
    }
    codes
}

#[test]
fn every_code_of_a_failed_call_or_item_is_explained() {
    let text = read("docs/ERRORS.md");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let explained: BTreeSet<&str> = rows.flat_map(|row| row.split(", ")).map(|code| code.trim_matches('`')).collect();
    let codes = failing_codes();
    for known in ["unknown_tool", "denied", "empty_reply", "max_iterations", "peer_lost", "unavailable"] {
        assert!(explained.contains(known), "{known}");
    }
    for sought in ["unknown_tool", "empty_reply", "peer_lost", "output_too_large"] {
        assert!(codes.contains(sought), "{sought} is no longer found in the sources: {codes:?}");
    }
    let no_codes = ["name", "tool"];
    let missing: Vec<&String> =
        codes.iter().filter(|code| !explained.contains(code.as_str()) && !no_codes.contains(&code.as_str())).collect();
    assert_eq!(missing, Vec::<&String>::new(), "docs/ERRORS.md does not explain them");
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
