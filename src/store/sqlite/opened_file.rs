//! Whether the path of an open file still leads to it. What is written to a file that was removed or replaced is lost when
//! the process ends, although every write succeeds.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
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

    /// The file of this path, which SQLite has just opened.
    pub fn at(path: PathBuf) -> io::Result<Self> {
        Ok(Self { id: id(&path.metadata()?), path })
    }

    /// Why the path is not known to lead to the file; `None`: it does. Names the file without its folder, because everybody
    /// may read it.
    pub fn why_not_in_place(&self) -> Option<String> {
        let name = self.path.file_name().map(|name| name.display().to_string()).unwrap_or_default();
        match self.path.metadata() {
            Ok(found) if id(&found) == self.id => None,
            Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                Some(format!("whether {name} is where it was opened cannot be looked at: {error}"))
            }
            Ok(_) | Err(_) => Some(format!(
                "{name} is no longer where it was opened: it or its folder was removed, moved or replaced; put back what \
                 was there, or stop this server"
            )),
        }
    }
}

fn id(metadata: &Metadata) -> FileId {
    (metadata.dev(), metadata.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nobody moved a file that cannot be looked at; `ELOOP` stands for `EACCES` and `EIO`, which a test cannot cause as root.
    #[test]
    fn a_file_that_cannot_be_looked_at_is_not_called_moved() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pes.db");
        std::fs::write(&path, "").unwrap();
        let opened = OpenedFile::at(path.clone()).unwrap();
        assert_eq!(opened.why_not_in_place(), None);
        std::fs::remove_file(&path).unwrap();
        let why = opened.why_not_in_place().unwrap();
        assert!(why.starts_with("pes.db is no longer where it was opened: it or its folder was removed"), "{why}");
        std::os::unix::fs::symlink(&path, &path).unwrap();
        let error = path.metadata().unwrap_err();
        let told = format!("whether pes.db is where it was opened cannot be looked at: {error}");
        assert_eq!(opened.why_not_in_place(), Some(told));
    }
}
