//! Whether the data folder takes what a server writes.

use std::io::{Error, ErrorKind};
use std::path::Path;

/// A start writes less than this before it is ready.
const START_BYTES: usize = 1 << 20;
/// Below this much free space the alert PesDiskFull wakes somebody, and below the other it can wait until the morning.
const LEAST_FREE: u64 = 100_000_000;
const USUAL_FREE: u64 = 1_000_000_000;

pub(super) fn folder(path: &Path) -> Result<String, String> {
    let shown = path.display();
    match std::fs::metadata(path) {
        Ok(found) if !found.is_dir() => Err(format!("{shown} is no folder; name another with PES_DATA_DIR")),
        Ok(_) => match try_writing(path) {
            Ok(()) => Ok(format!("{shown} can be written{}", room_in(path)?)),
            Err(error) => {
                Err(format!("{shown} cannot be written: {error}; {}", remedy(&error, "make it the server's own")))
            }
        },
        Err(error) if error.kind() == ErrorKind::NotFound => {
            // A path without a parent is relative to the working directory.
            let mut parents = path
                .ancestors()
                .skip(1)
                .map(|parent| if parent.as_os_str().is_empty() { Path::new(".") } else { parent });
            let Some(parent) = parents.find(|parent| parent.exists()) else {
                return Ok(format!("{shown} is not there yet; the first start makes it"));
            };
            match try_writing(parent) {
                Ok(()) => Ok(format!("{shown} is not there yet; the first start makes it{}", room_in(parent)?)),
                Err(error) => Err(format!(
                    "{shown} is not there, and {} cannot be written: {error}; {}",
                    parent.display(),
                    remedy(&error, "make it")
                )),
            }
        }
        Err(error) => Err(unseen(path, &error)),
    }
}

pub(super) fn unseen(folder: &Path, error: &Error) -> String {
    format!(
        "{} cannot be looked at: {error}; call this as the user of the server, or set PES_DATA_DIR",
        folder.display()
    )
}

fn remedy(error: &Error, otherwise: &str) -> String {
    let first = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free some space on its disk",
        ErrorKind::ReadOnlyFilesystem => "mount its disk so that it can be written",
        ErrorKind::FileTooLarge => "raise the limit on the size of files (`ulimit -f`)",
        _ => otherwise,
    };
    format!("{first}, or set PES_DATA_DIR")
}

/// Writes a file as large as what a start writes, and deletes it.
fn try_writing(folder: &Path) -> std::io::Result<()> {
    let path = folder.join(format!(".pes-doctor-{}", std::process::id()));
    let written = std::fs::write(&path, vec![1; START_BYTES]);
    if written.is_err() {
        // It may not be there.
        let _ = std::fs::remove_file(&path);
        return written;
    }
    std::fs::remove_file(&path)
}

/// How much space the disk of this folder has left, to follow a sentence.
fn room_in(folder: &Path) -> Result<String, String> {
    let Ok(disk) = rustix::fs::statvfs(folder) else { return Ok(String::new()) };
    room(disk.f_bavail * disk.f_frsize).map_err(|why| format!("{}: {why}", folder.display()))
}

fn room(free: u64) -> Result<String, String> {
    let megabytes = free / 1_000_000;
    match free {
        USUAL_FREE.. => Ok(format!("; {megabytes} MB are free")),
        LEAST_FREE.. => Ok(format!("; only {megabytes} MB are free: free some space soon")),
        _ => Err(format!("only {megabytes} MB are free; free some space on its disk, or set PES_DATA_DIR")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_do_about_a_folder_that_cannot_be_written_depends_on_why() {
        for (code, first) in [
            (rustix::io::Errno::ROFS, "mount its disk so that it can be written"),
            (rustix::io::Errno::DQUOT, "free some space on its disk"),
            (rustix::io::Errno::NOSPC, "free some space on its disk"),
            (rustix::io::Errno::ACCESS, "make it the server's own"),
        ] {
            let told = remedy(&Error::from(code), "make it the server's own");
            assert_eq!(told, format!("{first}, or set PES_DATA_DIR"), "{code:?}");
        }
    }

    #[test]
    fn a_disk_is_not_well_before_it_is_full() {
        assert_eq!(room(1_000_000_000), Ok("; 1000 MB are free".to_owned()));
        assert_eq!(room(999_999_999), Ok("; only 999 MB are free: free some space soon".to_owned()));
        let few = "only 99 MB are free; free some space on its disk, or set PES_DATA_DIR";
        assert_eq!(room(99_999_999), Err(few.to_owned()));
    }
}
