//! Memory of the sums of many model calls.

use pes::config::Synchronous;
use pes::domain::model::Usage;
use pes::domain::usage::{ModelUse, UsageGroup};
use pes::store::sqlite::Sqlite;
use pes::store::{KeyStore as _, PageAsk, UsageAsk, UsageReads as _, UsageStore as _};

use super::alone;

/// The largest resident memory that this process ever had, in KiB. SQLite allocates from the system, and not from the
/// allocator that counts.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse().unwrap()
}

fn call(nth: usize) -> ModelUse {
    ModelUse {
        run: format!("run_{nth:08}").as_str().into(),
        item: None,
        provider: "provider".into(),
        model: "model".into(),
        usage: Usage { input_tokens: 10, ..Usage::default() },
        cost_nanos: Some(1),
    }
}

/// Each call is a group of its own, or all of them are one: neither the calls nor the groups are kept. Kept calls take more than
/// 27 MiB.
#[test]
fn memory_of_the_sums_of_many_calls() {
    alone("counts::usage::memory_of_the_sums_of_many_calls", async || {
        const CALLS: usize = 100_000;
        const AT_ONCE: usize = 500;
        let folder = tempfile::tempdir().unwrap();
        let store = Sqlite::open(folder.path(), Synchronous::Normal).await.unwrap();
        let tenant = store.tenant("default", 1).await.unwrap();
        for first in (0..CALLS).step_by(AT_ONCE) {
            let calls = (first..first + AT_ONCE).map(call).collect();
            store.add_usage(tenant, 1, calls, Vec::new()).await.unwrap();
        }
        let before = peak_memory();
        let (from, to, page) = (i64::MIN, i64::MAX, PageAsk { limit: 100, ..PageAsk::default() });
        for (group, groups, calls) in [(UsageGroup::Run, 100, 1), (UsageGroup::Day, 1, CALLS as u64)] {
            let ask = UsageAsk { tenant, group, thread: None, from, to, page: page.clone() };
            let found = store.usage(&ask).await.unwrap();
            assert_eq!((found.items.len(), found.items[0].calls), (groups, calls));
        }
        let grown = peak_memory() - before;
        println!("memory of the sums: {grown} KiB");
        assert!(grown <= 16 << 10, "{grown} KiB");
    });
}
