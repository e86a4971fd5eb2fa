//! Which definitions of tools are trusted: the first one that was seen, and those that a person approved since.
//!
//! They are stored as documents. The operator's servers share one for all tenants; an approval by a tenant applies only
//! to that tenant.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::definition::{Definition, tool_name};
use crate::domain::Millis;
use crate::domain::actor::ServerActor;
use crate::domain::ids::TenantPk;
use crate::store;
use crate::store::documents::{Change, DocumentCache, DocumentKind, Expected};

/// The owner of the documents with the first-seen definitions of the operator's servers. No tenant has this key.
pub(super) const OPERATOR: TenantPk = TenantPk(0);
/// How often a write is retried after a conflict with another replica.
const MAX_WRITE_ATTEMPTS: usize = 8;

/// How many definitions of a server, and how many bytes, are trusted because they were seen first. This bounds the
/// storage that a server can use.
const MAX_PINNED: usize = 1_024;
const MAX_PINNED_BYTES: usize = 2 << 20;

/// The body of a document.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct PinnedTools {
    tools: BTreeMap<String, Definition>,
}

/// The definitions of a server that a tenant trusts.
pub(super) struct TrustedTools {
    own: Arc<PinnedTools>,
    /// For the operator's server: the definitions that apply unless the tenant approved others.
    for_all: Arc<PinnedTools>,
}

/// For whom a tool is trusted, the choice that comes first first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TrustedFor {
    /// For this tenant.
    Tenant,
    /// For every tenant.
    All,
    Nobody,
}

/// Parsed documents by tenant and server, with their versions.
type Parsed = HashMap<(TenantPk, String), (i64, Arc<PinnedTools>)>;

pub(super) struct Pins {
    documents: Arc<DocumentCache>,
    /// Cached, because the documents are long and needed for every tool of every tenant.
    parsed: Mutex<Parsed>,
}

impl TrustedTools {
    pub(super) fn get(&self, tool: &str) -> Option<&Definition> {
        self.own.tools.get(tool).or_else(|| self.for_all.tools.get(tool))
    }

    pub(super) fn trusted_for(&self, tool: &str) -> TrustedFor {
        match (self.own.tools.contains_key(tool), self.for_all.tools.contains_key(tool)) {
            (true, _) => TrustedFor::Tenant,
            (false, true) => TrustedFor::All,
            (false, false) => TrustedFor::Nobody,
        }
    }

    /// Sorted by name.
    pub(super) fn all(&self) -> Vec<Arc<Definition>> {
        let mut all: BTreeMap<&String, &Definition> = self.for_all.tools.iter().collect();
        all.extend(&self.own.tools);
        all.into_values().cloned().map(Arc::new).collect()
    }
}

impl Pins {
    pub(super) fn new(documents: Arc<DocumentCache>) -> Self {
        Self { documents, parsed: Mutex::default() }
    }

    /// The definitions of a server that a tenant trusts.
    pub(super) fn trusted(&self, tenant: TenantPk, owner: Option<TenantPk>, server: &str) -> TrustedTools {
        let for_all = match owner {
            None => self.read(OPERATOR, server).0,
            Some(_) => Arc::default(),
        };
        TrustedTools { own: self.read(tenant, server).0, for_all }
    }

    /// The version of a server's first-seen definitions.
    pub(super) fn version(&self, owner: Option<TenantPk>, server: &str) -> i64 {
        self.documents.get(owner.unwrap_or(OPERATOR), KIND, server).map_or(0, |document| document.version)
    }

