//! The receipt of a tool call: what was shown to whom, who decided, what was called, and the proof that the audit contains
//! these lines. It is verified without this server; docs/AUDIT.md says how.

use serde::Serialize;
use serde_json::{Value, json};

use super::chain::chain_tenant_now;
use super::export::checkpoint_json;
use crate::auth::Signed;
use crate::domain::actor::ServerActor;
use crate::domain::caller::Caller;
use crate::domain::digest;
use crate::domain::fault::Fault;
use crate::domain::hitl::ExpiryPolicy;
use crate::domain::ids::{CallId, ThreadId};
use crate::domain::tool::{COPIED, CallRecord};
use crate::engine::step::RowKind;
use crate::runtime::rows::read;
use crate::service::pages::Entries;
use crate::service::{Result, Service, threads};
use crate::store::{self, AuditRow, ChainedLine, PageAsk, ThreadRow};

/// How many lines of a chain may lie between two checkpoints.
const MAX_LINES_BETWEEN_CHECKPOINTS: u32 = 1_000;
/// Lines of a thread that are read at once.
const PAGE: u32 = 500;

/// The receipt of one tool call.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
pub struct CallReceipt {
    /// docs/AUDIT.md says what is in it.
    #[schema(value_type = Object)]
    pub receipt: Value,
    /// The same, signed; absent: the server has no key for that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jws: Option<String>,
}

/// Makes the receipt of this call, after chaining the audit lines about it.
pub async fn receipt(service: &Service, caller: &Caller, id: &ThreadId, call: &CallId) -> Result<CallReceipt> {
    let thread = threads::row(service, caller, id).await?;
    let shown = threads::tool_call(service, caller, id, call).await?;
    let record: CallRecord = serde_json::from_value(shown).map_err(|error| store::Error::Damaged(error.to_string()))?;
    // The call was copied from another thread; that thread's receipt proves its result.
    if record.epoch == Some(COPIED) {
        return Err(Fault::not_found("receipt"));
    }
    chain_tenant_now(service, caller.tenant).await?;
    let lines = lines_of(service, &thread, call).await?;
    let proofs = Proofs { service, caller, thread: &thread };
    let receipt = json!({
        "tenant": caller.tenant_name,
        "threadId": id,
        "runId": record.run_id,
        "callId": call,
        "issuedAt": service.now(),
        "class": record.class,
        "rule": record.policy,
        "shown": lines.iter().find(|line| is_question(line)).map(|line| &line.detail["digest"]),
        "question": proofs.question(&lines).await?,
        "decision": proofs.decision(&lines).await?,
        "asked": text_of(&record.tool_name, &record.arguments),
        "edited": record.modified_arguments.as_ref().map(|arguments| text_of(&record.tool_name, arguments)),
        "executed": record.result.as_ref().and_then(|result| result.executed.as_ref()),
        "outcome": record.result.as_ref().map(|result| json!({
            "status": result.status,
            "digest": digest::of(&match &result.error {
                Some(error) => json!(error),
                None => result.output.clone().unwrap_or_default(),
            }),
            "at": record.updated_at,
        })),
        "lines": proofs.of(&lines).await?,
    });
    let jws = service.audit_key.as_deref().map(|key| key.sign(Signed::Receipt, &receipt));
    Ok(CallReceipt { receipt, jws })
}

/// The audit lines about a call of this thread, oldest first: those that name the call, and those of timers, which name only
/// the question whether it may run.
async fn lines_of(service: &Service, thread: &ThreadRow, call: &CallId) -> Result<Vec<AuditRow>> {
    let (tenant, id) = (thread.tenant, &thread.thread_id);
    let mut of_thread =
        Entries::from(PageAsk::first(PAGE), |page| async move { service.store.audit(tenant, id, &page).await });
    let mut lines: Vec<AuditRow> = Vec::new();
    while let Some(line) = of_thread.next().await? {
        let names_call = line.detail["callId"] == call.as_str();
        let ends = |question: &AuditRow| is_question(question) && is_answer(&line, question);
        if names_call || lines.iter().any(ends) {
            lines.push(line);
        }
    }
    Ok(lines)
}

/// Whether the line records that a person was asked whether the call may run, and not the decision.
fn is_question(line: &AuditRow) -> bool {
    line.actor == ServerActor::Policy.as_str() && line.detail["suspensionId"].is_string()
}

/// Whether the line records what became of this question.
fn is_answer(line: &AuditRow, question: &AuditRow) -> bool {
    line.detail["suspensionId"] == question.detail["suspensionId"] && !is_question(line)
}

