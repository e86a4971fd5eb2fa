//! Opens a data folder: locks it, checks it before changing anything, migrates, connects.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sqlx::ConnectOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous};

use super::fault::{why_not_opened, why_not_used};
use super::lock::{self, FolderLock, Holder};
use super::opened_file::OpenedFile;
use super::write_connection::WriteConnection;
use super::writer::Writer;
use super::{Sqlite, damage, private, schema};
use crate::config::Synchronous;
use crate::failpoint;
use crate::store::committer::{Bounds, CommitHealth, Committer};
use crate::store::{Chores, Error, OldSchema, Result};

/// The pragmas of every connection. A checkpoint every 16 MB instead of every 4 MB writes fewer pages twice. Deleted content
/// is overwritten in place at once.
pub(super) const PRAGMAS: [(&str, &str); 4] = [
    ("temp_store", "memory"),
    ("wal_autocheckpoint", "4000"),
    ("journal_size_limit", "67108864"),
    ("secure_delete", "on"),
];

/// How long a connection waits for another one's lock.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Each connection is a thread, so there are few. They are opened on demand.
const READERS: u32 = 4;

/// The page cache of a reader, in KiB. It is small: the system caches the file anyway, and an idle server should need little
/// memory.
const READERS_CACHE: &str = "-256";

/// The database file of this folder.
pub fn database_of(folder: &Path) -> PathBuf {
    folder.join("pes.db")
}

impl Sqlite {
    /// Opens `pes.db` in this folder, both created if they do not exist, and locks the folder until it is closed and
    /// dropped.
    /// `Unusable` if another process holds the folder, if a newer version wrote it (then nothing is changed), or if it
    /// cannot be read or written.
    pub async fn open(folder: &Path, synchronous: Synchronous) -> Result<Self> {
        private::folder(folder).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => unusable(folder, "it is no folder; name one with PES_DATA_DIR"),
            _ => unusable(folder, format!("{error}; name another folder with PES_DATA_DIR")),
        })?;
        let lock = FolderLock::take(folder)?;
        let path = database_of(folder);
        damage::check_links(&path)?;
        let options = options(&path, synchronous);
        if path.exists() {
            damage::check(&path, synchronous == Synchronous::Full)?;
            schema::check_version(&path).await?;
            private::file(&path).map_err(|error| unusable(&path, error))?;
            schema::migrate(&options).await.map_err(|error| unusable(&path, why_not_opened(&error)))?;
        } else {
            create(&path, &options).await?
        }
        Self::opened(path, options, synchronous, Some(lock))
    }

    /// Opens the database of this folder for reading, even while a server holds the folder. Nothing may be written.
    /// `Unusable` if there is none, if it is of another version of pes, or if it is damaged.
    pub async fn open_beside(folder: &Path, synchronous: Synchronous) -> Result<Self> {
        Self::check_exists(folder)?;
        check_beside(folder, synchronous)?;
        let path = database_of(folder);
        schema::check_version(&path).await?;
        schema::check_up_to_date(&path).await?;
        Self::opened(path.clone(), options(&path, Synchronous::Full), Synchronous::Full, None)
    }

    /// `Unusable` if this folder has no database of its own.
    pub fn check_exists(folder: &Path) -> Result<()> {
        let path = database_of(folder);
        damage::check_links(&path)?;
        match path.try_exists() {
            Ok(true) => Ok(()),
            Ok(false) => {
                Err(Error::Unusable(format!("{} has no database; name it with PES_DATA_DIR", folder.display())))
            }
            Err(error) => Err(Error::Unusable(format!(
                "{} cannot be looked at: {error}; call this as the user of the server",
                path.display()
            ))),
        }
    }

    /// The schema of the database of this folder, if `open` would migrate it; this changes nothing. `Unusable` if it is
    /// damaged, or a newer version wrote it.
    pub async fn old_schema(folder: &Path, synchronous: Synchronous) -> Result<Option<OldSchema>> {
        let path = database_of(folder);
        damage::check_links(&path)?;
        damage::check(&path, synchronous == Synchronous::Full)?;
        schema::check_version(&path).await?;
        schema::old_schema(&path).await
    }

    fn opened(
        path: PathBuf,
        options: SqliteConnectOptions,
        synchronous: Synchronous,
        lock: Option<FolderLock>,
    ) -> Result<Self> {
        let file = File::options().read(true).write(true).open(&path).map_err(|error| unusable(&path, error))?;
        let in_place = OpenedFile::of(&path, &file).map_err(|error| unusable(&path, error))?;
        let in_place = lock.iter().map(FolderLock::opened).chain([in_place]).collect();
        let file = Arc::new(file);
        let connection = WriteConnection::open(path.clone(), file.clone(), in_place, synchronous)
            .map_err(|error| unusable(&path, why_not_used(&error)))?;
        let chores = Arc::new(Chores::new());
        let health = Arc::new(CommitHealth::default());
        let writer = Writer::start(connection, lock, chores.clone(), health.clone());
        let writer = writer.map_err(|error| unusable(&path, error))?;
        let committer = Arc::new(Committer::spawn_with([writer.clone()], Bounds::default(), health));
        let for_people = Some(readers(options.clone()));
        Ok(Self { path, synchronous, file, committer, chores, writer, readers: readers(options), for_people })
    }
}

