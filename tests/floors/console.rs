//! The page for people in `console/` stays small, readable, and without a way to write HTML.

#[path = "../../src/http/console/comments.rs"]
mod comments;

use std::io::Write as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::{keep, root};

/// The files sent when a thread is opened: `index.html`, the styles and the icon that it names, and every module
/// imported from `app.js` on, each as sent: compressed, and without comments. Modules that `views/later.js` imports
/// are sent when they are shown.
const OPENED: usize = 78_500;
/// All files of the folder, uncompressed, with a little room. The aim of 350,000 is not reached: no view is left out,
/// and the sources stay readable.
const RAW: usize = 516_900;
/// The same as they are sent.
const SENT: usize = 170_800;
const LONGEST: usize = 400;
/// Vendored files are not checked.
const VENDOR: &str = "vendor/";
/// In lower case; a source must not name them.
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

/// The files that `text` of `path` names: what a page loads, or what a module imports before it runs.
fn named(path: &str, text: &str) -> Vec<String> {
    let folder = Path::new(path).parent().expect("a file is in a folder");
    let after = |line: &str, mark: &str| Some(line.split_once(mark)?.1.split(['"', '\'']).next()?.to_owned());
    let lines = text.lines();
    if path == "index.html" {
        return lines.filter_map(|line| after(line, "\"console/")).collect();
    }
    let imports = lines.filter(|line| line.starts_with("import ") || line.starts_with("} from "));
    imports.filter_map(|line| after(line, "from '")).map(|from| joined(folder, &from)).collect()
}

fn joined(folder: &Path, from: &str) -> String {
    let mut path = folder.to_path_buf();
    for part in from.split('/') {
        match part {
            "." => {}
            ".." => assert!(path.pop(), "{from} leads out of the folder"),
            part => path.push(part),
        }
    }
    path.to_str().expect("names are ASCII").to_owned()
}

/// The files that a browser gets before the first view is shown.
fn opened(files: &[File]) -> Vec<&File> {
    let mut found: Vec<&File> = Vec::new();
    let mut wanted = vec!["index.html".to_owned()];
    while let Some(path) = wanted.pop() {
        if found.iter().any(|file| file.path == path) {
            continue;
        }
        let file = files.iter().find(|file| file.path == path).unwrap_or_else(|| panic!("there is no console/{path}"));
        if !path.starts_with(VENDOR) {
            wanted.extend(named(&path, &String::from_utf8_lossy(&file.bytes)));
        }
        found.push(file);
    }
    found
}

fn sent(file: &File) -> usize {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&comments::without_comments(&file.path, file.bytes.clone())).unwrap();
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
    let opened: usize = opened(&files).into_iter().map(sent).sum();
    assert!(opened <= OPENED, "{opened} bytes are sent when a thread is opened, more than {OPENED}");
    let raw: usize = files.iter().map(|file| file.bytes.len()).sum();
    let sent: usize = files.iter().map(sent).sum();
    assert!(raw <= RAW, "{raw} bytes, more than {RAW}");
    assert!(sent <= SENT, "{sent} bytes are sent for all of it, more than {SENT}");
}

#[test]
fn the_page_is_readable_and_writes_no_html() {
    keep(files().iter().flat_map(check).collect());
}

#[test]
fn what_is_sent_at_once_is_found_from_import_to_import() {
    let text = "import { a } from './b.js';\nimport {\n  c\n} from '../d.js';\nconst later = () => import('./e.js');\n";
    assert_eq!(named("views/a.js", text), ["views/b.js", "d.js"]);
    assert_eq!(
        named("index.html", "<link rel=\"icon\" href=\"console/icon.svg\" type=\"image/svg+xml\">"),
        ["icon.svg"]
    );
    let files = files();
    let paths: Vec<&str> = opened(&files).iter().map(|file| file.path.as_str()).collect();
    for path in ["app.js", "css/parts.css", "vendor/preact-htm.js", "views/graph.js", "views/talk.js"] {
        assert!(paths.contains(&path), "{path}");
    }
    assert!(!paths.contains(&"views/policy.js"));
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
