//! The worker: claims due deliveries, sends them, records the outcome.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde::Deserialize;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::outcome::AttemptResult;
use super::turns::{TenantPermit, drop_served};
use super::unanswered::Receiver;
use super::{Outbox, POLL_INTERVAL, PushTarget};
use crate::domain::Millis;
use crate::domain::trace::{CallTrace, TraceOrigin};
use crate::egress::{Bounds, Destination, Error, OutgoingRequest, insert_trace_headers, sign};
use crate::engine::step::RowKind;
use crate::failpoint;
use crate::store::documents::{Illegible, Unreadable};
use crate::store::outbox::{Delivery, TargetKind};
use crate::store::{self, Store};

/// Bounds the attempts under way at once, besides those that released their permits.
const MAX_ATTEMPTS: usize = 32;
/// Bounds how much of an answer is read: its body is not used.
const MAX_ANSWER_BYTES: usize = 16 * 1024;

pub struct Worker {
    pub store: Arc<dyn Store>,
    pub outbox: Arc<Outbox>,
    pub now: Arc<dyn Fn() -> Millis + Send + Sync>,
    /// The system's clock: receivers check the age of signatures by it.
    pub wall: Arc<dyn Fn() -> Millis + Send + Sync>,
    /// Has an agent cancel a task of a thread that was deleted.
    pub cancel_task: DeliverySender,
}

/// Makes a delivery that the worker cannot make itself.
pub type DeliverySender = Arc<dyn Fn(Delivery) -> BoxFuture<'static, AttemptResult> + Send + Sync>;

impl Worker {
    /// Runs until `stop` is cancelled, then waits for the attempts under way.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut under_way = JoinSet::new();
        while !stop.is_cancelled() {
            let now = (self.now)();
            let pause = self.start_due(&mut under_way, now).await.unwrap_or_else(|error| {
                tracing::warn!(%error, "the outbox cannot be read");
                POLL_INTERVAL
            });
            tokio::select! {
                () = stop.cancelled() => {}
                // A permit is free.
                Some(_) = under_way.join_next() => {}
                // A notification and a timeout mean the same: look.
                _ = timeout(pause, self.outbox.wakeup.single.notified()) => {}
            }
        }
        while under_way.join_next().await.is_some() {}
    }

    /// Starts the attempts that are due, as far as there are permits. Returns how long to wait before the next look.
    async fn start_due(self: &Arc<Self>, under_way: &mut JoinSet<()>, now: Millis) -> store::Result<Duration> {
        // Other attempts may have ended, too.
        while under_way.try_join_next().is_some() {}
        if self.free_permits(under_way) == 0 {
            return Ok(POLL_INTERVAL);
        }
        let until = self.outbox.claim_deadline(now);
        let mut due = self.store.tenants_due(now).await?;
        loop {
            let shares = self.outbox.turns.allot(&due, self.free_permits(under_way));
            if shares.is_empty() {
                break;
            }
            let claimed = self.store.claim_deliveries(&shares, now, until).await?;
            // Permits that a tenant cannot use go to the others in the next round.
            drop_served(&mut due, &shares, &claimed);
            for delivery in claimed {
                let permit = TenantPermit::take(self.outbox.turns.clone(), delivery.tenant);
                under_way.spawn(self.clone().deliver(delivery, permit));
            }
        }
        if !due.is_empty() {
            // They wait for a permit, and the end of an attempt wakes this loop.
            return Ok(POLL_INTERVAL);
        }
        let next = self.store.next_single().await?.unwrap_or(Millis::MAX);
        let pause = Duration::from_millis(u64::try_from(next.saturating_sub(now)).unwrap_or(0));
        Ok(pause.clamp(Duration::from_millis(20), POLL_INTERVAL))
    }

    fn free_permits(&self, under_way: &JoinSet<()>) -> usize {
        MAX_ATTEMPTS.saturating_sub(under_way.len().saturating_sub(self.outbox.unanswered.released_permits()))
    }

    async fn deliver(self: Arc<Self>, delivery: Delivery, mut permit: TenantPermit) {
        failpoint::reached("delivery.claimed");
        let result = self.attempt(&delivery, &mut permit).await;
        failpoint::reached("delivery.sent");
        let now = (self.now)();
        let settlement = self.outbox.settlement(&delivery, result, now);
        let written = self.store.settle_deliveries(vec![settlement], now).await;
        if let Err(error) = written {
            tracing::warn!(%error, deliveryId = %delivery.id, "the outcome of an attempt could not be stored; the attempt will be repeated");
        }
    }

    async fn attempt(&self, delivery: &Delivery, permit: &mut TenantPermit) -> AttemptResult {
        let address = match delivery.kind {
            TargetKind::Webhook => self.webhook_address(delivery).await,
            TargetKind::Push => self.push_address(delivery).await,
            TargetKind::Agent => return self.cancel_task(delivery, permit).await,
            TargetKind::Collector => return AttemptResult::Failed("it goes out with others".to_owned()),
        };
        let (to, mut headers) = match address {
            Ok(address) => address,
            Err(NoAddress::Gone) => return AttemptResult::Undeliverable("the receiver is gone".to_owned()),
            Err(NoAddress::Store(error)) => {
                tracing::warn!(%error, deliveryId = %delivery.id, "nothing is sent: the receiver cannot be read");
                return AttemptResult::Failed(error.to_string());
            }
            Err(NoAddress::Illegible(why)) => return AttemptResult::Failed(why.to_string()),
            // The right key may still be configured.
            Err(NoAddress::Unreadable(why)) => {
                why.warn(delivery.kind.as_str(), delivery.tenant, &delivery.target);
                return AttemptResult::Failed(format!("{}: nothing was sent: {why}", Unreadable::CODE));
            }
        };
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let time = self.outbox.timing.attempt_timeout;
        let bounds = Bounds { headers: time, stall: time, total: time, bytes: MAX_ANSWER_BYTES };
        let body = Bytes::from(delivery.body.clone());
        let receiver = Receiver::at(&to);
        let request = OutgoingRequest { method: Method::POST, to, headers, body, bounds };
        self.attempt_with_permit(receiver, permit, self.send(request)).await
    }

    async fn send(&self, request: OutgoingRequest) -> AttemptResult {
        match self.outbox.egress.send(request).await {
            Ok(answer) => {
                let status = answer.status();
                answer.drain(Duration::from_secs(1)).await;
                result_of(status)
            }
            Err(error @ Error::Refused(_)) => AttemptResult::Undeliverable(error.to_string()),
            Err(error) => AttemptResult::Failed(error.to_string()),
        }
    }

    async fn cancel_task(&self, delivery: &Delivery, permit: &mut TenantPermit) -> AttemptResult {
        let cancel = timeout(self.outbox.timing.attempt_timeout, (self.cancel_task)(delivery.clone()));
        let attempt = async { cancel.await.unwrap_or(AttemptResult::Failed("it took too long".to_owned())) };
        self.attempt_with_permit(Receiver::agent(delivery.tenant, &delivery.target), permit, attempt).await
    }

    /// Makes an attempt, which releases its permit when it takes long. Fails at once if its receiver leaves too many
    /// unanswered.
    async fn attempt_with_permit(
        &self,
        receiver: Receiver,
        permit: &mut TenantPermit,
        attempt: impl Future<Output = AttemptResult>,
    ) -> AttemptResult {
        let release = || {
            permit.release();
            self.outbox.wakeup.single.notify_one();
        };
        let made = self.outbox.unanswered.attempt(receiver, attempt, release).await;
        made.unwrap_or_else(|error| AttemptResult::Failed(error.to_string()))
    }

    /// The address of a webhook, with the signature in its headers.
    async fn webhook_address(&self, delivery: &Delivery) -> Result<Address, NoAddress> {
        let webhook = self.outbox.webhooks.find_or_refresh(delivery.tenant, &delivery.target).await;
        let webhook = webhook.map_err(NoAddress::Store)?.ok_or(NoAddress::Gone)?;
        let webhook = webhook.map_err(NoAddress::Illegible)?;
        let secrets = webhook.secrets.as_ref().map_err(|why| NoAddress::Unreadable(why.clone()))?;
        let (mut headers, seconds) = (HeaderMap::new(), (self.wall)() / 1_000);
        insert_trace_headers(&mut headers, &trace_of(delivery));
        sign(&mut headers, secrets, delivery.id.as_str(), seconds, delivery.body.as_bytes());
        Ok((webhook.to.clone(), headers))
    }

    /// The address of a push receiver.
    async fn push_address(&self, delivery: &Delivery) -> Result<Address, NoAddress> {
        let row = self.store.row(delivery.thread, RowKind::Push, &delivery.target).await;
        let row = row.map_err(NoAddress::Store)?;
        let target = row.as_ref().map(PushTarget::read).transpose().map_err(NoAddress::Store)?;
        let target = target.flatten().ok_or(NoAddress::Gone)?;
        target.address(delivery.tenant, self.outbox.webhooks.sealer())
    }
}

