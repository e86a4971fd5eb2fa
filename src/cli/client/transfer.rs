//! `pes export` and `pes import`: writes a thread to a file, and reads it back.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write, stdin, stdout};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use serde_json::Value;

use super::args::{ExportArguments, ImportArguments};
use super::run;
use super::stop::unless_interrupted;
use super::terminal::{print, tell};
use crate::cli::Error;
use crate::cli::server::Server;

/// The beginning of the last line of a complete export.
const END: &[u8] = br#"{"end":"#;

/// Collects the beginning of a text's last line.
#[derive(Default)]
struct LastLine {
    begun: Vec<u8>,
    is_over: bool,
}

impl LastLine {
    fn add(&mut self, byte: u8) {
        if std::mem::take(&mut self.is_over) {
            self.begun.clear();
        }
        if byte == b'\n' {
            self.is_over = true;
        } else if self.begun.len() < END.len() {
            self.begun.push(byte);
        }
    }
}

/// Writes to stdout or to a file, which gets its name only when it is complete.
pub(super) async fn export(server: &Server, export: ExportArguments) -> Result<(), Error> {
    let ExportArguments { thread, output } = export;
    let path = format!("/threads/{thread}/export");
    let Some(file) = output else {
        let written = write(server, &path, &mut stdout().lock()).await;
        return run::unless_missing(server, &thread, written).await;
    };
    if file.exists() {
        return Err(Error::Conflict(format!("{} is there already; name another file", file.display())));
    }
    let part = file.with_added_extension("part");
    let written = write_whole(server, &path, &part).await;
    if written.is_err() {
        // A partial file is of no use.
        let _ = fs::remove_file(&part);
        return run::unless_missing(server, &thread, written).await;
    }
    fs::rename(&part, &file).map_err(|error| unwritable(&file, &error))?;
    tell(&format!("{} is written", file.display()));
    Ok(())
}

async fn write_whole(server: &Server, path: &str, part: &Path) -> Result<(), Error> {
    // One that is left there may be readable by others, and a thread may hold what is for nobody else.
    let _ = fs::remove_file(part);
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(part);
    let mut file = opened.map_err(|error| unwritable(part, &error))?;
    write(server, path, &mut file).await?;
    file.sync_all().map_err(|error| unwritable(part, &error))
}

fn unwritable(file: &Path, error: &io::Error) -> Error {
    Error::Failed(format!("{} cannot be written: {error}", file.display()))
}

async fn write(server: &Server, path: &str, out: &mut impl Write) -> Result<(), Error> {
    let mut answer = server.lines(path).await?;
    let mut last = LastLine::default();
    while let Some(piece) = server.piece(&mut answer).await? {
        out.write_all(&piece)?;
        piece.iter().for_each(|byte| last.add(*byte));
    }
    out.flush()?;
    if last.is_over && last.begun == END {
        return Ok(());
    }
    Err(Error::Failed("the export broke off before its end; ask again".to_owned()))
}

/// Prints the id of the new thread.
pub(super) async fn import(server: &Server, import: ImportArguments) -> Result<(), Error> {
    let ImportArguments { file, id, dry_run } = import;
    let text = if file.as_os_str() == "-" { from_stdin()? } else { from_file(&file)? };
    let id = id.map(|id| format!("&threadId={id}")).unwrap_or_default();
    let path = format!("/imports?dryRun={dry_run}{id}");
    let made: Value = unless_interrupted(server.post_lines(&path, text), "pes threads").await?;
    if let Some(run) = made["cancelled"].as_str() {
        tell(&format!("the run {run} was not over: it is cancelled in the new thread"));
    }
    if dry_run {
        tell("it can be imported; nothing was stored");
    }
    print(made["threadId"].as_str().unwrap_or_default())
}

fn from_file(file: &Path) -> Result<Vec<u8>, Error> {
    fs::read(file).map_err(|error| Error::NotFound(format!("{} cannot be read: {error}", file.display())))
}

fn from_stdin() -> Result<Vec<u8>, Error> {
    let mut text = Vec::new();
    stdin().lock().read_to_end(&mut text)?;
    Ok(text)
}
