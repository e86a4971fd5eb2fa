//! Chooses the items of a plan that are hidden when a terminal has too few rows.

/// How far an item is, in the order in which items are hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Over,
    Pending,
    Running,
    Asks,
}

/// The hidden items. One line replaces all hidden items of a stage.
#[derive(Debug)]
pub(super) struct HiddenItems {
    is_hidden: Vec<bool>,
    counts: [usize; 4],
}

impl HiddenItems {
    /// Hides as few items as possible so that the others and the replacement lines fit: finished items from the first on, items
    /// of other stages from the last on.
    pub fn choose(stages: &[Stage], room: usize) -> Self {
        let all = |stage: Stage| (0..stages.len()).filter(move |at| stages[*at] == stage);
        let others = [Stage::Pending, Stage::Running, Stage::Asks];
        let in_turn = all(Stage::Over).chain(others.into_iter().flat_map(|stage| all(stage).rev()));
        let mut chosen = Self { is_hidden: vec![false; stages.len()], counts: [0; 4] };
        for (hidden, at) in in_turn.enumerate() {
            let lines = chosen.counts.iter().filter(|count| **count > 0).count();
            if stages.len() - hidden + lines <= room {
                break;
            }
            chosen.is_hidden[at] = true;
            chosen.counts[stages[at] as usize] += 1;
        }
        chosen
    }

    pub fn hides(&self, item: usize) -> bool {
        self.is_hidden[item]
    }

    /// The number of hidden items of this stage.
    pub fn count(&self, stage: Stage) -> usize {
        self.counts[stage as usize]
    }
}
