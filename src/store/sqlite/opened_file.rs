//! Whether the path of an open file still leads to it. What is written to a file that was removed or replaced is lost when
//! the process ends, although every write succeeds.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The path over which a file was opened, and which file it was.
#[derive(Clone)]
pub(super) struct OpenedFile {
    path: PathBuf,
    id: FileId,
}

/// The device and the inode of a file.
type FileId = (u64, u64);

impl OpenedFile {
    pub fn of(path: &Path, file: &File) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), id: id(&file.metadata()?) })
    }

    pub fn is_in_place(&self) -> bool {
        self.path.metadata().is_ok_and(|found| id(&found) == self.id)
    }

    /// Its name without the folder, for a text that everybody may read.
    pub fn name(&self) -> String {
        self.path.file_name().map(|name| name.display().to_string()).unwrap_or_default()
    }
}

fn id(metadata: &Metadata) -> FileId {
    (metadata.dev(), metadata.ino())
}
