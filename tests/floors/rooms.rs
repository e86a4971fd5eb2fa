//! A room names only rooms on lower floors, and some crates have one home.

use super::lexer::Token;
use super::{Source, keep, root, sources};

/// From the lowest floor up. Rooms on one floor do not name each other.
const FLOORS: &[&[&str]] = &[
    &["domain"],
    &["config", "live", "egress", "engine"],
    &["failpoint", "poll_gate"],
    &["store"],
    &["auth", "tool"],
    &["provider", "mcp", "a2a", "outbox", "traces"],
    &["runtime"],
    &["service"],
    &["http"],
    // The roof may name everything, itself too.
    &["app", "cli", "lib", "main", "shutdown", "telemetry"],
];

/// Rooms that may not be named although they are on a lower floor.
const STRANGERS: &[(&str, &[&str])] = &[("http", &["engine", "provider", "egress", "runtime"])];

/// A crate, and the only rooms that may name it.
const HOMES: &[(&str, &[&str])] = &[
    ("sqlx", &["store"]),
    ("axum", &["http", "app", "shutdown"]),
    ("hyper", &["egress", "http"]),
    ("tokio_rustls", &["egress"]),
    (
        "tokio",
        &[
            "live", "egress", "store", "auth", "tool", "provider", "mcp", "a2a", "outbox", "traces", "runtime",
            "service", "http", "app", "cli", "main", "shutdown",
        ],
    ),
];

/// The engine's state of a thread, which only the runtime handles.
const MACHINE: (&str, &str) = ("Machine", "runtime");

fn room(path: &str) -> &str {
    let inside = path.strip_prefix("src/").unwrap_or(path);
    inside.split('/').next().unwrap_or(inside).trim_end_matches(".rs")
}

fn floor(room: &str) -> Option<usize> {
    FLOORS.iter().position(|rooms| rooms.contains(&room))
}

fn check_rooms(source: &Source) -> Vec<String> {
    let own = room(&source.path);
    let Some(own_floor) = floor(own) else {
        return vec![format!("{}: `{own}` has no floor", source.path)];
    };
    let roof = FLOORS.len() - 1;
    let strangers = STRANGERS.iter().find(|(room, _)| *room == own).map_or(&[][..], |(_, strangers)| strangers);
    let mut breaches = Vec::new();
    for (named, line) in named_rooms(&source.tokens) {
        let Some(floor) = floor(&named) else { continue };
        let is_allowed =
            named == own || own_floor == roof || (floor < own_floor && !strangers.contains(&named.as_str()));
        if !is_allowed {
            breaches.push(format!("{}:{line}: `{own}` names `{named}`", source.path));
        }
    }
    let depth = source.path.trim_end_matches("/mod.rs").matches('/').count();
    for (line, steps) in climbs(source.code()) {
        if steps >= depth {
            breaches.push(format!("{}:{line}: climbs out of its room by `super`; say `crate::`", source.path));
        }
    }
    breaches
}

