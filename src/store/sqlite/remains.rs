//! Finds and overwrites what SQLite leaves of deleted rows in the pages of its file.
//!
//! With `secure_delete` freed pages and freed rows are zeroed. What remains is in the gap between the pointers and the rows
//! of a page: after a page was defragmented, it still has the bytes of rows that were moved. SQLite reads nothing there, so
//! the gap can be overwritten in the file while no other copy of the page exists that would be written back: the write-ahead
//! log is empty, and the writing connection is closed. Layout of the file:
//! <https://sqlite.org/fileformat2.html>.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Pages that are read at once.
const READ_AT_ONCE: u32 = 256;
/// With more pages, the first byte of a page does not identify its type: it may be that of a page number. 128 GiB with the
/// usual page size.
const MAX_PAGES: u64 = 1 << 25;

/// The layout of the file, from its first page.
pub(super) struct Layout {
    page_size: usize,
    /// The page size without the reserved bytes at the end of each page.
    usable: usize,
    pages: u32,
    /// Whether the file has pointer-map pages.
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
        if pages >= MAX_PAGES {
            return Err(io::Error::other(
                "the file is too large for its free room to be overwritten; VACUUM does that",
            ));
        }
        let pages = u32::try_from(pages).expect("there are fewer than 2^25");
        Ok(Self { page_size, usable, pages, has_pointer_maps: head[52..56] != [0; 4] })
    }

    /// The pages with remains in their gap.
    pub fn pages_with_remains(&self, file: &File) -> io::Result<Vec<u32>> {
        let mut found = Vec::new();
        let mut bytes = vec![0; self.page_size * READ_AT_ONCE as usize];
        for first in (1..=self.pages).step_by(READ_AT_ONCE as usize) {
            let count = READ_AT_ONCE.min(self.pages - first + 1);
            let bytes = &mut bytes[..self.page_size * count as usize];
            file.read_exact_at(bytes, self.offset(first))?;
            let pages = (first..).zip(bytes.chunks_exact(self.page_size));
            found
                .extend(pages.filter(|(number, page)| self.remains(*number, page).is_some()).map(|(number, _)| number));
        }
        Ok(found)
    }

    /// Overwrites the gap in the current contents of these pages, and syncs.
    pub fn clear(&self, file: &File, pages: &[u32]) -> io::Result<()> {
        let (mut page, zeros) = (vec![0; self.page_size], vec![0; self.page_size]);
        for &number in pages.iter().filter(|number| **number <= self.pages) {
            file.read_exact_at(&mut page, self.offset(number))?;
            if let Some(remains) = self.remains(number, &page) {
                file.write_all_at(&zeros[..remains.len()], self.offset(number) + remains.start as u64)?;
            }
        }
        file.sync_data()
    }

    fn offset(&self, number: u32) -> u64 {
        u64::from(number - 1) * self.page_size as u64
    }

    /// The range of the gap in a page, if it has remains. `None`: it has none, or it is not a b-tree page.
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
        let gap = pointers + 2 * rows..first_row;
        let is_whole = gap.start <= gap.end
            && first_row <= self.usable
            && page[pointers..gap.start].as_chunks().0.iter().all(|place| {
                let place = usize::from(u16::from_be_bytes(*place));
                (first_row..self.usable).contains(&place)
            });
        let is_tree = is_whole && !self.is_pointer_map(number);
        (is_tree && page[gap.clone()].iter().any(|byte| *byte != 0)).then_some(gap)
    }

    fn is_pointer_map(&self, number: u32) -> bool {
        let each = self.usable / 5 + 1;
        self.has_pointer_maps && number >= 2 && (number as usize - 2).is_multiple_of(each)
    }
}

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}
