//! File permissions: only the user who runs the server can read the stored files.

use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use crate::store::file_owner::give_to_owner_of;

/// Creates the folder. The permissions of an existing one are left as the operator set them.
pub(super) fn folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Creates an empty file, or makes an existing one private. SQLite gives the files beside it the same permissions.
pub(super) fn file(path: &Path) -> io::Result<()> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)?.set_permissions(Permissions::from_mode(0o600))
}

/// Creates an empty file of the data folder. `AlreadyExists` if it is there.
pub(super) fn new_file(path: &Path) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    give_to_owner_of(path.parent().unwrap_or(Path::new(".")), &file);
    Ok(())
}