/// The rooms after every `crate::`, with their lines; groups are expanded.
fn named_rooms(tokens: &[Token]) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for (at, window) in tokens.windows(3).enumerate() {
        if (window[0].text != "crate" && window[0].text != "pes") || window[1].text != "::" {
            continue;
        }
        if window[2].text != "{" {
            found.push((window[2].text.clone(), window[2].line));
            continue;
        }
        let (mut depth, mut is_first) = (0, false);
        for token in &tokens[at + 2..] {
            match token.text.as_str() {
                "{" => (depth, is_first) = (depth + 1, depth == 0),
                "}" => depth -= 1,
                "," => is_first = depth == 1,
                name if is_first => {
                    found.push((name.to_owned(), token.line));
                    is_first = false;
                }
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
    }
    found
}

/// Every chain of `super::`, with its length.
fn climbs(tokens: &[Token]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut steps = 0;
    for pair in tokens.windows(2) {
        match (pair[0].text.as_str(), pair[1].text.as_str()) {
            ("super", "::") => steps += 1,
            ("::", "super") => {}
            _ if steps > 0 => {
                found.push((pair[0].line, steps));
                steps = 0;
            }
            _ => {}
        }
    }
    found
}

fn check_homes(source: &Source) -> Vec<String> {
    let own = room(&source.path);
    let mut breaches = Vec::new();
    for (index, token) in source.code().iter().enumerate() {
        let Some((_, homes)) = HOMES.iter().find(|(name, _)| *name == token.text) else { continue };
        let before = index.checked_sub(1).map_or("", |at| source.tokens[at].text.as_str());
        let is_crate = source.tokens.get(index + 1).is_some_and(|next| next.text == "::") && before != "::";
        if is_crate && !homes.contains(&own) {
            breaches.push(format!("{}:{}: `{}` is not at home in `{own}`", source.path, token.line, token.text));
        }
    }
    breaches
}

fn check_machine(source: &Source) -> Vec<String> {
    let (name, home) = MACHINE;
    let named = source.tokens.iter().filter(|token| token.text == name && room(&source.path) != home);
    named.map(|token| format!("{}:{}: `{name}` is the business of `{home}`", source.path, token.line)).collect()
}

/// The folder of the doors, and the files of `http` that may name it: no other place knows that there are any.
const DOORS: &str = "src/http/doors/";
const DOORKEEPERS: [&str; 4] = ["src/http/mod.rs", "src/http/router.rs", "src/http/envelope.rs", "src/http/cors.rs"];

/// A door names no other door, and few files outside name a door.
fn check_doors(source: &Source, doors: &[String]) -> Vec<String> {
    let own = source.path.strip_prefix(DOORS);
    // Rooms on lower floors cannot name `http` at all.
    let is_outside = room(&source.path) != "http";
    let is_shared = own.is_some_and(|inside| !inside.contains('/'));
    if is_outside || is_shared || DOORKEEPERS.contains(&source.path.as_str()) {
        return Vec::new();
    }
    let own = own.and_then(|inside| inside.split('/').next());
    let named = source.code().windows(3).filter(|window| window[0].text == "doors" && window[1].text == "::");
    let breaches = named.filter(|window| match own {
        Some(own) => window[2].text != own && doors.contains(&window[2].text),
        None => true,
    });
    breaches.map(|window| format!("{}:{}: names the door `{}`", source.path, window[0].line, window[2].text)).collect()
}

fn doors() -> Vec<String> {
    let entries = std::fs::read_dir(root().join(DOORS)).unwrap().map(Result::unwrap);
    let folders = entries.filter(|entry| entry.path().join("mod.rs").is_file());
    folders.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

#[test]
fn a_door_is_named_by_nobody_else() {
    let doors = doors();
    assert!(doors.contains(&"a2a".to_owned()), "{doors:?}");
    keep(sources("src").into_iter().flat_map(|source| check_doors(source, &doors)).collect());
    let two = ["a2a".to_owned(), "openai".to_owned()];
    for (path, text) in [
        ("src/http/routes/a.rs", "use crate::http::doors::a2a;"),
        ("src/http/events/a.rs", "use crate::http::doors::sse;"),
        ("src/http/doors/openai/a.rs", "use crate::http::doors::a2a::reply;"),
    ] {
        assert_eq!(check_doors(&Source::new(path, text), &two).len(), 1, "{path}: {text}");
    }
    let shared = Source::new("src/http/doors/openai/a.rs", "use crate::http::doors::{sse, openai};\nuse crate::a2a;");
    assert!(check_doors(&shared, &two).is_empty());
}

#[test]
fn a_room_names_only_lower_floors() {
    keep(sources("src").into_iter().flat_map(check_rooms).collect());
}

#[test]
fn some_crates_have_one_home() {
    keep(sources("src").into_iter().flat_map(check_homes).collect());
}

#[test]
fn only_the_runtime_names_the_machine() {
    keep(sources("src").into_iter().flat_map(check_machine).collect());
    assert_eq!(check_machine(&Source::new("src/service/a.rs", "fn f(machine: &dyn Machine) {}")).len(), 1);
    assert!(check_machine(&Source::new("src/runtime/a.rs", "fn f(machine: &dyn Machine) {}")).is_empty());
}

#[test]
fn a_room_that_looks_up_is_seen() {
    for (path, text) in [
        ("src/domain/a.rs", "use crate::config::Config;"),
        ("src/store/a.rs", "use crate::{domain::{ids, plan}, runtime::Runtime};"),
        ("src/http/a.rs", "use crate::provider::Catalog;"),
        ("src/http/a.rs", "use crate::runtime::Runtime;"),
        ("src/runtime/a.rs", "use crate::service::threads;"),
        ("src/auth/a.rs", "use crate::tool::Tool;"),
        ("src/attic/a.rs", ""),
        ("src/store/sqlite/a.rs", "use super::super::super::runtime;"),
    ] {
        assert_eq!(check_rooms(&Source::new(path, text)).len(), 1, "{path}: {text}");
    }
    for (path, text) in [
        ("src/store/a.rs", "use crate::{domain::{ids, plan}, failpoint};\nuse super::Error;"),
        ("src/app.rs", "use crate::{cli, http};"),
        ("src/auth/a.rs", "// crate::http\nuse crate::engine::step;"),
    ] {
        assert!(check_rooms(&Source::new(path, text)).is_empty(), "{path}: {text}");
    }
}

#[test]
fn a_crate_away_from_home_is_seen() {
    for (path, text) in [
        ("src/runtime/a.rs", "use sqlx::Pool;"),
        ("src/live/a.rs", "fn f() -> axum::Response {}"),
        ("src/cli/a.rs", "use hyper::client::conn::http1;"),
        ("src/config/a.rs", "tokio::spawn(f)"),
    ] {
        assert_eq!(check_homes(&Source::new(path, text)).len(), 1, "{path}: {text}");
    }
    assert!(check_homes(&Source::new("src/store/a.rs", "use sqlx::Pool; use tokio::sync;")).is_empty());
}

#[test]
fn every_migration_is_applied() {
    let list = std::fs::read_to_string(root().join("src/store/migrations.rs")).unwrap();
    for folder in ["sqlite", "postgres"] {
        for file in std::fs::read_dir(root().join("migrations").join(folder)).unwrap() {
            let name = file.unwrap().file_name().into_string().unwrap();
            let stem = name.strip_suffix(".sql").unwrap();
            assert!(list.contains(&format!("\"{stem}\"")), "{folder}/{name} is never applied");
        }
    }
}

/// A table is a file of `src/store` with a trait; its statements are in a file of the same name for each database.
#[test]
fn a_table_has_the_same_name_in_the_store_and_in_both_databases() {
    let store = root().join("src/store");
    let is_trait = |text: &str| text.contains("Store: Send + Sync + 'static {");
    let mut tables = Vec::new();
    for entry in std::fs::read_dir(&store).unwrap() {
        let path = entry.unwrap().path();
        let file = if path.is_dir() { path.join("mod.rs") } else { path.clone() };
        if std::fs::read_to_string(&file).is_ok_and(|text| is_trait(&text)) {
            tables.push(path.file_stem().unwrap().to_str().unwrap().to_owned());
        }
    }
    assert!(tables.len() >= 12, "{tables:?}");
    for (folder, name) in [("sqlite", "Sqlite"), ("postgres", "Postgres")] {
        for table in &tables {
            let file = std::fs::read_to_string(store.join(folder).join(table).with_extension("rs"));
            let text = file.unwrap_or_else(|error| panic!("{folder}/{table}.rs: {error}"));
            assert!(text.contains(&format!("Store for {name} {{")), "{folder}/{table}.rs does not implement its trait");
        }
    }
}
