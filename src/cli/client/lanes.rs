//! The lanes of a plan, drawn like a version history: one row for each item, and the lanes of its dependencies.

use std::collections::HashMap;

/// The content of a row.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// The item's own lane.
    pub lane: usize,
    /// Lanes of its dependencies, and whether the lane ends here.
    pub from: Vec<(usize, bool)>,
    /// Lanes that pass through.
    pub through: Vec<usize>,
}

/// An item takes the lane of its leftmost dependency that ends here, else the first free one. A lane stays open until the
/// last dependent of its item. Dependencies are indices of earlier rows; others are ignored.
pub(super) fn rows(dependencies: &[Vec<usize>]) -> Vec<Row> {
    let mut last: HashMap<usize, usize> = HashMap::new();
    for (row, of) in dependencies.iter().enumerate() {
        last.extend(of.iter().filter(|&&one| one < row).map(|&one| (one, row)));
    }
    let mut open: Vec<Option<usize>> = Vec::new();
    let mut lane_of: Vec<usize> = Vec::new();
    let mut rows = Vec::new();
    for (row, of) in dependencies.iter().enumerate() {
        let before = open.clone();
        let mut from: Vec<(usize, bool)> =
            of.iter().filter(|&&one| one < row).map(|&one| (lane_of[one], last[&one] == row)).collect();
        from.sort_unstable();
        from.dedup();
        from.iter().filter(|(_, ends)| *ends).for_each(|(lane, _)| open[*lane] = None);
        let ended = from.iter().find(|(_, ends)| *ends).map(|(lane, _)| *lane);
        let lane = ended.or_else(|| open.iter().position(Option::is_none)).unwrap_or(open.len());
        if lane == open.len() {
            open.push(None);
        }
        open[lane] = last.contains_key(&row).then_some(row);
        lane_of.push(lane);
        let through = (0..before.len()).filter(|&at| at != lane && before[at].is_some() && open[at] == before[at]);
        rows.push(Row { lane, from, through: through.collect() });
    }
    rows
}

/// Draws the lanes of a row, with the item's shape in its own lane; `lanes` lanes wide.
pub(super) fn draw(row: &Row, shape: &str, lanes: usize, unicode: bool) -> String {
    let ends = row.from.iter().map(|(lane, _)| *lane).chain([row.lane]);
    let (first, last) = ends.fold((row.lane, row.lane), |(first, last), lane| (first.min(lane), last.max(lane)));
    let mut drawn = String::new();
    for lane in 0..lanes {
        let between = first < last && (first..=last).contains(&lane);
        let joint = row.from.iter().find(|(from, _)| *from == lane).map(|(_, ends)| *ends);
        let sides = (lane > first && between, lane < last && between);
        let cell = match joint {
            _ if lane == row.lane => shape,
            Some(ends) => joined(ends, sides, unicode),
            None if row.through.contains(&lane) => {
                if unicode {
                    "│"
                } else {
                    "|"
                }
            }
            None if between => {
                if unicode {
                    "─"
                } else {
                    "-"
                }
            }
            None => " ",
        };
        drawn.push_str(cell);
        if lane + 1 < lanes {
            drawn.push_str(match (between && lane < last, unicode) {
                (true, true) => "─",
                (true, false) => "-",
                (false, true | false) => " ",
            });
        }
    }
    drawn
}

/// A lane that comes from a dependency; `sides`: whether a line continues to the left and to the right.
fn joined(ends: bool, sides: (bool, bool), unicode: bool) -> &'static str {
    match (unicode, ends, sides) {
        (false, true, (true, false)) => "/",
        (false, true, _) => "\\",
        (false, false, _) => "|",
        (true, true, (false, _)) => "└",
        (true, true, (true, false)) => "┘",
        (true, true, (true, true)) => "┴",
        (true, false, (false, _)) => "├",
        (true, false, (true, false)) => "┤",
        (true, false, (true, true)) => "┼",
    }
}

#[cfg(test)]
mod tests {
    use super::{draw, rows};

    fn drawn(dependencies: &[&[usize]], unicode: bool) -> Vec<String> {
        let dependencies: Vec<Vec<usize>> = dependencies.iter().map(|of| of.to_vec()).collect();
        let rows = rows(&dependencies);
        let lanes = rows.iter().map(|row| row.lane + 1).max().unwrap();
        rows.iter().map(|row| draw(row, "o", lanes, unicode).trim_end().to_owned()).collect()
    }

    #[test]
    fn lanes_part_cross_and_meet() {
        // orders; photos, policy and carrier after it; amounts after photos and policy; refund; stock after photos; notify
        // after refund; report after carrier, notify and stock.
        let plan: [&[usize]; 9] = [&[], &[0], &[0], &[0], &[1, 2], &[4], &[1], &[5], &[3, 7, 6]];
        let expected = ["o", "├─o", "├─│─o", "o │ │", "│ ├─o", "│ │ o", "│ o │", "│ │ o", "o─┴─┘"];
        assert_eq!(drawn(&plan, true), expected);
        assert_eq!(drawn(&[&[], &[0], &[0], &[1, 2]], false), ["o", "|-o", "o |", "o-/"]);
    }

    #[test]
    fn what_stands_on_its_own_takes_a_lane_that_is_free() {
        assert_eq!(drawn(&[&[], &[], &[0, 1], &[]], true), ["o", "│ o", "o─┘", "o"]);
        assert_eq!(drawn(&[&[9]], true), ["o"], "a dependency that is not there");
    }
}
