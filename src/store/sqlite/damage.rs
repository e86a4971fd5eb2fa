//! Damage that SQLite would not tell of: it takes an empty file for a new database, a log that it cannot read for an empty
//! one, and reads the missing end of a file as zeros. Looked for before the file is opened; nothing is changed.
//!
//! What a crash may leave is no damage: a log that ends in the middle of a frame, frames of an earlier round behind it,
//! and a database whose last pages are still in its log only. A log that was cut off at its end cannot be told from that.
//! Layout of the files: <https://sqlite.org/fileformat2.html>.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use super::open::unusable;
use crate::store::{Error, Result};

pub(super) const RESTORE: &str = "restore the data folder from a backup";

/// Beside the database of this path: its log is `wal`, its journal `journal`.
pub(super) fn beside(path: &Path, which: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!("-{which}"));
    PathBuf::from(name)
}

/// Refuses a folder whose database is gone while what was to be written into it is there.
pub(super) fn check_absent(path: &Path) -> Result<()> {
    for log in ["wal", "journal"].map(|which| beside(path, which)) {
        if log.metadata().is_ok_and(|log| log.len() > 0) {
            let why = format!("it is gone, but {} is there; {RESTORE}, or move that file away", log.display());
            return Err(unusable(path, why));
        }
    }
    Ok(())
}

/// Refuses a database that lost what it held. `is_synced`: every commit was on the disk before the next one began.
pub(super) fn check(path: &Path, is_synced: bool) -> Result<()> {
    let read = |error: io::Error| unusable(path, error);
    let length = path.metadata().map_err(read)?.len();
    if length == 0 {
        return Err(unusable(path, format!("it is empty; {RESTORE}, or move it away to begin anew")));
    }
    let mut head = Vec::new();
    File::open(path).and_then(|file| file.take(100).read_to_end(&mut head)).map_err(read)?;
    // Whatever is no database at all is refused by SQLite itself.
    let Some(head) = Head::of(&head) else { return Ok(()) };
    // What is half written is taken back when it is opened.
    if beside(path, "journal").metadata().is_ok_and(|journal| journal.len() > 0) {
        return Ok(());
    }
    let log = beside(path, "wal");
    let log = match Log::read(&log, length / head.page_size, is_synced) {
        Ok(log) => log,
        Err(Unread::Failed(error)) => return Err(unusable(&log, error)),
        Err(Unread::Damaged(why)) => return Err(lost_log(&log, why)),
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

/// What the first page says of the whole file.
struct Head {
    page_size: u64,
    /// 0: it does not know.
    pages: u64,
}

impl Head {
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

/// The part of a write-ahead log that counts.
struct Log {
    /// How many pages the database has with it.
    pages: u64,
    /// Those of its pages that the file may not have.
    beyond: HashSet<u64>,
}

enum Unread {
    Failed(io::Error),
    Damaged(&'static str),
}

impl From<io::Error> for Unread {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

impl Log {
    /// `None`: there is none, or nothing was committed to it. `present`: how many pages the file has.
    fn read(path: &Path, present: u64, is_synced: bool) -> std::result::Result<Option<Self>, Unread> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let mut file = BufReader::with_capacity(1 << 20, file);
        let mut head = [0; 32];
        if !filled(&mut file, &mut head)? || head.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let Some(mut sum) = Sum::of(&head) else {
            return Err(Unread::Damaged("it is not the log of a database"));
        };
        let mut frame = vec![0; 24 + word(&head, 8) as usize];
        let (mut log, mut pages, mut broken_commits) = (None::<Self>, Vec::new(), None);
        while filled(&mut file, &mut frame)? {
            let (page, commit) = (u64::from(word(&frame, 0)), u64::from(word(&frame, 4)));
            // Those behind are of an earlier round.
            if frame[8..16] != head[16..24] {
                break;
            }
            if broken_commits.is_none() && sum.takes(&frame) {
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
        // The last commit may be half written. One that was begun after it proves that it was whole.
        match broken_commits {
            Some(2..) if is_synced => Err(Unread::Damaged("it is broken in the middle")),
            Some(_) | None => Ok(log),
        }
    }
}

/// The running checksum of a log.
struct Sum {
    is_big_endian: bool,
    sums: (u32, u32),
}

impl Sum {
    /// `None`: this is not the head of a log.
    fn of(head: &[u8; 32]) -> Option<Self> {
        const MAGIC: u32 = 0x377f_0682;
        let is_known = word(head, 0) & !1 == MAGIC && (512..=65_536).contains(&word(head, 8));
        let mut sum = Self { is_big_endian: word(head, 0) & 1 == 1, sums: (0, 0) };
        sum.add(&head[..24]);
        (is_known && sum.sums == (word(head, 24), word(head, 28))).then_some(sum)
    }

    /// Whether the frame is whole and follows what was taken before.
    fn takes(&mut self, frame: &[u8]) -> bool {
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

/// `false`: the file ended before.
fn filled(file: &mut impl Read, bytes: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}
