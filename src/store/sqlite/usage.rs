//! Sums of the usage of model calls. They are added up here, because SQLite would sort all calls first.

use std::collections::BTreeMap;

use async_trait::async_trait;
use futures_util::TryStreamExt as _;
use rusqlite::{Transaction, params};
use serde_json::{Value, json};
use tokio::task::coop::consume_budget;

use super::{Sqlite, spend};
use crate::domain::Millis;
use crate::domain::ids::TenantPk;
use crate::domain::spend::Capped;
use crate::domain::usage::{ModelUse, UsageGroup, UsageSum};
use crate::store::columns::Columns as _;
use crate::store::forgetting::{Examined, MAX_EXAMINED};
use crate::store::usage::read_calls;
use crate::store::{
    CallPosition, Forgotten, KeyStore as _, Page, Result, SpendChange, UsageAsk, UsageReads, UsageStore,
};

/// The calls to sum, in no order: SQLite would sort their bodies in memory, however many there are.
pub(super) const CALLS: &str = "
SELECT ord, body FROM thread_rows WHERE kind = 11 AND tenant = ?1 AND ord >= ?2 AND ord < ?3
UNION ALL SELECT ord, body FROM usage_kept WHERE tenant = ?1 AND ord >= ?2 AND ord < ?3";

/// `+`, so that SQLite reads the thread's rows, and not all calls of the tenant.
pub(super) const CALLS_OF_THREAD: &str = "
SELECT ord, body FROM thread_rows WHERE pk = ?4 AND kind = 11 AND +tenant = ?1 AND ord >= ?2 AND ord < ?3";

const LATEST: &str = "
SELECT body FROM thread_rows WHERE kind = 11 AND tenant = ? AND ord >= ? ORDER BY ord DESC LIMIT ?";

pub(super) const ADD: &str = "INSERT INTO usage_kept (tenant, ord, body) VALUES (?1, ?2, ?3)";

/// Whether the usage `u` of an existing thread may be deleted: unless the thread is on hold, or has terms of its own that
/// keep it for ever, or that cannot be read.
macro_rules! may_go {
    () => {
        "NOT EXISTS (
             SELECT 1 FROM thread_rows h WHERE h.pk = u.pk AND h.kind = 14 AND iif(json_valid(h.body),
                 h.body ->> '$.hold' IS NOT NULL OR h.body ->> '$.terms.threadDays' = 'forever', 1))"
    };
}

/// Read beside the writer, so that no commit waits for it.
pub(super) const EXAMINE: &str = concat!(
    "SELECT u.ord, u.pk, u.id, ",
    may_go!(),
    " AS may_go FROM thread_rows u
     WHERE u.kind = 11 AND u.tenant = ?1 AND u.ord < ?2 AND u.ord >= ?3 AND (u.ord, u.pk, u.id) > (?3, ?4, ?5)
     ORDER BY u.ord, u.pk, u.id LIMIT ?6"
);

/// Deletes these calls of existing threads, unless a thread was put on hold since they were examined.
pub(super) const FORGET_EXAMINED: &str = concat!(
    "DELETE FROM thread_rows WHERE rowid IN (
         SELECT u.rowid FROM json_each(?1) w
         CROSS JOIN thread_rows u ON u.pk = w.value ->> 0 AND u.kind = 11 AND u.id = w.value ->> 1
         WHERE ",
    may_go!(),
    ")"
);

const FORGET: &str = "
DELETE FROM usage_kept WHERE rowid IN (SELECT rowid FROM usage_kept WHERE tenant = ?1 AND ord < ?2 ORDER BY ord LIMIT ?3)";

#[async_trait]
impl UsageReads for Sqlite {
    async fn usage(&self, ask: &UsageAsk) -> Result<Page<UsageSum>> {
        let mut sums = PageOfSums::begin(ask)?;
        let Some(tenant) = self.tenant_name(ask.tenant).await? else { return Ok(sums.end()) };
        let query = sqlx::query(if ask.thread.is_some() { CALLS_OF_THREAD } else { CALLS });
        let query = query.bind(ask.tenant.0).bind(ask.from).bind(ask.to).bind(ask.thread.map(|pk| pk.0));
        let mut calls = query.fetch(&self.readers);
        while let Some(row) = calls.try_next().await.map_err(self.unreadable())? {
            // Many rows may be ready at once, and other tasks need this thread, too.
            consume_budget().await;
            sums.add(&tenant, row.number("ord")?, row.text("body")?);
        }
        Ok(sums.end())
    }

