//! Writing the chain of a tenant out, a page at a time.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::domain::caller::Caller;
use crate::domain::ids::{TenantPk, ThreadPk};
use crate::service::{Result, Service};
use crate::store::{ChainedLine, Checkpoint};

/// Lines that are read at once.
const PAGE: u32 = 500;

/// A chain on its way out: its lines in order, and behind a line the checkpoint that was made there.
pub struct AuditExport {
    service: Service,
    tenant: TenantPk,
    tenant_name: String,
    /// The last line that was written.
    after: i64,
}

/// What the caller's tenant has behind this line.
pub fn export(service: &Service, caller: &Caller, after: i64) -> AuditExport {
    let (tenant, tenant_name) = (caller.tenant, caller.tenant_name.clone());
    AuditExport { service: service.clone(), tenant, tenant_name, after }
}

impl AuditExport {
    /// The next lines; `None`: that was all that is chained.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        let store = &self.service.reads;
        let lines = store.chained_lines(self.tenant, self.after, PAGE).await?;
        let Some(last) = lines.last().map(|line| line.n) else { return Ok(None) };
        let checkpoints = store.checkpoints(self.tenant, self.after, PAGE).await?;
        let mut checkpoints = checkpoints.into_iter().peekable();
        let mut text = String::new();
        for line in lines {
            // What stands for lines that were forgotten comes before the first that is there.
            while let Some(base) = checkpoints.next_if(|checkpoint| checkpoint.n < line.n) {
                write(&mut text, &json!({ "checkpoint": told(&base, &self.tenant_name) }));
            }
            write(&mut text, &line_as_told(&line));
            while let Some(checkpoint) = checkpoints.next_if(|checkpoint| checkpoint.n <= line.n) {
                write(&mut text, &json!({ "checkpoint": told(&checkpoint, &self.tenant_name) }));
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

/// What is hashed of it, with its number and its hash.
fn line_as_told(ChainedLine { n, hash, line }: &ChainedLine) -> Value {
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

/// A checkpoint as others are given it.
pub(super) fn told(checkpoint: &Checkpoint, tenant: &str) -> Value {
    let mut told = checkpoint.payload(tenant);
    if let Some(jws) = &checkpoint.jws {
        told["jws"] = jws.as_str().into();
    }
    told
}
