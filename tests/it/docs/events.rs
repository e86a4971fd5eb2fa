//! The tables of members in `docs/EVENTS.md` list exactly the members of the schemas.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

const HEADING: &str = "\n## Observations\n";
/// The hand-written part ends here.
const BEGIN: &str = "<!-- The rest is made of the schemas in /openapi.json; tests/it/docs/events.rs compares it. -->\n";

/// The name that a reference ends with.
fn named(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.rsplit('/').next()
}

/// A member's type, in a word.
fn word(schema: &Value) -> String {
    if let Some(name) = named(schema) {
        return format!("`{name}`");
    }
    let choices = schema["oneOf"].as_array().into_iter().flatten();
    let choices: Vec<String> = choices.map(word).collect();
    if !choices.is_empty() {
        return choices.join(" or ");
    }
    match &schema["type"] {
        Value::String(name) if name == "array" => format!("list of {}", word(&schema["items"])),
        Value::String(name) => name.clone(),
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => "any JSON".to_owned(),
    }
}

/// On one line, and in one cell.
fn line(schema: &Value) -> String {
    let text = schema["description"].as_str().unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

fn section(kind: &str, content: &Value) -> String {
    let about = line(content);
    let about = about.strip_prefix(&format!("`{kind}`")).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(&about);
    let (first, rest) = about.split_at(about.chars().next().map_or(0, char::len_utf8));
    let mut text = format!("\n### {kind}\n\n{}{rest}\n\n| member | is | |\n|---|---|---|\n", first.to_uppercase());
    let required = content["required"].as_array().map(Vec::as_slice).unwrap_or_default();
    for (name, member) in content["properties"].as_object().unwrap() {
        let mark = if required.iter().any(|one| one == name) { "" } else { "?" };
        let row = format!("| `{name}`{mark} | {} | {} |", word(member), line(member));
        writeln!(text, "{}", row.replace("|  |", "| |")).unwrap();
    }
    text
}

fn sections(schemas: &Value) -> String {
    let choices = schemas["Observation"]["oneOf"].as_array().unwrap();
    let of = |one: &Value| {
        let members = &schemas[named(one).unwrap()]["properties"];
        let kind = members["type"]["enum"][0].as_str().unwrap();
        section(kind, &schemas[named(&members["content"]).unwrap()])
    };
    choices.iter().map(of).collect()
}

#[test]
fn the_members_in_the_manual_are_those_of_the_schemas() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/EVENTS.md");
    let manual = std::fs::read_to_string(&kept).unwrap();
    let (before, told) = manual.split_once(BEGIN).expect("the place where the tables begin");
    assert!(before.contains(HEADING));
    let made = sections(&pes::http::openapi()["components"]["schemas"]);
    let found = Path::new(env!("CARGO_TARGET_TMPDIR")).join("EVENTS.md");
    std::fs::write(&found, format!("{before}{BEGIN}{made}")).unwrap();
    assert!(told == made, "members have changed: look at them, then cp {} {}", found.display(), kept.display());
}
