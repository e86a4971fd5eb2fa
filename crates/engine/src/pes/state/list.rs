//! The todo list: items in order, found by id, and which of them may begin.
//!
//! The set of items that may begin is kept up to date as items settle, so that a transition costs what it changes and
//! not the whole list.

use std::collections::{BTreeSet, HashMap};

use crate::domain::ids::ItemId;
use crate::domain::plan::ItemStatus;
use crate::pes::state::item::Item;

#[derive(Default)]
pub(crate) struct TodoList {
    items: Vec<Item>,
    index: HashMap<ItemId, usize>,
    /// Items with an open loop.
    open: BTreeSet<usize>,
    /// Pending items whose dependencies are all completed.
    ready: BTreeSet<usize>,
    /// By position: the number of dependencies that are not completed.
    unmet: Vec<usize>,
    /// By position: the items that depend on it.
    dependants: Vec<Vec<usize>>,
}

impl TodoList {
    pub fn new(mut items: Vec<Item>) -> Self {
        items.sort_by_key(|item| item.ord);
        let mut list = Self { items, ..Self::default() };
        list.rebuild_index();
        list
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
    pub fn len(&self) -> usize {
        self.items.len()
    }
    pub fn iter(&self) -> impl Iterator<Item = &Item> {
        self.items.iter()
    }
    pub fn get(&self, id: &ItemId) -> Option<&Item> {
        self.index.get(id).map(|at| &self.items[*at])
    }
    pub fn get_mut(&mut self, id: &ItemId) -> Option<&mut Item> {
        self.index.get(id).map(|at| &mut self.items[*at])
    }
    /// Items with an open loop, in list order.
    pub fn open(&self) -> impl Iterator<Item = &Item> {
        self.open.iter().map(|at| &self.items[*at])
    }
    pub fn is_any_open(&self) -> bool {
        !self.open.is_empty()
    }
    /// The first pending item, in list order, whose dependencies are all completed.
    pub fn next_ready(&self) -> Option<&Item> {
        self.ready.first().map(|at| &self.items[*at])
    }
    /// The items that name this one as a dependency, in list order.
    pub fn dependants(&self, id: &ItemId) -> impl Iterator<Item = &Item> {
        let places = self.index.get(id).map(|at| self.dependants[*at].as_slice()).unwrap_or_default();
        places.iter().map(|at| &self.items[*at])
    }

    /// Changes the list as a whole: for changes of dependencies, of several statuses, or of the order.
    pub fn rebuild(&mut self, change: impl FnOnce(&mut Vec<Item>)) {
        change(&mut self.items);
        self.items.sort_by_key(|item| item.ord);
        self.rebuild_index();
    }

    /// Turns are shown to models only while their run lasts.
    pub fn forget_turns(&mut self) {
        self.items.iter_mut().for_each(|item| item.turns.clear());
    }

    pub fn next_ord(&self) -> i64 {
        self.items.last().map_or(0, |item| item.ord + 1)
    }

    /// Changes one item's status, and updates which items may begin.
    pub fn set_status(&mut self, id: &ItemId, status: ItemStatus) {
        let Some(at) = self.index.get(id).copied() else { return };
        let before = std::mem::replace(&mut self.items[at].progress.status, status);
        let completes = status == ItemStatus::Completed && before != ItemStatus::Completed;
        let reopens = before == ItemStatus::Completed && status != ItemStatus::Completed;
        for dependant in self.dependants[at].clone() {
            if completes {
                self.unmet[dependant] -= 1;
            } else if reopens {
                self.unmet[dependant] += 1;
            }
            self.update_sets(dependant);
        }
        self.update_sets(at);
    }

    /// Must be called when an item's loop was opened or closed.
    pub fn on_loop_changed(&mut self, id: &ItemId) {
        if let Some(at) = self.index.get(id).copied() {
            self.update_sets(at);
        }
    }

    fn update_sets(&mut self, at: usize) {
        let progress = &self.items[at].progress;
        let is_ready = progress.status == ItemStatus::Pending && self.unmet[at] == 0;
        let is_open = progress.work.is_some();
        set_member(&mut self.ready, at, is_ready);
        set_member(&mut self.open, at, is_open);
    }

    fn rebuild_index(&mut self) {
        self.index = self.items.iter().enumerate().map(|(at, item)| (item.def.id.clone(), at)).collect();
        self.unmet = vec![0; self.items.len()];
        self.dependants = vec![Vec::new(); self.items.len()];
        for at in 0..self.items.len() {
            let needs: BTreeSet<&ItemId> = self.items[at].def.dependencies.iter().collect();
            for need in needs {
                match self.index.get(need) {
                    Some(on) => {
                        self.dependants[*on].push(at);
                        self.unmet[at] += usize::from(self.items[*on].progress.status != ItemStatus::Completed);
                    }
                    None => self.unmet[at] += 1,
                }
            }
        }
        self.ready.clear();
        self.open.clear();
        (0..self.items.len()).for_each(|at| self.update_sets(at));
    }
}

fn set_member(of: &mut BTreeSet<usize>, at: usize, is_in: bool) {
    if is_in {
        of.insert(at);
    } else {
        of.remove(&at);
    }
}
