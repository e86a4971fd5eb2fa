//! One process per data folder.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::opened_file::OpenedFile;
use crate::store::file_owner::give_to_owner_of;
use crate::store::{Error, Result};

const LOCK: &str = "pes.lock";

/// Held until it is dropped, or until the process ends in whatever way.
pub(super) struct FolderLock {
    file: File,
    opened: OpenedFile,
}

impl FolderLock {
    pub fn take(folder: &Path) -> Result<Self> {
        let path = folder.join(LOCK);
        let unusable = |error: io::Error| unusable(&path, &error);
        let options = OpenOptions::new().create(true).read(true).write(true).truncate(false).mode(0o600).clone();
        let new = options.clone().create_new(true).open(&path).inspect(|new| give_to_owner_of(folder, new));
        let opened = match new {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => options.open(&path),
            new => new,
        };
        let mut file = opened.map_err(unusable)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(held(folder, &mut file)),
            Err(TryLockError::Error(error)) => return Err(unusable(error)),
        }
        file.set_len(0).and_then(|()| write!(file, "{}", std::process::id())).map_err(unusable)?;
        let opened = OpenedFile::of(&path, &file).map_err(unusable)?;
        Ok(Self { file, opened })
    }

    /// The lock file. If it is no longer in place, another process may take the folder.
    pub fn opened(&self) -> OpenedFile {
        self.opened.clone()
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        // Closing the file would not release it while a child process has the file, too: from its fork until its exec.
        let _ = self.file.unlock();
    }
}

/// Writes the URL of the server that holds the folder into the lock file, for commands that run beside it.
pub fn announce(folder: &Path, url: &str) -> io::Result<()> {
    std::fs::write(folder.join(LOCK), format!("{}\n{url}", std::process::id()))
}

/// Who holds a data folder.
pub enum Holder {
    /// The server with this URL.
    Server(String),
    /// A process that has announced no URL: a server that is starting, or a command such as `pes restore`.
    Unannounced,
    Nobody,
}

/// Who holds the folder. Fails if this user cannot know it.
pub fn holder(folder: &Path) -> io::Result<Holder> {
    let mut file = match File::open(folder.join(LOCK)) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Holder::Nobody),
        Err(error) => return Err(error),
    };
    // Shared, so that of two that ask at once neither takes the other for the holder. The holder's lock is exclusive.
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => {}
        Ok(()) => return Ok(Holder::Nobody),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(text.lines().nth(1).map_or(Holder::Unannounced, |url| Holder::Server(url.to_owned())))
}

/// The URL of the server that holds the folder, if there is one and this user can know it.
pub fn served(folder: &Path) -> Option<String> {
    match holder(folder) {
        Ok(Holder::Server(url)) => Some(url),
        Ok(Holder::Unannounced | Holder::Nobody) | Err(_) => None,
    }
}

fn unusable(lock: &Path, error: &io::Error) -> Error {
    let what_to_do = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "make room on its disk, then start again",
        _ => "make the folder writable for the user of the server, or name another with PES_DATA_DIR",
    };
    Error::Unusable(format!("The lock file {} cannot be used: {error}; {what_to_do}.", lock.display()))
}

fn held(folder: &Path, file: &mut File) -> Error {
    let mut text = String::new();
    let holder = match (file.read_to_string(&mut text), text.lines().next()) {
        (Ok(_), Some(pid)) => format!("process {pid}"),
        (Ok(_) | Err(_), _) => "another process".to_owned(),
    };
    Error::Unusable(format!(
        "The data folder {} is held by {holder}; stop that server, or give this one its own folder with PES_DATA_DIR.",
        folder.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_file_that_does_not_fit_on_the_disk_is_told_with_what_to_do() {
        let told = unusable(Path::new("data/pes.lock"), &io::Error::from_raw_os_error(28)).to_string();
        let full = "No space left on device (os error 28); make room on its disk, then start again.";
        assert_eq!(told, format!("The lock file data/pes.lock cannot be used: {full}"));
    }

    #[test]
    fn a_folder_is_free_once_its_lock_is_dropped_although_a_child_process_is_just_being_started() {
        let folder = tempfile::tempdir().unwrap();
        let held = FolderLock::take(folder.path()).unwrap();
        // What a child process has from its fork until its exec.
        let _inherited = held.file.try_clone().unwrap();
        drop(held);
        FolderLock::take(folder.path()).unwrap();
    }

    #[test]
    fn one_that_asks_who_holds_the_folder_is_not_the_holder_to_another() {
        let folder = tempfile::tempdir().unwrap();
        // The lock file keeps the URL of a server that ended.
        announce(folder.path(), "http://127.0.0.1:8080").unwrap();
        let asking = File::open(folder.path().join(LOCK)).unwrap();
        asking.try_lock_shared().unwrap();
        assert!(matches!(holder(folder.path()), Ok(Holder::Nobody)));
        drop(asking);
        let _held = FolderLock::take(folder.path()).unwrap();
        assert!(matches!(holder(folder.path()), Ok(Holder::Unannounced)));
    }
}
