//! `pes backup` and `pes restore`: copies the SQLite database while a server may be running, and puts a copy back. PostgreSQL
//! has tools of its own; `pes restore --adopt` declares that one of them was used.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::Error;
use super::client::print;
use super::which_server::without_server;
use crate::app::outward;
use crate::config::Config;
use crate::domain::caller::LOCAL;
use crate::domain::{Millis, hex};
use crate::runtime::clock::{Clock, System};
use crate::store::sqlite::{self, DatabaseAction, RestoreMode};
use crate::store::{self, Store};

const FORMAT: &str = "pes-backup/1";

/// The warning after a restore: what people revoked, deleted or put on hold after the backup is as it was at its time.
const UNDONE_BY_RESTORE: &str = "keys that were revoked after the backup are valid again (`pes keys ls`), threads that were \
                                 deleted are there again, and holds are as they were then";

/// The file `FILE.json` beside a backup.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    format: String,
    version: String,
    /// When the copy began. It contains everything that was committed before.
    taken_at: Millis,
    bytes: u64,
    sha256: String,
    /// Identifies the key that opens the sealed secrets in the backup; the key itself is not in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sealing_key: Option<String>,
}

pub(super) async fn backup(config: &Config, to: &Path) -> Result<(), Error> {
    if config.store.url.is_some() {
        return Err(Error::Usage(
            "PostgreSQL is backed up by its own tools (pg_dump, pg_basebackup); after a restore run `pes restore --adopt`"
                .to_owned(),
        ));
    }
    let manifest = manifest_of(to);
    if let Some(there) = [to, manifest.as_path()].into_iter().find(|file| file.exists()) {
        return Err(Error::Conflict(format!("{} is there already; name another file", there.display())));
    }
    let part = to.with_added_extension("part");
    // Until this returns.
    let _claim = Claim::on(&part)?;
    // Left by an interrupted backup.
    remove_part(&part);
    let copied = copy(config, &part).await;
    let made = copied.and_then(|said| complete(&said, &part, to, &manifest).map(|()| said));
    if made.is_err() {
        // A partial copy is of no use, and the disk may be full.
        remove_part(&part);
    }
    let Manifest { bytes, .. } = made?;
    print(&format!("{} ({bytes} bytes), {}", to.display(), manifest.display()))
}

/// Keeps other backups from the same file: they would take its copy for the rest of an interrupted backup. The lock is on a
/// file of its own: where locks go over the network, SQLite could not lock a copy that is locked as a whole.
struct Claim {
    path: PathBuf,
    _file: File,
}

