//! Random commits.

use pes::domain::ids::{TenantPk, ThreadPk};
use pes::domain::lookup::LookupKey;
use pes::domain::observation::{ObservationType, Record};
use pes::domain::run::CallerStatus;
use pes::domain::spend::Unit;
use pes::domain::thread::{ThreadProfile, ThreadStatus};
use pes::engine::step::{Keep, Row, RowKind};
use pes::store::outbox::{NewDelivery, TargetKind};
use pes::store::{
    Commit, Committed, IdempotencyRow, LeaseChange, NewLookup, NewThread, SpendChange, SpendKey, SpendNotice, ThreadRow,
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::super::bed::{after, record};
use super::{Comparison, REPLICAS};

pub(super) const STATUSES: &[ThreadStatus] = &ThreadStatus::ALL;
pub(super) const OBSERVED: &[ObservationType] =
    &[ObservationType::Intent, ObservationType::Title, ObservationType::RunStarted];
pub(super) const PERIODS: &[&str] = &["1970-01", "1970-01-01", "2026-11", "2026-10-31"];
pub(super) const SPENDERS: &[&str] = &["", "ann", "\0", "\u{1}0"];
pub(super) const UNITS: &[Unit] = &[Unit::Usd, Unit::Tokens];
pub(super) const KEYS: &[&str] = &["k1", "k2", "\0", "\u{1}0"];
const CALLER_STATUSES: &[CallerStatus] =
    &[CallerStatus::Queued, CallerStatus::Running, CallerStatus::NeedsAuth, CallerStatus::Failed];

impl Comparison {
    pub async fn commit(&mut self) {
        let old = if self.random.one_in(8) { None } else { self.a_thread() };
        let old = match old {
            Some(pk) => self.done(("thread", pk), async |store| store.thread_by_pk(pk).await).await,
            None => None,
        };
        let (tenant, mut commit) = match old {
            Some(thread) => (thread.tenant, self.next(&thread)),
            None => {
                let tenant = self.a_tenant();
                (tenant, self.creating(tenant))
            }
        };
        if self.random.one_in(3) {
            commit.fire = self.fire(tenant).await;
        }
        // Commits that a cap, a fence or a taken key stops are part of the comparison.
        let answer = self.done(("commit", &commit), async |store| store.commit(commit.clone()).await).await;
        if commit.create.is_some() && answer == Committed::Done {
            self.threads.push(commit.pk);
        }
    }

    fn creating(&mut self, tenant: TenantPk) -> Commit {
        let (pk, created_by) = (ThreadPk(1_000 + self.now), self.random.text());
        let (thread_id, created_at) = (self.random.thread_id().into(), self.now);
        let new = NewThread { tenant, thread_id, core: "pes".into(), created_at, created_by };
        let profile = ThreadProfile { title: Some(self.random.text()), ..ThreadProfile::default() };
        self.filled(Commit::creating(pk, new, profile, None), tenant)
    }

    fn next(&mut self, thread: &ThreadRow) -> Commit {
        let mut commit = self.filled(after(thread), thread.tenant);
        commit.floor = thread.floor + self.random.number(3);
        if self.random.one_in(6) {
            let title = self.random.one_in(4).then(|| self.random.text());
            commit.profile = Some(Box::new(ThreadProfile { title, ..ThreadProfile::default() }));
        }
        if self.random.one_in(10) {
            commit.fence.version += 1;
        }
        // Which of a stale fence and a full cap is answered is left open.
        if commit.fence != thread.fence || matches!(commit.lease, LeaseChange::Claim { .. }) {
            commit.spend.iter_mut().for_each(|change| change.cap = None);
        }
        commit
    }

    fn filled(&mut self, mut commit: Commit, tenant: TenantPk) -> Commit {
        let (pk, now) = (commit.pk, self.now);
        commit.now = now;
        commit.status = *self.random.of(STATUSES);
        commit.wake_at = self.random.one_in(2).then(|| self.random.number(300));
        commit.head = self.random.one_in(3).then(|| json!({ "head": self.random.text() }).to_string());
        commit.rows = self.rows(pk);
        for n in 0..self.random.below(4) {
            let (kind, run) = (*self.random.of(OBSERVED), *self.random.of(&["run_1", "run_2"]));
            commit.records.push(Record { timestamp: now, ..record(&format!("o{now}_{n}"), kind, run) });
        }
        commit.idempotency = self.random.one_in(4).then(|| self.response(tenant));
        for _ in 0..self.random.below(3) {
            let (kind, digest) = (*self.random.of(&["chat", "schedule"]), *self.random.of(&["d", "e"]));
            let run = format!("run_{}", self.random.below(5));
            commit.lookups.push(NewLookup { key: LookupKey { kind, digest: digest.into() }, run: run.into() });
        }
        for _ in 0..self.random.below(3) {
            let mut line = self.sqlite.audit_line(pk, &self.random.text());
            (line.tenant, line.thread_id) = (tenant, Some(self.random.thread_id().into()));
            commit.audit.push(line);
        }
        for _ in 0..self.random.below(3) {
            commit.deliveries.push(self.delivery());
        }
        for _ in 0..self.random.below(3) {
            let change = self.spending(tenant);
            if commit.spend.iter().all(|other| other.key != change.key) {
                commit.spend.push(change);
            }
        }
        // The order of notices of several rows, and of other deliveries of their commit, is left open.
        commit.spend.iter_mut().skip(1).for_each(|change| change.notices.clear());
        if commit.spend.iter().any(|change| !change.notices.is_empty()) {
            commit.deliveries.clear();
        }
        match self.random.below(5) {
            0 => {
                let (lease, replica) = (Uuid::from_u128(1_000 + now as u128), *self.random.of(&REPLICAS));
                commit.lease = LeaseChange::Claim { lease, replica };
            }
            1 => commit.lease = LeaseChange::Release,
            _ => {}
        }
        commit
    }

    pub fn response(&mut self, tenant: TenantPk) -> IdempotencyRow {
        let (scope, key) = (self.random.text(), (*self.random.of(KEYS)).into());
        let (fingerprint, body, location) = ("f".into(), "{}".into(), None);
        IdempotencyRow { tenant, scope, key, fingerprint, status: 202, body, location, created_at: self.now }
    }

    pub fn delivery(&mut self) -> NewDelivery {
        self.last_delivery += 1;
        NewDelivery {
            id: format!("d{}", self.last_delivery).into(),
            kind: *self.random.of(TargetKind::ALL),
            target: self.random.text(),
            ordering_key: (!self.random.one_in(3)).then(|| (*self.random.of(&["l1", "l2", "\0"])).to_owned()),
            event: "run.finished".into(),
            body: "{}".into(),
        }
    }

    pub fn spender(&mut self, tenant: TenantPk) -> SpendKey {
        let tenant = if self.random.one_in(4) { TenantPk::NONE } else { tenant };
        let key_name = (*self.random.of(SPENDERS)).to_owned();
        let period = (*self.random.of(PERIODS)).to_owned();
        SpendKey { tenant, key_name, period, unit: *self.random.of(UNITS) }
    }

    pub fn spending(&mut self, tenant: TenantPk) -> SpendChange {
        let key = self.spender(tenant);
        let cap = self.random.one_in(2).then(|| self.random.number(300));
        let of = 100 + self.random.number(2) * 50;
        let mut notices = Vec::new();
        for percent in [80, 100] {
            if self.random.one_in(2) {
                let body = r#"{"used":"\u0002","held":"\u0003"}"#.to_owned();
                let new = NewDelivery { body, ordering_key: None, ..self.delivery() };
                notices.push(SpendNotice { percent, cap: of, from: of * percent / 100, deliveries: vec![new] });
            }
        }
        SpendChange { key, used: self.random.number(60), held: self.random.number(40) - 15, cap, notices }
    }

    fn rows(&mut self, pk: ThreadPk) -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::new();
        for _ in 0..self.random.below(6) {
            let kind = *self.random.of(&RowKind::ALL);
            let id = self.row_id(pk, kind);
            // A run and its caller status are written together.
            let is_run = matches!(kind, RowKind::Run | RowKind::CallerStatus);
            let kinds = if is_run { vec![RowKind::Run, RowKind::CallerStatus] } else { vec![kind] };
            for kind in kinds {
                if rows.iter().all(|other| (other.kind, &other.id) != (kind, &id)) {
                    let (ord, keep, body) = (self.random.number(12), self.keep(kind), self.body(kind));
                    rows.push(Row { kind, id: id.clone(), ord, keep, body });
                }
            }
        }
        rows
    }

    fn keep(&mut self, kind: RowKind) -> Keep {
        let (never, always, until_floor, superseded) = (Keep::Never, Keep::Always, Keep::UntilFloor, Keep::Superseded);
        if kind == RowKind::CallerStatus {
            never
        } else if kind == RowKind::Run {
            *self.random.of(&[never, always, always])
        } else if kind == RowKind::Message {
            *self.random.of(&[never, always, superseded])
        } else {
            *self.random.of(&[never, always, always, until_floor])
        }
    }

    pub fn row_id(&mut self, pk: ThreadPk, kind: RowKind) -> String {
        let (pk, n) = (pk.0, self.random.below(4));
        if matches!(kind, RowKind::Run | RowKind::CallerStatus) {
            format!("run_{n}_{pk}")
        } else if kind == RowKind::Suspension {
            format!("sus_{n}_{pk}")
        } else if kind == RowKind::Task {
            format!("task_{n}_{pk}")
        } else if kind == RowKind::Usage {
            format!("call_{n}")
        } else if matches!(kind, RowKind::AgentState | RowKind::Retention | RowKind::WaitsToBegin) {
            String::new()
        } else {
            self.random.text()
        }
    }

    fn body(&mut self, kind: RowKind) -> String {
        let name = *self.random.of(&["ann", "bob", "Ä", "", "😀"]);
        let body = match kind {
            RowKind::Run => json!({
                "status": self.random.of(&["running", "queued", "completed", "failed"]),
                "outcome": { "status": self.random.of(&["success", "partial", "error"]) },
                "counters": { "costNanos": self.random.below(100) },
                "query": "q😀".repeat(self.random.below(150) as usize),
            }),
            RowKind::Suspension => json!({
                "status": self.random.of(&["pending", "resolved", "expired"]),
                "kind": self.random.of(&["approval", "input", "pause"]),
                "createdAt": self.random.below(100),
                "expiresAt": if self.random.one_in(2) { Value::Null } else { json!(self.random.below(50)) },
                "resolution": { "decidedBy": name },
            }),
            RowKind::Progress => {
                json!({ "status": self.random.of(&["pending", "completed", "failed", "in_progress", "odd", "waiting"]) })
            }
            RowKind::Usage => self.usage(),
            RowKind::CallerStatus => return json!(self.random.of(CALLER_STATUSES)).to_string(),
            RowKind::Retention => match self.random.below(3) {
                0 => json!({ "terms": {} }),
                1 => json!({ "terms": { "threadDays": "forever" } }),
                _ => json!({ "terms": {}, "hold": { "reason": "r", "by": "b", "at": 1 } }),
            },
            RowKind::Message => json!({
                "messageId": "m", "threadId": "t", "role": "user", "content": self.random.text(), "timestamp": 1,
            }),
            RowKind::Item
            | RowKind::Call
            | RowKind::Turn
            | RowKind::Task
            | RowKind::Payload
            | RowKind::AgentState
            | RowKind::Push
            | RowKind::ImportedUsage
            | RowKind::Traced
            | RowKind::WaitsToBegin
            | RowKind::PromptWriter => json!({ "text": self.random.text() }),
        };
        // One that cannot be read: it is left out, or counts as nothing.
        if self.random.one_in(25) { body.to_string().replace('}', "") } else { body.to_string() }
    }

    pub fn usage(&mut self) -> Value {
        let mut call = json!({
            "run": self.random.of(&["run_1", "run_2", "Ä", "a", "B"]),
            "provider": self.random.of(&["p", "q", "Q", "ö"]),
            "model": self.random.of(&["m", "n", "m:x"]),
            "inputTokens": self.random.below(10),
            "outputTokens": self.random.below(10),
            "thinkingTokens": 1,
            "cachedInputTokens": 0,
        });
        if self.random.one_in(2) {
            call["item"] = json!(self.random.of(&["i", "j", ""]));
        }
        if self.random.one_in(2) {
            call["costNanos"] = json!(self.random.below(1_000));
        }
        call
    }
}
