//! Which definitions of tools are trusted: the first that was seen, and whatever a person approved since.
//!
//! They are documents. The operator's servers have one for all; what a tenant approves of them counts for it alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::definition::Definition;
use crate::domain::Millis;
use crate::domain::ids::TenantPk;
use crate::store;
use crate::store::documents::{Change, DocumentCache, DocumentKind, Expected};

/// Whose documents hold what was first seen of the operator's servers: no tenant has this key.
const OPERATOR: TenantPk = TenantPk(0);
/// Writes that may meet another replica's.
const TRIES: usize = 8;

/// Definitions of a server that are trusted because they were seen first, and their bytes: whatever it makes up.
const MOST: usize = 1_024;
const MOST_BYTES: usize = 2 << 20;

/// A document's body.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Pinned {
    pub(super) tools: BTreeMap<String, Definition>,
}

pub(super) struct Pins {
    documents: Arc<DocumentCache>,
}

impl Pins {
    pub(super) fn new(documents: Arc<DocumentCache>) -> Self {
        Self { documents }
    }

    /// What a tenant trusts of a server.
    pub(super) fn of(&self, tenant: TenantPk, owner: Option<TenantPk>, server: &str) -> Pinned {
        let mut pinned = match owner {
            None => self.read(OPERATOR, server).0,
            Some(_) => Pinned::default(),
        };
        pinned.tools.extend(self.read(tenant, server).0.tools);
        pinned
    }

    /// Trusts what is seen for the first time, as long as that is not too much: the rest is off until somebody approves it.
    pub(super) async fn first_seen(
        &self,
        owner: Option<TenantPk>,
        server: &str,
        listed: &[Definition],
        now: Millis,
    ) -> store::Result<()> {
        let tenant = owner.unwrap_or(OPERATOR);
        self.change(tenant, server, "server", now, |pinned| {
            let is_new = |definition: &&Definition| !pinned.tools.contains_key(&definition.name);
            let new: Vec<Definition> = listed.iter().filter(is_new).cloned().collect();
            let before = pinned.tools.len();
            let mut bytes = if new.is_empty() { 0 } else { pinned.tools.values().map(Definition::bytes).sum() };
            for definition in new {
                let with_it = bytes + definition.bytes();
                if pinned.tools.len() < MOST && with_it <= MOST_BYTES {
                    bytes = with_it;
                    pinned.tools.insert(definition.name.clone(), definition);
                }
            }
            pinned.tools.len() > before
        })
        .await
    }

    /// Trusts this definition from now on.
    pub(super) async fn approve(
        &self,
        tenant: TenantPk,
        server: &str,
        definition: &Definition,
        by: &str,
        now: Millis,
    ) -> store::Result<()> {
        self.change(tenant, server, by, now, |pinned| {
            pinned.tools.insert(definition.name.clone(), definition.clone()).as_ref() != Some(definition)
        })
        .await
    }

    /// Forgets everything about a tenant's server that is gone.
    pub(super) async fn forget(&self, tenant: TenantPk, server: &str, by: &str, now: Millis) -> store::Result<()> {
        let change =
            Change { tenant, kind: KIND, id: server.to_owned(), body: None, by: by.to_owned(), why: None, now };
        self.documents.write(change, Expected::Any).await.map(drop)
    }

    fn read(&self, tenant: TenantPk, server: &str) -> (Pinned, Expected) {
        let Some(document) = self.documents.get(tenant, KIND, server) else {
            return (Pinned::default(), Expected::Absent);
        };
        let pinned = document.legible().unwrap_or_else(|_| {
            tracing::error!(server, "the approved tools of an MCP server cannot be read; all are off");
            Pinned::default()
        });
        (pinned, Expected::Version(document.version))
    }

    async fn change(
        &self,
        tenant: TenantPk,
        server: &str,
        by: &str,
        now: Millis,
        mut edit: impl FnMut(&mut Pinned) -> bool,
    ) -> store::Result<()> {
        for _ in 0..TRIES {
            let (mut pinned, expected) = self.read(tenant, server);
            if !edit(&mut pinned) {
                return Ok(());
            }
            let body = Some(serde_json::to_value(&pinned).expect("definitions are JSON"));
            let change = Change { tenant, kind: KIND, id: server.to_owned(), body, by: by.to_owned(), why: None, now };
            if self.documents.write(change, expected).await?.is_some() {
                return Ok(());
            }
        }
        Err(store::Error::Unavailable("the approved tools are being written by others".to_owned()))
    }
}

const KIND: DocumentKind = DocumentKind::McpTools;

#[cfg(test)]
mod tests;
