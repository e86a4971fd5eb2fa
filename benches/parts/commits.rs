//! The nine commits: the same numbers of rows and bytes as in a run of W1, on a thread of their own.

use pes::domain::facts::IntentBody;
use pes::domain::ids::{TenantPk, ThreadPk};
use pes::domain::observation::Record;
use pes::domain::thread::{ThreadProfile, ThreadStatus};
use pes::engine::step::RowKind::{self, CallerStatus, Item, Message, Progress, Run, Turn, Usage};
use pes::engine::step::{Keep, Row};
use pes::store::{Commit, Committed, Fence, NewThread, Store};

/// The size of one commit.
struct Size {
    head: usize,
    /// Kind, index of the row within its kind, bytes.
    rows: &'static [(RowKind, i64, usize)],
    /// Number of observations, and their total bytes.
    records: (usize, usize),
}

const FIRST: Size =
    Size { head: 447, rows: &[(Message, 0, 273), (Run, 0, 882), (CallerStatus, 0, 9)], records: (2, 1_255) };
const PLANNED: Size = Size {
    head: 402,
    rows: &[
        (Usage, 0, 161),
        (Item, 0, 177),
        (Item, 1, 177),
        (Item, 2, 177),
        (Progress, 0, 298),
        (Progress, 1, 105),
        (Progress, 2, 105),
    ],
    records: (8, 4_061),
};
/// Rows after an item's first reply, which calls the tool, and the tool's answer.
const fn called(nth: i64) -> [(RowKind, i64, usize); 4] {
    [(Usage, 2 * nth + 1, 175), (Turn, nth, 92), (Progress, nth, 316), (RowKind::Call, nth, 593)]
}
/// Rows after its second reply, which ends the item; the next item begins.
const fn ended(nth: i64) -> [(RowKind, i64, usize); 3] {
    [(Usage, 2 * nth + 2, 175), (Progress, nth, 152), (Progress, nth + 1, 298)]
}
const LAST: Size = Size {
    head: 138,
    rows: &[(Usage, 7, 161), (Message, 1, 185), (Run, 0, 1_004), (CallerStatus, 0, 11)],
    records: (5, 1_469),
};
const SIZES: [Size; 9] = [
    FIRST,
    PLANNED,
    Size { head: 404, rows: &called(0), records: (5, 1_710) },
    Size { head: 404, rows: &ended(0), records: (5, 2_643) },
    Size { head: 404, rows: &called(1), records: (5, 1_710) },
    Size { head: 404, rows: &ended(1), records: (5, 2_643) },
    Size { head: 404, rows: &called(2), records: (5, 1_710) },
    Size { head: 550, rows: &[(Usage, 6, 175), (Progress, 2, 152)], records: (5, 2_386) },
    LAST,
];
/// The size of an observation without its text.
const FRAME: usize = 150;

/// Makes the commits in order; `nth` numbers the threads.
pub async fn make(store: &dyn Store, tenant: TenantPk, nth: i64) {
    let mut last_seq = 0;
    for (version, size) in (0..).zip(&SIZES) {
        let commit = size.commit(tenant, nth, version, last_seq);
        last_seq += commit.records.len() as i64;
        assert_eq!(store.commit(commit).await.expect("the store answers"), Committed::Done);
    }
}

impl Size {
    fn commit(&self, tenant: TenantPk, nth: i64, version: i64, last_seq: i64) -> Commit {
        let id = |kind: &str| format!("{kind}_019a0000-0000-7000-8000-{nth:012}");
        let row = |(kind, ord, bytes): &(RowKind, i64, usize)| {
            let (kind, ord) = (*kind, *ord);
            let is_open = version + 1 < SIZES.len() as i64;
            let keep = if is_open && matches!(kind, Run | Item | Progress) { Keep::Always } else { Keep::UntilFloor };
            let id = match kind {
                Run | CallerStatus => id("run"),
                other => id(&format!("{other:?}{ord}")),
            };
            Row { kind, id, ord, keep, body: text(*bytes) }
        };
        let (count, bytes) = self.records;
        let record = |at: usize| Record {
            id: format!("obs_019a0000-0000-7000-{at:04}-{nth:012}").into(),
            run_id: id("run").into(),
            parent_id: Some(id("item").into()),
            trace_id: "0123456789abcdef0123456789abcdef".into(),
            timestamp: nth,
            title: String::new(),
            fact: IntentBody { intent: text((bytes / count).saturating_sub(FRAME)) }.into(),
            metadata: None,
        };
        let (thread_id, core) = (id("thr").into(), "pes".into());
        let new = NewThread { tenant, thread_id, core, created_at: nth, created_by: "bed".into() };
        let creating = Commit::creating(ThreadPk(nth), new, ThreadProfile::default(), None);
        let commit = Commit {
            fence: Fence { version, ..Fence::NEW },
            head: Some(text(self.head)),
            status: if version + 1 < SIZES.len() as i64 { ThreadStatus::Running } else { ThreadStatus::Idle },
            rows: self.rows.iter().map(row).collect(),
            last_seq,
            records: (0..count).map(record).collect(),
            ..creating
        };
        if version == 0 { commit } else { Commit { create: None, profile: None, ..commit } }
    }
}

/// JSON of about that length.
fn text(bytes: usize) -> String {
    const WORDS: &str = "the plan has three steps and each of them waits for what the one before it found out about ";
    let text: String = WORDS.chars().cycle().take(bytes.saturating_sub(2)).collect();
    format!("\"{text}\"")
}
