//! The house rules that a test can check: which module may name which, file sizes, and what a source may not contain.
//! Each rule is also given a source that breaks it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "floors/clients.rs"]
mod clients;
#[path = "floors/console.rs"]
mod console;
#[path = "floors/deploy.rs"]
mod deploy;
#[path = "floors/docs.rs"]
mod docs;
#[path = "floors/engine_rooms.rs"]
mod engine_rooms;
#[path = "floors/failpoints.rs"]
mod failpoints;
#[path = "floors/lexer.rs"]
mod lexer;
#[path = "floors/marks.rs"]
mod marks;
#[path = "floors/matches.rs"]
mod matches;
#[path = "floors/migrations.rs"]
mod migrations;
#[path = "floors/proofs.rs"]
mod proofs;
#[path = "floors/rooms.rs"]
mod rooms;
#[path = "floors/schemas.rs"]
mod schemas;
#[path = "floors/sizes.rs"]
mod sizes;

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use lexer::Token;

/// A source file: its path, its text, and its tokens without comments and strings.
struct Source {
    /// From the root of the repository, with `/`.
    path: String,
    text: String,
    tokens: Vec<Token>,
}

impl Source {
    fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned(), tokens: lexer::tokens(text) }
    }

    /// The lines of the tests inside it: from `#[cfg(test)] mod … {` to the end; all lines of a test module.
    fn test_lines(&self) -> usize {
        let lines: Vec<&str> = self.text.lines().collect();
        if self.path.ends_with("tests.rs") {
            return lines.len();
        }
        let begins = |pair: &[&str]| pair[0].trim() == "#[cfg(test)]" && pair[1].ends_with('{');
        lines.windows(2).position(begins).map_or(0, |at| lines.len() - at)
    }

    /// The tokens before the tests inside it.
    fn code(&self) -> &[Token] {
        let last = self.text.lines().count() - self.test_lines();
        let end = self.tokens.partition_point(|token| token.line <= last);
        &self.tokens[..end]
    }
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file of the packages, by path; read once for all tests.
static SOURCES: LazyLock<Vec<Source>> = LazyLock::new(|| {
    let mut found = Vec::new();
    for folder in ["src", "tests", "crates/engine/src", "crates/engine/tests"] {
        collect(&root().join(folder), &mut found);
    }
    found.sort_by(|a: &Source, b| a.path.cmp(&b.path));
    found
});

/// Those below a folder of the repository.
fn sources(folder: &str) -> Vec<&'static Source> {
    let found: Vec<&Source> = SOURCES.iter().filter(|source| Path::new(&source.path).starts_with(folder)).collect();
    assert!(!found.is_empty(), "{folder} holds no sources");
    found
}

/// The same for every package.
fn all_sources(folder: &str) -> Vec<&'static Source> {
    let engine = format!("crates/engine/{folder}");
    [sources(folder), sources(&engine)].concat()
}

fn collect(folder: &Path, found: &mut Vec<Source>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.strip_prefix(root()).unwrap().to_str().unwrap().replace('\\', "/");
            found.push(Source::new(&name, &std::fs::read_to_string(&path).unwrap()));
        }
    }
}

/// Fails with every breach, one per line.
fn keep(breaches: Vec<String>) {
    assert!(breaches.is_empty(), "\n{}\n", breaches.join("\n"));
}
