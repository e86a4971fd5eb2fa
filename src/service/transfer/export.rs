//! Exports a thread, a few lines at a time. At most one page of it is in memory.

use bytes::Bytes;
use serde_json::{Value, json};

use super::lines::Writer;
use super::recent::ExportKey;
use super::{FORMAT, Header};
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::ThreadId;
use crate::domain::message::ConversationMessage;
use crate::domain::observation::ObservationType;
use crate::domain::thread::AgentState;
use crate::engine::history::later_calls::digests_of_head;
use crate::engine::step::{Keep, RowKind};
use crate::runtime::rows::read;
use crate::service::audit::AuditLine;
use crate::service::feed::LogReader;
use crate::service::{Result, Service, pages, threads};
use crate::store::{self, AuditRow, ObservationAsk, Order, PageAsk, ThreadRow};

/// Observations, or rows, that are read at once.
const PAGE: u32 = 200;
/// About how many bytes of observations are in memory at once.
const MAX_PAGE_BYTES: usize = 256 << 10;

/// An export in progress.
pub struct Export {
    service: Service,
    thread: ThreadRow,
    log: LogReader,
    lines: Writer,
    section: Section,
}

/// What is written next.
enum Section {
    Header,
    /// The observations after this seq.
    Observations(i64),
    Messages(PageAsk),
    State,
    Audit(PageAsk),
    Usage(RowKind, PageAsk),
    End,
    Over,
}

/// Begins an export of the thread as it is now, after its audit line is stored, unless the same caller exported the same
/// log less than a quarter of an hour ago. What happens during the export may be in the messages of the file and not in
/// its log.
pub async fn export(service: &Service, caller: &Caller, id: &ThreadId) -> Result<Export> {
    let thread = threads::row(service, caller, id).await?;
    let key =
        ExportKey { tenant: thread.tenant, by: caller.name.clone(), thread: thread.pk, last_seq: thread.last_seq };
    if !service.exports.contains(&key, service.now()) {
        // A line of the tenant, so that the exported audit of the thread stays unchanged.
        let detail = json!({ "threadId": thread.thread_id, "lastSeq": thread.last_seq });
        let line = AuditRow::of_tenant(thread.tenant, service.now(), &caller.name, "export thread", detail);
        service.store.add_line(line).await?;
        service.exports.add(key, service.now());
    }
    let log = LogReader::new(service, thread.pk);
    Ok(Export { service: service.clone(), thread, log, lines: Writer::default(), section: Section::Header })
}