impl Claim {
    fn on(part: &Path) -> Result<Self, Error> {
        let path = part.with_added_extension("lock");
        let failed = |error: io::Error| Error::Failed(format!("{} cannot be written: {error}", path.display()));
        loop {
            let options = OpenOptions::new().create(true).write(true).truncate(false).mode(0o600).clone();
            let file = options.open(&path).map_err(failed)?;
            match file.try_lock() {
                Err(TryLockError::WouldBlock) => {
                    let part = part.display();
                    return Err(Error::Conflict(format!(
                        "another backup writes {part}; wait for it, or name another file"
                    )));
                }
                // Some file systems have no locks.
                Ok(()) | Err(TryLockError::Error(_)) => {}
            }
            let claimed = file.metadata().map_err(failed)?;
            // The other backup may have ended between the two steps.
            if path.metadata().is_ok_and(|there| (there.dev(), there.ino()) == (claimed.dev(), claimed.ino())) {
                return Ok(Self { path, _file: file });
            }
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Before the lock ends: whoever gets it later finds another file there, or none.
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes a partial copy, and its journal, which SQLite leaves behind when the copy of a large database fails.
fn remove_part(part: &Path) {
    let mut journal = part.as_os_str().to_owned();
    journal.push("-journal");
    let _ = fs::remove_file(journal);
    let _ = fs::remove_file(part);
}

/// Copies the database, and describes the copy.
async fn copy(config: &Config, to: &Path) -> Result<Manifest, Error> {
    let taken_at = System::default().now();
    let act = DatabaseAction { by: LOCAL, at: taken_at, detail: json!({ "program": env!("CARGO_PKG_VERSION") }) };
    sqlite::back_up(&config.store.data_dir, config.store.synchronous, to, &act).await?;
    let (bytes, sha256) = sum(to)?;
    let sealing_key = outward::sealer(config).fingerprints().current;
    let (format, version) = (FORMAT.to_owned(), env!("CARGO_PKG_VERSION").to_owned());
    Ok(Manifest { format, version, taken_at, bytes, sha256, sealing_key })
}

/// Writes the manifest, and gives the copy its name. Each file is synced before the next step: a copy under its final name
/// has its manifest, also after a power failure.
fn complete(said: &Manifest, part: &Path, to: &Path, manifest: &Path) -> Result<(), Error> {
    let text = serde_json::to_string_pretty(said).expect("a manifest is plain data");
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(manifest)?;
    let written = file.write_all((text + "\n").as_bytes()).and_then(|()| file.sync_all());
    let named = written.and_then(|()| sync_folder_of(to)).and_then(|()| fs::rename(part, to));
    if named.is_err() {
        // It describes a copy that there is not.
        let _ = fs::remove_file(manifest);
    }
    named?;
    Ok(sync_folder_of(to)?)
}

/// `from`: `None` with `--adopt`.
pub(super) async fn restore(config: &Config, from: Option<&Path>, resumes: bool) -> Result<(), Error> {
    without_server(config)?;
    match from {
        Some(from) => put_back(config, from, resumes).await,
        None => adopt(config).await,
    }
}

async fn put_back(config: &Config, from: &Path, resumes: bool) -> Result<(), Error> {
    if config.store.url.is_some() {
        return Err(Error::Usage(
            "a backup of SQLite goes into a folder: unset DATABASE_URL; PostgreSQL is restored by its own tools"
                .to_owned(),
        ));
    }
    if !from.try_exists()? {
        return Err(Error::NotFound(format!("there is no {}", from.display())));
    }
    let manifest = manifest_of(from);
    let text = fs::read_to_string(&manifest)
        .map_err(|error| Error::NotFound(format!("{} cannot be read: {error}", manifest.display())))?;
    let said: Manifest = serde_json::from_str(&text)
        .map_err(|error| Error::Failed(format!("{} is no manifest of a backup: {error}", manifest.display())))?;
    if said.format != FORMAT {
        return Err(Error::Failed(format!("{} is of the format {}; use a newer pes", from.display(), said.format)));
    }
    let (bytes, sha256) = sum(from)?;
    if (bytes, &sha256) != (said.bytes, &said.sha256) {
        return Err(Error::Failed(format!(
            "{} is not what was backed up: it has {bytes} bytes with the sum {sha256}, the manifest says {} with {}; \
             use another copy. Nothing was changed",
            from.display(),
            said.bytes,
            said.sha256
        )));
    }
    let as_of = said.taken_at;
    let resumed =
        || DatabaseAction { by: LOCAL, at: System::default().now(), detail: json!({ "asOf": as_of, "resumed": true }) };
    let how = if resumes { RestoreMode::Resumed(resumed()) } else { RestoreMode::Held { as_of } };
    sqlite::restore(from, &config.store.data_dir, how).await?;
    let next = if resumes {
        "runs that were not over go on at the next start, and may do again what was done after the backup"
    } else {
        "at the next start, runs that were not over wait for a person (`pes questions`)"
    };
    print(&format!("restored into {}: {next}", config.store.data_dir.display()))?;
    print(UNDONE_BY_RESTORE)?;
    if let Some(key) =
        said.sealing_key.filter(|key| outward::sealer(config).fingerprints().current.as_ref() != Some(key))
    {
        print(&format!(
            "secrets in it are sealed with the key {key}: set it as PES_SEALING_KEY, or among PES_SEALING_KEYS_OLD"
        ))?;
    }
    Ok(())
}

/// Takes over a database that other tools restored.
async fn adopt(config: &Config) -> Result<(), Error> {
    let store = store::open_existing(&config.store).await?;
    let (marked, place) = (mark(&*store).await, store.describe());
    store.close().await;
    marked?;
    print(&format!("adopted {place}: at the next start, runs that were not over wait for a person (`pes questions`)"))?;
    print(UNDONE_BY_RESTORE)
}

/// Marks the database as restored now, by the clock by which servers date deliveries on it.
async fn mark(store: &dyn Store) -> store::Result<()> {
    let time = store.database_time().await?;
    store.mark_restored(time.unwrap_or_else(|| System::default().now())).await
}

fn manifest_of(file: &Path) -> PathBuf {
    file.with_added_extension("json")
}

fn sync_folder_of(file: &Path) -> io::Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// The length of the file and its SHA-256.
fn sum(file: &Path) -> io::Result<(u64, String)> {
    let (mut file, mut hash, mut bytes) = (File::open(file)?, Sha256::new(), 0);
    let mut part = vec![0; 1 << 16];
    loop {
        match file.read(&mut part)? {
            0 => return Ok((bytes, hex::of(&hash.finalize()))),
            read => {
                hash.update(&part[..read]);
                bytes += read as u64;
            }
        }
    }
}
