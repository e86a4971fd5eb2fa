//! All webhooks: the operator's, and those that tenants set up.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::domain::ids::TenantPk;
use crate::domain::webhook::WebhookEvent;
use crate::egress::{Destination, SigningSecret};
use crate::store;
use crate::store::documents::{Document, DocumentCache, DocumentKind, Illegible, Sealer, Unreadable};

/// One address, what it wants to know, and what is shared with it.
#[derive(Clone, Debug)]
pub struct Webhook {
    pub id: String,
    pub to: Destination,
    pub events: Vec<WebhookEvent>,
    /// What its deliveries are signed with; none if one of them cannot be opened.
    pub secrets: Result<Vec<SigningSecret>, Unreadable>,
    pub secret_count: usize,
    /// Set up by the operator.
    pub is_fixed: bool,
}

/// A tenant's webhook as it is stored, under its id.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StoredWebhook {
    pub url: String,
    pub events: Vec<WebhookEvent>,
    /// Sealed: what may stand here, [`Document::secrets`] says.
    #[serde(default)]
    pub secrets: Value,
}

impl Webhook {
    /// A stored webhook. One whose secrets cannot be opened is there all the same: what it is to be told is kept for it.
    pub fn of(document: &Document, sealer: &Sealer) -> Result<Self, Illegible> {
        let stored: StoredWebhook = document.legible()?;
        let url = stored.url.parse().map_err(|why| document.illegible(format!("its url: {why}")))?;
        Ok(Self {
            id: document.id.clone(),
            to: Destination::Untrusted { url, tenant: document.tenant },
            events: stored.events,
            secrets: document.signing_secrets(sealer),
            secret_count: document.secret_count(),
            is_fixed: false,
        })
    }
}

pub struct Directory {
    /// Of one tenant, or of all.
    fixed: Vec<(Option<TenantPk>, Arc<Webhook>)>,
    documents: Arc<DocumentCache>,
    sealer: Arc<Sealer>,
}

impl Directory {
    pub fn new(
        fixed: Vec<(Option<TenantPk>, Arc<Webhook>)>,
        documents: Arc<DocumentCache>,
        sealer: Arc<Sealer>,
    ) -> Self {
        Self { fixed, documents, sealer }
    }

    /// The operator's first; of those that cannot be read nobody knows what they want to be told.
    pub fn of(&self, tenant: TenantPk) -> Vec<Arc<Webhook>> {
        let own = self.documents.of(tenant, DocumentKind::Webhook);
        let own = own.iter().filter_map(|document| Webhook::of(document, &self.sealer).ok());
        self.fixed(tenant).cloned().chain(own.map(Arc::new)).collect()
    }

    pub fn one(&self, tenant: TenantPk, id: &str) -> Option<Result<Arc<Webhook>, Illegible>> {
        let fixed = self.fixed(tenant).find(|webhook| webhook.id == id);
        fixed.cloned().map(Ok).or_else(|| {
            let document = self.documents.get(tenant, DocumentKind::Webhook, id)?;
            Some(Webhook::of(&document, &self.sealer).map(Arc::new))
        })
    }

    /// The same; one that another process has made a moment ago may have to be read first.
    pub(super) async fn one_of_now(
        &self,
        tenant: TenantPk,
        id: &str,
    ) -> store::Result<Option<Result<Arc<Webhook>, Illegible>>> {
        if let Some(known) = self.one(tenant, id) {
            return Ok(Some(known));
        }
        self.documents.refresh().await?;
        Ok(self.one(tenant, id))
    }

    pub(super) fn sealer(&self) -> &Sealer {
        &self.sealer
    }

    /// The operator's, for this tenant.
    pub fn fixed(&self, tenant: TenantPk) -> impl Iterator<Item = &Arc<Webhook>> {
        let is_theirs = move |owner: &Option<TenantPk>| owner.is_none_or(|owner| owner == tenant);
        self.fixed.iter().filter(move |(owner, _)| is_theirs(owner)).map(|(_, webhook)| webhook)
    }
}
