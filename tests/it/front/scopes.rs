//! The scope that each operation needs: as the OpenAPI document and docs/OPERATIONS.md say it, and as the server enforces
//! it.

use std::path::Path;

use pes::config::ConfiguredKey;
use serde_json::{Value, json};

use super::tenants::{filled, of_nobody, operations};
use crate::support::app::App;

const SCOPES: [&str; 5] = ["read", "run", "approve", "admin", "operator"];

/// A secret that is long enough for a key.
fn secret(scope: &str) -> String {
    format!("key-{scope}-0123456789abcdef0123456789")
}

async fn app_with_a_key_of_each_scope() -> App {
    App::with_keys_and(|config| {
        let key = |scope: &str| format!("one/only-{scope}:{scope}:{}", secret(scope)).parse::<ConfiguredKey>().unwrap();
        config.auth.keys.extend(SCOPES.map(key));
    })
    .await
}

/// The scopes that the document names for an operation; a caller needs one of them. `None`: it needs no key.
fn documented(document: &Value, method: &str, path: &str) -> Option<Vec<String>> {
    let security = document["paths"][path][method.to_lowercase()]["security"].as_array().unwrap();
    let scopes = security.iter().flat_map(|scheme| scheme["key"].as_array().unwrap());
    (!security.is_empty()).then(|| scopes.map(|scope| scope.as_str().unwrap().to_owned()).collect())
}

#[tokio::test]
async fn the_server_refuses_whoever_lacks_the_scope_that_the_document_names() {
    let mut app = app_with_a_key_of_each_scope().await;
    let (document, nobody) = (pes::http::openapi(), of_nobody());
    let mut refused = 0;
    for scope in SCOPES {
        app = app.key(&secret(scope));
        for (method, path) in operations() {
            let mut ask = app.ask(&method, &filled(&path, &nobody));
            if method != "GET" {
                ask = ask.json(&json!({}));
            }
            let said = ask.send().await;
            let needed = documented(&document, &method, &path).unwrap_or_default();
            let includes = |needed: &String| needed == scope || (scope == "admin" && needed != "operator");
            let may = needed.is_empty() || needed.iter().any(includes);
            let is_refused = said.status == 403 && said.text().contains("lacks the scope");
            assert_eq!(is_refused, !may, "{scope}: {method} {path}: {} {}", said.status, said.text());
            refused += usize::from(is_refused);
        }
    }
    assert!(refused > 300, "{refused} requests were refused");
}

#[tokio::test]
async fn a_key_that_may_only_answer_sees_what_is_asked() {
    let app = app_with_a_key_of_each_scope().await.key("key-a-0123456789abcdef0123456789");
    let asked = app.suspend("t1", "send").await;
    let app = app.key(&secret("approve"));
    let listed = app.get("/suspensions").await.expect(200);
    assert_eq!(listed["items"][0]["suspensionId"], asked["suspensionId"]);
    assert_eq!(listed["items"][0]["mayAnswer"]["approve"], true);
    app.get("/threads/t1").await.problem("forbidden");
    let answer = json!({ "suspensionId": asked["suspensionId"], "approved": false });
    app.post("/threads/t1/resume", answer).await.expect(202);
    let problem = app.key(&secret("run")).get("/suspensions").await.problem("forbidden");
    assert_eq!(problem["scope"], "read");
}

/// A line of the table: a scope, and a request that it permits.
struct Line<'t> {
    scope: &'t str,
    method: Option<&'t str>,
    path: &'t str,
    is_prefix: bool,
}

impl Line<'_> {
    fn fits(&self, method: &str, path: &str) -> bool {
        let is_path = if self.is_prefix { path.starts_with(self.path) } else { path == self.path };
        is_path && self.method.is_none_or(|known| known == method)
    }
}

fn table(text: &str) -> Vec<Line<'_>> {
    let begin = text.find("| Scope | Requests |").expect("the table of the scopes");
    let mut lines = Vec::new();
    for row in text[begin..].lines().skip(2).take_while(|row| row.starts_with('|')) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        for request in cells[2].split(", ").map(|request| request.trim_matches('`')) {
            let (method, path) = request.split_once(' ').map_or((None, request), |(method, path)| (Some(method), path));
            let is_prefix = path.ends_with('…');
            lines.push(Line {
                scope: cells[1].trim_matches('`'), method, path: path.trim_end_matches('…'), is_prefix
            });
        }
    }
    lines
}

#[test]
fn the_table_of_the_scopes_is_the_documents() {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/OPERATIONS.md")).unwrap();
    let (lines, document) = (table(&text), pes::http::openapi());
    assert!(lines.len() > 30, "{} requests", lines.len());
    for (method, path) in operations() {
        let Some(needed) = documented(&document, &method, &path) else { continue };
        let fitting = || lines.iter().filter(|line| line.fits(&method, &path));
        let longest = fitting().map(|line| line.path.len()).max().unwrap_or_default();
        let found: Vec<&str> = fitting().filter(|line| line.path.len() == longest).map(|line| line.scope).collect();
        let wanted = if needed.is_empty() { vec!["any".to_owned()] } else { needed };
        assert_eq!(found, wanted, "{method} {path}");
    }
}
