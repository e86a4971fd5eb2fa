//! What is read of both stores.

use std::collections::HashMap;

use pes::domain::hitl::SuspensionStatus;
use pes::domain::ids::{MessageId, PayloadId, RunId, TenantPk, ThreadId, ThreadPk};
use pes::domain::lookup::LookupKey;
use pes::domain::run::{CallerStatus, ResultStatus};
use pes::domain::usage::UsageGroup;
use pes::engine::step::RowKind;
use pes::store::outbox::{DeliveryStatus, TargetKind};
use pes::store::{
    MAX_PAGE_BYTES, ObservationAsk, Order, PageAsk, Result, RunEnd, RunsByStatusAsk, Size, SpendKey, SuspensionAsk,
    SuspensionsWanted, ThreadFilter, UsageAsk,
};
use uuid::Uuid;

use super::random::TEXTS;
use super::writes::{KEYS, OBSERVED, PERIODS, SPENDERS, STATUSES, UNITS};
use super::{AnyStore, Comparison, REPLICAS, chores, pages};

/// How many kinds of reads there are of a thread, of a tenant, and of the server.
const OF_THREAD: u64 = 8;
const OF_TENANT: u64 = 17;
const OF_SERVER: u64 = 9;

impl Comparison {
    /// After each step.
    pub async fn read_some(&mut self) {
        let (of_tenant, tenant) = (self.random.below(OF_TENANT), self.a_tenant());
        self.read_tenant(tenant, of_tenant).await;
        if let Some(pk) = self.a_thread() {
            let of_thread = self.random.below(OF_THREAD);
            self.read_thread(pk, of_thread).await;
        }
        let of_server = self.random.below(OF_SERVER);
        self.read_server(of_server).await;
    }

    /// At the end.
    pub async fn read_all(&mut self) {
        for pk in self.threads.clone() {
            for which in 0..OF_THREAD {
                self.read_thread(pk, which).await;
            }
        }
        for tenant in self.tenants {
            for which in 0..OF_TENANT {
                self.read_tenant(tenant, which).await;
            }
        }
        for which in 0..OF_SERVER {
            self.read_server(which).await;
        }
    }

    async fn read_thread(&mut self, pk: ThreadPk, which: u64) {
        let limit = 1 + self.random.below(4) as u32;
        match which {
            0 => {
                self.done(("load", pk), async |store| store.load(pk).await).await;
            }
            1 => {
                let mut ask = ObservationAsk { limit: 1 + limit * 3, ..ObservationAsk::default() };
                ask.after = self.random.number(8);
                ask.until = self.random.one_in(2).then(|| ask.after + self.random.number(8));
                if self.random.one_in(2) {
                    ask.types = OBSERVED[..2].to_vec();
                }
                self.done((pk, &ask), async |store| store.observations(pk, &ask).await).await;
            }
            2 => {
                self.done(("began", pk), async |store| store.run_began(pk, &"run_1".into()).await).await;
                self.done(("facts", pk), async |store| store.facts(pk, &"run_1".into(), 9).await).await;
            }
            3 => {
                let list = async |store: AnyStore| pages(limit, async |ask| store.messages(pk, &ask).await).await;
                self.done(("messages", pk, limit), list).await;
                let before: MessageId = self.random.text().into();
                self.done(("history", pk, &before), async |store| {
                    store.history(pk, &before, limit, MAX_PAGE_BYTES).await
                })
                .await;
            }
            4 => {
                let ids: Vec<PayloadId> = TEXTS.iter().map(|id| (*id).into()).collect();
                let read = async |store: AnyStore| -> Result<_> {
                    let mut payloads = store.payloads(pk, &ids).await?;
                    payloads.sort_by(|one, other| one.0.cmp(&other.0));
                    Ok(payloads)
                };
                self.done(("payloads", pk), read).await;
            }
            5 => {
                self.done(("base", pk), async |store| store.base(pk).await).await;
                self.done(("outline", pk), async |store| store.outlines(&[pk]).await).await;
                let none = HashMap::new();
                let costs = self.done(("costs", pk), async |store| store.run_costs(&[pk], &none).await).await;
                let known: HashMap<_, _> =
                    costs.into_iter().filter_map(|costs| Some((costs.pk, costs.ended?))).collect();
                self.done(("costs after", &known), async |store| store.run_costs(&[pk], &known).await).await;
                self.done(("title", pk), async |store| store.titles(&[pk]).await).await;
                self.done(("version", pk), async |store| store.thread_versions(&[pk]).await).await;
            }
            6 => {
                for kind in RowKind::ALL {
                    let id = self.row_id(pk, kind);
                    self.done(("row", pk, kind, &id), async |store| store.row(pk, kind, &id).await).await;
                    let wanted = [(pk, kind, id)];
                    self.done(&wanted, async |store| store.rows_by_id(&wanted).await).await;
                }
            }
            _ => {
                for kind in RowKind::ALL {
                    let order = *self.random.of(&[Order::Ascending, Order::Descending]);
                    let list =
                        async |store: AnyStore| pages(limit, async |ask| store.rows(pk, kind, order, &ask).await).await;
                    self.done(("rows", pk, kind, order, limit), list).await;
                }
            }
        }
    }

