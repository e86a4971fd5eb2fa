//! A schema within a schema, as the walk over all of them sees it, and what it costs with those that it applies.

use super::cost::Cost;

/// A schema within the schema.
#[derive(Default)]
pub(super) struct Node {
    pub(super) own: Cost,
    /// Looks at the value with all that is in it.
    pub(super) whole: u64,
    /// What of the schema itself a mistake repeats.
    pub(super) repeated: u64,
    /// Regular expressions that each member's name is held against.
    pub(super) names: u64,
    /// Reports of alternatives follow a first look at them.
    pub(super) chooses: bool,
    /// Applied to the same value.
    pub(super) beside: Vec<usize>,
    /// Of these a member meets one.
    pub(super) members: Vec<usize>,
    /// These each member meets.
    pub(super) each: Vec<usize>,
    /// Names of anchors, to be found when all are known.
    pub(super) anchors: Vec<(String, String)>,
}

impl Node {
    /// `costs` of what is applied beside it, `inner` of what is applied one level deeper into the value.
    ///
    /// Each member counts as a value of its own in [`Size`](super::Size), so a value pays either for itself or for what a
    /// member pays, the dearer; what is `beside` is paid by the same value and adds up.
    pub(super) fn cost(&self, costs: &[Cost], inner: &[Cost]) -> Cost {
        let sum = |of: &dyn Fn(&Cost) -> u64, which: &[usize], from: &[Cost]| {
            which.iter().fold(0u64, |sum, node| sum.saturating_add(of(&from[*node])))
        };
        let total = |of: &dyn Fn(&Cost) -> u64, own: u64| {
            let one = self.members.iter().map(|node| of(&inner[*node])).max().unwrap_or(0);
            let deeper = one.saturating_add(sum(of, &self.each, inner));
            sum(of, &self.beside, costs).saturating_add(own.max(deeper))
        };
        let steps = total(&|cost| cost.steps, self.own.steps).saturating_add(self.whole);
        let again = if self.chooses { steps } else { self.whole };
        Cost {
            steps,
            text: total(&|cost| cost.text, self.own.text).saturating_add(self.names),
            telling: total(&|cost| cost.telling, self.own.steps.saturating_add(self.repeated)).saturating_add(again),
            schemas: 0,
        }
    }
}