/// A destination, and the headers to send.
type Address = (Destination, HeaderMap);

/// Why a delivery has no address.
pub(super) enum NoAddress {
    /// The receiver was deleted.
    Gone,
    /// Its secrets cannot be opened.
    Unreadable(Unreadable),
    /// The store failed, or the stored receiver is damaged.
    Store(store::Error),
    /// The stored webhook cannot be read. Writing it again repairs it.
    Illegible(Illegible),
}

/// The member of an event's body that names the trace.
#[derive(Deserialize)]
struct TracedBody {
    data: TracedData,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TracedData {
    /// Empty if the event is about no run.
    #[serde(default)]
    trace_id: String,
    /// Absent if neither the caller nor a sampler decided whether the run is traced.
    #[serde(default)]
    trace_flags: Option<String>,
}

/// The trace of the delivery's run, with a span of its own.
fn trace_of(delivery: &Delivery) -> CallTrace {
    let unreadable = |error: &serde_json::Error| tracing::warn!(%error, deliveryId = %delivery.id, "the trace of a delivery cannot be read from its body");
    match serde_json::from_str::<TracedBody>(&delivery.body).inspect_err(unreadable) {
        Ok(TracedBody { data: TracedData { trace_id, trace_flags: flags } }) => {
            TraceOrigin { flags, ..TraceOrigin::default() }.call(&trace_id, delivery.id.as_str())
        }
        Err(_) => CallTrace::default(),
    }
}

/// A redirect is no success: a receiver that moves needs its new URL in the settings.
fn result_of(status: StatusCode) -> AttemptResult {
    match status {
        StatusCode::GONE => AttemptResult::Undeliverable(status.to_string()),
        _ if status.is_success() => AttemptResult::Delivered(status.to_string()),
        _ => AttemptResult::Failed(status.to_string()),
    }
}