    async fn read_tenant(&mut self, tenant: TenantPk, which: u64) {
        let (now, limit) = (self.now, 1 + self.random.below(4) as u32);
        let thread = if self.random.one_in(2) { self.a_thread() } else { None };
        match which {
            0 => self.read_threads(tenant, limit).await,
            1 => self.read_suspensions(tenant, thread, limit).await,
            2 => {
                let list = async |store: AnyStore| pages(limit, async |ask| store.tasks(tenant, &ask).await).await;
                self.done(("tasks", tenant, limit), list).await;
            }
            3 => self.read_runs(tenant, thread, limit).await,
            4 => self.read_usage(tenant, thread, limit).await,
            5 => {
                let (kind, target) = (*self.random.of(TargetKind::ALL), self.random.text());
                let list = async |store: AnyStore| {
                    pages(limit, async |ask| store.deliveries(tenant, kind, &target, &ask).await).await
                };
                self.done(("deliveries", tenant, kind, &target, limit), list).await;
                let status = self.random.one_in(2).then(|| *self.random.of(DeliveryStatus::ALL));
                let list = async |store: AnyStore| {
                    pages(limit, async |ask| store.deliveries_of_tenant(tenant, kind, status, &ask).await).await
                };
                self.done(("deliveries of tenant", tenant, kind, status, limit), list).await;
            }
            6 => {
                let (kind, digest) = (*self.random.of(&["chat", "schedule"]), *self.random.of(&["d", "e"]));
                let key = LookupKey { kind, digest: digest.into() };
                let run: RunId = format!("run_{}", self.random.below(5)).into();
                let listen = async |store: AnyStore| store.listen_until(tenant, &key, &run, now).await;
                self.done(("listen", tenant, &key, &run), listen).await;
                self.done((tenant, &key), async |store| store.lookups(tenant, &key, 100).await).await;
            }
            7 => {
                let id: ThreadId = self.random.thread_id().into();
                self.done(("named", tenant, &id), async |store| store.thread(tenant, &id).await).await;
                let list = async |store: AnyStore| pages(limit, async |ask| store.audit(tenant, &id, &ask).await).await;
                self.done(("audit", tenant, &id, limit), list).await;
            }
            8 => {
                let list =
                    async |store: AnyStore| pages(limit, async |ask| store.audit_of_tenant(tenant, &ask).await).await;
                self.done(("audit of tenant", tenant, limit), list).await;
            }
            9 => {
                let behind = (self.random.number(now + 1), thread.unwrap_or(ThreadPk::NONE));
                let read = async |store: AnyStore| store.threads_at_rest(tenant, now - 10, behind, limit).await;
                self.done(("at rest", tenant, behind, limit), read).await;
                let read = async |store: AnyStore| -> Result<_> {
                    let mut threads = store.recent_threads(tenant, now - 20).await?;
                    threads.sort();
                    Ok(threads)
                };
                self.done(("recent", tenant), read).await;
            }
            10 => {
                let behind = RunEnd { at: self.random.number(12), run: "run_".into(), thread: ThreadPk::NONE };
                let read = async |store: AnyStore| store.runs_since(tenant, &behind, 9, limit).await;
                self.done(("runs since", tenant, &behind, limit), read).await;
                self.done(("compacted", tenant), async |store| store.compacted(tenant).await).await;
            }
            11 => {
                self.done(("to begin", tenant), async |store| store.threads_to_begin(tenant, limit).await).await;
                self.done(("to begin", tenant), async |store| store.count_to_begin(tenant, limit).await).await;
                self.done(("held", tenant), async |store| store.first_held_line(tenant).await).await;
            }
            12 => {
                let (scope, key) = (self.random.text(), *self.random.of(KEYS));
                let read = async |store: AnyStore| store.idempotency(tenant, &scope, key).await;
                self.done(("response", tenant, &scope, key), read).await;
            }
            13 => {
                for kind in RowKind::ALL {
                    let id = self.row_id(thread.unwrap_or(ThreadPk::NONE), kind);
                    let find = async |store: AnyStore| store.find_row(tenant, kind, &id).await;
                    self.done(("find", tenant, kind, &id), find).await;
                }
            }
            14 => {
                let mut keys = Vec::new();
                for key_name in SPENDERS {
                    let unit = *self.random.of(UNITS);
                    let of_period = |period: &&str| SpendKey {
                        tenant: if unit == UNITS[0] { tenant } else { TenantPk::NONE },
                        key_name: (*key_name).to_owned(),
                        period: (*period).to_owned(),
                        unit,
                    };
                    keys.extend(PERIODS.iter().map(of_period));
                }
                self.done(&keys, async |store| store.spent(&keys).await).await;
            }
            15 => self.read_written(tenant, limit).await,
            _ => {
                for id in chores::SCHEDULES {
                    self.done((tenant, id), async |store| store.schedule_state(tenant, id).await).await;
                }
            }
        }
    }

