//! Exports the audit chain of a tenant, a page at a time.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::domain::caller::Caller;
use crate::domain::ids::{TenantPk, ThreadPk};
use crate::service::{Result, Service};
use crate::store::{ChainedLine, Checkpoint};

/// Lines that are read at once.
const PAGE: u32 = 500;

/// An export in progress: the chain's lines in order, each followed by the checkpoint that was made there.
pub struct AuditExport {
    service: Service,
    tenant: TenantPk,
    tenant_name: String,
    /// The last line that was written.
    after: i64,
}

/// Exports the chained lines of the caller's tenant after this one.
pub fn export(service: &Service, caller: &Caller, after: i64) -> AuditExport {
    let (tenant, tenant_name) = (caller.tenant, caller.tenant_name.clone());
    AuditExport { service: service.clone(), tenant, tenant_name, after }
}

impl AuditExport {
    /// The next lines, or `None` after the last chained one.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        let store = &self.service.reads;
        let lines = store.chained_lines(self.tenant, self.after, PAGE).await?;
        let Some(last) = lines.last().map(|line| line.n) else { return Ok(None) };
        // One more than lines: the checkpoint that replaces deleted lines comes before the first remaining line.
        let checkpoints = store.checkpoints(self.tenant, self.after, PAGE + 1).await?;
        let mut checkpoints = checkpoints.into_iter().peekable();
        let mut text = String::new();
        for line in lines {
            while let Some(base) = checkpoints.next_if(|checkpoint| checkpoint.n < line.n) {
                write(&mut text, &json!({ "checkpoint": checkpoint_json(&base, &self.tenant_name) }));
            }
            write(&mut text, &line_json(&line));
            while let Some(checkpoint) = checkpoints.next_if(|checkpoint| checkpoint.n <= line.n) {
                write(&mut text, &json!({ "checkpoint": checkpoint_json(&checkpoint, &self.tenant_name) }));
            }
        }
        self.after = last;
        Ok(Some(text.into()))
    }
}

fn write(text: &mut String, value: &Value) {
    text.push_str(&value.to_string());
    text.push('\n');
}

/// The hashed members of a line, with its number and its hash.
fn line_json(ChainedLine { n, hash, line }: &ChainedLine) -> Value {
    json!({
        "n": n,
        "hash": hash,
        "action": line.action,
        "actor": line.actor,
        "at": line.at,
        "detail": line.detail,
        "of": if line.thread == ThreadPk::NONE { "tenant" } else { "thread" },
        "threadId": line.thread_id,
    })
}

/// A checkpoint as it is sent to webhooks and written to exports.
pub(super) fn checkpoint_json(checkpoint: &Checkpoint, tenant: &str) -> Value {
    let mut told = checkpoint.payload(tenant);
    if let Some(jws) = &checkpoint.jws {
        told["jws"] = jws.as_str().into();
    }
    told
}
