//! One process per data folder.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::Path;

use crate::store::{Error, Result};

/// Held until it is dropped, or until the process ends in whatever way.
pub(super) struct FolderLock {
    _file: File,
}

impl FolderLock {
    pub fn take(folder: &Path) -> Result<Self> {
        let path = folder.join("pes.lock");
        let unusable = |error| Error::Unusable(format!("The lock file {} cannot be used: {error}.", path.display()));
        let options = OpenOptions::new().create(true).read(true).write(true).truncate(false).clone();
        let mut file = options.open(&path).map_err(unusable)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(held(folder, &mut file)),
            Err(TryLockError::Error(error)) => return Err(unusable(error)),
        }
        file.set_len(0).and_then(|()| write!(file, "{}", std::process::id())).map_err(unusable)?;
        Ok(Self { _file: file })
    }
}

fn held(folder: &Path, file: &mut File) -> Error {
    let mut pid = String::new();
    let holder = match file.read_to_string(&mut pid) {
        Ok(_) if !pid.is_empty() => format!("process {pid}"),
        Ok(_) | Err(_) => "another process".to_owned(),
    };
    Error::Unusable(format!(
        "The data folder {} is held by {holder}; stop that server, or give this one its own folder with PES_DATA_DIR.",
        folder.display()
    ))
}
