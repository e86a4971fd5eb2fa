//! Sums of what model calls took.

use std::collections::BTreeMap;

use super::{Kept, State};
use crate::domain::Millis;
use crate::domain::usage::{ModelUse, UsageGroup, UsageSum};
use crate::engine::step::RowKind;
use crate::store::cursor::page;
use crate::store::usage::sum_cursor;
use crate::store::{Page, Result, UsageAsk, text};

impl State {
    pub(super) fn usage(&self, ask: &UsageAsk) -> Result<Page<UsageSum>> {
        let mut sums: BTreeMap<(String, String), UsageSum> = BTreeMap::new();
        let kept = self.threads.values().filter(|kept| kept.thread.tenant == ask.tenant);
        let here = kept.map(Kept::used).collect::<Result<Vec<_>>>()?;
        let gone = self.used.iter().filter(|(tenant, ..)| *tenant == ask.tenant);
        let all = here.into_iter().flatten().chain(gone.map(|(_, at, used)| (*at, used.clone())));
        for (at, used) in all.filter(|(at, _)| (ask.from..ask.to).contains(at)) {
            let (key, sub) = self.group(ask, &used, at);
            let sum = sums.entry((key.clone(), sub.clone())).or_default();
            (sum.key, sum.sub) = (key, sub);
            sum.calls += 1;
            sum.usage.add(&used.usage);
            sum.cost_nanos += used.cost_nanos.unwrap_or(0);
            sum.unpriced += u64::from(used.cost_nanos.is_none());
        }
        let after = ask.after()?;
        let found = sums.into_iter().filter(|(group, _)| *group > after).map(|(_, sum)| sum);
        Ok(page(found.take(ask.page.limit as usize + 1).collect(), ask.page.limit, sum_cursor))
    }

    /// The calls of a thread that is deleted are counted further on.
    pub(super) fn keep_usage(&mut self, gone: &Kept) -> Result<()> {
        let tenant = gone.thread.tenant;
        let used = gone.used()?.into_iter();
        self.used.extend(used.map(|(at, used)| (tenant, at, ModelUse { run: "deleted".into(), item: None, ..used })));
        Ok(())
    }

    fn group(&self, ask: &UsageAsk, used: &ModelUse, at: Millis) -> (String, String) {
        let run = || used.run.to_string();
        match ask.group {
            UsageGroup::Run => (run(), String::new()),
            UsageGroup::Item => (run(), used.item.as_ref().map(ToString::to_string).unwrap_or_default()),
            UsageGroup::Model => (used.provider.clone(), used.model.clone()),
            UsageGroup::Tenant => (self.tenants[ask.tenant.0 as usize - 1].clone(), String::new()),
            UsageGroup::Day => (day(at), String::new()),
        }
    }
}

impl Kept {
    /// What its model calls took, and when.
    fn used(&self) -> Result<Vec<(Millis, ModelUse)>> {
        let rows = self.rows.values().filter(|row| row.kind == RowKind::Usage);
        rows.map(|row| Ok((row.ord, text::used(&row.body)?))).collect()
    }
}

fn day(at: Millis) -> String {
    let date = jiff::Timestamp::from_millisecond(at).unwrap_or_default().to_zoned(jiff::tz::TimeZone::UTC).date();
    date.to_string()
}