    async fn read_threads(&mut self, tenant: TenantPk, limit: u32) {
        let filter = ThreadFilter {
            status: self.random.one_in(4).then(|| *self.random.of(STATUSES)),
            q: self.random.one_in(2).then(|| self.random.text()),
            result: self.random.one_in(4).then(|| *self.random.of(&[ResultStatus::Success, ResultStatus::Partial])),
        };
        let list = async |store: AnyStore| pages(limit, async |ask| store.threads(tenant, &filter, &ask).await).await;
        self.done((tenant, &filter, limit), list).await;
    }

    async fn read_suspensions(&mut self, tenant: TenantPk, thread: Option<ThreadPk>, limit: u32) {
        let status = self.random.one_in(2).then_some(SuspensionStatus::Resolved);
        let decided_by = self.random.one_in(2).then(|| (*self.random.of(&["ann", "Ä", "", "x"])).to_owned());
        let wanted =
            [SuspensionsWanted::Open, SuspensionsWanted::OpenByExpiry, SuspensionsWanted::Past { status, decided_by }];
        for wanted in wanted {
            let list = async |store: AnyStore| {
                let ask = async |page| {
                    let wanted = wanted.clone();
                    store.suspensions(&SuspensionAsk { tenant, thread, wanted, page }).await
                };
                pages(limit, ask).await
            };
            self.done((tenant, thread, &wanted, limit), list).await;
        }
    }

