//! Which items of a plan give way where a terminal has too few rows for all of them.

/// How far an item is, in the order in which items give way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Over,
    Pending,
    Running,
    Asks,
}

/// What gives way. For all items of one stage that do there is one line.
#[derive(Debug)]
pub(super) struct Folded {
    is_hidden: Vec<bool>,
    counts: [usize; 4],
}

impl Folded {
    /// As few as must so that the rest has room, with the lines for those that give way: what is over from the first on,
    /// of the others the last one first.
    pub fn of(stages: &[Stage], room: usize) -> Self {
        let all = |stage: Stage| (0..stages.len()).filter(move |at| stages[*at] == stage);
        let others = [Stage::Pending, Stage::Running, Stage::Asks];
        let in_turn = all(Stage::Over).chain(others.into_iter().flat_map(|stage| all(stage).rev()));
        let mut folded = Self { is_hidden: vec![false; stages.len()], counts: [0; 4] };
        for (hidden, at) in in_turn.enumerate() {
            let lines = folded.counts.iter().filter(|count| **count > 0).count();
            if stages.len() - hidden + lines <= room {
                break;
            }
            folded.is_hidden[at] = true;
            folded.counts[stages[at] as usize] += 1;
        }
        folded
    }

    pub fn hides(&self, item: usize) -> bool {
        self.is_hidden[item]
    }

    /// How many items of this stage give way.
    pub fn count(&self, stage: Stage) -> usize {
        self.counts[stage as usize]
    }
}
