//! What happens to threads and tables beside commits: deletion, retention, schedules, spending without a thread.

use pes::domain::ids::{TenantPk, ThreadPk};
use pes::domain::usage::ModelUse;
use pes::engine::step::RowKind;
use pes::store::documents::DocumentKind;
use pes::store::{
    CallPosition, Compaction, Due, Fire, LookupPosition, NewSpendNotice, PastPeriods, PlannedSchedule, Result, RunEnd,
    ScheduleMove, SpendChange, ThreadRow,
};

use super::{AnyStore, Comparison, REPLICAS};

pub(super) const SCHEDULES: &[&str] = &["s", "S", "\0", "é"];

impl Comparison {
    pub async fn change_thread(&mut self) {
        let Some(pk) = self.a_thread() else { return };
        let Some(thread) = self.done(("thread", pk), async |store| store.thread_by_pk(pk).await).await else { return };
        match self.random.below(7) {
            0 => self.delete(&thread).await,
            1 | 2 => self.compact(&thread).await,
            3 => self.drop_rows(pk).await,
            4 => {
                self.done(("drop below floor", pk), async |store| store.drop_below_floor(pk, 100).await).await;
            }
            5 => {
                let replica = *self.random.of(&REPLICAS);
                self.done(("reserve", pk), async |store| store.reserve(replica, &[pk]).await).await;
            }
            _ => match self.random.below(3) {
                0 => self.done(("crash", pk), async |store| store.count_crash(pk).await).await,
                1 => self.done(("forget crashes", pk), async |store| store.forget_crashes(&[pk]).await).await,
                _ => self.done(("of others", pk), async |store| store.forget_crashes_of_others(&[pk]).await).await,
            },
        }
    }

    /// The rows that are removed later can be found by nobody, so both stores may leave as many as they like.
    async fn delete(&mut self, thread: &ThreadRow) {
        let pk = thread.pk;
        let mut erasure = self.sqlite.erasure(pk, thread.fence.version - i64::from(self.random.one_in(6)));
        (erasure.audit.tenant, erasure.now) = (thread.tenant, self.now);
        let call = self.model_call();
        erasure.calls.push((self.random.number(12), call));
        erasure.deliveries.push(self.delivery());
        erasure.spend.push(SpendChange { cap: None, ..self.spending(thread.tenant) });
        let is_gone = self.done(("delete", &erasure), async |store| store.delete_thread(erasure.clone()).await).await;
        if !is_gone {
            return;
        }
        self.threads.retain(|other| *other != pk);
        let erase = async |store: AnyStore| -> Result<()> {
            while store.erase_rows(100).await? > 0 {}
            Ok(())
        };
        self.done("erase", erase).await;
    }

    async fn compact(&mut self, thread: &ThreadRow) {
        let (pk, min_seq) = (thread.pk, thread.min_seq);
        let upto = min_seq + self.random.number(6);
        let last = self.done(("last entry", pk, upto), async |store| store.last_entry(pk, upto).await).await;
        let Some(last) = last.filter(|last| *last >= min_seq) else { return };
        let unnamed = if self.random.one_in(2) { vec!["n\0".to_owned()] } else { Vec::new() };
        let compaction = Compaction { thread: pk, min_seq, upto: last, base: "{}".into(), unnamed };
        let _ = self.same(&compaction, async |store| store.compact(compaction.clone()).await).await;
        self.done(("old entries", pk), async |store| store.old_entries(pk, last, 50).await).await;
        self.done(("drop entries", pk), async |store| store.drop_entries(pk, last).await).await;
    }

    async fn drop_rows(&mut self, pk: ThreadPk) {
        let mut some = Vec::new();
        for _ in 0..4 {
            let kind = *self.random.of(&RowKind::ALL);
            let row = (kind, self.row_id(pk, kind));
            // A run and its caller status stay together.
            if !matches!(kind, RowKind::Run | RowKind::CallerStatus) && !some.contains(&row) {
                some.push(row);
            }
        }
        self.done(("drop rows", pk, &some), async |store| store.drop_rows(pk, some.clone()).await).await;
    }

