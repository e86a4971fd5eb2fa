//! The agents that work can be given to: those of the configuration, which every tenant has, and each tenant's own.
//! What they say of themselves is fetched from their cards and cached; the description of `delegate_to_agent` gives it
//! to the planner.

mod cards;
mod tool;

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use http::HeaderValue;
use serde::{Deserialize, Serialize};
use url::Url;

use super::client::Client;
use super::types::AgentCard;
use crate::domain::agent::{AgentSpec, KnownAgent, KnownSkill};
use crate::domain::fault::Fault;
use crate::domain::ids::TenantPk;
use crate::domain::trace::CallTrace;
use crate::egress::{Destination, Egress};
use crate::store;
use crate::store::documents::{
    Document, DocumentCache, DocumentKind, Illegible, Sealer, Unreadable, owner_of_document,
};

use cards::Cards;
pub use tool::Delegating;
use tool::line;

/// Cards that are fetched at once.
const AT_ONCE: usize = 16;

/// One agent, as somebody named it.
#[derive(Clone, Debug)]
pub struct Peer {
    pub id: String,
    pub card: Url,
    /// Whose it is; `None`: the operator vouches for it.
    pub owner: Option<TenantPk>,
    /// On behalf of whom it is called.
    pub tenant: TenantPk,
    /// The value of `Authorization`, if it has one. One whose token cannot be opened is not spoken to.
    pub token: Result<Option<HeaderValue>, Unreadable>,
    /// It takes a message once, however often it is sent.
    pub dedupes: bool,
    /// The trace headers of this call.
    pub trace: CallTrace,
    pub timeout_ms: Option<i64>,
    /// The version of the stored document that describes this agent; 0 for an agent of the operator's configuration.
    pub version: i64,
}

impl Peer {
    /// What it is shown of who speaks. If that cannot be opened, nothing is sent: it may be another time.
    pub(super) fn authorization(&self) -> Result<Option<HeaderValue>, super::client::Error> {
        self.token.clone().map_err(|why| {
            why.warn(DocumentKind::Agent.as_str(), self.tenant, &self.id);
            let why = format!("{}: nothing was sent: {why}", Unreadable::CODE);
            super::client::Error::Unreachable { why, retry_after_ms: None }
        })
    }

    /// An address of the agent, on whose word it is called: what the operator vouches for is the origin of the card.
    /// What the card names elsewhere is judged.
    pub fn destination(&self, url: Url) -> Destination {
        match self.owner {
            None if url.origin() == self.card.origin() => Destination::Operator(url),
            None | Some(_) => Destination::Untrusted { url, tenant: self.tenant },
        }
    }
}

/// An agent of the configuration, its token read.
#[derive(Clone)]
pub struct Vouched {
    pub id: String,
    pub card: Url,
    pub token: Option<HeaderValue>,
    pub dedupes: bool,
    pub timeout_ms: Option<i64>,
}

/// A tenant's agent as it is stored, under its id.
#[derive(Serialize, Deserialize)]
struct Stored {
    card: String,
    /// Sealed.
    token: Option<String>,
    dedupes: bool,
    timeout_ms: Option<i64>,
}

pub struct Directory {
    vouched: Vec<Vouched>,
    documents: Arc<DocumentCache>,
    sealer: Arc<Sealer>,
    pub client: Client,
    cards: Cards,
}

impl Directory {
    pub fn new(
        vouched: Vec<Vouched>,
        documents: Arc<DocumentCache>,
        sealer: Arc<Sealer>,
        egress: Arc<Egress>,
        time: Duration,
        bytes: usize,
    ) -> Arc<Self> {
        let cards = Cards::new(egress.clone(), time);
        Arc::new(Self { vouched, documents, sealer, client: Client::new(egress, time, bytes), cards })
    }

    /// The operator's first.
    pub fn of(&self, tenant: TenantPk) -> Vec<Peer> {
        let own = self.documents.of(tenant, DocumentKind::Agent);
        let own = own.iter().filter_map(|document| self.peer(document).ok());
        self.vouched.iter().map(|agent| agent.peer(tenant)).chain(own).collect()
    }

    pub fn one(&self, tenant: TenantPk, id: &str) -> Option<Peer> {
        self.vouched(tenant, id).or_else(|| self.peer(&*self.documents.get(tenant, DocumentKind::Agent, id)?).ok())
    }