/// Refuses a damaged database as a start does. Called before a connection without the folder's lock is opened: when it is
/// closed, and nobody else has the file open, SQLite removes the log, and with it the trace of what the log lost. A server
/// that runs has checked the folder. Another process that holds it, such as a server that starts, may be writing: what it had
/// half written is complete at the second look.
pub(super) fn check_beside(folder: &Path, synchronous: Synchronous) -> Result<()> {
    let is_served = || matches!(lock::holder(folder), Ok(Holder::Server(_)) | Err(_));
    let check = || damage::check(&database_of(folder), synchronous == Synchronous::Full);
    if is_served() || check().is_ok() {
        return Ok(());
    }
    let checked = check();
    if is_served() { Ok(()) } else { checked }
}

/// Creates a database. It gets its name once it is complete, so that a killed start leaves nothing that is mistaken for one.
async fn create(path: &Path, options: &SqliteConnectOptions) -> Result<()> {
    damage::check_absent(path)?;
    let new = path.with_extension("db.new");
    remove_unfinished(&new)?;
    private::new_file(&new).map_err(|error| unusable(&new, error))?;
    if let Err(error) = schema::create(path, &options.clone().filename(&new)).await {
        // The disk may be full.
        remove_unfinished(&new)?;
        return Err(error);
    }
    failpoint::reached("sqlite.created");
    let folder = path.parent().unwrap_or(Path::new("."));
    let synced = File::open(&new).and_then(|file| file.sync_all());
    let named = synced.and_then(|()| std::fs::rename(&new, path)).and_then(|()| File::open(folder)?.sync_all());
    named.map_err(|error| unusable(path, error))
}

/// Removes the files of a database whose creation was interrupted: SQLite would take its logs for those of the next.
pub(super) fn remove_unfinished(new: &Path) -> Result<()> {
    for left in [
        new.to_owned(),
        damage::companion(new, "wal"),
        damage::companion(new, "shm"),
        damage::companion(new, "journal"),
    ] {
        match std::fs::remove_file(&left) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(unusable(&left, error)),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

fn options(path: &Path, synchronous: Synchronous) -> SqliteConnectOptions {
    let synchronous = match synchronous {
        Synchronous::Full => SqliteSynchronous::Full,
        Synchronous::Normal => SqliteSynchronous::Normal,
    };
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(synchronous)
        .busy_timeout(BUSY_TIMEOUT)
        .disable_statement_logging()
        .foreign_keys(false);
    PRAGMAS.into_iter().fold(options, |options, (name, value)| options.pragma(name, value))
}

fn readers(options: SqliteConnectOptions) -> SqlitePool {
    SqlitePoolOptions::new()
        .max_connections(READERS)
        .test_before_acquire(false)
        .acquire_timeout(Duration::from_secs(10))
        // A file that is gone is not made again.
        .connect_lazy_with(
            options.create_if_missing(false).pragma("query_only", "on").pragma("cache_size", READERS_CACHE),
        )
}

pub(super) fn unusable(path: &Path, error: impl std::fmt::Display) -> Error {
    Error::Unusable(format!("{} cannot be used: {error}.", path.display()))
}
