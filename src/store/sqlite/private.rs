//! File permissions: what is stored can be read by the user who runs the server, and by no other user of the machine.

use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Makes the folder. One that is there is the operator's, who may share it.
pub(super) fn folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Makes the file, empty, or takes it from everybody else. SQLite gives the files beside it the same rights.
pub(super) fn file(path: &Path) -> io::Result<()> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)?.set_permissions(Permissions::from_mode(0o600))
}