    /// Schedules, notices of caps, and usage of no thread.
    pub async fn plan(&mut self) {
        let (tenant, id) = (self.a_tenant(), (*self.random.of(SCHEDULES)).to_owned());
        let next = (!self.random.one_in(4)).then_some(Due { due: self.now + 3, look_at: self.now + 5 });
        let read = async |store: AnyStore| store.document(tenant, DocumentKind::Schedule, &id).await;
        let document = self.done(("document", tenant, &id), read).await;
        let version = document.map_or_else(|| 1 + self.random.number(3), |document| document.version);
        match self.random.below(5) {
            0 | 1 => {
                let timing = (*self.random.of(&["t", "u"])).to_owned();
                let planned = PlannedSchedule { tenant, id, version, timing, next };
                self.done(&planned, async |store| store.plan_schedule(planned.clone()).await).await;
            }
            2 => {
                let state = self.done(("state", &id), async |store| store.schedule_state(tenant, &id).await).await;
                let Some(state) = state else { return };
                let Some(due) = state.next else { return };
                let (due, said) = (due.due + i64::from(self.random.one_in(5)), Some(self.random.text()));
                let moved = ScheduleMove { tenant, id, version: state.version, due, next, missed: 2, said };
                self.done(&moved, async |store| store.move_schedule(moved.clone()).await).await;
            }
            3 => {
                let (key, percent) = (self.spender(tenant), *self.random.of(&[80, 100]));
                let cap = 100 + self.random.number(2) * 50;
                let notice = NewSpendNotice { key, percent, cap, now: self.now, deliveries: Vec::new() };
                self.done(&notice, async |store| store.add_spend_notice(notice.clone()).await).await;
            }
            _ => {
                let (at, call) = (self.random.number(12), self.model_call());
                let spend = vec![SpendChange { cap: None, ..self.spending(tenant) }];
                let add = async |store: AnyStore| store.add_usage(tenant, at, vec![call.clone()], spend.clone()).await;
                self.done(("usage", at, &call, &spend), add).await;
            }
        }
    }

    /// The time for which a commit is, or another one.
    pub async fn fire(&mut self, tenant: TenantPk) -> Option<Fire> {
        let id = (*self.random.of(SCHEDULES)).to_owned();
        let state = self.done(("state", &id), async |store| store.schedule_state(tenant, &id).await).await?;
        let due = state.next?.due + i64::from(self.random.one_in(5));
        let next = (!self.random.one_in(4)).then(|| Due { due: self.now + 2, look_at: self.now + 4 });
        Some(Fire { tenant, id, version: state.version, due, next })
    }

    fn model_call(&mut self) -> ModelUse {
        serde_json::from_value(self.usage()).expect("it has the shape of a call")
    }

    pub async fn forget(&mut self) {
        let (tenant, now) = (self.a_tenant(), self.now);
        // Which of those of the same time are the first is left open: a step deletes all of them.
        match self.random.below(6) {
            0 => {
                self.done("keys", async |store| store.forget_idempotency(now - 100, 1_000).await).await;
            }
            1 => {
                self.done("deliveries", async |store| store.forget_deliveries(now - 60, 1_000).await).await;
            }
            2 => {
                let before = PastPeriods { day: "2026-11-25".into(), month: "2026-11".into() };
                // How many: there may be rows that have spent nothing.
                self.done("spending", async |store| store.forget_spend(tenant, &before, 1_000).await.map(drop)).await;
            }
            3 => {
                let mut behind = Some(LookupPosition::beginning());
                while let Some(at) = behind {
                    let step = ("lookups", &at);
                    behind = self.done(step, async |store| store.forget_lookups(now - 100, &at, 3).await).await.next;
                }
            }
            4 => {
                let mut behind = Some(CallPosition::beginning());
                while let Some(at) = behind {
                    let step = ("usage", &at);
                    behind = self.done(step, async |store| store.forget_usage(tenant, 4, &at, 3).await).await.next;
                }
            }
            _ => {
                let upto = RunEnd { at: now, run: self.random.text().into(), thread: ThreadPk::NONE };
                self.done(("compacted", &upto), async |store| store.set_compacted(tenant, &upto).await).await;
            }
        }
    }
}
