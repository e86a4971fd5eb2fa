//! The agents of all tenants: found by id, shown to clients with their cards, and in their stored form.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use serde::{Deserialize, Serialize};

use super::cards::{self, Cards};
use super::tool::line;
use super::{OperatorAgent, Peer, bearer};
use crate::a2a::client::{Client, Error};
use crate::a2a::types::{AgentCard, Skill};
use crate::domain::agent::{AgentSpec, KnownAgent, KnownSkill};
use crate::domain::fault::Fault;
use crate::domain::ids::TenantPk;
use crate::domain::trace::CallTrace;
use crate::egress::Egress;
use crate::store;
use crate::store::documents::{
    Document, DocumentCache, DocumentKind, Illegible, Sealer, Unreadable, owner_of_document,
};

/// How many cards are fetched concurrently.
const MAX_CONCURRENT_FETCHES: usize = 16;

/// The stored form of a tenant's agent.
#[derive(Serialize, Deserialize)]
struct StoredAgent {
    card: String,
    /// Sealed.
    token: Option<String>,
    dedupes: bool,
    timeout_ms: Option<i64>,
}

pub struct Directory {
    operator_agents: Vec<OperatorAgent>,
    pub(super) documents: Arc<DocumentCache>,
    sealer: Arc<Sealer>,
    pub client: Client,
    pub(super) cards: Cards,
}

impl Directory {
    pub fn new(
        operator_agents: Vec<OperatorAgent>,
        documents: Arc<DocumentCache>,
        sealer: Arc<Sealer>,
        egress: Arc<Egress>,
        timeout: Duration,
        max_bytes: usize,
    ) -> Arc<Self> {
        let cards = Cards::new(egress.clone(), timeout);
        Arc::new(Self { operator_agents, documents, sealer, client: Client::new(egress, timeout, max_bytes), cards })
    }

    /// The operator's agents come first.
    pub fn of(&self, tenant: TenantPk) -> Vec<Peer> {
        let own = self.documents.of(tenant, DocumentKind::Agent);
        let own = own.iter().filter_map(|document| self.peer(document).ok());
        self.operator_agents.iter().map(|agent| agent.peer(tenant)).chain(own).collect()
    }

    pub fn one(&self, tenant: TenantPk, id: &str) -> Option<Peer> {
        self.operator_agent(tenant, id)
            .or_else(|| self.peer(&*self.documents.get(tenant, DocumentKind::Agent, id)?).ok())
    }

    fn operator_agent(&self, tenant: TenantPk, id: &str) -> Option<Peer> {
        self.operator_agents.iter().find(|agent| agent.id == id).map(|agent| agent.peer(tenant))
    }

    /// The agent as it is stored now, so that one that another process just added is found, too.
    pub async fn find(&self, tenant: TenantPk, id: &str) -> store::Result<Option<Peer>> {
        if let Some(known) = self.one(tenant, id) {
            return Ok(Some(known));
        }
        self.documents.refresh().await?;
        Ok(self.one(tenant, id))
    }

    /// The agent's card: from the cache while it is fresh, else fetched.
    pub async fn card(&self, peer: &Peer) -> Result<Arc<AgentCard>, Error> {
        self.cards.get(peer).await
    }

    /// The agent's card, requested again.
    pub async fn reread_card(&self, peer: &Peer) -> Result<Arc<AgentCard>, Error> {
        self.cards.reread(peer).await
    }

    /// The agents of all tenants.
    fn all(&self) -> Vec<Peer> {
        let own = self.documents.all(DocumentKind::Agent);
        let own = own.iter().filter_map(|document| self.peer(document).ok());
        self.operator_agents.iter().map(|agent| agent.peer(TenantPk::NONE)).chain(own).collect()
    }

    /// Keeps the cards fresh until dropped, because the planner reads them without IO.
    pub async fn follow(&self) {
        let mut changes = self.documents.changes();
        loop {
            let peers = self.all();
            self.cards.retain(&peers);
            let fetched = peers.iter().map(|peer| async move {
                if let Err(error) = self.cards.get(peer).await {
                    tracing::warn!(agentId = peer.id, %error, "an agent's card cannot be read");
                }
            });
            // Agents that do not answer must not delay many others.
            stream::iter(fetched).for_each_concurrent(MAX_CONCURRENT_FETCHES, |fetched| fetched).await;
            // The sender is only dropped when the process ends.
            tokio::time::timeout(cards::MAX_AGE, changes.changed()).await.ok();
        }
    }

    /// The agents that work can be delegated to, as clients see them.
    pub fn known(&self, tenant: TenantPk) -> Vec<KnownAgent> {
        self.of(tenant).iter().map(|peer| self.view(peer)).collect()
    }