    async fn latest_calls(&self, tenant: TenantPk, from: Millis, limit: u32) -> Result<Vec<ModelUse>> {
        let query = sqlx::query(LATEST).bind(tenant.0).bind(from).bind(limit);
        read_calls(&query.fetch_all(&self.readers).await.map_err(self.unreadable())?)
    }
}

#[async_trait]
impl UsageStore for Sqlite {
    async fn add_usage(
        &self,
        tenant: TenantPk,
        now: Millis,
        calls: Vec<ModelUse>,
        spend: Vec<SpendChange>,
    ) -> Result<()> {
        let add = move |tx: &Transaction<'_>| {
            for call in &calls {
                tx.prepare_cached(ADD)?.execute(params![tenant.0, now, json!(call).to_string()])?;
            }
            spend::change(tx, &spend, now)
        };
        self.writer.write(add).await
    }

    async fn forget_usage(
        &self,
        tenant: TenantPk,
        before: Millis,
        behind: &CallPosition,
        limit: u32,
    ) -> Result<Forgotten<CallPosition>> {
        let forget = move |tx: &Transaction<'_>| tx.prepare_cached(FORGET)?.execute(params![tenant.0, before, limit]);
        let kept = self.writer.chore(forget).await? as u64;
        let left = u64::from(limit).saturating_sub(kept);
        if left == 0 {
            return Ok(Forgotten { deleted: kept, next: Some(behind.clone()) });
        }
        let query = sqlx::query(EXAMINE).bind(tenant.0).bind(before).bind(behind.at).bind(behind.thread.0);
        let query = query.bind(&behind.id).bind(MAX_EXAMINED);
        let rows = query.fetch_all(&self.readers).await.map_err(self.unreadable())?;
        let Examined { deletable, next } = Examined::read(&rows, left, CallPosition::read)?;
        if deletable.is_empty() {
            return Ok(Forgotten { deleted: kept, next });
        }
        let calls = deletable.iter().map(|call| json!([call.thread.0, call.id])).collect::<Value>().to_string();
        let forget = move |tx: &Transaction<'_>| tx.prepare_cached(FORGET_EXAMINED)?.execute([calls]);
        Ok(Forgotten { deleted: kept + self.writer.chore(forget).await? as u64, next })
    }
}

/// The first groups after the cursor, one more than the page shows: what is kept does not depend on how many calls and
/// groups there are. A group that was dropped never belongs to the page, because all that are kept come before it.
struct PageOfSums<'a> {
    ask: &'a UsageAsk,
    /// The last group of the previous page.
    after: (String, String),
    /// By key and sub-key.
    groups: BTreeMap<(String, String), UsageSum>,
    unreadable: u64,
}

impl<'a> PageOfSums<'a> {
    fn begin(ask: &'a UsageAsk) -> Result<Self> {
        Ok(Self { ask, after: ask.after()?, groups: BTreeMap::new(), unreadable: 0 })
    }

    /// Adds a call of this tenant at this time. One that cannot be read is left out.
    fn add(&mut self, tenant: &str, at: Millis, body: &str) {
        let Ok(call) = serde_json::from_str::<ModelUse>(body) else {
            self.unreadable += 1;
            return;
        };
        let (most, group) = (self.ask.page.limit as usize + 1, group_of(self.ask.group, tenant, at, &call));
        let is_full = self.groups.len() >= most;
        if group <= self.after || is_full && self.groups.last_key_value().is_some_and(|(last, _)| *last < group) {
            return;
        }
        self.groups.entry(group).or_default().add(&call);
        if self.groups.len() > most {
            self.groups.pop_last();
        }
    }

    fn end(self) -> Page<UsageSum> {
        if self.unreadable > 0 {
            tracing::error!(calls = self.unreadable, "what model calls took cannot be read and is left out");
        }
        let sums = self.groups.into_iter().map(|((key, sub), sum)| UsageSum { key, sub, ..sum });
        self.ask.page_of(sums.collect())
    }
}

/// The key and the sub-key of the group that a call belongs to.
fn group_of(group: UsageGroup, tenant: &str, at: Millis, call: &ModelUse) -> (String, String) {
    let ModelUse { run, item, provider, model, .. } = call;
    match group {
        UsageGroup::Run => (run.to_string(), String::new()),
        UsageGroup::RunModel => (run.to_string(), format!("{provider}:{model}")),
        UsageGroup::Item => (run.to_string(), item.as_ref().map(ToString::to_string).unwrap_or_default()),
        UsageGroup::Model => (provider.clone(), model.clone()),
        UsageGroup::Tenant => (tenant.to_owned(), String::new()),
        UsageGroup::Day => (Capped::TenantDay.period(at), String::new()),
    }
}
