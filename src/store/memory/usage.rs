//! Sums of what model calls took.

use std::collections::BTreeMap;

use super::State;
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
        let rows = kept.flat_map(|kept| kept.rows.values()).filter(|row| row.kind == RowKind::Usage);
        for row in rows.filter(|row| (ask.from..ask.to).contains(&row.ord)) {
            let used = text::used(&row.body)?;
            let (key, sub) = self.group(ask, &used, row.ord);
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

fn day(at: Millis) -> String {
    let date = jiff::Timestamp::from_millisecond(at).unwrap_or_default().to_zoned(jiff::tz::TimeZone::UTC).date();
    date.to_string()
}
