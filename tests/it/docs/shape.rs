//! Compares an answer with the one that a document shows, where `…` stands for anything.

use serde_json::Value;

/// Where the two differ; nothing if they match.
pub fn difference(shown: &Value, said: &Value, place: &str) -> Option<String> {
    match (shown, said) {
        (Value::String(shown), Value::String(said)) if fits(shown, said) => None,
        (Value::String(shown), _) if shown == "…" => None,
        (Value::Object(shown), Value::Object(said)) => {
            let is_open = shown.contains_key("…");
            let unshown = said.keys().find(|name| !is_open && !shown.contains_key(*name));
            if let Some(name) = unshown {
                return Some(format!("{place}: the answer has `{name}`, which is not shown"));
            }
            shown.iter().filter(|(name, _)| *name != "…").find_map(|(name, shown)| match said.get(name) {
                Some(said) => difference(shown, said, &format!("{place}/{name}")),
                None => Some(format!("{place}: the answer has no `{name}`")),
            })
        }
        (Value::Array(shown), Value::Array(said)) => {
            let is_open = shown.last().is_some_and(|last| last == "…");
            let shown = &shown[..shown.len() - usize::from(is_open)];
            if said.len() < shown.len() || (!is_open && said.len() > shown.len()) {
                return Some(format!("{place}: {} elements are shown, {} are said", shown.len(), said.len()));
            }
            let pairs = shown.iter().zip(said).enumerate();
            pairs.map(|(at, (shown, said))| difference(shown, said, &format!("{place}/{at}"))).find_map(|found| found)
        }
        (shown, said) => (shown != said).then(|| format!("{place}: {shown} is shown, {said} is said")),
    }
}

/// The parts between `…` occur in their order, the first at the beginning, the last at the end.
fn fits(shown: &str, said: &str) -> bool {
    let mut parts = shown.split('…');
    let Some(mut rest) = parts.next().and_then(|first| said.strip_prefix(first)) else { return false };
    let mut last = None;
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
        last = Some(part);
    }
    last.map_or(rest.is_empty(), |last| said.ends_with(last))
}

#[test]
fn an_answer_that_is_not_the_one_shown_is_seen() {
    let said = serde_json::json!({ "a": "one two three", "b": [1, 2], "c": { "d": null } });
    for shown in [
        r#"{"a": "one two three", "b": [1, 2], "c": {"d": null}}"#,
        r#"{"a": "one…three", "b": [1, "…"], "…": "…"}"#,
        r#"{"a": "…two…", "b": ["…"], "c": "…"}"#,
    ] {
        assert_eq!(difference(&serde_json::from_str(shown).unwrap(), &said, ""), None, "{shown}");
    }
    for shown in [
        r#"{"a": "one two three", "b": [1, 2]}"#,
        r#"{"a": "two…", "…": "…"}"#,
        r#"{"a": "one…two", "…": "…"}"#,
        r#"{"b": [2, "…"], "…": "…"}"#,
        r#"{"b": [1], "…": "…"}"#,
        r#"{"e": "…", "…": "…"}"#,
        r#"{"c": {"d": 1}, "…": "…"}"#,
    ] {
        assert!(difference(&serde_json::from_str(shown).unwrap(), &said, "").is_some(), "{shown}");
    }
}
