//! A thread's log as people read it: payloads and lists put back in, as of each seq.

use std::sync::Arc;

use serde_json::Value;

use super::folds::Folds;
use super::live::heard;
use super::{After, EventsPage, FeedAsk};
use crate::domain::caller::Caller;
use crate::domain::facts::Unreadable;
use crate::domain::ids::{ThreadId, ThreadPk};
use crate::domain::observation::{Observation, ObservationType};
use crate::domain::payload::{self, Payloads};
use crate::engine::history::fold::Fold;
use crate::runtime::inline::fetch;
use crate::service::{self, Service, fork, threads};
use crate::store::{self, ObservationAsk, Store};

/// Observations read at once.
pub(crate) const CHUNK: u32 = 200;

/// Observations made whole at once: some of them may hold a megabyte each.
const BATCH: usize = 4;

/// Bytes of a page of the log; it ends with the observation that passes them.
const PAGE_BYTES: usize = 1 << 20;

/// Reads a log page by page, in order; what it folded for one page serves the next.
pub(crate) struct Log {
    store: Arc<dyn Store>,
    folds: Arc<Folds>,
    pk: ThreadPk,
    fold: Fold,
    /// The seq up to which the fold has seen everything.
    folded: i64,
}

impl Log {
    pub(crate) fn new(service: &Service, pk: ThreadPk) -> Self {
        Self { store: service.reads.clone(), folds: service.folds.clone(), pk, fold: Fold::default(), folded: 0 }
    }

    /// Drops the fold: a reader that has read all of the log may go on listening for long.
    pub(crate) fn rest(&mut self) {
        (self.fold, self.folded) = (Fold::default(), 0);
    }

    pub(crate) fn bytes(&self) -> usize {
        self.fold.bytes()
    }

    /// The next observations after `after`, whole: `limit` of them, or fewer that have about `room` bytes together. None
    /// only where none follows.
    pub(crate) async fn page(
        &mut self,
        after: i64,
        limit: u32,
        types: &[ObservationType],
        room: usize,
    ) -> store::Result<Page> {
        let ask = ObservationAsk { after, limit, types: types.to_vec(), ..ObservationAsk::default() };
        let mut items = self.store.observations(self.pk, &ask).await?;
        let (mut bytes, mut whole) = (0, 0);
        let mut is_full = items.len() >= limit as usize;
        for batch in items.chunks_mut(BATCH) {
            if bytes > room {
                is_full = true;
                break;
            }
            self.complete(batch).await?;
            bytes += batch.iter().map(|seen| weight(&seen.content)).sum::<usize>();
            whole += batch.len();
        }
        items.truncate(whole);
        Ok(Page { items, is_full })
    }

    /// Puts lists and payloads back in.
    async fn complete(&mut self, batch: &mut [Observation]) -> store::Result<()> {
        if let Some(last) = batch.iter().rev().find(|seen| Fold::LISTED.contains(&seen.kind)).map(|last| last.seq) {
            self.unfold(batch, last).await?;
        }
        let mut known = Payloads::new();
        fetch(&*self.store, self.pk, batch.iter().map(|seen| &seen.content), &mut known).await?;
        for seen in batch {
            seen.content = payload::inline(seen.content.take(), &known);
        }
        Ok(())
    }

    /// Folds everything up to `last` and completes those observations that stand in the page.
    async fn unfold(&mut self, page: &mut [Observation], last: i64) -> store::Result<()> {
        let before = page.first().map_or(last, |first| first.seq) - 1;
        if let Some((seq, fold)) = self.folds.nearest(self.pk, before).filter(|(seq, _)| *seq > self.folded) {
            (self.fold, self.folded) = (fold, seq);
        }
        if self.folded == 0 {
            (self.folded, self.fold) = beginning(&*self.store, self.pk, before).await?;
        }
        while self.folded < last {
            let ask =
                ObservationAsk { after: self.folded, until: Some(last), limit: CHUNK, types: Fold::LISTED.to_vec() };
            let chunk = self.store.observations(self.pk, &ask).await?;
            if let Some(later) = self.base_beyond(before).await? {
                (self.folded, self.fold) = later;
                continue;
            }
            for observation in &chunk {
                let Some(whole) = folded(&mut self.fold, observation) else { continue };
                if let Ok(place) = page.binary_search_by_key(&observation.seq, |seen| seen.seq) {
                    page[place].content = whole;
                }
            }
            self.folded = chunk.last().map_or(last, |observation| observation.seq);
            self.folds.offer(self.pk, self.folded, &self.fold);
        }
        Ok(())
    }
}

