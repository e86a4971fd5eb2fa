//! The page for people stays small, readable, and without a way to write HTML: `console/`.

use std::io::Write as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::{keep, root};

/// What it weighs, with a little room. The aim is 350,000 and 90,000, and is not reached.
const RAW: usize = 530_000;
const COMPRESSED: usize = 205_000;
const LONGEST: usize = 400;
/// What others wrote is taken over as it is.
const VENDOR: &str = "vendor/";
/// In lower case, as a source must not name them.
const FORBIDDEN: &[&str] =
    &["innerhtml", "outerhtml", "insertadjacenthtml", "document.write", "eval(", "new function(", "style="];

struct File {
    path: String,
    bytes: Vec<u8>,
}

fn files() -> Vec<File> {
    let mut found = Vec::new();
    collect(&root().join("console"), &mut found);
    assert!(found.iter().any(|file| file.path == "index.html"), "the page is gone");
    found
}

fn collect(folder: &Path, found: &mut Vec<File>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, found);
        } else {
            let name = path.strip_prefix(root().join("console")).unwrap().to_str().unwrap().replace('\\', "/");
            found.push(File { path: name, bytes: std::fs::read(&path).unwrap() });
        }
    }
}

fn compressed(bytes: &[u8]) -> usize {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap().len()
}

fn check(file: &File) -> Vec<String> {
    let text = String::from_utf8_lossy(&file.bytes);
    let mut breaches = Vec::new();
    if file.path.starts_with(VENDOR) {
        return breaches;
    }
    let lines = text.lines().count();
    if lines > LONGEST {
        breaches.push(format!("console/{}: {lines} lines, more than {LONGEST}", file.path));
    }
    for (index, line) in text.lines().enumerate() {
        let line = line.to_lowercase();
        let named = FORBIDDEN.iter().filter(|word| line.contains(*word));
        breaches.extend(named.map(|word| format!("console/{}:{}: `{word}`", file.path, index + 1)));
    }
    breaches
}

#[test]
fn the_page_is_small() {
    let files = files();
    let raw: usize = files.iter().map(|file| file.bytes.len()).sum();
    let sent: usize = files.iter().map(|file| compressed(&file.bytes)).sum();
    assert!(raw <= RAW, "{raw} bytes, more than {RAW}");
    assert!(sent <= COMPRESSED, "{sent} bytes compressed, more than {COMPRESSED}");
}

#[test]
fn the_page_is_readable_and_writes_no_html() {
    keep(files().iter().flat_map(check).collect());
}

#[test]
fn what_the_page_may_not_do_is_seen() {
    let of = |path: &str, text: &str| check(&File { path: path.to_owned(), bytes: text.as_bytes().to_vec() });
    for text in ["a.innerHTML = b", "dangerouslySetInnerHTML", "eval(x)", "new Function(x)", "<b style=\"x\">"] {
        assert_eq!(of("a.js", text).len(), 1, "{text}");
        assert!(of("vendor/a.js", text).is_empty(), "{text}");
    }
    assert_eq!(of("a.css", &"x\n".repeat(401)).len(), 1);
    assert!(of("a.js", "node.style.setProperty('--x', evaluate(y))").is_empty());
}