    /// Trusts definitions that can be offered and are seen for the first time, up to a limit. The rest is off until somebody approves it, and
    /// so is every tool that would be offered under the name of a trusted one.
    pub(super) async fn pin_new(
        &self,
        owner: Option<TenantPk>,
        server: &str,
        listed: &[Arc<Definition>],
        now: Millis,
    ) -> store::Result<()> {
        let tenant = owner.unwrap_or(OPERATOR);
        let known = self.read(tenant, server).0;
        if listed.iter().all(|listed| listed.refused.is_some() || known.tools.contains_key(&listed.name)) {
            return Ok(());
        }
        self.change(tenant, server, ServerActor::Server.as_str(), now, |pinned| {
            let is_new =
                |listed: &&Arc<Definition>| listed.refused.is_none() && !pinned.tools.contains_key(&listed.name);
            let new: Vec<Definition> = listed.iter().filter(is_new).map(|new| Definition::clone(new)).collect();
            let before = pinned.tools.len();
            let mut names: BTreeSet<String> = pinned.tools.keys().map(|tool| tool_name(server, tool)).collect();
            let mut bytes = if new.is_empty() { 0 } else { pinned.tools.values().map(Definition::bytes).sum() };
            for definition in new {
                if !names.insert(tool_name(server, &definition.name)) {
                    continue;
                }
                let with_it = bytes + definition.bytes();
                if pinned.tools.len() < MAX_PINNED && with_it <= MAX_PINNED_BYTES {
                    bytes = with_it;
                    pinned.tools.insert(definition.name.clone(), definition);
                }
            }
            pinned.tools.len() > before
        })
        .await
    }

    /// Trusts this definition from now on, in place of every other that would be offered under its name.
    pub(super) async fn approve(
        &self,
        tenant: TenantPk,
        server: &str,
        definition: &Definition,
        by: &str,
        now: Millis,
    ) -> store::Result<()> {
        self.change(tenant, server, by, now, |pinned| {
            let (name, before) = (tool_name(server, &definition.name), pinned.tools.len());
            pinned.tools.retain(|tool, _| *tool == definition.name || tool_name(server, tool) != name);
            let has_replaced = pinned.tools.len() < before;
            pinned.tools.insert(definition.name.clone(), definition.clone()).as_ref() != Some(definition)
                || has_replaced
        })
        .await
    }

    /// Deletes the approvals of a tenant's server that was removed.
    pub(super) async fn delete(&self, tenant: TenantPk, server: &str, by: &str, now: Millis) -> store::Result<()> {
        let change = Change {
            tenant,
            kind: KIND,
            id: server.to_owned(),
            body: None,
            former: None,
            by: by.to_owned(),
            by_tenant: None,
            why: None,
            now,
        };
        self.documents.write(change, Expected::Any).await.map(drop)
    }

    fn read(&self, tenant: TenantPk, server: &str) -> (Arc<PinnedTools>, Expected) {
        let key = (tenant, server.to_owned());
        let Some(document) = self.documents.get(tenant, KIND, server) else {
            self.parsed.lock().remove(&key);
            return (Arc::default(), Expected::Absent);
        };
        let version = document.version;
        let parsed = self.parsed.lock().get(&key).filter(|(of, _)| *of == version).map(|(_, pinned)| pinned.clone());
        let pinned = parsed.unwrap_or_else(|| {
            let pinned = Arc::new(document.legible().unwrap_or_else(|_| {
                tracing::error!(server, "the approved tools of an MCP server cannot be read; all are off");
                PinnedTools::default()
            }));
            let mut parsed = self.parsed.lock();
            // Drops entries of servers that were removed, because nothing else would.
            parsed.retain(|(tenant, server), _| self.documents.get(*tenant, KIND, server).is_some());
            parsed.insert(key, (version, pinned.clone()));
            pinned
        });
        (pinned, Expected::Version(version))
    }

    async fn change(
        &self,
        tenant: TenantPk,
        server: &str,
        by: &str,
        now: Millis,
        mut edit: impl FnMut(&mut PinnedTools) -> bool,
    ) -> store::Result<()> {
        for _ in 0..MAX_WRITE_ATTEMPTS {
            let (pinned, expected) = self.read(tenant, server);
            let mut pinned = PinnedTools::clone(&pinned);
            if !edit(&mut pinned) {
                return Ok(());
            }
            let body = Some(serde_json::to_value(&pinned).expect("definitions are JSON"));
            let change = Change {
                tenant,
                kind: KIND,
                id: server.to_owned(),
                body,
                former: None,
                by: by.to_owned(),
                by_tenant: None,
                why: None,
                now,
            };
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
