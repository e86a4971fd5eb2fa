//! How many files and sockets this process may open, and how many connections that leaves room for.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::Limits;

/// Connections take at most three of four open files. The rest is for the database, for calls to others, and for the health
/// checks of a server whose connections are all used.
const PART: u64 = 4;

/// Raises the limit of open files, as far as the system permits, to what `limits.connections` needs, and lowers
/// `limits.connections` to what has room.
pub(super) fn fit(limits: &mut Limits) {
    let found = getrlimit(Resource::Nofile);
    let needed = (limits.connections as u64).div_ceil(PART - 1) * PART;
    if let Some(raised) = raised(&found, needed)
        && let Err(error) = setrlimit(Resource::Nofile, raised)
    {
        tracing::warn!(%error, "the limit of open files cannot be raised");
    }
    let files = getrlimit(Resource::Nofile).current;
    let connections = room(files, limits.connections);
    if let Some(files) = files
        && connections < limits.connections
    {
        let configured = limits.connections;
        tracing::warn!(
            files,
            connections,
            configured,
            "fewer connections than limits.connections are accepted: this process may open too few files; raise its hard limit \
             (`ulimit -n`, LimitNOFILE) to {needed}, or lower limits.connections"
        );
    }
    limits.connections = connections;
}

/// The limit with which this many files may be open, or as many as the system permits. `None`: there is no more.
fn raised(found: &Rlimit, needed: u64) -> Option<Rlimit> {
    let most = found.maximum.map_or(needed, |hard| hard.min(needed));
    let is_more = found.current.is_some_and(|soft| soft < most);
    is_more.then_some(Rlimit { current: Some(most), maximum: found.maximum })
}

/// How many of these connections fit into so many open files. `None`: there is no limit.
fn room(files: Option<u64>, connections: usize) -> usize {
    let most = files.map_or(u64::MAX, |files| files / PART * (PART - 1));
    connections.min(usize::try_from(most).unwrap_or(usize::MAX)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_to_what_is_needed_and_permitted() {
        let of = |current, maximum| raised(&Rlimit { current, maximum }, 13_336).map(|limit| limit.current);
        assert_eq!(of(Some(1_024), Some(524_288)), Some(Some(13_336)));
        assert_eq!(of(Some(1_024), Some(4_096)), Some(Some(4_096)));
        assert_eq!(of(Some(1_024), None), Some(Some(13_336)));
        assert_eq!([of(Some(4_096), Some(4_096)), of(Some(65_536), Some(524_288)), of(None, None)], [None; 3]);
    }

    #[test]
    fn a_quarter_of_the_open_files_is_not_for_connections() {
        let rooms = [Some(1_024), Some(13_336), Some(2), None].map(|files| room(files, 10_000));
        assert_eq!(rooms, [768, 10_000, 1, 10_000]);
    }
}