    fn vouched(&self, tenant: TenantPk, id: &str) -> Option<Peer> {
        self.vouched.iter().find(|agent| agent.id == id).map(|agent| agent.peer(tenant))
    }

    /// The same, as it is stored now: one that was just added elsewhere is there, too.
    pub async fn find(&self, tenant: TenantPk, id: &str) -> store::Result<Option<Peer>> {
        if let Some(known) = self.one(tenant, id) {
            return Ok(Some(known));
        }
        self.documents.refresh().await?;
        Ok(self.one(tenant, id))
    }

    /// The agent's card: the one that is kept while it is fresh, else as the agent gives it now.
    pub async fn card(&self, peer: &Peer) -> Result<Arc<AgentCard>, super::client::Error> {
        self.cards.get(peer).await
    }

    /// Everybody's agents.
    fn all(&self) -> Vec<Peer> {
        let own = self.documents.all(DocumentKind::Agent);
        let own = own.iter().filter_map(|document| self.peer(document).ok());
        self.vouched.iter().map(|agent| agent.peer(TenantPk::NONE)).chain(own).collect()
    }

    /// Keeps the cards fresh until dropped: the planner reads them without IO.
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
            // Those that do not answer keep few others waiting.
            stream::iter(fetched).for_each_concurrent(AT_ONCE, |fetched| fetched).await;
            // Whoever changes the agents is gone with the process.
            tokio::time::timeout(cards::FRESH, changes.changed()).await.ok();
        }
    }

    /// Those that work can be given to, as clients see them.
    pub fn known(&self, tenant: TenantPk) -> Vec<KnownAgent> {
        self.of(tenant).iter().map(|peer| self.shown(peer)).collect()
    }

    /// All, also those that cannot be read.
    pub fn listed(&self, tenant: TenantPk) -> Vec<KnownAgent> {
        let own = self.documents.of(tenant, DocumentKind::Agent);
        let own = own.iter().map(|document| self.look_at(document));
        self.vouched.iter().map(|agent| self.shown(&agent.peer(tenant))).chain(own).collect()
    }

    /// One of [`listed`](Self::listed), with the version of what is stored of it.
    pub fn look(&self, tenant: TenantPk, id: &str) -> Option<(KnownAgent, i64)> {
        let vouched = self.vouched(tenant, id).map(|peer| (self.shown(&peer), peer.version));
        vouched.or_else(|| {
            let document = self.documents.get(tenant, DocumentKind::Agent, id)?;
            Some((self.look_at(&document), document.version))
        })
    }

    fn look_at(&self, document: &Document) -> KnownAgent {
        match self.peer(document) {
            Ok(peer) => self.shown(&peer),
            Err(why) => KnownAgent::illegible(document.id.clone(), why.to_string()),
        }
    }

    /// With what its card says, as it was read last.
    pub fn shown(&self, peer: &Peer) -> KnownAgent {
        known(peer, self.cards.kept(peer).as_deref())
    }

    /// A tenant's agent as it is written, whatever its card says.
    pub fn unread(&self, document: &Document) -> Result<KnownAgent, Illegible> {
        self.peer(document).map(|peer| known(&peer, None))
    }

    /// What is stored of an agent: its token sealed for it, or the one that is `kept`, sealed, where it brings none.
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
        let stored = Stored { card: spec.card.clone(), token, dedupes: spec.dedupes, timeout_ms: spec.timeout_ms };
        Ok(serde_json::json!(stored))
    }

    fn peer(&self, document: &Document) -> Result<Peer, Illegible> {
        let stored: Stored = document.legible()?;
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

impl Vouched {
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

/// What a tenant wrote of an agent, without its token.
pub fn sent(document: &Document) -> Result<AgentSpec, Illegible> {
    let Stored { card, token: _, dedupes, timeout_ms } = document.legible()?;
    Ok(AgentSpec { id: document.id.clone(), card, token: None, dedupes, timeout_ms })
}

fn known(peer: &Peer, card: Option<&AgentCard>) -> KnownAgent {
    KnownAgent {
        id: peer.id.clone(),
        card: peer.card.to_string(),
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

/// A token as it is sent; `None`: no header can hold it.
pub fn bearer(token: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn known_skill(skill: &super::types::Skill) -> KnownSkill {
    KnownSkill {
        id: line(&skill.id),
        name: line(&skill.name),
        description: skill.description.clone(),
        tags: skill.tags.clone(),
    }
}
