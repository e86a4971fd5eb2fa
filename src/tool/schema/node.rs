//! A subschema as the cost walk sees it, and its cost including the schemas that it applies.

use super::cost::Cost;

/// A subschema.
#[derive(Default)]
pub(super) struct Node {
    pub(super) own: Cost,
    /// Steps of keywords that examine the whole value.
    pub(super) whole_value: u64,
    /// Steps for the parts of the schema that errors copy.
    pub(super) copied: u64,
    /// Cost of the regular expressions that are matched against each member's name.
    pub(super) name_patterns: u64,
    /// Has alternatives: they are first checked and then evaluated again for the error report.
    pub(super) has_alternatives: bool,
    /// Applied in place, to the same value.
    pub(super) in_place: Vec<usize>,
    /// A member of the value meets one of these.
    pub(super) members: Vec<usize>,
    /// Every member of the value meets all of these.
    pub(super) all_members: Vec<usize>,
    /// References to anchors, resolved when all anchors are known.
    pub(super) anchors: Vec<(String, String)>,
}

impl Node {
    /// `costs` are those of schemas that are applied in place, `inner` those of schemas that are applied one level
    /// deeper.
    ///
    /// Each member counts as a value of its own in [`Size`](super::Size), so a value pays either for itself or for what
    /// a member pays, whichever is more; what is applied in place is paid by the same value and adds up.
    pub(super) fn cost(&self, costs: &[Cost], inner: &[Cost]) -> Cost {
        let sum = |of: &dyn Fn(&Cost) -> u64, which: &[usize], from: &[Cost]| {
            which.iter().fold(0u64, |sum, node| sum.saturating_add(of(&from[*node])))
        };
        let total = |of: &dyn Fn(&Cost) -> u64, own: u64| {
            let one = self.members.iter().map(|node| of(&inner[*node])).max().unwrap_or(0);
            let deeper = one.saturating_add(sum(of, &self.all_members, inner));
            sum(of, &self.in_place, costs).saturating_add(own.max(deeper))
        };
        let steps = total(&|cost| cost.steps, self.own.steps).saturating_add(self.whole_value);
        let again = if self.has_alternatives { steps } else { self.whole_value };
        Cost {
            steps,
            text: total(&|cost| cost.text, self.own.text).saturating_add(self.name_patterns),
            report_steps: total(&|cost| cost.report_steps, self.own.steps.saturating_add(self.copied))
                .saturating_add(again),
            schemas: 0,
        }
    }
}
