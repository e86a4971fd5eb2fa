//! Embeds the page for people: every file of `console/` as `comments` leaves it, also compressed. There is no list to keep by
//! hand.

#[path = "src/http/console/comments.rs"]
mod comments;

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=console");
    let out = named_by_cargo("OUT_DIR");
    // Asked when it runs: with a target folder that checkouts share, the script may have been compiled in another one.
    let root = named_by_cargo("CARGO_MANIFEST_DIR").join("console");
    let mut files = Vec::new();
    collect(&root, &mut files)?;
    files.sort();
    let mut list = String::from("&[\n");
    for (number, file) in files.iter().enumerate() {
        let path = file.strip_prefix(&root).expect("it was found there").to_string_lossy().replace('\\', "/");
        let (plain, compressed) = (out.join(format!("console-{number}")), out.join(format!("console-{number}.gz")));
        let sent = comments::without_comments(&path, fs::read(file)?);
        fs::write(&compressed, gzip(&sent)?)?;
        fs::write(&plain, sent)?;
        writeln!(
            list,
            "    Embedded {{ path: {path:?}, #[cfg(debug_assertions)] source: include_bytes!({file:?}), \
             plain: include_bytes!({plain:?}), gzip: include_bytes!({compressed:?}) }},"
        )
        .expect("a text takes all that is written");
    }
    list.push_str("]\n");
    fs::write(out.join("console.rs"), list)
}

#[expect(clippy::disallowed_methods, reason = "cargo tells a build script by its environment where to read and write")]
fn named_by_cargo(variable: &str) -> PathBuf {
    PathBuf::from(std::env::var_os(variable).expect("cargo sets it"))
}

/// Every file below the folder but hidden ones.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with('.') {
            continue;
        }
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), files)?;
        } else {
            files.push(entry.path());
        }
    }
    Ok(())
}

fn gzip(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    encoder.finish()
}
