//! A thread's log as clients read it: each observation with its payloads and with the todo list as of its seq.

use std::sync::Arc;

use serde_json::Value;

use super::folds::FoldCache;
use super::{After, EventsPage, FeedAsk};
use crate::domain::caller::Caller;
use crate::domain::facts::Unreadable;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::{ThreadId, ThreadPk};
use crate::domain::observation::{Observation, ObservationType};
use crate::domain::payload::{self, Payloads, approximate_bytes};
use crate::engine::history::fold::Fold;
use crate::runtime::inline::fetch;
use crate::service::{self, Service, fork, threads};
use crate::store::{self, ObservationAsk, PeopleReads, Reads, ThreadRow};

/// Observations read at once.
pub(crate) const CHUNK: u32 = 200;

/// Observations completed at once: some of them may hold a megabyte each.
const BATCH: usize = 4;

/// A page of the log ends with the observation that exceeds this size in bytes.
const PAGE_BYTES: usize = 1 << 20;

/// Reads a log page by page, in order. Its fold is kept from page to page.
pub(crate) struct LogReader {
    reads: PeopleReads,
    fold_cache: Arc<FoldCache>,
    pk: ThreadPk,
    folded: FoldedLog,
}

/// The fold of a log up to a seq; of nothing up to 0.
#[derive(Default)]
struct FoldedLog {
    upto: i64,
    fold: Fold,
}

impl LogReader {
    pub(crate) fn new(service: &Service, pk: ThreadPk) -> Self {
        Self { reads: service.reads.clone(), fold_cache: service.list_folds.clone(), pk, folded: FoldedLog::default() }
    }

    /// Drops the fold to free memory: after the backlog a subscriber may stay for long.
    pub(crate) fn drop_fold(&mut self) {
        self.folded = FoldedLog::default();
    }

    pub(crate) fn bytes(&self) -> usize {
        self.folded.fold.bytes()
    }

    /// The next observations after `after`, with their payloads: `limit` of them, or fewer if these have about `max_bytes`
    /// bytes together. The page is empty only if no observation follows.
    pub(crate) async fn page(
        &mut self,
        after: i64,
        limit: u32,
        types: &[ObservationType],
        max_bytes: usize,
    ) -> store::Result<LogPage> {
        let ask = ObservationAsk { after, limit, types: types.to_vec(), ..ObservationAsk::default() };
        let mut items = self.reads.observations(self.pk, &ask).await?;
        let (mut bytes, mut whole) = (0, 0);
        let mut is_full = items.len() >= limit as usize;
        for batch in items.chunks_mut(BATCH) {
            if bytes > max_bytes {
                is_full = true;
                break;
            }
            self.complete(batch).await?;
            bytes += batch.iter().map(|seen| approximate_bytes(&seen.content)).sum::<usize>();
            whole += batch.len();
        }
        items.truncate(whole);
        Ok(LogPage { items, is_full })
    }

    /// Puts the todo lists and payloads into these observations.
    async fn complete(&mut self, batch: &mut [Observation]) -> store::Result<()> {
        if let Some(last) = batch.iter().rev().find(|seen| Fold::LISTED.contains(&seen.kind)).map(|last| last.seq) {
            self.complete_lists(batch, last).await?;
        }
        let mut known = Payloads::new();
        fetch(&*self.reads, self.pk, batch.iter().map(|seen| &seen.content), &mut known).await?;
        for seen in batch {
            seen.content = payload::inline(seen.content.take(), &known);
        }
        Ok(())
    }

    /// Folds the log up to `last`, and puts the todo lists into the observations of the page.
    async fn complete_lists(&mut self, page: &mut [Observation], last: i64) -> store::Result<()> {
        let before = page.first().map_or(last, |first| first.seq) - 1;
        if let Some(cached) = cached_fold(&*self.reads, &self.fold_cache, self.pk, before, self.folded.upto).await? {
            self.folded = cached;
        }
        if self.folded.upto == 0 {
            self.folded = starting_fold(&*self.reads, self.pk, before).await?;
        }
        while self.folded.upto < last {
            let (after, types) = (self.folded.upto, Fold::LISTED.to_vec());
            let ask = ObservationAsk { after, until: Some(last), limit: CHUNK, types };
            let chunk = self.reads.observations(self.pk, &ask).await?;
            if let Some(later) = self.base_after_fold(before).await? {
                self.folded = later;
                continue;
            }
            for observation in &chunk {
                let Some(whole) = apply_to_fold(&mut self.folded.fold, observation) else { continue };
                if let Ok(place) = page.binary_search_by_key(&observation.seq, |seen| seen.seq) {
                    page[place].content = whole;
                }
            }
            let Some(last_of_chunk) = chunk.last() else { break };
            self.folded.upto = last_of_chunk.seq;
            self.fold_cache.offer(self.pk, last_of_chunk, &self.folded.fold);
        }
        Ok(())
    }

    /// The fold in the base of the log, if the base covers more than was folded: a cached fold may be older than the base,
    /// and the observations between them are deleted. Checked after each chunk, because compaction may run at the same time.
    async fn base_after_fold(&self, before: i64) -> store::Result<Option<FoldedLog>> {
        let row = self.reads.thread_by_pk(self.pk).await?;
        if row.is_none_or(|row| row.min_seq <= self.folded.upto + 1) {
            return Ok(None);
        }
        let base = starting_fold(&*self.reads, self.pk, before).await?;
        Ok(Some(base).filter(|base| base.upto > self.folded.upto))
    }
}