/// The text of which the digest of a call is made.
fn text_of(tool: &str, arguments: &Value) -> String {
    digest::canonical(&json!({ "arguments": arguments, "tool": tool }))
}

/// Reads the proofs of a call's lines.
struct Proofs<'a> {
    service: &'a Service,
    caller: &'a Caller,
    thread: &'a ThreadRow,
}

impl Proofs<'_> {
    /// The last question.
    async fn question(&self, lines: &[AuditRow]) -> Result<Value> {
        let Some(line) = lines.iter().rfind(|line| is_question(line)) else { return Ok(Value::Null) };
        let id = line.detail["suspensionId"].as_str().unwrap_or_default();
        let row = self.service.reads.row(self.thread.pk, RowKind::Suspension, id).await?;
        let suspension: Option<Value> = row.as_ref().map(read).transpose()?;
        let expires_at = suspension.as_ref().map(|suspension| &suspension["expiresAt"]);
        Ok(json!({ "suspensionId": id, "at": line.at, "expiresAt": expires_at }))
    }

    /// The decision about the last question, and the key that made it. Answers to other questions about the call are no
    /// decisions whether it may run.
    async fn decision(&self, lines: &[AuditRow]) -> Result<Value> {
        let Some(question) = lines.iter().rfind(|line| is_question(line)) else { return Ok(Value::Null) };
        let decided = |line: &&AuditRow| is_answer(line, question) && line.action != ExpiryPolicy::Remind.as_str();
        let Some(line) = lines.iter().find(decided) else { return Ok(Value::Null) };
        // While lines about a key are kept, no other that is stored gets its name. A key in the settings may have had it
        // before.
        let key = self.service.store.key_by_name(self.caller.tenant, &line.actor).await?;
        let key = key.filter(|key| key.created_at <= line.at);
        Ok(json!({
            "decision": line.action,
            "by": line.actor,
            "keyId": key.map(|key| key.key_id),
            "at": line.at,
            "digest": line.detail["digest"],
            "reason": line.detail["reason"],
        }))
    }

    /// Each line with the hashes that lead from it to a checkpoint.
    async fn of(&self, lines: &[AuditRow]) -> Result<Vec<Value>> {
        let mut proven = Vec::new();
        for (line, found) in lines.iter().zip(self.chained(lines).await?) {
            proven.push(match found {
                Some(chained) => self.proof(&chained).await?,
                // Another process is chaining it now.
                None => json!({ "line": line.canonical() }),
            });
        }
        Ok(proven)
    }

    /// The places of these lines in the chain. A page of the thread's lines is in memory at a time: it may have a great many.
    async fn chained(&self, lines: &[AuditRow]) -> Result<Vec<Option<ChainedLine>>> {
        let (store, tenant, id) = (&self.service.store, self.caller.tenant, &self.thread.thread_id);
        let mut of_thread = Entries::from(PageAsk::first(PAGE), |page| async move {
            store.chained_lines_of_thread(tenant, id, &page).await
        });
        let mut found = vec![None; lines.len()];
        while let Some(chained) = of_thread.next().await? {
            for (place, _) in found.iter_mut().zip(lines).filter(|(_, line)| chained.line == **line) {
                place.get_or_insert_with(|| chained.clone());
            }
        }
        Ok(found)
    }

    async fn proof(&self, chained: &ChainedLine) -> Result<Value> {
        let (store, tenant) = (&self.service.store, self.caller.tenant);
        let before = store.chained_lines(tenant, chained.n - 2, 1).await?;
        let before = before.into_iter().find(|line| line.n == chained.n - 1);
        let before = match before {
            Some(line) => line.hash,
            // The line was deleted by retention; its checkpoint has its hash.
            None => {
                let base = store.checkpoints(tenant, chained.n - 2, 1).await?.pop();
                let base = base.filter(|base| base.n == chained.n - 1);
                base.map_or_else(|| store::chain::NO_HASH.to_owned(), |base| base.hash)
            }
        };
        let checkpoint = store.checkpoints(tenant, chained.n - 1, 1).await?.pop();
        let upto = checkpoint.as_ref().map_or(chained.n, |checkpoint| checkpoint.n);
        let after = store.chained_lines(tenant, chained.n, MAX_LINES_BETWEEN_CHECKPOINTS).await?;
        let after: Vec<String> =
            after.iter().take_while(|line| line.n <= upto).map(|line| line.line.digest()).collect();
        Ok(json!({
            "n": chained.n,
            "line": chained.line.canonical(),
            "before": before,
            "after": after,
            "checkpoint": checkpoint.map(|checkpoint| checkpoint_json(&checkpoint, &self.caller.tenant_name)),
        }))
    }
}
