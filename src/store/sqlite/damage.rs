//! Detects damage that SQLite would not report: it takes an empty file for a new database, an unreadable log for an empty
//! one, and reads the missing end of a file as zeros. The check runs before the file is opened, and changes nothing.
//!
//! What a crash may leave is not damage: a log that ends in the middle of a frame, frames of an earlier round after it, and
//! a database whose last pages are only in its log. A log that was truncated cannot be distinguished from that.
//! Layout of the files: <https://sqlite.org/fileformat2.html>.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::open::unusable;
use crate::store::{Error, Result};

pub(super) const RESTORE: &str = "restore the data folder from a backup";

/// The file beside the database of this path: `wal` is its log, `journal` its journal.
pub(super) fn companion(path: &Path, which: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!("-{which}"));
    PathBuf::from(name)
}

/// Refuses a folder with a log or journal whose database is missing.
pub(super) fn check_absent(path: &Path) -> Result<()> {
    for log in ["wal", "journal"].map(|which| companion(path, which)) {
        if log.metadata().is_ok_and(|log| log.len() > 0) {
            let why = format!("it is gone, but {} is there; {RESTORE}, or move that file away", log.display());
            return Err(unusable(path, why));
        }
    }
    Ok(())
}

/// Refuses a folder in the place of the database file, and a file that may be reached over another path as well: the lock of
/// the folder would not keep another server from it, and its log may be beside the other path.
pub(super) fn check_links(path: &Path) -> Result<()> {
    match path.symlink_metadata() {
        Ok(found) if found.is_symlink() => Err(unusable(
            path,
            "it is a symbolic link; put the file and those beside it here, or name their folder with PES_DATA_DIR",
        )),
        Ok(found) if found.is_dir() => {
            Err(unusable(path, "it is a folder; move it away, or name another data folder with PES_DATA_DIR"))
        }
        Ok(found) if found.nlink() > 1 => Err(unusable(
            path,
            "it is a file with another name (a hard link), over which another server may write; remove that name, or copy \
             the file",
        )),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Refuses a database that has lost data. `is_synced`: every commit was on the disk before the next one began.
pub(super) fn check(path: &Path, is_synced: bool) -> Result<()> {
    let read = |error: io::Error| unusable(path, error);
    let length = path.metadata().map_err(read)?.len();
    if length == 0 {
        return Err(unusable(path, format!("it is empty; {RESTORE}, or move it away to begin anew")));
    }
    let mut head = Vec::new();
    File::open(path).and_then(|file| file.take(100).read_to_end(&mut head)).map_err(read)?;
    // A file that is no database at all is refused by SQLite itself.
    let Some(head) = DatabaseHeader::of(&head) else { return Ok(()) };
    // A hot journal is rolled back when the database is opened.
    if companion(path, "journal").metadata().is_ok_and(|journal| journal.len() > 0) {
        return Ok(());
    }
    let log = companion(path, "wal");
    let log = match WriteAheadLog::read(&log, length / head.page_size, is_synced) {
        Ok(log) => log,
        Err(LogError::Failed(error)) => return Err(unusable(&log, error)),
        Err(LogError::Damaged(why)) => return Err(lost_log(&log, why)),
    };
    let present = length / head.page_size;
    let (pages, logged) = log.map_or((head.pages, HashSet::new()), |log| (log.pages, log.beyond));
    match (present + 1..=pages).find(|page| !logged.contains(page)) {
        Some(page) => Err(unusable(path, format!("it is cut off: page {page} of {pages} is missing; {RESTORE}"))),
        None => Ok(()),
    }
}

fn lost_log(log: &Path, why: &str) -> Error {
    unusable(
        log,
        format!(
            "{why}, and with it what was acknowledged last is lost; {RESTORE}, or move this file away to go on without it"
        ),
    )
}

/// The header in the first page of the file.
struct DatabaseHeader {
    page_size: u64,
    /// 0: unknown.
    pages: u64,
}

impl DatabaseHeader {
    fn of(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < 100 || !bytes.starts_with(b"SQLite format 3\0") {
            return None;
        }
        let page_size = match u64::from(u16::from_be_bytes([bytes[16], bytes[17]])) {
            1 => 65_536,
            size => size,
        };
        let is_valid = bytes[24..28] == bytes[92..96];
        let pages = if is_valid { u64::from(word(bytes, 28)) } else { 0 };
        (page_size >= 512).then_some(Self { page_size, pages })
    }
}

/// The committed part of a write-ahead log.
struct WriteAheadLog {
    /// How many pages the database has after it.
    pages: u64,
    /// Pages in the log that lie beyond the end of the file.
    beyond: HashSet<u64>,
}

enum LogError {
    Failed(io::Error),
    Damaged(&'static str),
}

impl From<io::Error> for LogError {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

impl WriteAheadLog {
    /// `None`: there is none, or nothing was committed to it. `present`: how many pages the file has.
    fn read(path: &Path, present: u64, is_synced: bool) -> std::result::Result<Option<Self>, LogError> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let mut file = BufReader::with_capacity(1 << 20, file);
        let mut head = [0; 32];
        if !fill(&mut file, &mut head)? || head.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let Some(mut sum) = LogChecksum::of(&head) else {
            return Err(LogError::Damaged("it is not the log of a database"));
        };
        let mut frame = vec![0; 24 + word(&head, 8) as usize];
        let (mut log, mut pages, mut broken_commits) = (None::<Self>, Vec::new(), None);
        while fill(&mut file, &mut frame)? {
            let (page, commit) = (u64::from(word(&frame, 0)), u64::from(word(&frame, 4)));
            // The following frames are of an earlier round.
            if frame[8..16] != head[16..24] {
                break;
            }
            if broken_commits.is_none() && sum.add_frame(&frame) {
                pages.push(page);
                if commit > 0 {
                    let log = log.get_or_insert_with(|| Self { pages: 0, beyond: HashSet::new() });
                    log.pages = commit;
                    log.beyond.extend(pages.drain(..).filter(|page| *page > present));
                }
            } else {
                *broken_commits.get_or_insert(0) += u32::from(commit > 0);
            }
        }
        // The last commit may be incomplete. If another was begun after it, it was complete.
        match broken_commits {
            Some(2..) if is_synced => Err(LogError::Damaged("it is broken in the middle")),
            Some(_) | None => Ok(log),
        }
    }
}

/// The running checksum of a log.
struct LogChecksum {
    is_big_endian: bool,
    sums: (u32, u32),
}

impl LogChecksum {
    /// Begins the checksum. `None`: this is not the header of a log.
    fn of(head: &[u8; 32]) -> Option<Self> {
        const MAGIC: u32 = 0x377f_0682;
        let is_known = word(head, 0) & !1 == MAGIC && (512..=65_536).contains(&word(head, 8));
        let mut sum = Self { is_big_endian: word(head, 0) & 1 == 1, sums: (0, 0) };
        sum.add(&head[..24]);
        (is_known && sum.sums == (word(head, 24), word(head, 28))).then_some(sum)
    }

    /// Adds a frame, and returns whether it is complete and follows the previous one.
    fn add_frame(&mut self, frame: &[u8]) -> bool {
        self.add(&frame[..8]);
        self.add(&frame[24..]);
        self.sums == (word(frame, 16), word(frame, 20))
    }

    fn add(&mut self, bytes: &[u8]) {
        let read = if self.is_big_endian { u32::from_be_bytes } else { u32::from_le_bytes };
        let (pairs, _) = bytes.as_chunks::<8>();
        for [a, b, c, d, e, f, g, h] in pairs {
            self.sums.0 = self.sums.0.wrapping_add(read([*a, *b, *c, *d])).wrapping_add(self.sums.1);
            self.sums.1 = self.sums.1.wrapping_add(read([*e, *f, *g, *h])).wrapping_add(self.sums.0);
        }
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Fills the buffer. `false`: the file ended before.
fn fill(file: &mut impl Read, bytes: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}
