//! All webhooks: the operator's, and those that tenants set up.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::Url;

use crate::domain::ids::TenantPk;
use crate::domain::webhook::WebhookEvent;
use crate::egress::{Destination, SigningSecret};
use crate::store;
use crate::store::documents::{Document, DocumentCache, DocumentKind, Illegible, Sealer, Unreadable};

/// A webhook: its address, the events that it subscribed to, and its signing secrets.
#[derive(Clone, Debug)]
pub struct Webhook {
    pub id: String,
    pub to: Destination,
    pub events: Vec<WebhookEvent>,
    /// The keys that sign its deliveries. An error if one of them cannot be opened.
    pub secrets: Result<Vec<SigningSecret>, Unreadable>,
    pub secret_count: usize,
    /// Set up by the operator; a tenant cannot change it.
    pub is_fixed: bool,
}

/// A tenant's webhook as it is stored, under its id.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StoredWebhook {
    pub url: String,
    pub events: Vec<WebhookEvent>,
    /// Sealed, in one of the shapes that [`Document::secrets`] reads.
    #[serde(default)]
    pub secrets: Value,
}

impl Webhook {
    /// Reads a stored webhook. One whose secrets cannot be opened still gets deliveries into the outbox, for when they can be.
    pub fn of(document: &Document, sealer: &Sealer) -> Result<Self, Illegible> {
        let (stored, url) = read(document)?;
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

fn read(document: &Document) -> Result<(StoredWebhook, Url), Illegible> {
    let stored: StoredWebhook = document.legible()?;
    let url = stored.url.parse().map_err(|why| document.illegible(format!("its url: {why}")))?;
    Ok((stored, url))
}

pub struct WebhookDirectory {
    /// The operator's webhooks, each for one tenant or for all.
    fixed: Vec<(Option<TenantPk>, Arc<Webhook>)>,
    documents: Arc<DocumentCache>,
    sealer: Arc<Sealer>,
}

impl WebhookDirectory {
    pub fn new(
        fixed: Vec<(Option<TenantPk>, Arc<Webhook>)>,
        documents: Arc<DocumentCache>,
        sealer: Arc<Sealer>,
    ) -> Self {
        Self { fixed, documents, sealer }
    }

    /// The ids of the tenant's webhooks that subscribed to this event, the operator's first. Unreadable ones are left out:
    /// their events are not known. Secrets are not opened, because this is called on the way to a commit.
    pub fn subscribers(&self, tenant: TenantPk, event: WebhookEvent) -> Vec<String> {
        let fixed = self.fixed(tenant).filter(|webhook| webhook.events.contains(&event));
        let own = self.documents.of(tenant, DocumentKind::Webhook);
        let own = own.iter().filter(|document| read(document).is_ok_and(|(stored, _)| stored.events.contains(&event)));
        fixed.map(|webhook| webhook.id.clone()).chain(own.map(|document| document.id.clone())).collect()
    }

    /// Finds a webhook by its id. The error is that of a stored webhook that cannot be read.
    pub fn find(&self, tenant: TenantPk, id: &str) -> Option<Result<Arc<Webhook>, Illegible>> {
        let fixed = self.fixed(tenant).find(|webhook| webhook.id == id);
        fixed.cloned().map(Ok).or_else(|| {
            let document = self.documents.get(tenant, DocumentKind::Webhook, id)?;
            Some(Webhook::of(&document, &self.sealer).map(Arc::new))
        })
    }

    /// Like [`find`](Self::find), but reads the store again if the id is unknown: another process may have just created it.
    pub(super) async fn find_or_refresh(
        &self,
        tenant: TenantPk,
        id: &str,
    ) -> store::Result<Option<Result<Arc<Webhook>, Illegible>>> {
        if let Some(known) = self.find(tenant, id) {
            return Ok(Some(known));
        }
        self.documents.refresh().await?;
        Ok(self.find(tenant, id))
    }

    pub(super) fn sealer(&self) -> &Sealer {
        &self.sealer
    }

    /// The operator's webhooks for this tenant.
    pub fn fixed(&self, tenant: TenantPk) -> impl Iterator<Item = &Arc<Webhook>> {
        let is_for_tenant = move |owner: &Option<TenantPk>| owner.is_none_or(|owner| owner == tenant);
        self.fixed.iter().filter(move |(owner, _)| is_for_tenant(owner)).map(|(_, webhook)| webhook)
    }
}
