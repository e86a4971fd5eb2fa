//! The text of `/metrics`.

/// The value of a sample; `None`: there is no such sample.
pub fn found(text: &str, sample: &str) -> Option<f64> {
    let value = text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '))?;
    Some(value.parse().expect("a number"))
}

/// The value of a sample that is there.
#[track_caller]
pub fn value(text: &str, sample: &str) -> f64 {
    found(text, sample).unwrap_or_else(|| panic!("no {sample} in\n{text}"))
}
