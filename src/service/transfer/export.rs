//! Writing a thread out, a few lines at a time: of all that it has one page is in memory.

use bytes::Bytes;
use serde_json::{Value, json};

use super::lines::Writer;
use super::{FORMAT, Header};
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::{ThreadId, ThreadPk};
use crate::domain::message::ConversationMessage;
use crate::domain::observation::ObservationType;
use crate::domain::thread::AgentState;
use crate::engine::step::{Keep, RowKind};
use crate::runtime::rows::read;
use crate::service::audit::AuditLine;
use crate::service::feed::Log;
use crate::service::{Result, Service, threads};
use crate::store::{self, AuditRow, ObservationAsk, PageAsk, ThreadRow};

/// Observations, or rows, that are read at once.
const PAGE: u32 = 200;
/// Bytes of observations that are in memory at once, roughly.
const ROOM: usize = 256 << 10;

/// A thread on its way into a file.
pub struct Export {
    service: Service,
    thread: ThreadRow,
    log: Log,
    lines: Writer,
    part: Part,
}

/// What is written next.
enum Part {
    Header,
    /// What follows this one.
    Observations(i64),
    Messages(PageAsk),
    State,
    Audit(PageAsk),
    Usage(RowKind, PageAsk),
    End,
    Over,
}

/// A line of the tenant: what is written out stays as it was.
fn line(service: &Service, caller: &Caller, thread: &ThreadRow) -> AuditRow {
    AuditRow {
        tenant: thread.tenant,
        thread: ThreadPk::NONE,
        thread_id: None,
        at: service.now(),
        actor: caller.name.clone(),
        action: "export thread".to_owned(),
        detail: json!({ "threadId": thread.thread_id, "lastSeq": thread.last_seq }),
    }
}

/// The thread as it is now, once the audit says who takes it away. What happens to it while it is written may be among its messages, and not in its log.
pub async fn export(service: &Service, caller: &Caller, id: &ThreadId) -> Result<Export> {
    let thread = threads::row(service, caller, id).await?;
    service.store.add_line(line(service, caller, &thread)).await?;
    let log = Log::new(service, thread.pk);
    Ok(Export { service: service.clone(), thread, log, lines: Writer::default(), part: Part::Header })
}

impl Export {
    /// The next lines; `None`: that was all. After an error the file is not whole, and nobody takes it for that.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        let mut text = Vec::new();
        while text.is_empty() {
            self.part = match std::mem::replace(&mut self.part, Part::Over) {
                Part::Header => self.header(&mut text).await?,
                Part::Observations(after) => self.observations(after, &mut text).await?,
                Part::Messages(page) => self.messages(page, &mut text).await?,
                Part::State => self.state(&mut text).await?,
                Part::Audit(page) => self.audit(page, &mut text).await?,
                Part::Usage(kind, page) => self.usage(kind, page, &mut text).await?,
                Part::End => {
                    let end = json!({ "end": self.lines.end() });
                    self.lines.write(&end, &mut text);
                    Part::Over
                }
                Part::Over => return Ok(None),
            };
        }
        Ok(Some(text.into()))
    }

    async fn header(&mut self, text: &mut Vec<u8>) -> Result<Part> {
        let thread = &self.thread;
        let base = match self.service.reads.base(thread.pk).await? {
            Some((seq, base)) if seq + 1 == thread.min_seq => {
                let base = serde_json::from_str(&base).map_err(|error| store::Error::Damaged(error.to_string()))?;
                Some(self.service.shown(thread.pk, base).await?)
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
        };
        let after = thread.min_seq - 1;
        self.lines.write(&json!(header), text);
        Ok(Part::Observations(after))
    }

    /// Whole, and beside a plan what was recorded of it: what changed.
    async fn observations(&mut self, after: i64, text: &mut Vec<u8>) -> Result<Part> {
        if after == self.thread.last_seq {
            return Ok(Part::Messages(first_page()));
        }
        let mut items = self.log.page(after, PAGE, &[], ROOM).await?.items;
        items.retain(|seen| seen.seq <= self.thread.last_seq);
        let Some(last) = items.last().map(|last| last.seq) else { return Err(shortened()) };
        let types = vec![ObservationType::Plan, ObservationType::PlanUpdate];
        let ask = ObservationAsk { after, until: Some(last), limit: PAGE, types };
        let mut plans = self.service.reads.observations(self.thread.pk, &ask).await?.into_iter().peekable();
        for (expected, seen) in (after + 1..).zip(items) {
            if seen.seq != expected {
                return Err(shortened());
            }
            let recorded = plans.next_if(|plan| plan.seq == seen.seq);
            let mut line = json!({ "observation": seen });
            if let Some(recorded) = recorded {
                line["recorded"] = self.service.shown(self.thread.pk, recorded.content).await?;
            }
            self.lines.write(&line, text);
        }
        Ok(Part::Observations(last))
    }

    async fn messages(&mut self, mut page: PageAsk, text: &mut Vec<u8>) -> Result<Part> {
        let found = self.service.reads.rows(self.thread.pk, RowKind::Message, false, &page).await?;
        for row in &found.items {
            let mut message: ConversationMessage = read(row)?;
            message.metadata = threads::whole(&self.service, self.thread.pk, message.metadata.take()).await?;
            let mut line = json!({ "message": message });
            if row.keep == Keep::Superseded {
                line["superseded"] = true.into();
            }
            self.lines.write(&line, text);
        }
        page.cursor = found.next_cursor;
        Ok(if page.cursor.is_some() { Part::Messages(page) } else { Part::State })
    }

    /// The application's state.
    async fn state(&mut self, text: &mut Vec<u8>) -> Result<Part> {
        let pk = self.thread.pk;
        if let Some(row) = self.service.reads.row(pk, RowKind::AgentState, "").await? {
            let state: AgentState = read(&row)?;
            self.lines.write(&json!({ "agentState": state }), text);
        }
        Ok(Part::Audit(first_page()))
    }

    async fn audit(&mut self, mut page: PageAsk, text: &mut Vec<u8>) -> Result<Part> {
        let Self { service, thread, lines, .. } = self;
        let found = service.reads.audit(thread.tenant, &thread.thread_id, &page).await?;
        for row in found.items.into_iter().filter(|row| row.thread == thread.pk) {
            lines.write(&json!({ "audit": AuditLine::from(row) }), text);
        }
        page.cursor = found.next_cursor;
        let usage = Part::Usage(RowKind::ImportedUsage, first_page());
        Ok(if page.cursor.is_some() { Part::Audit(page) } else { usage })
    }

    /// What its model calls took: elsewhere, then here.
    async fn usage(&mut self, kind: RowKind, mut page: PageAsk, text: &mut Vec<u8>) -> Result<Part> {
        let found = self.service.reads.rows(self.thread.pk, kind, false, &page).await?;
        for row in &found.items {
            let used: Value = read(row)?;
            self.lines.write(&json!({ "usage": used, "id": row.id, "at": row.ord }), text);
        }
        page.cursor = found.next_cursor;
        Ok(match (page.cursor.is_some(), kind) {
            (true, _) => Part::Usage(kind, page),
            (false, RowKind::ImportedUsage) => Part::Usage(RowKind::Usage, first_page()),
            (false, _) => Part::End,
        })
    }
}

fn first_page() -> PageAsk {
    PageAsk { limit: PAGE, ..PageAsk::default() }
}

fn shortened() -> Fault {
    Fault::new(Code::StoreUnavailable, "The thread was deleted, or its log shortened, meanwhile; export it again.")
}
