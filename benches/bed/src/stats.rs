//! Summaries of many values.

/// The value at this quantile (0 to 1) of the sorted values; 0 without any.
pub fn percentile(sorted: &[f64], part: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * part).round() as usize).copied().unwrap_or(0.0)
}

pub fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values
}

pub fn median(values: Vec<f64>) -> f64 {
    let sorted = sorted(values);
    match sorted.len() {
        0 => 0.0,
        even if even % 2 == 0 => (sorted[even / 2 - 1] + sorted[even / 2]) / 2.0,
        odd => sorted[odd / 2],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let values = sorted((1..=101).rev().map(f64::from).collect());
        assert_eq!(
            (percentile(&values, 0.5), percentile(&values, 0.99), percentile(&values, 1.0)),
            (51.0, 100.0, 101.0)
        );
        assert_eq!(percentile(&[], 0.5), 0.0);
        assert_eq!(percentile(&[7.0], 0.99), 7.0);
    }

    #[test]
    fn a_median_lies_in_the_middle() {
        assert_eq!(
            (median(vec![3.0, 1.0, 2.0]), median(vec![4.0, 1.0, 2.0, 3.0]), median(Vec::new())),
            (2.0, 2.5, 0.0)
        );
    }
}
