//! Documents as administrators write them: made once per `Idempotency-Key`, replaced if nobody else was faster.

use serde::Serialize;
use serde_json::Value;

use super::idempotent::Admission;
use super::shared::Shared;
use super::{Answered, Idempotent, Result, Runtime};
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::mcp::{self, Endpoint, ServerView};
use crate::store::IdempotencyRow;
use crate::store::document::{ANSWER, Change, DocumentKind, Expected, SEALED, answer_id, owner_of_answer};

impl Shared {
    /// A change by this caller, now. No `body` deletes.
    pub(super) fn change(&self, caller: &Caller, kind: DocumentKind, id: &str, body: Option<Value>) -> Change {
        let (id, by) = (id.to_owned(), caller.name.clone());
        Change { tenant: caller.tenant, kind, id, body, by, now: self.now() }
    }

    /// Makes a document, and answers with what is shown of it. What is kept of the answer is sealed, because it may be the
    /// only place where a secret is ever shown; a server that keeps no secrets shows none. `taken` is the fault if there is
    /// one of this id.
    pub(super) async fn create<T: Serialize>(
        &self,
        caller: &Caller,
        key: Option<Idempotent>,
        taken: Fault,
        make: impl FnOnce() -> Result<(Change, T)>,
    ) -> Result<Answered<T>> {
        self.accepting()?;
        let _flight = match self.admit(caller, key.as_ref()).await? {
            Admission::First(flight) => flight,
            Admission::Stored(row) => return self.opened(row),
        };
        let (change, shown) = make()?;
        let most = self.config.limits.documents;
        if self.documents.of(caller.tenant, change.kind).len() >= most {
            let detail = format!("This tenant has {most} of these, and may have no more; remove one first.");
            return Err(Fault::new(Code::TooManyDocuments, detail));
        }
        let kept = key.as_ref().map(|key| self.sealed_answer(caller, key, &shown)).transpose()?;
        match self.documents.write_once(change, Expected::Absent, kept).await? {
            Some(_) => Ok(Answered::Fresh(shown)),
            None => match &key {
                Some(key) => match self.store.idempotency(caller.tenant, &key.scope, &key.key).await? {
                    Some(_) => self.opened(self.stored(caller, Some(key)).await?),
                    None => Err(taken),
                },
                None => Err(taken),
            },
        }
    }

    /// Replaces the document that had this version.
    pub(super) async fn replace(&self, change: Change, version: i64) -> Result<()> {
        match self.documents.write(change, Expected::Version(version)).await? {
            Some(_) => Ok(()),
            None => Err(Fault::new(Code::PreconditionFailed, "Somebody else changed it at the same time; look again.")),
        }
    }

    pub(super) async fn remove(&self, change: Change, what: &str) -> Result<()> {
        match self.documents.write(change, Expected::Any).await? {
            Some(_) => Ok(()),
            None => Err(Fault::not_found(what)),
        }
    }

    fn sealed_answer(&self, caller: &Caller, key: &Idempotent, shown: &impl Serialize) -> Result<IdempotencyRow> {
        let plain = serde_json::to_string(shown).map_err(|error| Fault::new(Code::Internal, error.to_string()))?;
        let key = key.clone();
        Ok(IdempotencyRow {
            tenant: caller.tenant,
            body: match self.sealer.is_able() {
                true => self.sealer.seal(&plain, owner_of_answer(caller.tenant, &answer_id(&key.scope, &key.key)))?,
                false => plain,
            },
            scope: key.scope,
            key: key.key,
            fingerprint: key.fingerprint,
            status: 201,
            location: None,
            created_at: self.now(),
        })
    }

    fn opened<T>(&self, row: IdempotencyRow) -> Result<Answered<T>> {
        // What is not sealed is JSON, which begins otherwise.
        if !row.body.starts_with(SEALED) {
            return Ok(row.into());
        }
        let owner = answer_id(&row.scope, &row.key);
        let body = self.sealer.open(&row.body, owner_of_answer(row.tenant, &owner)).map_err(|why| {
            why.warn(ANSWER, row.tenant, &row.scope);
            let detail = format!("What was answered to the first request of this key is not known any more: {why}.");
            Fault::new(Code::SecretUnreadable, detail)
        })?;
        Ok(Answered::Replayed { status: row.status, body, location: row.location })
    }
}

impl Runtime {
    /// Adds an MCP endpoint of the caller's tenant; it is reached in the background.
    pub async fn add_mcp_server(
        &self,
        caller: &Caller,
        new: Endpoint,
        key: Option<Idempotent>,
    ) -> Result<Answered<ServerView>> {
        let made = self.0.create(caller, key, mcp::exists(), || self.0.mcp.admit(caller, &new)).await?;
        self.0.mcp.bring_in_line();
        Ok(made)
    }
}
