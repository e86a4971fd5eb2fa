//! Generates `config/default.toml` from the sections: every key, commented out, with its default and its names.

use std::fmt::Write as _;

use toml::{Table, Value};

use super::Config;
use super::section::{Env, Secrecy, Section, Setting};

const HEAD: &str = "\
# Every key with its default. Flags > environment > --config FILE (else config/local.toml) > this file > defaults.
# Printed by `pes config --template`.
";

/// The file's text.
pub fn template() -> String {
    let defaults = Table::try_from(Config::default()).expect("the defaults are plain data");
    let mut text = HEAD.to_owned();
    section(&mut text, &Config::keys(), &defaults, &mut Vec::new());
    text
}

fn section(text: &mut String, keys: &[Setting], defaults: &Table, path: &mut Vec<&'static str>) {
    for key in keys {
        path.push(key.name);
        match &key.source.env {
            Env::Table { about, keys } => {
                text.push('\n');
                comment(text, about);
                let _ = writeln!(text, "[{}]", path.join("."));
                let empty = Table::new();
                section(text, &keys(), defaults.get(key.name).and_then(Value::as_table).unwrap_or(&empty), path);
            }
            env @ (Env::Named(_) | Env::ByPath | Env::None) => entry(text, key, env.name(path), defaults),
        }
        path.pop();
    }
}

fn entry(text: &mut String, key: &Setting, env: Option<String>, defaults: &Table) {
    text.push('\n');
    comment(text, key.doc);
    if let Some(name) = env {
        let file = if key.source.secrecy == Secrecy::Open { String::new() } else { format!(" or {name}_FILE") };
        let _ = writeln!(text, "# Environment: {name}{file}.");
    }
    let value = match (key.source.example, defaults.get(key.name)) {
        (Some(example), _) => format!("{example}    # example; unset"),
        (None, Some(value)) => value.to_string(),
        (None, None) => "\"\"".to_owned(),
    };
    let _ = writeln!(text, "# {} = {value}", key.name);
}

fn comment(text: &mut String, lines: &[&str]) {
    for line in lines {
        let _ = writeln!(text, "#{line}");
    }
}
