//! The page for people: who gets it, in which encoding, with which security headers.

#[path = "../../../src/http/console/comments.rs"]
mod comments;

use std::io::Read as _;
use std::path::Path;

use flate2::read::GzDecoder;

use crate::support::app::App;
use crate::support::http::Said;

const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

fn source(path: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("console").join(path)).unwrap()
}

fn is_guarded(said: &Said) {
    let policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                  form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";
    for (name, value) in [
        ("content-security-policy", policy),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cache-control", "no-cache"),
    ] {
        assert_eq!(said.header(name), Some(value), "{name}");
    }
}

#[tokio::test]
async fn a_browser_gets_the_page_and_a_program_gets_json() {
    let app = App::with_keys().await;
    let page = app.ask("GET", "/").header("accept", BROWSER).send().await;
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert_eq!(page.body, source("index.html"));
    is_guarded(&page);
    for accept in ["*/*", "application/json"] {
        let said = app.ask("GET", "/").header("accept", accept).send().await;
        assert_eq!(said.header("vary"), Some("accept"));
        assert_eq!(said.expect(200)["name"], "pes", "{accept}");
    }
}

#[tokio::test]
async fn every_file_of_the_folder_is_served_without_a_key() {
    let app = App::with_keys().await;
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("console")];
    let mut served = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let root = Path::new(env!("CARGO_MANIFEST_DIR"));
            let path = path.strip_prefix(root.join("console")).unwrap().to_str().unwrap();
            let said = app.get(&format!("/console/{path}")).await;
            let sent = comments::without_comments(path, source(path));
            assert_eq!((said.status, said.body == sent), (200, true), "{path}");
            is_guarded(&said);
            served += 1;
        }
    }
    assert!(served > 0);
}

#[tokio::test]
async fn what_was_seen_before_is_not_sent_again() {
    let app = App::start().await;
    let ask = || app.ask("GET", "/console/index.html");
    let plain = ask().send().await;
    let packed = ask().header("accept-encoding", "br, gzip;q=0.5").send().await;
    assert_eq!((plain.header("content-encoding"), packed.header("content-encoding")), (None, Some("gzip")));
    assert!(packed.body.len() < plain.body.len());
    let mut unpacked = Vec::new();
    GzDecoder::new(packed.body.as_slice()).read_to_end(&mut unpacked).unwrap();
    assert_eq!(unpacked, plain.body);
    assert_ne!(plain.header("etag"), packed.header("etag"), "they are not the same bytes");
    assert_eq!(plain.header("vary"), Some("accept, accept-encoding"));

    let tag = plain.header("etag").unwrap();
    let again = ask().header("if-none-match", &format!("\"other\", W/{tag}")).send().await;
    assert_eq!((again.status, again.body.len(), again.header("etag")), (304, 0, Some(tag)));
    is_guarded(&again);
    assert_eq!(ask().header("if-none-match", "\"other\"").send().await.status, 200);
    let refused = ask().header("accept-encoding", "gzip;q=0, identity").send().await;
    assert_eq!(refused.header("content-encoding"), None);

    let head = app.ask("HEAD", "/").header("accept", BROWSER).send().await;
    assert_eq!((head.status, head.header("etag")), (200, Some(tag)));
    assert_eq!(head.header("content-length"), Some(plain.body.len().to_string().as_str()));
}

#[tokio::test]
async fn no_path_leads_out_of_the_folder() {
    let app = App::start().await;
    for path in [
        "/console/../Cargo.toml",
        "/console/%2e%2e/Cargo.toml",
        "/console/..%2fCargo.toml",
        "/console/..%5cCargo.toml",
        "/console//etc/passwd",
        "/console/%2fetc%2fpasswd",
        "/console/vendor/../../Cargo.toml",
        "/console/./index.html",
        "/console/index.html%00",
        "/console/.hidden",
        "/console/none.js",
        "/console/",
    ] {
        let said = app.get(path).await;
        assert!(matches!(said.status, 400 | 404), "{path}: {} {}", said.status, said.text());
    }
}

#[tokio::test]
async fn behind_a_path_the_page_stands_at_its_slash() {
    let app = App::with(|config| config.server.base_path = "/agents".to_owned()).await;
    let bare = app.ask("GET", "/agents").header("accept", BROWSER).send().await;
    assert_eq!((bare.status, bare.header("location")), (308, Some("/agents/")));
    let page = app.ask("GET", "/agents/").header("accept", BROWSER).send().await;
    assert_eq!((page.status, page.body), (200, source("index.html")));
    assert_eq!(app.get("/agents/console/index.html").await.status, 200);
    assert_eq!(app.get("/agents/").await.expect(200)["name"], "pes");
}
