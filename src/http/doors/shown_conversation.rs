//! A conversation as a whole, for a client that has nothing of it: its messages, and what each of its runs did. Of a large one
//! the newest part is read, so what one request takes does not grow with the thread.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};

use super::conversation::{LogPages, or_empty};
use super::frames::DecodedObservation;
use crate::domain::caller::Caller;
use crate::domain::fault::Fault;
use crate::domain::ids::{RunId, ThreadId};
use crate::domain::message::ConversationMessage;
use crate::domain::observation::ObservationType;
use crate::domain::payload::approximate_bytes;
use crate::http::app_state::AppState;
use crate::service::feed::FeedAsk;
use crate::service::threads;

/// How many messages are read at once.
const PAGE_SIZE: u32 = 200;

/// The messages that are shown have about as many bytes together, and so have the observations of their runs.
const SHOWN_BYTES: usize = 16 << 20;

/// The newest messages of the thread, oldest first: all of them, unless they are too large together. Empty if the thread does
/// not exist yet.
pub(super) async fn messages(
    app: &AppState,
    caller: &Caller,
    thread: &ThreadId,
) -> Result<Vec<ConversationMessage>, Fault> {
    let (mut newest, mut bytes) = (Vec::<ConversationMessage>::new(), 0);
    while bytes <= SHOWN_BYTES {
        let before = newest.last().map(|oldest| &oldest.message_id);
        let page = or_empty(threads::newest_messages(&app.service, caller, thread, before, PAGE_SIZE).await)?;
        if page.is_empty() {
            break;
        }
        bytes += page.iter().map(ConversationMessage::approximate_bytes).sum::<usize>();
        newest.extend(page);
    }
    newest.reverse();
    Ok(newest)
}

/// What each run of these messages did, built from its observations of these types. The oldest runs are left out if they are
/// too large together with the newer ones.
pub(super) async fn of_each_run<T>(
    app: &AppState,
    caller: &Caller,
    thread: &ThreadId,
    (messages, types): (&[ConversationMessage], &[ObservationType]),
    begin: impl Fn(&RunId) -> T,
    mut apply: impl FnMut(&mut T, &DecodedObservation),
) -> Result<HashMap<RunId, T>, Fault> {
    let mut built = BuiltRuns::of(messages.iter().filter_map(|message| message.run_id.clone()));
    let mut pages = LogPages::new(app, caller, thread, FeedAsk { types: types.to_vec(), ..FeedAsk::default() });
    while let Some(page) = pages.next().await? {
        for seen in page.items {
            let bytes = approximate_bytes(&seen.content);
            let Ok(observation) = DecodedObservation::decode(seen) else { continue };
            if let Some(run) = built.add(&observation.run, bytes, &begin) {
                apply(run, &observation);
            }
        }
    }
    Ok(built.runs.into_iter().map(|(id, run)| (id, run.built)).collect())
}

/// The index of each run's last message.
pub(super) fn last_of_each_run(messages: &[ConversationMessage]) -> HashMap<RunId, usize> {
    messages.iter().enumerate().filter_map(|(at, message)| Some((message.run_id.clone()?, at))).collect()
}

struct BuiltRuns<T> {
    /// The runs to build.
    wanted: HashSet<RunId>,
    runs: HashMap<RunId, BuiltRun<T>>,
    /// Those of `runs`, in the order in which they began.
    order: VecDeque<RunId>,
    /// The size of their observations.
    bytes: usize,
}

struct BuiltRun<T> {
    bytes: usize,
    built: T,
}

impl<T> BuiltRuns<T> {
    fn of(wanted: impl Iterator<Item = RunId>) -> Self {
        Self { wanted: wanted.collect(), runs: HashMap::new(), order: VecDeque::new(), bytes: 0 }
    }

    /// The run to which an observation of this size is to be applied. `None`: it is not shown.
    fn add(&mut self, id: &RunId, bytes: usize, begin: impl Fn(&RunId) -> T) -> Option<&mut T> {
        if !self.wanted.contains(id) {
            return None;
        }
        let run = match self.runs.entry(id.clone()) {
            Entry::Occupied(run) => run.into_mut(),
            Entry::Vacant(place) => {
                self.order.push_back(id.clone());
                place.insert(BuiltRun { bytes: 0, built: begin(id) })
            }
        };
        run.bytes += bytes;
        self.bytes += bytes;
        while self.bytes > SHOWN_BYTES
            && let Some(oldest) = self.order.pop_front()
        {
            self.bytes -= self.runs.remove(&oldest).map_or(0, |run| run.bytes);
            self.wanted.remove(&oldest);
        }
        self.runs.get_mut(id).map(|run| &mut run.built)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_runs_that_fit_are_built_and_an_older_one_is_not_begun_again() {
        let mut runs = BuiltRuns::of(["a", "b", "c"].map(RunId::from).into_iter());
        let mut add = |id: &str, bytes| runs.add(&id.into(), bytes, |_| ()).is_some();
        assert!(!add("other", 1));
        assert!(add("a", SHOWN_BYTES / 2) && add("b", SHOWN_BYTES / 2));
        assert!(add("c", 1), "a is left out");
        assert!(!add("a", 1));
        assert!(add("b", 1));
        assert!(!add("b", SHOWN_BYTES), "too large for itself, and older than c");
        assert!(add("c", SHOWN_BYTES - 1));
        assert_eq!(runs.runs.len(), 1);
    }
}
