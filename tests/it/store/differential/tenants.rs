//! What tenants and their operators write: documents, keys, sessions; and the chain of their audit.

use pes::domain::ids::{TenantPk, ThreadId, ThreadPk};
use pes::store::chain::link;
use pes::store::documents::{Document, DocumentKind, Expected};
use pes::store::{AuditRow, Checkpoint, KeyRow, NewLinks, Result, Rotation, SessionRow};
use serde_json::json;

use super::chores::SCHEDULES;
use super::{AnyStore, Comparison, pages};

const DOCUMENTS: &[DocumentKind] = &[DocumentKind::Schedule, DocumentKind::Schedule, DocumentKind::Webhook];
const HOLDERS: &[&str] = &["h1", "h2"];

impl Comparison {
    pub async fn configure(&mut self) {
        match self.random.below(8) {
            0..3 => self.write_document().await,
            3..5 => self.change_keys().await,
            5 => self.change_sessions().await,
            _ => self.chain().await,
        }
    }

    fn line(&mut self, tenant: TenantPk) -> AuditRow {
        AuditRow { tenant, ..self.sqlite.audit_line(ThreadPk::NONE, &self.random.text()) }
    }

    async fn write_document(&mut self) {
        let (tenant, kind, updated_at) = (self.a_tenant(), *self.random.of(DOCUMENTS), self.now);
        let id = (*self.random.of(SCHEDULES)).to_owned();
        let read = async |store: AnyStore| store.document(tenant, kind, &id).await;
        let version = self.done(("document", tenant, kind, &id), read).await.map_or(0, |stored| stored.version);
        let body = (!self.random.one_in(4)).then(|| json!({ "text": self.random.text() }));
        let new = Document { tenant, kind, id: id.clone(), version: 0, updated_at, body };
        let (present, past) = (Expected::Version(version), Expected::Version(version - 1));
        let old = *self.random.of(&[Expected::Absent, Expected::AbsentBelow(2), present, past, Expected::Any]);
        let audit = self.line(tenant);
        let response = self.random.one_in(4).then(|| self.response(tenant));
        let write =
            async |store: AnyStore| store.write_document(new.clone(), old, audit.clone(), response.clone()).await;
        self.done((&new, old, &response), write).await;
    }

    async fn change_keys(&mut self) {
        let (tenant, now) = (self.a_tenant(), self.now);
        let (audit, max_keys) = (self.line(tenant), 1 + self.random.below(6) as usize);
        let expires_at = self.random.one_in(2).then(|| now + self.random.number(40));
        let known = if self.keys.is_empty() { None } else { Some(self.random.of(&self.keys).clone()) };
        match (known, self.random.below(6)) {
            (Some(key_id), 2) => {
                let revoke = async |store: AnyStore| store.revoke_key(&key_id, now, audit.clone()).await;
                self.done(("revoke", &key_id), revoke).await;
            }
            (Some(key_id), 3) => {
                let (hash, former_until) = (format!("rotated {now}"), now + self.random.number(20));
                let rotation = Rotation { key_id, hash, former_until, expires_at, max_keys, now };
                let rotate = async |store: AnyStore| store.rotate_key(rotation.clone(), audit.clone()).await;
                self.done(&rotation, rotate).await;
            }
            (Some(key_id), 4) => {
                let audit = self.random.one_in(2).then_some(audit);
                let touch = async |store: AnyStore| store.touch_key(&key_id, now, now - 5, audit.clone()).await;
                self.done(("touch", &key_id, &audit), touch).await;
            }
            (Some(_), 5) => {
                let (before, kept) = (now - self.random.number(20), vec![self.random.text(), self.random.text()]);
                let forget = async |store: AnyStore| store.forget_keys(tenant, before, &kept, 1_000).await;
                self.done(("forget keys", tenant, before, &kept), forget).await;
            }
            (_, _) => {
                let key = KeyRow {
                    key_id: format!("key_{now}"),
                    tenant,
                    tenant_name: if tenant == self.tenants[0] { "default" } else { "other" }.to_owned(),
                    name: self.random.text(),
                    hash: format!("hash {now}"),
                    scopes: "read".to_owned(),
                    created_at: now,
                    revoked_at: None,
                    expires_at,
                    used_at: None,
                    former_hash: None,
                    former_until: None,
                };
                let add = async |store: AnyStore| store.add_key(key.clone(), max_keys, audit.clone()).await;
                self.done((&key, max_keys), add).await;
                self.keys.push(key.key_id);
            }
        }
    }

