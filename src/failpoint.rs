//! Named places where a test can hold the process and kill it. Without the feature `failpoints` this is nothing.
//!
//! `PES_FAILPOINT=name[@n]` chooses the n-th passage (from 1) of one place; there the process writes the name to the
//! fifo `PES_FAILPOINT_PIPE`, and whoever reached the place stands still for ever.

/// A place between two things that must hold on their own. Returns at once unless a test holds the process here.
#[inline]
pub fn reached(name: &'static str) {
    #[cfg(feature = "failpoints")]
    armed::reached(name);
    #[cfg(not(feature = "failpoints"))]
    let _ = name;
}

#[cfg(feature = "failpoints")]
mod armed {
    use std::io::Write;
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    struct Armed {
        name: String,
        passage: u64,
        pipe: String,
        seen: AtomicU64,
    }

    static ARMED: LazyLock<Option<Armed>> = LazyLock::new(|| {
        let variables = crate::config::env::Variables::of_process();
        let (chosen, pipe) = (variables.get("PES_FAILPOINT")?, variables.get("PES_FAILPOINT_PIPE")?);
        let (name, passage) = match chosen.split_once('@') {
            Some((name, n)) => (name, n.parse().expect("PES_FAILPOINT is name[@n]")),
            None => (chosen, 1),
        };
        Some(Armed { name: name.to_owned(), passage, pipe: pipe.to_owned(), seen: AtomicU64::new(0) })
    });

    pub(super) fn reached(name: &'static str) {
        let Some(armed) = ARMED.as_ref() else { return };
        if armed.name != name || armed.seen.fetch_add(1, Ordering::SeqCst) + 1 != armed.passage {
            return;
        }
        let mut pipe = std::fs::OpenOptions::new().write(true).open(&armed.pipe).expect("the test holds the other end");
        writeln!(pipe, "{name}").expect("the test reads");
        drop(pipe);
        loop {
            std::thread::park();
        }
    }
}
