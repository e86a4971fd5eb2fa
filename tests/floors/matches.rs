//! A match on our own enums has no wildcard arm, so that a new variant must be handled everywhere.

use std::collections::HashSet;

use super::lexer::Token;
use super::{Source, all_sources, keep};

/// Crates that have enums of the same name as ours.
const FOREIGN: &[&str] = &["sqlx", "hyper", "std", "io", "toml", "serde_json", "jsonschema"];

fn own_enums(sources: &[&Source]) -> HashSet<String> {
    let pairs = sources.iter().flat_map(|source| source.tokens.windows(2));
    pairs.filter(|pair| pair[0].text == "enum").map(|pair| pair[1].text.clone()).collect()
}

fn check_matches(source: &Source, own: &HashSet<String>) -> Vec<String> {
    let code = source.code();
    let starts = code.iter().enumerate().filter(|(_, token)| token.text == "match");
    let mut breaches = Vec::new();
    for (at, token) in starts {
        let patterns = patterns(&code[at + 1..]);
        let names_own = patterns.iter().any(|pattern| is_of(pattern, own));
        let has_wildcard = patterns.iter().any(|pattern| pattern.len() == 1 && pattern[0].text == "_");
        if names_own && has_wildcard {
            breaches.push(format!("{}:{}: a wildcard arm beside our own variants", source.path, token.line));
        }
    }
    breaches
}

/// Whether a pattern starts with a variant of one of these: `a::Name::Variant`. Only our own types have code that says
/// `Self::Variant`.
fn is_of(pattern: &[Token], own: &HashSet<String>) -> bool {
    let mut path = Vec::new();
    for token in pattern {
        if token.text == "::" {
            continue;
        }
        if !token.text.chars().all(|c| c.is_alphanumeric() || c == '_') {
            break;
        }
        path.push(token.text.as_str());
    }
    let Some([of, _]) = path.last_chunk() else { return false };
    (*of == "Self" || own.contains(*of)) && !FOREIGN.contains(&path[0])
}

/// The patterns of a match's arms, from the tokens behind `match`.
fn patterns(tokens: &[Token]) -> Vec<Vec<Token>> {
    let mut depth = 0_i32;
    let opens = |token: &Token| {
        let text = token.text.as_str();
        i32::from(matches!(text, "(" | "[" | "{")) - i32::from(matches!(text, ")" | "]" | "}"))
    };
    let Some(body) = tokens.iter().position(|token| {
        let is_body = depth == 0 && token.text == "{";
        depth += opens(token);
        is_body
    }) else {
        return Vec::new();
    };
    let (mut found, mut pattern, mut depth, mut in_pattern, mut is_block) = (Vec::new(), Vec::new(), 1, true, false);
    for token in &tokens[body + 1..] {
        if in_pattern && depth == 1 && token.text == "=>" {
            found.push(std::mem::take(&mut pattern));
            (in_pattern, is_block) = (false, true);
            continue;
        }
        if is_block && !in_pattern && token.text != "{" && depth == 1 {
            is_block = false;
        }
        depth += opens(token);
        if depth == 0 {
            break;
        }
        if in_pattern {
            if !(pattern.is_empty() && token.text == ",") {
                pattern.push(token.clone());
            }
        } else if depth == 1 && (token.text == "," || (is_block && token.text == "}")) {
            in_pattern = true;
        }
    }
    found
}

#[test]
fn own_enums_are_matched_whole() {
    let all = all_sources("src");
    let own = own_enums(&all);
    keep(all.iter().flat_map(|source| check_matches(source, &own)).collect());
}

#[test]
fn a_wildcard_is_seen() {
    let declared = "enum Colour { Red, Blue }";
    let seen = |text: &str| {
        let source = Source::new("src/a.rs", &format!("{declared} fn f() {{ {text} }}"));
        !check_matches(&source, &own_enums(&[&source])).is_empty()
    };
    assert!(seen("match c { Colour::Red => 1, _ => 2 }"));
    assert!(seen("match self { Self::Red => 1, _ => 2 }"));
    assert!(seen("match f({ x }) { a::Colour::Red(x) if x > 1 => { g(); } _ => 2 }"));
    assert!(seen("match x { Some(1) => match c { Colour::Red => {}, _ => {} }, None => {} }"));
    assert!(!seen("match c { Colour::Red => 1, Colour::Blue => 2 }"));
    assert!(!seen("match c { Colour::Red => 1, _ if late => 3, Colour::Blue => 2 }"));
    assert!(!seen("match x { Some(Colour::Red) => 1, _ => 2 }"));
    assert!(!seen("match x { sqlx::Colour::Red => 1, _ => 2 }"));
    assert!(!seen("match x { Other::Red => { match c { Colour::Red => 1, Colour::Blue => 2 } } _ => 2 }"));
}
