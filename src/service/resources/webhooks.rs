//! The webhooks of a tenant, and their deliveries.

use serde_json::{Value, json};

use super::{Collection, Draft, Resource, Versioned, wrong};
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::{DeliveryId, TenantPk};
use crate::domain::webhook::{DeliveryResource, WebhookResource, WebhookSpec};
use crate::egress::SigningSecret;
use crate::outbox::{StoredWebhook, Webhook};
use crate::service::once::{self, Answered, Idempotent, StoredResponse};
use crate::service::{Result, Service};
use crate::store::documents::{Document, DocumentKind, owner_of_document};
use crate::store::outbox::{Abandoned, Abandonment, Delivery, DeliveryStatus, TargetKind};
use crate::store::{AuditRow, Pace, Page, PageAsk};
use crate::tool::Toolset;

/// The reason stored with deliveries whose webhook was removed.
const REMOVED: &str = "the webhook was removed";
/// A rotation of the secret needs two.
const MAX_SECRETS: usize = 4;

/// Webhooks: those of the configuration, and a tenant's own.
pub struct Webhooks;

impl Resource for Webhooks {
    const KIND: DocumentKind = DocumentKind::Webhook;
    const NAME: &'static str = "webhook";
    type Spec = WebhookSpec;
    type View = WebhookResource;

    async fn get(service: &Service, caller: &Caller, id: &str) -> Result<Versioned<WebhookResource>> {
        if let Some(fixed) = service.outbox.webhooks.fixed(caller.tenant).find(|webhook| webhook.id == id) {
            return Ok(Versioned { value: shown(fixed), version: 0 });
        }
        let document = service.documents.get(caller.tenant, Self::KIND, id);
        let document = document.ok_or_else(|| Fault::not_found(Self::NAME))?;
        Ok(Versioned { value: stored(service, &document), version: document.version })
    }

    fn check_change(service: &Service, caller: &Caller, id: &str) -> Result<()> {
        refuse_configured(service, caller, id)
    }

    fn replaced_body(
        service: &Service,
        caller: &Caller,
        _: &Toolset,
        known: &Document,
        spec: WebhookSpec,
    ) -> Result<Value> {
        let secrets = match &spec.secrets {
            Some(secrets) => sealed(service, caller, &known.id, secrets)?,
            None => known.kept_secrets().cloned().unwrap_or_default(),
        };
        Ok(json!(checked(service, caller, &spec, secrets)?))
    }

    fn view_of(service: &Service, _: &Caller, document: &Document) -> Result<WebhookResource> {
        Ok(stored(service, document))
    }
}

impl Collection for Webhooks {
    fn id(view: &WebhookResource) -> &str {
        &view.webhook_id
    }

    fn list(service: &Service, caller: &Caller) -> Result<Vec<WebhookResource>> {
        let fixed = service.outbox.webhooks.fixed(caller.tenant).map(|webhook| shown(webhook));
        let own = service.documents.of(caller.tenant, Self::KIND);
        Ok(fixed.chain(own.iter().map(|document| stored(service, document))).collect())
    }

    /// If the specification has no secrets, a random one is generated; the response shows it.
    fn draft(service: &Service, caller: &Caller, _: &Toolset, spec: WebhookSpec) -> Result<Draft<WebhookResource>> {
        let id = service.mint().webhook();
        let generated = match &spec.secrets {
            Some(_) => None,
            None => Some(SigningSecret::random().map_err(|why| Fault::new(Code::Internal, why))?),
        };
        let secrets = spec.secrets.clone().unwrap_or_else(|| generated.clone().into_iter().collect());
        let body = checked(service, caller, &spec, sealed(service, caller, &id, &secrets)?)?;
        let view = WebhookResource {
            url: body.url.clone(),
            webhook_id: id.clone(),
            events: spec.events,
            secret_count: secrets.len(),
            is_fixed: false,
            secret: generated,
            secret_error: None,
            stored_error: None,
        };
        Ok(Draft { id, body: json!(body), view })
    }

    fn id_taken() -> Fault {
        Fault::new(Code::Internal, "The new webhook has the id of another; ask again.")
    }

    fn check_removal(service: &Service, caller: &Caller, id: &str) -> Result<()> {
        refuse_configured(service, caller, id)
    }

    /// Gives up its pending deliveries, with a reason: a few before the response, and the others afterwards. Those that a
    /// failure or a stop leaves are given up when they are due.
    async fn after_removal(service: &Service, caller: &Caller, id: &str) -> Result<()> {
        if let Some(next) = give_up_some(service, caller.tenant, id, i64::MIN).await {
            let (own, tenant, id) = (service.clone(), caller.tenant, id.to_owned());
            let others = move || give_up_others(own.clone(), tenant, id.clone(), next);
            service.runtime.spawn_until_drain("the deliveries of a removed webhook", others);
        }
        Ok(())
    }
}

/// Gives up some of the pending deliveries of a removed webhook. Returns where to continue. An error is only logged, because
/// the webhook is removed.
async fn give_up_some(service: &Service, tenant: TenantPk, id: &str, after: i64) -> Option<i64> {
    let (kind, now) = (TargetKind::Webhook, service.now());
    let abandonment = Abandonment { tenant, kind, target: id, why: REMOVED, now };
    match service.store.abandon_deliveries(&abandonment, after).await {
        Ok(Abandoned { count, next }) => {
            tracing::info!(webhook = id, given_up = count, "deliveries of a removed webhook are given up");
            next
        }
        Err(error) => {
            tracing::warn!(%error, webhook = id, "deliveries of a removed webhook are given up only when they are due");
            None
        }
    }
}