    async fn read_runs(&mut self, tenant: TenantPk, thread: Option<ThreadPk>, limit: u32) {
        let some = [CallerStatus::Running, CallerStatus::Failed];
        let statuses = if self.random.one_in(2) { Vec::new() } else { some.to_vec() };
        let since = self.random.one_in(2).then_some(4);
        let ask = |page| RunsByStatusAsk { tenant, thread, statuses: statuses.clone(), since, page };
        let list =
            async |store: AnyStore| pages(limit, async |page| store.runs_by_caller_status(&ask(page)).await).await;
        let what = (tenant, thread, &statuses, since, limit);
        self.done(("runs", what), list).await;
        let first = ask(PageAsk::first(1));
        self.done(("count", what), async |store| store.count_by_caller_status(&first).await).await;
    }

    async fn read_usage(&mut self, tenant: TenantPk, thread: Option<ThreadPk>, limit: u32) {
        for group in UsageGroup::ALL {
            let list = async |store: AnyStore| {
                let ask = async |page| store.usage(&UsageAsk { tenant, group, thread, from: 0, to: 11, page }).await;
                pages(limit, ask).await
            };
            self.done((tenant, group, thread, limit), list).await;
        }
        let read = async |store: AnyStore| -> Result<_> {
            let mut calls = store.latest_calls(tenant, 3, 10_000).await?;
            calls.sort_by_cached_key(|call| format!("{call:?}"));
            Ok(calls)
        };
        self.done(("latest calls", tenant), read).await;
    }

    async fn read_server(&mut self, which: u64) {
        let now = self.now;
        match which {
            0 => {
                let read = async |store: AnyStore| -> Result<_> {
                    let mut figures = store.figures(now, now).await?;
                    figures.size = Size::default();
                    // A row that does not exist has spent nothing: whether there is one is left open.
                    figures.spent.retain(|spent| spent.used > 0);
                    figures.runs.sort_by_key(|(status, _)| status.as_str());
                    figures.questions.sort_by_key(|open| open.kind.as_str());
                    figures.spent.sort_by_cached_key(|spent| format!("{spent:?}"));
                    figures.schedules.sort_by_cached_key(|due| format!("{due:?}"));
                    Ok(figures)
                };
                self.done("figures", read).await;
            }
            1 => {
                self.done("terms", async |store| store.threads_with_terms(ThreadPk::NONE, 100).await).await;
                self.done("unfinished", async |store| store.unfinished_threads(ThreadPk::NONE, 100).await).await;
            }
            2 => {
                self.done("wake", async |store| store.next_wake().await).await;
            }
            3 => {
                let (replica, lease) = (*self.random.of(&REPLICAS), Uuid::from_u128(9));
                let read = async |store: AnyStore| store.claimable(now, replica, lease, 5).await;
                self.done(("claimable", replica), read).await;
            }
            4 => {
                let replica = *self.random.of(&REPLICAS);
                self.done(("due", replica), async |store| store.due(replica, now, 5).await).await;
            }
            5 => {
                let until = self.random.number(now + 2);
                self.done(("newest", until), async |store| store.newest_activity(until).await).await;
            }
            6 => {
                let read = async |store: AnyStore| -> Result<_> {
                    let mut tenants = [store.tenants_due(now).await?, store.tenants_to_begin().await?];
                    tenants.iter_mut().for_each(|tenants| tenants.sort());
                    Ok((tenants, store.next_single().await?, store.next_batched().await?))
                };
                self.done("due deliveries, and threads to begin", read).await;
            }
            7 => {
                self.done("next schedule", async |store| store.next_schedule().await).await;
                let read = async |store: AnyStore| -> Result<_> {
                    let mut due = store.due_schedules(now, 100).await?;
                    due.sort_by(|one, other| (one.tenant, &one.id).cmp(&(other.tenant, &other.id)));
                    Ok(due)
                };
                self.done("due schedules", read).await;
            }
            _ => {
                self.done("tenants", async |store| store.tenants().await).await;
            }
        }
    }
}
