//! Which definitions of tools are trusted: the first that was seen, and whatever a person approved since.
//!
//! They are documents. The operator's servers have one for all; what a tenant approves of them counts for it alone.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::definition::Definition;
use crate::domain::Millis;
use crate::domain::ids::TenantPk;
use crate::store;
use crate::store::documents::{Change, DocumentCache, DocumentKind, Expected};

/// Whose documents hold what was first seen of the operator's servers: no tenant has this key.
pub(super) const OPERATOR: TenantPk = TenantPk(0);
/// Writes that may meet another replica's.
const TRIES: usize = 8;

/// Definitions of a server that are trusted because they were seen first, and their bytes: whatever it makes up.
const MOST: usize = 1_024;
const MOST_BYTES: usize = 2 << 20;

/// A document's body.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Pinned {
    tools: BTreeMap<String, Definition>,
}

/// What a tenant trusts of a server.
pub(super) struct Trusted {
    own: Arc<Pinned>,
    /// Of the operator's server: what holds for every tenant that approved nothing else.
    for_all: Arc<Pinned>,
}

/// Documents by tenant and name, with their versions.
type Parsed = HashMap<(TenantPk, String), (i64, Arc<Pinned>)>;

pub(super) struct Pins {
    documents: Arc<DocumentCache>,
    /// What the documents say: they are long, and looked at for every tool of every tenant.
    parsed: Mutex<Parsed>,
}

impl Trusted {
    pub(super) fn get(&self, tool: &str) -> Option<&Definition> {
        self.own.tools.get(tool).or_else(|| self.for_all.tools.get(tool))
    }

    /// In order of their names.
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

    /// What a tenant trusts of a server.
    pub(super) fn of(&self, tenant: TenantPk, owner: Option<TenantPk>, server: &str) -> Trusted {
        let for_all = match owner {
            None => self.read(OPERATOR, server).0,
            Some(_) => Arc::default(),
        };
        Trusted { own: self.read(tenant, server).0, for_all }
    }

    /// Of what is trusted first of a server: grows with every change of that.
    pub(super) fn version(&self, owner: Option<TenantPk>, server: &str) -> i64 {
        self.documents.get(owner.unwrap_or(OPERATOR), KIND, server).map_or(0, |document| document.version)
    }

    /// Trusts what is seen for the first time, as long as that is not too much: the rest is off until somebody approves it.
    pub(super) async fn first_seen(
        &self,
        owner: Option<TenantPk>,
        server: &str,
        listed: &[Arc<Definition>],
        now: Millis,
    ) -> store::Result<()> {
        let tenant = owner.unwrap_or(OPERATOR);
        let known = self.read(tenant, server).0;
        if listed.iter().all(|definition| known.tools.contains_key(&definition.name)) {
            return Ok(());
        }
        self.change(tenant, server, "server", now, |pinned| {
            let is_new = |definition: &&Arc<Definition>| !pinned.tools.contains_key(&definition.name);
            let new: Vec<Definition> = listed.iter().filter(is_new).map(|new| Definition::clone(new)).collect();
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

    fn read(&self, tenant: TenantPk, server: &str) -> (Arc<Pinned>, Expected) {
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
                Pinned::default()
            }));
            let mut parsed = self.parsed.lock();
            // Nobody asks any more for those of servers that are gone.
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
        mut edit: impl FnMut(&mut Pinned) -> bool,
    ) -> store::Result<()> {
        for _ in 0..TRIES {
            let (pinned, expected) = self.read(tenant, server);
            let mut pinned = Pinned::clone(&pinned);
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
