//! Samples of real servers, stretched in time, in the format of `promtool test rules`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// One response of `/metrics`; `None`: there was none.
pub struct Scrape(Option<BTreeMap<String, f64>>, BTreeSet<String>);

/// Ages of conditions: while a condition holds, each minute adds a minute.
const AGES: [&str; 5] = [
    "pes_run_no_progress_seconds",
    "pes_suspension_oldest_seconds",
    "pes_thread_overdue_seconds",
    "pes_outbox_oldest_due_seconds",
    "pes_schedule_lag_seconds",
];

impl Scrape {
    pub fn of(text: &str) -> Self {
        let samples = text.lines().filter(|line| line.starts_with("pes_"));
        let samples = samples.filter_map(|line| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().expect("a number")))
        });
        let gauges = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" gauge"));
        Self(Some(samples.collect()), gauges.map(str::to_owned).collect())
    }

    pub fn failed() -> Self {
        Self(None, BTreeSet::new())
    }

    /// The value of this series, which exists.
    pub fn value(&self, series: &str) -> f64 {
        *self.0.as_ref().and_then(|samples| samples.get(series)).unwrap_or_else(|| panic!("no series {series}"))
    }

    /// What Prometheus would have after this many minutes in which the same happened every minute: counters grow by
    /// their value since the process started, ages by a minute, and gauges stay.
    fn after(&self, series: &str, minutes: u32) -> Option<f64> {
        let value = *self.0.as_ref()?.get(series)?;
        let family = series.split('{').next().unwrap_or(series);
        Some(if AGES.contains(&family) && value > 0.0 {
            value + f64::from(minutes * 60)
        } else if self.1.contains(family) {
            value
        } else {
            value * f64::from(minutes)
        })
    }

    fn names(&self) -> impl Iterator<Item = &String> {
        self.0.iter().flat_map(BTreeMap::keys)
    }
}

/// A server that is scraped once a minute: for this many minutes its state was that of this scrape.
pub struct Instance<'s> {
    pub name: &'s str,
    pub phases: Vec<(&'s Scrape, u32)>,
}

impl Instance<'_> {
    fn series(&self) -> String {
        let labelled = |series: &str| {
            let ours = format!("job=\"pes\",instance=\"{}\"", self.name);
            series
                .split_once('{')
                .map_or(format!("{series}{{{ours}}}"), |(name, rest)| format!("{name}{{{ours},{rest}"))
        };
        let minutes = || self.phases.iter().flat_map(|(scrape, minutes)| (1..=*minutes).map(move |at| (scrape, at)));
        let mut text = String::new();
        let mut line = |name: &str, values: Vec<Option<f64>>| {
            let values = values.into_iter().map(|value| value.map_or("_".to_owned(), |value| value.to_string()));
            let values = values.collect::<Vec<_>>().join(" ").replace("inf", "Inf");
            writeln!(text, "      - {{series: '{}', values: '{values}'}}", labelled(name)).expect("a text takes it");
        };
        line("up", minutes().map(|(scrape, _)| Some(f64::from(u8::from(scrape.0.is_some())))).collect());
        let names: BTreeSet<&String> = self.phases.iter().flat_map(|(scrape, _)| scrape.names()).collect();
        for name in names {
            line(name, minutes().map(|(scrape, at)| scrape.after(name, at)).collect());
        }
        text
    }
}

/// An expression, and its value at a minute: labels and value.
pub struct Expected {
    pub expression: String,
    pub minute: u32,
    pub samples: Vec<(String, f64)>,
}

/// Makes promtool evaluate expressions, and the rules of `deploy/`, over the samples of these instances. `Err`: the
/// differences.
pub fn evaluate(folder: &Path, instances: &[Instance<'_>], expected: &[Expected]) -> Result<(), String> {
    let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/prometheus/alerts.yml");
    let mut text = format!("rule_files: [\"{rules}\"]\nevaluation_interval: 1m\ntests:\n  - interval: 1m\n");
    text.push_str("    input_series:\n");
    instances.iter().for_each(|instance| text.push_str(&instance.series()));
    text.push_str("    promql_expr_test:\n");
    for Expected { expression, minute, samples } in expected {
        let samples: Vec<String> =
            samples.iter().map(|(labels, value)| format!("{{labels: '{labels}', value: {value}}}")).collect();
        let samples = samples.join(", ");
        writeln!(text, "      - expr: '{expression}'\n        eval_time: {minute}m\n        exp_samples: [{samples}]")
            .expect("a text takes it");
    }
    let file = folder.join("rules.test.yml");
    std::fs::write(&file, text).expect("the folder takes files");
    let output = Command::new("promtool").args(["test", "rules"]).arg(&file).output();
    let output = output.unwrap_or_else(|error| panic!("promtool: {error}: run scripts/test --peers"));
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() { Ok(()) } else { Err(said) }
}
