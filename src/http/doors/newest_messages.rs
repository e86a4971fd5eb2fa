//! The newest messages of a thread, read from its end, page by page, as far back as they are wanted. So what a query
//! reads does not grow with the age of its thread.

use std::collections::HashSet;
use std::ops::Range;

use super::DoorRequest;
use super::conversation::or_empty;
use crate::domain::fault::Fault;
use crate::domain::ids::{RunId, ThreadId};
use crate::domain::message::{ConversationMessage, MessageRole};
use crate::service::runs::{self, ContinueAt};
use crate::service::threads;

/// How many messages are read first. Nearly every query is about the last run.
const FIRST_PAGE: u32 = 16;

/// How many are read at once after that.
const PAGE_SIZE: u32 = 200;

/// How many are searched for what a client shows. Some clients change the ids or the texts of all messages.
pub(super) const MAX_SEARCHED: usize = 10_000;

/// The search ends when it has read so many bytes of them.
const MAX_SEARCHED_BYTES: usize = 16 << 20;

pub(super) struct NewestMessages<'a> {
    ctx: &'a DoorRequest,
    thread: &'a ThreadId,
    /// Newest first.
    read: Vec<ConversationMessage>,
    /// Their size, with their metadata.
    bytes: usize,
    /// The thread has no older messages.
    is_whole: bool,
}

impl<'a> NewestMessages<'a> {
    /// Reads the first page, which is empty if the thread does not exist yet.
    pub(super) async fn of(ctx: &'a DoorRequest, thread: &'a ThreadId) -> Result<Self, Fault> {
        let mut newest = Self { ctx, thread, read: Vec::new(), bytes: 0, is_whole: false };
        newest.read_on(FIRST_PAGE).await?;
        Ok(newest)
    }

    /// The messages that were read, newest first. Empty only if the thread has none.
    pub(super) fn read(&self) -> &[ConversationMessage] {
        &self.read
    }

    /// Whether all messages of the thread were read.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// The index of the newest message that is wanted. Reads on until it is found, or until `most` messages were read, but at
    /// least [`FIRST_PAGE`], or [`MAX_SEARCHED_BYTES`] of them.
    pub(super) async fn find(
        &mut self,
        most: usize,
        is_wanted: impl Fn(&ConversationMessage) -> bool,
    ) -> Result<Option<usize>, Fault> {
        let (mut searched, most) = (0, most.max(FIRST_PAGE as usize));
        loop {
            if let Some(at) = self.read[searched..].iter().position(&is_wanted) {
                return Ok(Some(searched + at));
            }
            searched = self.read.len();
            if self.is_whole || searched >= most || self.bytes > MAX_SEARCHED_BYTES {
                return Ok(None);
            }
            self.read_on(PAGE_SIZE).await?;
        }
    }

    /// The position in the thread just before this message.
    pub(super) async fn before(&mut self, at: usize) -> Result<ContinueAt, Fault> {
        if at + 1 == self.read.len() && !self.is_whole {
            self.read_on(PAGE_SIZE).await?;
        }
        let before = self.read.get(at + 1);
        Ok(before.map_or(ContinueAt::Start, |before| ContinueAt::After(before.message_id.clone())))
    }

    /// The indices of the user's messages among these that began their run, or came without one. A message may also be
    /// sent while a run works.
    pub(super) async fn beginnings(&mut self, among: Range<usize>) -> Result<Vec<usize>, Fault> {
        let is_of_user = |at: &usize| self.read[*at].role == MessageRole::User;
        let oldest = oldest_of_runs(&self.read);
        let mut found: Vec<usize> = among.filter(|at| oldest.contains(at) && is_of_user(at)).collect();
        // An earlier message of the run may not have been read.
        let runs: Vec<RunId> = found.iter().filter_map(|at| self.read[*at].run_id.clone()).collect();
        if !self.is_whole && !runs.is_empty() {
            let first = runs::first_messages(&self.ctx.app.service, &self.ctx.caller, self.thread, &runs).await?;
            // A copy of a thread has the messages of its runs, but not the runs.
            let is_of_copied_run = |message: &ConversationMessage| {
                message.run_id.as_ref().is_some_and(|run| runs.contains(run) && !first.contains_key(run))
            };
            while !self.is_whole && self.read.last().is_some_and(is_of_copied_run) {
                self.read_on(PAGE_SIZE).await?;
            }
            let first_of = |at: &usize| first.get(self.read[*at].run_id.as_ref()?);
            let oldest = oldest_of_runs(&self.read);
            found.retain(|at| match first_of(at) {
                Some(first) => *first == self.read[*at].message_id,
                None => oldest.contains(at),
            });
        }
        Ok(found)
    }

    /// The position before the first of the user's messages that follow the one at `previous`, if a client that shows
    /// none of them has removed them. `None` if there are none, if it may not remove them (see [`first_removed`]), or
    /// if the thread is not at rest: what still runs may have been asked in another tab, which this client does not
    /// show.
    pub(super) async fn before_removed(
        &mut self,
        previous: usize,
        has_client_id: impl Fn(&ConversationMessage) -> bool,
    ) -> Result<Option<ContinueAt>, Fault> {
        let removed = self.beginnings(0..previous).await?;
        let Some(first) = first_removed(&self.read, &removed, &self.ctx.caller.name, has_client_id) else {
            return Ok(None);
        };
        let thread = threads::get(&self.ctx.app.service, &self.ctx.caller, self.thread).await?;
        if thread.status.is_at_rest() { self.before(first).await.map(Some) } else { Ok(None) }
    }

    async fn read_on(&mut self, limit: u32) -> Result<(), Fault> {
        let (service, caller) = (&self.ctx.app.service, &self.ctx.caller);
        let before = self.read.last().map(|oldest| &oldest.message_id);
        let page = or_empty(threads::newest_messages(service, caller, self.thread, before, limit).await)?;
        // A page may be short, because messages that cannot be read are left out.
        self.is_whole = page.is_empty();
        self.bytes += page.iter().map(ConversationMessage::approximate_bytes).sum::<usize>();
        self.read.extend(page);
        Ok(())
    }
}

/// The first of the removed messages, whose indices are given. Nobody removes what others said, or what came by a way on
/// which it got no id of a client.
pub(super) fn first_removed(
    newest: &[ConversationMessage],
    removed: &[usize],
    caller: &str,
    has_client_id: impl Fn(&ConversationMessage) -> bool,
) -> Option<usize> {
    // The client may not know a message that came by another way.
    let has_known = removed.iter().all(|at| has_client_id(&newest[*at]));
    let first = *removed.last().filter(|_| has_known)?;
    let is_own = |message: &ConversationMessage| message.requested_by.as_deref() == Some(caller);
    let mut said = newest[..=first].iter().filter(|message| message.role == MessageRole::User);
    said.all(is_own).then_some(first)
}

/// The indices of those of these messages, newest first, that are the oldest ones of their runs, or came without one.
fn oldest_of_runs(newest: &[ConversationMessage]) -> HashSet<usize> {
    let mut runs = HashSet::new();
    let from_oldest = newest.iter().enumerate().rev();
    let oldest = from_oldest.filter(|(_, message)| message.run_id.as_ref().is_none_or(|run| runs.insert(run)));
    oldest.map(|(at, _)| at).collect()
}