/// Adds an observation to the fold and returns its content as clients see it. One that cannot be read leaves the fold
/// unchanged, and is shown as it is stored.
fn apply_to_fold(fold: &mut Fold, observation: &Observation) -> Option<Value> {
    let unreadable = |error: &Unreadable| {
        let (thread, seq) = (&observation.thread_id, observation.seq);
        tracing::warn!(threadId = %thread, seq, %error, "an observation cannot be read; it is shown as it is stored");
    };
    fold.apply(observation).inspect_err(unreadable).ok()
}

/// Observations in order.
pub(crate) struct LogPage {
    pub(crate) items: Vec<Observation>,
    /// More observations may follow.
    is_full: bool,
}

/// The fold with which reading a log begins: an empty one, or the base that replaces the deleted part. An error if the base
/// extends beyond `before`.
async fn starting_fold(store: &dyn Reads, pk: ThreadPk, before: i64) -> store::Result<FoldedLog> {
    let Some((upto, text)) = store.base(pk).await? else { return Ok(FoldedLog::default()) };
    if upto > before {
        return Err(store::Error::Unavailable("the log was shortened meanwhile; read it again".to_owned()));
    }
    let fold = Fold::of_text(&text).map_err(|error| store::Error::Damaged(format!("the base of a log: {error}")))?;
    Ok(FoldedLog { upto, fold })
}

/// The nearest cached fold of the log up to `seq`, if it covers more than the log up to `after`.
async fn cached_fold(
    store: &dyn Reads,
    cache: &FoldCache,
    pk: ThreadPk,
    seq: i64,
    after: i64,
) -> store::Result<Option<FoldedLog>> {
    let Some(cached) = cache.nearest(pk, seq).filter(|cached| cached.seq > after) else { return Ok(None) };
    let ask = ObservationAsk { after: cached.seq - 1, until: Some(cached.seq), limit: 1, ..ObservationAsk::default() };
    match store.observations(pk, &ask).await?.first() {
        Some(recorded) if recorded.id == cached.id => Ok(Some(FoldedLog { upto: cached.seq, fold: cached.fold })),
        // The database went back to an earlier state, and the log went on differently.
        Some(_) => {
            cache.forget(pk);
            Ok(None)
        }
        // It was deleted because of its age, so the base covers at least as much; or it is lost and nothing is in its place.
        None => Ok(None),
    }
}

/// Returns the fold of the log up to `seq`, continued from the nearest cached one.
pub(crate) async fn fold_to(service: &Service, pk: ThreadPk, seq: i64) -> store::Result<Fold> {
    let FoldedLog { upto: mut after, mut fold } =
        match cached_fold(&*service.reads, &service.state_folds, pk, seq, 0).await? {
            Some(nearest) => nearest,
            None => starting_fold(&*service.reads, pk, seq).await?,
        };
    while after < seq {
        let ask = ObservationAsk { after, until: Some(seq), limit: CHUNK, ..ObservationAsk::default() };
        let chunk = service.reads.observations(pk, &ask).await?;
        // If the log was compacted after the cached fold was made, the base replaces the observations in between.
        if chunk.first().is_none_or(|first| first.seq > after + 1) {
            let base = starting_fold(&*service.reads, pk, seq).await?;
            if base.upto > after {
                (after, fold) = (base.upto, base.fold);
                continue;
            }
        }
        let Some(last) = chunk.last() else { break };
        after = last.seq;
        for observation in &chunk {
            apply_to_fold(&mut fold, observation);
        }
        service.state_folds.offer(pk, last, &fold);
    }
    Ok(fold)
}

/// Refuses a position that the log does not reach: its observations were of a state that is gone, and later ones will have their
/// numbers.
fn went_back(row: &ThreadRow, seq: i64) -> Fault {
    let detail = format!(
        "The log ends at {0}, before {seq}: the database went back to an earlier state, as after a restore. Read the state and \
         the log again, from {1} on.",
        row.last_seq, row.min_seq
    );
    Fault::new(Code::HistoryCompacted, detail).with("minSeq", row.min_seq)
}

/// A page of the log, oldest first, with payloads. If the observations are large it has fewer than `limit`.
pub async fn page(
    service: &Service,
    caller: &Caller,
    id: &ThreadId,
    ask: FeedAsk,
    limit: u32,
) -> service::Result<EventsPage> {
    let row = threads::row(service, caller, id).await?;
    ask.check_until(service, caller, row.pk).await?;
    let after = match ask.after {
        After::Seq(0) => 0,
        After::Seq(seq) if seq > row.last_seq => return Err(went_back(&row, seq)),
        // Those observations are deleted. Refused, so that the client does not mistake later ones for them.
        After::Seq(seq) => fork::within(&row, seq, "?after")?,
        After::Latest => row.last_seq,
    };
    let mut log = LogReader::new(service, row.pk);
    let LogPage { mut items, is_full } = log.page(after, limit, &ask.subscribed_types(), PAGE_BYTES).await?;
    let is_end =
        |seen: &Observation| seen.kind == ObservationType::RunFinished && ask.until.as_ref() == Some(&seen.run_id);
    let end = items.iter().position(is_end);
    items.truncate(end.map_or(items.len(), |at| at + 1));
    // More may have been written since the thread was read.
    let last_seq = items.last().map_or(row.last_seq, |last| last.seq.max(row.last_seq));
    let has_more = |last: &&Observation| is_full && end.is_none() && last.seq < row.last_seq;
    let next_cursor = items.last().filter(has_more).map(|last| last.seq.to_string());
    items.retain(|seen| ask.types.is_empty() || ask.types.contains(&seen.kind));
    Ok(EventsPage { items, next_cursor, last_seq, min_seq: row.min_seq })
}
