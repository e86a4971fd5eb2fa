//! Allocations of a run, a token and an open socket, counted because timings would be too noisy, with the layouts of a
//! debug build; the memory of sums over many rows; and the bytes that a run and a suspended thread store. Each count of memory
//! runs in its own process, where nothing else allocates.
//!
//! If a count exceeds its bound, find the cause; do not raise the bound.

mod runs;
mod sockets;
mod stored;
#[cfg(target_os = "linux")]
mod usage;

use std::alloc::System;
use std::process::Command;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Counts in this process if it runs only the test of this name, otherwise in a child process that does.
pub(crate) fn alone(test: &str, count: impl AsyncFnOnce()) {
    let only = ["--exact", test, "--nocapture"];
    if std::env::args().skip(1).eq(only) {
        return tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(count());
    }
    let said = Command::new(std::env::current_exe().unwrap()).args(only).output().unwrap();
    let told = String::from_utf8_lossy(&said.stdout);
    print!("{told}{}", String::from_utf8_lossy(&said.stderr));
    assert!(said.status.success(), "{test} fails alone");
    assert!(told.contains("1 passed"), "no test has the name {test}");
}

fn counted() -> Region<'static, System> {
    Region::new(ALLOCATOR)
}

/// Allocations during it, reallocations included.
fn allocations(region: &Region<'_, System>) -> usize {
    let change = region.change();
    change.allocations + change.reallocations
}

/// Bytes allocated during it and not freed.
fn held(region: &Region<'_, System>) -> usize {
    let change = region.change();
    change.bytes_allocated.saturating_sub(change.bytes_deallocated)
}

/// Between 70 % of the bound and the bound: a bound that is far off detects nothing.
fn assert_near(figure: usize, bound: usize, what: &str) {
    println!("{what}: {figure}, at most {bound}");
    assert!(figure <= bound, "{what}: {figure}, at most {bound}");
    assert!(figure * 10 >= bound * 7, "{what}: {figure}; lower the bound, which is {bound}");
}