    async fn change_sessions(&mut self) {
        let (tenant, now, key_hash) = (self.a_tenant(), self.now, (*self.random.of(HOLDERS)).to_owned());
        match self.random.below(6) {
            0 => {
                let audit = self.line(tenant);
                let end = async |store: AnyStore| store.end_sessions(&key_hash, audit.clone()).await;
                self.done(("end sessions", &key_hash), end).await;
            }
            1 => {
                self.done("sessions", async |store| store.forget_sessions(now, 1_000).await).await;
            }
            _ => {
                let person = self.random.one_in(2).then(|| json!({ "name": self.random.text() }).to_string());
                let (hash, expires_at) = (format!("s{now}"), now + self.random.number(60));
                let session = SessionRow { hash, key_hash, person, expires_at };
                self.done(&session, async |store| store.add_session(session.clone(), 1_000).await).await;
            }
        }
    }

    /// The ids of lines are numbers of the store itself.
    async fn chain(&mut self) {
        let (tenant, at, limit) = (self.a_tenant(), self.now, 1 + self.random.below(6) as u32);
        let deliveries = vec![self.delivery()];
        let add = async |store: AnyStore| -> Result<_> {
            let (end, lines) = (store.chain_end(tenant).await?, store.unchained_lines(tenant, limit).await?);
            let (mut hash, mut links) = (end.hash.clone(), Vec::new());
            for unchained in &lines {
                hash = link(&hash, &unchained.line.digest());
                links.push((unchained.id, hash.clone()));
            }
            let lines: Vec<AuditRow> = lines.into_iter().map(|unchained| unchained.line).collect();
            let checkpoint = Checkpoint { n: end.n + links.len() as i64, hash, at, jws: None };
            if checkpoint.n == 0 {
                return Ok((end, lines, false));
            }
            let (behind, deliveries, is_chore) = (end.n, deliveries.clone(), false);
            let is_added =
                store.add_links(NewLinks { tenant, behind, links, checkpoint, deliveries, is_chore }).await?;
            Ok((end, lines, is_added))
        };
        self.done(("chain", tenant, limit), add).await;
        let read = async |store: AnyStore| store.checkpoints(tenant, 0, 100).await;
        let checkpoints = self.done(("checkpoints", tenant), read).await;
        if let Some(first) = checkpoints.first().filter(|_| self.random.one_in(4)) {
            let n = first.n;
            self.done(("forget lines", tenant, n), async |store| store.forget_lines(tenant, n).await).await;
        }
    }

    pub async fn read_written(&mut self, tenant: TenantPk, limit: u32) {
        let (now, after) = (self.now, self.random.number(20));
        self.done(("documents", after), async |store| store.documents_since(after).await).await;
        let read = async |store: AnyStore| -> Result<_> {
            let mut keys = store.keys_of(tenant).await?;
            keys.sort_by(|one, other| one.key_id.cmp(&other.key_id));
            Ok((keys, store.has_keys().await?))
        };
        self.done(("keys", tenant), read).await;
        let list = async |store: AnyStore| pages(limit, async |ask| store.key_page(tenant, &ask).await).await;
        self.done(("pages of keys", tenant, limit), list).await;
        let name = self.random.text();
        self.done(("key", tenant, &name), async |store| store.key_by_name(tenant, &name).await).await;
        let hash = format!("{} {}", self.random.of(&["hash", "rotated"]), self.random.number(now + 1));
        self.done(&hash, async |store| store.key_by_hash(&hash).await).await;
        let containing = *self.random.of(&["a", "K", "Ä", "%", "_", "x'y", "😀"]);
        let list = async |store: AnyStore| {
            pages(limit, async |ask| store.sessions_of_people(containing, now, &ask).await).await
        };
        self.done(("sessions of people", containing, limit), list).await;
        self.done(("lines", tenant, after), async |store| store.chained_lines(tenant, after, limit).await).await;
        self.done(("before", tenant, after), async |store| store.checkpoint_before(tenant, after * 9).await).await;
        let id: ThreadId = self.random.thread_id().into();
        let list = async |store: AnyStore| {
            pages(limit, async |ask| store.chained_lines_of_thread(tenant, &id, &ask).await).await
        };
        self.done(("lines of thread", tenant, &id, limit), list).await;
        let read = async |store: AnyStore| Ok((store.tenants_to_chain().await?, store.tenants_missing().await?));
        self.done("tenants to chain", read).await;
    }
}
