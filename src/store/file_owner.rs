//! The owner of new files in the data folder.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt as _, fchown};
use std::path::Path;

/// Gives a file that root has just created to the owner of its folder: the server may run as that user, and only the owner
/// can open the file. SQLite does the same with the files beside a database. Where that is not possible the file stays
/// root's, and the log says so.
pub(super) fn give_to_owner_of(folder: &Path, file: &File) {
    if rustix::process::geteuid().is_root()
        && let Err(error) = give(folder, file)
    {
        let folder = folder.display();
        tracing::warn!(%folder, %error, "a new file cannot be given to the owner of its folder; it belongs to root");
    }
}

fn give(folder: &Path, file: &File) -> io::Result<()> {
    let owner = fs::metadata(folder)?;
    let current = file.metadata()?;
    if (current.uid(), current.gid()) == (owner.uid(), owner.gid()) {
        return Ok(());
    }
    fchown(file, Some(owner.uid()), Some(owner.gid()))
}