    /// All agents, including those that cannot be read.
    pub fn listed(&self, tenant: TenantPk) -> Vec<KnownAgent> {
        let own = self.documents.of(tenant, DocumentKind::Agent);
        let own = own.iter().map(|document| self.view_of(document));
        self.operator_agents.iter().map(|agent| self.view(&agent.peer(tenant))).chain(own).collect()
    }

    /// One of [`listed`](Self::listed), with the version of its document.
    pub fn agent_view(&self, tenant: TenantPk, id: &str) -> Option<(KnownAgent, i64)> {
        let found = self.operator_agent(tenant, id).map(|peer| (self.view(&peer), peer.version));
        found.or_else(|| {
            let document = self.documents.get(tenant, DocumentKind::Agent, id)?;
            Some((self.view_of(&document), document.version))
        })
    }

    fn view_of(&self, document: &Document) -> KnownAgent {
        match self.peer(document) {
            Ok(peer) => self.view(&peer),
            Err(why) => KnownAgent::illegible(document.id.clone(), why.to_string()),
        }
    }

    /// With the content of its cached card.
    pub fn view(&self, peer: &Peer) -> KnownAgent {
        known(peer, self.cards.cached(peer).as_deref())
    }

    /// A tenant's agent as it was written, without its card.
    pub fn view_without_card(&self, document: &Document) -> Result<KnownAgent, Illegible> {
        self.peer(document).map(|peer| known(&peer, None))
    }

    /// The stored form of an agent: its token is sealed; if the specification has none, the sealed token in `kept`
    /// stays.
    pub fn stored(
        &self,
        tenant: TenantPk,
        spec: &AgentSpec,
        kept: Option<&serde_json::Value>,
    ) -> Result<serde_json::Value, Fault> {
        let owner = owner_of_document(tenant, DocumentKind::Agent, &spec.id);
        let token = match &spec.token {
            Some(token) => Some(self.sealer.seal(token, owner)?),
            None => kept.and_then(serde_json::Value::as_str).map(str::to_owned),
        };
        let stored = StoredAgent { card: spec.card.clone(), token, dedupes: spec.dedupes, timeout_ms: spec.timeout_ms };
        Ok(serde_json::json!(stored))
    }

    fn peer(&self, document: &Document) -> Result<Peer, Illegible> {
        let stored: StoredAgent = document.legible()?;
        let card = stored.card.parse().map_err(|why| document.illegible(format!("its card: {why}")))?;
        let token = document.secrets(&self.sealer).and_then(|secrets| {
            let tokens = secrets.iter().map(|token| bearer(token).ok_or(Unreadable::Malformed));
            Ok(tokens.collect::<Result<Vec<_>, _>>()?.pop())
        });
        Ok(Peer {
            id: document.id.clone(),
            card,
            owner: Some(document.tenant),
            tenant: document.tenant,
            token,
            dedupes: stored.dedupes,
            trace: CallTrace::default(),
            timeout_ms: stored.timeout_ms,
            version: document.version,
        })
    }
}

impl OperatorAgent {
    fn peer(&self, tenant: TenantPk) -> Peer {
        Peer {
            id: self.id.clone(),
            card: self.card.clone(),
            owner: None,
            tenant,
            token: Ok(self.token.clone()),
            dedupes: self.dedupes,
            trace: CallTrace::default(),
            timeout_ms: self.timeout_ms,
            version: 0,
        }
    }
}

/// The specification that a tenant wrote, without its token.
pub fn written_spec(document: &Document) -> Result<AgentSpec, Illegible> {
    let StoredAgent { card, token: _, dedupes, timeout_ms } = document.legible()?;
    Ok(AgentSpec { id: document.id.clone(), card, token: None, dedupes, timeout_ms })
}

fn known(peer: &Peer, card: Option<&AgentCard>) -> KnownAgent {
    KnownAgent {
        id: peer.id.clone(),
        card: shown_card(peer),
        is_fixed: peer.owner.is_none(),
        dedupes: peer.dedupes,
        timeout_ms: peer.timeout_ms,
        name: card.map(|card| line(&card.name)),
        description: card.map(|card| card.description.clone()),
        skills: card.map_or_else(Vec::new, |card| card.skills.iter().map(known_skill).collect()),
        secret_error: peer.token.as_ref().err().map(ToString::to_string),
        stored_error: None,
    }
}

/// For an agent of the configuration only the origin: the rest of such a URL may contain a secret.
fn shown_card(peer: &Peer) -> String {
    match peer.owner {
        None => peer.card.origin().ascii_serialization(),
        Some(_) => peer.card.to_string(),
    }
}

pub(super) fn known_skill(skill: &Skill) -> KnownSkill {
    KnownSkill {
        id: line(&skill.id),
        name: line(&skill.name),
        description: skill.description.clone(),
        tags: skill.tags.clone(),
    }
}