impl Log {
    /// The base of the log, where it stands for more than was folded: a kept fold may be older than the base, and what lies
    /// between them cannot be read any more. Asked behind each chunk, as the log may be shortened meanwhile.
    async fn base_beyond(&self, before: i64) -> store::Result<Option<(i64, Fold)>> {
        let row = self.store.thread_by_pk(self.pk).await?;
        if row.is_none_or(|row| row.min_seq <= self.folded + 1) {
            return Ok(None);
        }
        let base = beginning(&*self.store, self.pk, before).await?;
        Ok(Some(base).filter(|(seq, _)| *seq > self.folded))
    }
}

/// The observation's content as readers see it. One that cannot be read changes nothing; readers see it as it is stored.
fn folded(fold: &mut Fold, observation: &Observation) -> Option<Value> {
    let unreadable = |error: &Unreadable| {
        let (thread, seq) = (&observation.thread_id, observation.seq);
        tracing::warn!(threadId = %thread, seq, %error, "an observation cannot be read; it is shown as it is stored");
    };
    fold.apply(observation).inspect_err(unreadable).ok()
}

/// Observations in order.
pub(crate) struct Page {
    pub(crate) items: Vec<Observation>,
    /// There may be more.
    is_full: bool,
}

/// About how many bytes a value has.
fn weight(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(members) => members.iter().map(|(name, value)| name.len() + weight(value)).sum(),
    }
}

/// What whoever folds a log begins with: nothing, or what stands for the part that was deleted; `before` is not in it.
async fn beginning(store: &dyn Store, pk: ThreadPk, before: i64) -> store::Result<(i64, Fold)> {
    let Some((seq, text)) = store.base(pk).await? else { return Ok((0, Fold::default())) };
    if seq > before {
        return Err(store::Error::Unavailable("the log was shortened meanwhile; read it again".to_owned()));
    }
    let fold = Fold::of_text(&text).map_err(|error| store::Error::Damaged(format!("the base of a log: {error}")))?;
    Ok((seq, fold))
}

/// A fold that has everything up to `seq`. It begins at the nearest one that was kept.
pub(crate) async fn fold_to(service: &Service, pk: ThreadPk, seq: i64) -> store::Result<Fold> {
    let (mut after, mut fold) = match service.states.nearest(pk, seq) {
        Some(nearest) => nearest,
        None => beginning(&*service.reads, pk, seq).await?,
    };
    while after < seq {
        let ask = ObservationAsk { after, until: Some(seq), limit: CHUNK, ..ObservationAsk::default() };
        let chunk = service.reads.observations(pk, &ask).await?;
        // Where the log was shortened since what was kept was folded, its base stands for what is missing in between.
        if chunk.first().is_none_or(|first| first.seq > after + 1) {
            let (base, anew) = beginning(&*service.reads, pk, seq).await?;
            if base > after {
                (after, fold) = (base, anew);
                continue;
            }
        }
        let Some(last) = chunk.last() else { break };
        after = last.seq;
        for observation in &chunk {
            folded(&mut fold, observation);
        }
        service.states.offer(pk, after, &fold);
    }
    Ok(fold)
}

/// A page of the log, oldest first; every observation whole. Where they are large it has fewer than `limit`.
pub async fn page(
    service: &Service,
    caller: &Caller,
    id: &ThreadId,
    ask: FeedAsk,
    limit: u32,
) -> service::Result<EventsPage> {
    let row = threads::row(service, caller, id).await?;
    let after = match ask.after {
        After::Seq(0) => 0,
        // What was asked for is gone, and nobody should take what comes later for it.
        After::Seq(seq) => fork::within(&row, seq.min(row.last_seq), "?after")?,
        After::Latest => row.last_seq,
    };
    let mut log = Log::new(service, row.pk);
    let Page { mut items, is_full } = log.page(after, limit, &heard(&ask), PAGE_BYTES).await?;
    let is_end =
        |seen: &Observation| seen.kind == ObservationType::RunFinished && ask.until.as_ref() == Some(&seen.run_id);
    let end = items.iter().position(is_end);
    items.truncate(end.map_or(items.len(), |at| at + 1));
    // More may have been written since the thread was read.
    let last_seq = items.last().map_or(row.last_seq, |last| last.seq.max(row.last_seq));
    let goes_on = |last: &&Observation| is_full && end.is_none() && last.seq < row.last_seq;
    let next_cursor = items.last().filter(goes_on).map(|last| last.seq.to_string());
    items.retain(|seen| ask.types.is_empty() || ask.types.contains(&seen.kind));
    Ok(EventsPage { items, next_cursor, last_seq, min_seq: row.min_seq })
}
