//! Rates: `600/60s`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// At most `count` events at once, and on average `count` in each period of this length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Rate {
    pub count: u32,
    pub window: Duration,
}

/// The longest period.
const DAY: u64 = 24 * 3_600;

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no rate: write COUNT/SECONDS, as 600/60s, over a day (86400s) at most");
        let (count, window) = text.trim().split_once('/').ok_or_else(wrong)?;
        let seconds = window.trim().strip_suffix('s').ok_or_else(wrong)?;
        let count = count.trim().parse().ok().filter(|count| *count > 0).ok_or_else(wrong)?;
        let seconds = seconds.parse().ok().filter(|seconds| (1..=DAY).contains(seconds)).ok_or_else(wrong)?;
        Ok(Self { count, window: Duration::from_secs(seconds) })
    }
}

impl TryFrom<String> for Rate {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}s", self.count, self.window.as_secs())
    }
}

impl From<Rate> for String {
    fn from(rate: Rate) -> Self {
        rate.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_written_as_it_is_read() {
        let rate: Rate = " 600 / 60s".parse().expect("a rate");
        assert_eq!((rate.count, rate.window.as_secs(), rate.to_string().as_str()), (600, 60, "600/60s"));
        for wrong in ["600", "0/60s", "600/0s", "600/60", "-1/60s", "600/86401s", "", "a/bs"] {
            assert!(wrong.parse::<Rate>().unwrap_err().contains("COUNT/SECONDS"), "{wrong}");
        }
    }
}
