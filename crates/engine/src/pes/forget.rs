//! A thread does not wear out: what earlier runs settled leaves the plan when the plan grows too long. The log keeps it.

use std::collections::BTreeSet;

use super::refine::{Merged, is_wanted};
use super::rows;
use super::state::Item;
use super::transition::Transition;
use crate::domain::ids::{ItemId, RunId};
use crate::domain::plan::{ChangeType, ItemStatus};
use crate::parse::ItemDraft;

/// A longer plan forgets what was settled before the last run: every planner reads all of it, and some read little.
const LISTED: usize = 100;

impl Transition<'_> {
    /// How many items the list has at least with what the planner adds to it.
    pub fn least_items_with(&self, drafts: &[ItemDraft]) -> usize {
        let with_new = self.items_with(drafts);
        let excess = with_new.saturating_sub(self.world.limits.items_per_plan);
        with_new - self.forgettable(drafts, None, excess).len()
    }

    fn items_with(&self, drafts: &[ItemDraft]) -> usize {
        let is_new = |draft: &&ItemDraft| is_wanted(draft) && self.state.item(&draft.id.as_str().into()).is_none();
        self.state.list.len() + drafts.iter().filter(is_new).count()
    }

    /// Forgets what must go for these items, and what is too old to be read again and again. The last run's items go only
    /// where there is no room.
    pub fn make_room(&mut self, drafts: &[ItemDraft], version: i64, merged: &mut Merged) {
        let last = self.last_run();
        let with_new = self.items_with(drafts);
        let too_old = self.forgettable(drafts, last.as_ref(), with_new.saturating_sub(LISTED));
        self.forget(too_old, version, merged);
        let with_new = self.items_with(drafts);
        let too_many = self.forgettable(drafts, None, with_new.saturating_sub(self.world.limits.items_per_plan));
        self.forget(too_many, version, merged);
    }

    /// The run before this one that did anything of the plan.
    fn last_run(&self) -> Option<RunId> {
        let now = &self.run().run_id;
        let runs: Vec<&RunId> = self.state.list.iter().filter_map(|item| item.track.run.as_ref()).collect();
        runs.into_iter().rev().find(|run| *run != now).cloned()
    }

    /// The oldest items that earlier runs settled, so many if there are as many; none of this run's, and nothing that one
    /// of them, an open item or one of these drafts depends on. What did not come to its end goes with what it waited for.
    fn forgettable(&self, drafts: &[ItemDraft], last: Option<&RunId>, count: usize) -> BTreeSet<ItemId> {
        let mut gone = BTreeSet::new();
        if count == 0 {
            return gone;
        }
        let kept = self.kept(drafts, last);
        for item in self.state.list.iter().filter(|item| !kept.contains(&item.def.id)) {
            if gone.len() >= count {
                break;
            }
            let mut next = vec![item];
            while let Some(item) = next.pop() {
                if gone.insert(item.def.id.clone()) {
                    next.extend(self.state.list.dependants(&item.def.id).filter(waits));
                }
            }
        }
        gone
    }

    /// What stays, with everything that it depends on until it is done.
    fn kept(&self, drafts: &[ItemDraft], last: Option<&RunId>) -> BTreeSet<ItemId> {
        let runs = [Some(&self.run().run_id), last];
        let is_of = |item: &&Item| item.track.run.is_some() && runs.contains(&item.track.run.as_ref());
        let listed = self.state.list.iter().filter(|item| !item.track.status.is_settled() || is_of(item));
        let mut next: Vec<ItemId> = listed.map(|item| item.def.id.clone()).collect();
        for draft in drafts {
            let needs = draft.dependencies.iter().flatten();
            next.extend(needs.chain([&draft.id]).map(|id| ItemId::from(id.as_str())));
        }
        let mut kept = BTreeSet::new();
        while let Some(id) = next.pop() {
            if kept.insert(id.clone())
                && let Some(item) = self.state.item(&id).filter(waits)
            {
                next.extend(item.def.dependencies.iter().cloned());
            }
        }
        kept
    }

    fn forget(&mut self, ids: BTreeSet<ItemId>, version: i64, merged: &mut Merged) {
        if ids.is_empty() {
            return;
        }
        let mut gone = Vec::new();
        self.state.list.rebuild(|list| gone.extend(list.extract_if(.., |item| ids.contains(&item.def.id))));
        for item in gone {
            self.remove(&item, version, merged);
        }
    }

    /// An item that is in the list no more; what was called for it stays readable.
    pub fn remove(&mut self, item: &Item, version: i64, merged: &mut Merged) {
        let id = &item.def.id;
        merged.note(ChangeType::Removed, id);
        self.item_removed(id);
        let ord = self.ord();
        self.rows.extend(rows::tombstone(id, ord, version));
        self.state.removed.insert(id.clone(), version);
        for call in &item.calls {
            if let Some(call) = self.state.calls.remove(call) {
                self.rows.push(rows::forgotten_call(&call));
            }
        }
    }
}

fn waits(item: &&Item) -> bool {
    item.track.status != ItemStatus::Completed
}
