//! The fenced blocks of a document.

use std::path::Path;

/// Documents whose commands are run.
pub const RUN: &[&str] = &["README.md", "docs/AGENTS.md", "docs/GUIDE.md", "docs/POLICY.md"];

/// Every document for users: README.md and those in docs/.
pub fn documents() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let names: Vec<String> = names.filter(|name| name.ends_with(".md")).collect();
    assert!(names.len() > 15, "the documents are gone");
    let in_docs = names.into_iter().map(|name| format!("docs/{name}"));
    in_docs.chain(["README.md".to_owned()]).collect()
}

pub struct Block {
    /// `sh`: run by a test. `console`: not run. `json`: the answer to the commands before it. `toml`: settings.
    pub kind: String,
    pub text: String,
    /// The line of the opening fence.
    pub line: usize,
}

impl Block {
    /// Whether the other block, after one empty line, is the answer to this one.
    pub fn is_answered_by(&self, other: &Block) -> bool {
        other.kind == "json" && other.line == self.line + self.text.lines().count() + 3
    }
}

pub fn blocks(document: &str) -> Vec<Block> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(document);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{document}: {error}"));
    let mut found: Vec<Block> = Vec::new();
    let mut is_open = false;
    for (index, line) in text.lines().enumerate() {
        match line.strip_prefix("```") {
            Some(_) if is_open => is_open = false,
            Some(kind) => {
                is_open = true;
                found.push(Block { kind: kind.trim().to_owned(), text: String::new(), line: index + 1 });
            }
            None if is_open => {
                let block = found.last_mut().unwrap();
                block.text.push_str(line);
                block.text.push('\n');
            }
            None => {}
        }
    }
    assert!(!is_open, "{document}: a block is not closed");
    found
}
