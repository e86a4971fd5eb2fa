//! What SQLite leaves of deleted rows in the pages of its file, and how it is overwritten.
//!
//! With `secure_delete` freed pages and freed rows are zeros. What stays is in the room between the pointers and the rows
//! of a page: where the page was put together anew, the bytes of rows that were moved away are still there. SQLite reads
//! nothing there, so it can be overwritten in the file while nobody has another copy of the page that would be written
//! back: the write-ahead log is empty, and the connection that writes is closed. Layout of the file:
//! <https://sqlite.org/fileformat2.html>.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Pages that are read at once.
const READ_AT_ONCE: u32 = 256;
/// From this many pages on, the first byte of a page does not tell what it is: it may be that of a page number. 128 GiB,
/// with the usual pages.
const MOST_PAGES: u64 = 1 << 25;

/// How the file is divided, as its first page says.
pub(super) struct Layout {
    page_size: usize,
    /// Without what is reserved at the end of each page.
    usable: usize,
    pages: u32,
    /// Whether there are pages that say who points where.
    has_pointer_maps: bool,
}

impl Layout {
    pub fn read(file: &File) -> io::Result<Self> {
        let mut head = [0; 100];
        file.read_exact_at(&mut head, 0)?;
        let page_size = match usize::from(word(&head, 16)) {
            1 => 65_536,
            size => size,
        };
        let usable = page_size.saturating_sub(usize::from(head[20]));
        if !head.starts_with(b"SQLite format 3\0") || page_size < 512 || usable < 480 {
            return Err(io::Error::new(ErrorKind::InvalidData, "the file is no database"));
        }
        let pages = file.metadata()?.len() / page_size as u64;
        if pages >= MOST_PAGES {
            return Err(io::Error::other(
                "the file is too large for its free room to be overwritten; VACUUM does that",
            ));
        }
        let pages = u32::try_from(pages).expect("there are fewer than 2^25");
        Ok(Self { page_size, usable, pages, has_pointer_maps: head[52..56] != [0; 4] })
    }

    /// Pages with something in the room that nobody reads.
    pub fn pages_with_remains(&self, file: &File) -> io::Result<Vec<u32>> {
        let mut found = Vec::new();
        let mut bytes = vec![0; self.page_size * READ_AT_ONCE as usize];
        for first in (1..=self.pages).step_by(READ_AT_ONCE as usize) {
            let count = READ_AT_ONCE.min(self.pages - first + 1);
            let bytes = &mut bytes[..self.page_size * count as usize];
            file.read_exact_at(bytes, self.place(first))?;
            let pages = (first..).zip(bytes.chunks_exact(self.page_size));
            found
                .extend(pages.filter(|(number, page)| self.remains(*number, page).is_some()).map(|(number, _)| number));
        }
        Ok(found)
    }

    /// Overwrites that room in these pages, as they are now, and waits for the disk.
    pub fn clear(&self, file: &File, pages: &[u32]) -> io::Result<()> {
        let (mut page, zeros) = (vec![0; self.page_size], vec![0; self.page_size]);
        for &number in pages.iter().filter(|number| **number <= self.pages) {
            file.read_exact_at(&mut page, self.place(number))?;
            if let Some(remains) = self.remains(number, &page) {
                file.write_all_at(&zeros[..remains.len()], self.place(number) + remains.start as u64)?;
            }
        }
        file.sync_data()
    }

    fn place(&self, number: u32) -> u64 {
        u64::from(number - 1) * self.page_size as u64
    }

    /// Where in a page something stands that nobody reads; `None`: nowhere, or it is no page of a tree.
    fn remains(&self, number: u32, page: &[u8]) -> Option<Range<usize>> {
        let head = if number == 1 { 100 } else { 0 };
        let pointers = match page[head] {
            2 | 5 => head + 12,
            10 | 13 => head + 8,
            _ => return None,
        };
        let rows = usize::from(word(page, head + 3));
        let first_row = match usize::from(word(page, head + 5)) {
            0 => 65_536,
            place => place,
        };
        let room = pointers + 2 * rows..first_row;
        let is_whole = room.start <= room.end
            && first_row <= self.usable
            && page[pointers..room.start].as_chunks().0.iter().all(|place| {
                let place = usize::from(u16::from_be_bytes(*place));
                (first_row..self.usable).contains(&place)
            });
        let is_tree = is_whole && !self.is_pointer_map(number);
        (is_tree && page[room.clone()].iter().any(|byte| *byte != 0)).then_some(room)
    }

    fn is_pointer_map(&self, number: u32) -> bool {
        let each = self.usable / 5 + 1;
        self.has_pointer_maps && number >= 2 && (number as usize - 2).is_multiple_of(each)
    }
}

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}