impl Export {
    /// The next lines, or `None` after the last. After an error the file lacks its end, so that it cannot be imported.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        let mut text = Vec::new();
        while text.is_empty() {
            self.section = match std::mem::replace(&mut self.section, Section::Over) {
                Section::Header => self.header(&mut text).await?,
                Section::Observations(after) => self.observations(after, &mut text).await?,
                Section::Messages(page) => self.messages(page, &mut text).await?,
                Section::State => self.state(&mut text).await?,
                Section::Audit(page) => self.audit(page, &mut text).await?,
                Section::Usage(kind, page) => self.usage(kind, page, &mut text).await?,
                Section::End => self.end(&mut text).await?,
                Section::Over => return Ok(None),
            };
        }
        Ok(Some(text.into()))
    }

    async fn header(&mut self, text: &mut Vec<u8>) -> Result<Section> {
        let thread = &self.thread;
        let base = match self.service.reads.base(thread.pk).await? {
            Some((seq, base)) if seq + 1 == thread.min_seq => {
                let base = serde_json::from_str(&base).map_err(|error| store::Error::Damaged(error.to_string()))?;
                Some(self.service.with_payloads(thread.pk, base).await?)
            }
            None if thread.min_seq == 1 => None,
            Some(_) | None => return Err(shortened()),
        };
        let header = Header {
            format: FORMAT.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            thread_id: thread.thread_id.clone(),
            exported_at: self.service.now(),
            created_at: thread.created_at,
            core: thread.core.clone(),
            profile: thread.profile.clone(),
            min_seq: thread.min_seq,
            last_seq: thread.last_seq,
            base,
            later: digests_of_head(&thread.head),
        };
        let after = thread.min_seq - 1;
        self.lines.write(&json!(header), text);
        Ok(Section::Observations(after))
    }

    /// The observations with payloads. A plan also gets its recorded content, which has only the changes.
    async fn observations(&mut self, after: i64, text: &mut Vec<u8>) -> Result<Section> {
        if after == self.thread.last_seq {
            return Ok(Section::Messages(PageAsk::first(PAGE)));
        }
        let mut items = self.log.page(after, PAGE, &[], MAX_PAGE_BYTES).await?.items;
        items.retain(|seen| seen.seq <= self.thread.last_seq);
        let Some(last) = items.last().map(|last| last.seq) else { return Err(self.missing(after + 1).await?) };
        let types = vec![ObservationType::Plan, ObservationType::PlanUpdate];
        let ask = ObservationAsk { after, until: Some(last), limit: PAGE, types };
        let mut plans = self.service.reads.observations(self.thread.pk, &ask).await?.into_iter().peekable();
        for (expected, seen) in (after + 1..).zip(items) {
            if seen.seq != expected {
                return Err(self.missing(expected).await?);
            }
            let recorded = plans.next_if(|plan| plan.seq == seen.seq);
            let mut line = json!({ "observation": seen });
            if let Some(recorded) = recorded {
                line["recorded"] = self.service.with_payloads(self.thread.pk, recorded.content).await?;
            }
            self.lines.write(&line, text);
        }
        Ok(Section::Observations(last))
    }

    /// Why the log lacks this observation.
    async fn missing(&self, seq: i64) -> Result<Fault> {
        let detail = || format!("The observation {seq} cannot be read, so the thread cannot be exported.");
        let is_shortened = self.is_shortened().await?;
        Ok(if is_shortened { shortened() } else { Fault::new(Code::UnreadableState, detail()).with("seq", seq) })
    }

    /// Whether the thread was deleted, or its log shortened, since the export began.
    async fn is_shortened(&self) -> Result<bool> {
        let now = self.service.store.thread_by_pk(self.thread.pk).await?;
        Ok(now.is_none_or(|now| now.min_seq != self.thread.min_seq))
    }

    async fn messages(&mut self, mut page: PageAsk, text: &mut Vec<u8>) -> Result<Section> {
        let (reads, pk) = (&*self.service.reads, self.thread.pk);
        let found = reads.rows(pk, RowKind::Message, Order::Ascending, &page).await?;
        let found = found.try_map(|row| Ok((read::<ConversationMessage>(&row)?, row.keep)))?;
        let payloads = |(message, _): &(ConversationMessage, Keep)| threads::metadata_payloads(pk, message);
        let found = pages::within_bytes(reads, found, payloads).await?;
        for (mut message, keep) in found.items {
            message.metadata = threads::metadata_with_payloads(&self.service, pk, message.metadata.take()).await?;
            let mut line = json!({ "message": message });
            if keep == Keep::Superseded {
                line["superseded"] = true.into();
            }
            self.lines.write(&line, text);
        }
        page.cursor = found.next_cursor;
        Ok(if page.cursor.is_some() { Section::Messages(page) } else { Section::State })
    }

    /// The application's state.
    async fn state(&mut self, text: &mut Vec<u8>) -> Result<Section> {
        let pk = self.thread.pk;
        if let Some(row) = self.service.reads.row(pk, RowKind::AgentState, "").await? {
            let state: AgentState = read(&row)?;
            self.lines.write(&json!({ "agentState": state }), text);
        }
        Ok(Section::Audit(PageAsk::first(PAGE)))
    }

    async fn audit(&mut self, mut page: PageAsk, text: &mut Vec<u8>) -> Result<Section> {
        let Self { service, thread, lines, .. } = self;
        let found = service.reads.audit(thread.tenant, &thread.thread_id, &page).await?;
        for row in found.items.into_iter().filter(|row| row.thread == thread.pk) {
            lines.write(&json!({ "audit": AuditLine::from(row) }), text);
        }
        page.cursor = found.next_cursor;
        let usage = Section::Usage(RowKind::ImportedUsage, PageAsk::first(PAGE));
        Ok(if page.cursor.is_some() { Section::Audit(page) } else { usage })
    }

    /// The usage of its model calls: first the imported ones, then those made here.
    async fn usage(&mut self, kind: RowKind, mut page: PageAsk, text: &mut Vec<u8>) -> Result<Section> {
        let found = self.service.reads.rows(self.thread.pk, kind, Order::Ascending, &page).await?;
        for row in &found.items {
            let used: Value = read(row)?;
            self.lines.write(&json!({ "usage": used, "id": row.id, "at": row.ord }), text);
        }
        page.cursor = found.next_cursor;
        Ok(match (page.cursor.is_some(), kind) {
            (true, _) => Section::Usage(kind, page),
            (false, RowKind::ImportedUsage) => Section::Usage(RowKind::Usage, PageAsk::first(PAGE)),
            (false, _) => Section::End,
        })
    }

    /// The last line. The rows of a deleted thread, and the values of a shortened log, are missing without an error where
    /// they are read: what was written is complete only if nothing was deleted until now.
    async fn end(&mut self, text: &mut Vec<u8>) -> Result<Section> {
        if self.is_shortened().await? {
            return Err(shortened());
        }
        let end = json!({ "end": self.lines.end() });
        self.lines.write(&end, text);
        Ok(Section::Over)
    }
}

fn shortened() -> Fault {
    Fault::new(Code::StoreUnavailable, "The thread was deleted, or its log shortened, meanwhile; export it again.")
}
