//! Small files: at most 400 lines, a median under 150, tests inside at most a third.

use super::{Source, all_sources, keep};

const LONGEST: usize = 400;
const MEDIAN: usize = 150;

fn check_size(source: &Source) -> Vec<String> {
    let lines = source.text.lines().count();
    let mut breaches = Vec::new();
    if lines > LONGEST {
        breaches.push(format!("{}: {lines} lines, more than {LONGEST}", source.path));
    }
    if source.test_lines() < lines && source.test_lines() * 3 > lines {
        breaches.push(format!(
            "{}: {} of {lines} lines are tests, more than a third",
            source.path,
            source.test_lines()
        ));
    }
    breaches
}

fn median(sources: &[&Source]) -> usize {
    let mut lines: Vec<usize> = sources.iter().map(|source| source.text.lines().count()).collect();
    lines.sort_unstable();
    lines[lines.len() / 2]
}

#[test]
fn files_stay_small() {
    let mut breaches: Vec<String> = all_sources("src").into_iter().flat_map(check_size).collect();
    for source in all_sources("tests") {
        let lines = source.text.lines().count();
        if lines > LONGEST {
            breaches.push(format!("{}: {lines} lines, more than {LONGEST}", source.path));
        }
    }
    keep(breaches);
    let median = median(&all_sources("src"));
    assert!(median < MEDIAN, "the median file has {median} lines");
}

#[test]
fn a_file_that_grew_is_seen() {
    assert_eq!(check_size(&Source::new("src/a.rs", &"x\n".repeat(401))).len(), 1);
    assert!(check_size(&Source::new("src/a.rs", &"x\n".repeat(400))).is_empty());
    let half = format!("{}#[cfg(test)]\nmod tests {{\n{}", "x\n".repeat(10), "y\n".repeat(10));
    assert_eq!(check_size(&Source::new("src/a.rs", &half)).len(), 1);
}
