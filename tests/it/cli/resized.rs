//! What is drawn in a terminal (tmux) whose size changes.

use super::serving::serve;
use super::terminal::{Terminal, pes};

/// The first of five items is at work for ever, and the others wait for it.
const SCRIPT: &str = r#"
[[reply]]
when = { query = "five", phase = "planning" }
[reply.json]
title = "T"
intent = "I"
plan = "P"
todoList = [
    { id = "first", description = "One", stepType = "reasoning" },
    { id = "second", description = "Two", stepType = "reasoning", dependencies = ["first"] },
    { id = "third", description = "Three", stepType = "reasoning", dependencies = ["second"] },
    { id = "fourth", description = "Four", stepType = "reasoning", dependencies = ["third"] },
    { id = "fifth", description = "Five", stepType = "reasoning", dependencies = ["fourth"] },
]

[[reply]]
when = { query = "five", item = "first" }
hang = true
"#;

#[test]
fn on_fewer_rows_each_item_stands_in_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script.toml");
    std::fs::write(&script, SCRIPT).unwrap();
    let served = serve(folder.path(), &[("PES_DEMO_SCRIPT", script.to_str().unwrap())]);
    let terminal = Terminal::new(110, 8, &[("PES_URL", &served.url), ("LANG", "C.UTF-8"), ("NO_COLOR", "1")]);
    terminal.line(&format!("clear; {} run five --thread m", pes()));
    terminal.shows(&["m  T   demo:demo-scripted", "fifth"]);
    terminal.tmux(&["resize-window", "-x", "110", "-y", "6"]);
    let shown = terminal.shows(&["m  T   demo:demo-scripted", "2 pending"]);
    let rows: Vec<&str> = shown.lines().filter_map(|row| row.split_whitespace().nth(1)).collect();
    assert_eq!(rows, ["T", "first", "second", "third", "2"], "{shown}");
}