/// Gives up all others, beside the commits.
async fn give_up_others(service: Service, tenant: TenantPk, id: String, mut after: i64) {
    loop {
        let pace = Pace::begin();
        let Some(next) = give_up_some(&service, tenant, &id, after).await else { return };
        after = next;
        pace.rest(&*service.store).await;
    }
}

/// The deliveries to one webhook, sent and pending, newest first.
pub async fn deliveries(service: &Service, caller: &Caller, id: &str, page: PageAsk) -> Result<Page<DeliveryResource>> {
    Webhooks::get(service, caller, id).await?;
    let page = service.reads.deliveries(caller.tenant, TargetKind::Webhook, id, &page).await?;
    Ok(page.map(delivery_resource))
}

/// The deliveries to all webhooks of the tenant, optionally only those with this status, newest first.
pub async fn all_deliveries(
    service: &Service,
    caller: &Caller,
    status: Option<DeliveryStatus>,
    page: PageAsk,
) -> Result<Page<DeliveryResource>> {
    let page = service.reads.deliveries_of_tenant(caller.tenant, TargetKind::Webhook, status, &page).await?;
    Ok(page.map(delivery_resource))
}

/// Repeats a finished delivery from its first attempt, under the same id.
pub async fn replay(
    service: &Service,
    caller: &Caller,
    id: &DeliveryId,
    key: Option<Idempotent>,
) -> Result<Answered<()>> {
    let work = async {
        let now = service.now();
        let response = StoredResponse { status: 202, body: "null".to_owned(), location: None };
        let response = key.as_ref().map(|key| key.row(caller.tenant, now, response));
        let detail = json!({ "deliveryId": id });
        let audit = AuditRow::of_tenant(caller.tenant, now, &caller.name, "replay delivery", detail);
        match service.store.replay_delivery(caller.tenant, id, now, audit, response).await? {
            None => Err(Fault::not_found("delivery").into()),
            Some(false) => {
                let detail = "The delivery is not over: it is still being tried.";
                Err(Fault::new(Code::PreconditionFailed, detail).into())
            }
            Some(true) => {
                service.outbox.wakeup.notify([TargetKind::Webhook]);
                Ok(())
            }
        }
    };
    once::perform(service, caller, key.as_ref(), work).await
}

/// Refuses a change of a webhook of the configuration.
fn refuse_configured(service: &Service, caller: &Caller, id: &str) -> Result<()> {
    if service.outbox.webhooks.fixed(caller.tenant).any(|webhook| webhook.id == id) {
        let why = "This webhook is part of the server's configuration; only its operator can change or remove it.";
        return Err(Fault::new(Code::Forbidden, why));
    }
    Ok(())
}

fn sealed(service: &Service, caller: &Caller, id: &str, secrets: &[String]) -> Result<Value> {
    if secrets.is_empty() || secrets.len() > MAX_SECRETS {
        let why = format!("has 1 to {MAX_SECRETS} entries");
        return Err(Fault::new(Code::Invalid, format!("`secrets` {why}.")).at("/secrets", why));
    }
    for (at, secret) in secrets.iter().enumerate() {
        let wrong = |why: String| Fault::new(Code::Invalid, why.clone()).at(format!("/secrets/{at}"), why);
        SigningSecret::parse(secret).map_err(wrong)?;
    }
    let owner = owner_of_document(caller.tenant, DocumentKind::Webhook, id);
    secrets.iter().map(|secret| service.sealer.seal(secret, owner).map(Value::from)).collect()
}

/// The body to store.
fn checked(service: &Service, caller: &Caller, spec: &WebhookSpec, secrets: Value) -> Result<StoredWebhook> {
    let to = service.outbox.egress.tenant_destination(caller.tenant, &spec.url).map_err(|why| wrong("url", why))?;
    if spec.events.is_empty() {
        return Err(Fault::new(Code::Invalid, "`events` names none.").at("/events", "names none"));
    }
    Ok(StoredWebhook { url: to.url().to_string(), events: spec.events.clone(), secrets })
}

/// A webhook of the tenant, even if its document cannot be read.
fn stored(service: &Service, document: &Document) -> WebhookResource {
    match Webhook::of(document, &service.sealer) {
        Ok(webhook) => shown(&webhook),
        Err(why) => WebhookResource {
            webhook_id: document.id.clone(),
            url: String::new(),
            events: Vec::new(),
            secret_count: document.secret_count(),
            is_fixed: false,
            secret: None,
            secret_error: None,
            stored_error: Some(why.to_string()),
        },
    }
}

fn shown(webhook: &Webhook) -> WebhookResource {
    WebhookResource {
        webhook_id: webhook.id.clone(),
        url: shown_url(webhook),
        events: webhook.events.clone(),
        secret_count: webhook.secret_count,
        is_fixed: webhook.is_fixed,
        secret: None,
        secret_error: webhook.secrets.as_ref().err().map(ToString::to_string),
        stored_error: None,
    }
}

/// For a webhook of the configuration only the origin: the rest of such a URL often contains a secret.
fn shown_url(webhook: &Webhook) -> String {
    let url = webhook.to.url();
    if webhook.is_fixed { url.origin().ascii_serialization() } else { url.to_string() }
}

fn delivery_resource(delivery: Delivery) -> DeliveryResource {
    DeliveryResource {
        delivery_id: delivery.id.to_string(),
        webhook_id: delivery.target,
        event: delivery.event,
        status: delivery.status.as_str().to_owned(),
        attempts: delivery.attempts,
        created_at: delivery.created_at,
        due_at: delivery.due_at,
        finished_at: delivery.finished_at,
        said: delivery.said,
        // A body is sent as it is stored; one that is no JSON is shown as it is, too.
        body: serde_json::from_str(&delivery.body).unwrap_or(Value::String(delivery.body)),
    }
}
