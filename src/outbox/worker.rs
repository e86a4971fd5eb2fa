//! The worker: claims due deliveries, sends them, records the outcome.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::Deserialize;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::outcome::Outcome;
use super::turns::{Place, drop_served};
use super::unanswered::Receiver;
use super::{HORIZON, Outbox, PushTarget};
use crate::domain::Millis;
use crate::domain::trace::{CallTrace, TraceOrigin};
use crate::egress::{Bounds, Destination, Error, Post, insert_trace_headers, sign};
use crate::engine::step::RowKind;
use crate::failpoint;
use crate::store::documents::{Illegible, Unreadable};
use crate::store::outbox::{Delivery, TargetKind};
use crate::store::{self, Store};

/// Deliveries under way at once, besides those that gave their places away.
const PLACES: usize = 32;
/// How much of an answer is read: nobody needs it.
const ANSWER: usize = 16 * 1024;

pub struct Worker {
    pub store: Arc<dyn Store>,
    pub outbox: Arc<Outbox>,
    pub now: Arc<dyn Fn() -> Millis + Send + Sync>,
    /// What the system's clock shows: receivers judge signatures by it.
    pub wall: Arc<dyn Fn() -> Millis + Send + Sync>,
    /// Tells an agent that what a thread had given it is not wanted any more.
    pub stop: Sends,
}

/// Makes a delivery that the worker cannot make itself: what came of it, in a word and in a sentence.
pub type Sends = Arc<dyn Fn(Delivery) -> BoxFuture<'static, Made> + Send + Sync>;

type Made = (Outcome, String);

impl Worker {
    /// Works until stopped; then ends the attempts under way.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut under_way = JoinSet::new();
        while !stop.is_cancelled() {
            let now = (self.now)();
            let rest = self.begin(&mut under_way, now).await.unwrap_or_else(|error| {
                tracing::warn!(%error, "the outbox cannot be read");
                HORIZON
            });
            tokio::select! {
                () = stop.cancelled() => {}
                // A place is free.
                Some(_) = under_way.join_next() => {}
                // Rung or slept out: both mean look.
                _ = timeout(rest, self.outbox.bell.single.notified()) => {}
            }
        }
        while under_way.join_next().await.is_some() {}
    }

    /// Begins what is due and has a place; how long to rest then.
    async fn begin(self: &Arc<Self>, under_way: &mut JoinSet<()>, now: Millis) -> store::Result<Duration> {
        // Whatever else has ended has left a place, too.
        while under_way.try_join_next().is_some() {}
        if self.free(under_way) == 0 {
            return Ok(HORIZON);
        }
        let until = self.outbox.claim_ends(now);
        let mut due = self.store.tenants_due(now).await?;
        loop {
            let shares = self.outbox.turns.share(&due, self.free(under_way));
            if shares.is_empty() {
                break;
            }
            let claimed = self.store.claim_deliveries(&shares, now, until).await?;
            // What they leave of their shares, the others get.
            drop_served(&mut due, &shares, &claimed);
            for delivery in claimed {
                let place = Place::take(self.outbox.turns.clone(), delivery.tenant);
                under_way.spawn(self.clone().deliver(delivery, place));
            }
        }
        if !due.is_empty() {
            // They wait for a place.
            return Ok(HORIZON);
        }
        let next = self.store.next_single().await?.unwrap_or(Millis::MAX);
        let rest = Duration::from_millis(u64::try_from(next.saturating_sub(now)).unwrap_or(0));
        Ok(rest.clamp(Duration::from_millis(20), HORIZON))
    }

    fn free(&self, under_way: &JoinSet<()>) -> usize {
        PLACES.saturating_sub(under_way.len().saturating_sub(self.outbox.unanswered.given_away()))
    }

    async fn deliver(self: Arc<Self>, delivery: Delivery, mut place: Place) {
        failpoint::reached("delivery.claimed");
        let (outcome, said) = self.attempt(&delivery, &mut place).await;
        failpoint::reached("delivery.sent");
        let now = (self.now)();
        let settlement = self.outbox.settlement(&delivery, outcome, said, now);
        let written = self.store.settle_deliveries(vec![settlement], now).await;
        if let Err(error) = written {
            tracing::warn!(%error, deliveryId = %delivery.id, "an attempt is not written down; it is made again");
        }
    }

    async fn attempt(&self, delivery: &Delivery, place: &mut Place) -> Made {
        let address = match delivery.kind {
            TargetKind::Webhook => self.webhook(delivery).await,
            TargetKind::Push => self.receiver(delivery).await,
            TargetKind::Agent => return self.stop(delivery, place).await,
            TargetKind::Collector => return (Outcome::Failed, "it goes out with others".to_owned()),
        };
        let (to, mut headers) = match address {
            Ok(address) => address,
            Err(Unaddressed::Gone) => return (Outcome::Useless, "the receiver is gone".to_owned()),
            Err(Unaddressed::Unread(error)) => {
                tracing::warn!(%error, deliveryId = %delivery.id, "nothing is sent: the receiver cannot be read");
                return (Outcome::Failed, error.to_string());
            }
            Err(Unaddressed::Illegible(why)) => return (Outcome::Failed, why.to_string()),
            // The right key may come yet.
            Err(Unaddressed::Unreadable(why)) => {
                why.warn(delivery.kind.as_str(), delivery.tenant, &delivery.target);
                return (Outcome::Failed, format!("{}: nothing was sent: {why}", Unreadable::CODE));
            }
        };
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let time = self.outbox.pace.attempt;
        let bounds = Bounds { headers: time, stall: time, total: time, bytes: ANSWER };
        let body = Bytes::from(delivery.body.clone());
        let receiver = Receiver::at(&to);
        self.beside_others(receiver, place, self.post(Post { to, headers, body, bounds })).await
    }

    async fn post(&self, post: Post) -> Made {
        match self.outbox.egress.post(post).await {
            Ok(answer) => {
                let status = answer.status();
                answer.let_go(Duration::from_secs(1)).await;
                (of_status(status), status.to_string())
            }
            Err(error @ Error::Refused(_)) => (Outcome::Useless, error.to_string()),
            Err(error) => (Outcome::Failed, error.to_string()),
        }
    }

    async fn stop(&self, delivery: &Delivery, place: &mut Place) -> Made {
        let stop = timeout(self.outbox.pace.attempt, (self.stop)(delivery.clone()));
        let made = async { stop.await.unwrap_or((Outcome::Failed, "it took too long".to_owned())) };
        self.beside_others(Receiver::agent(delivery.tenant, &delivery.target), place, made).await
    }

    /// Makes an attempt that keeps no other waiting for long, unless its receiver leaves too many unanswered.
    async fn beside_others(&self, receiver: Receiver, place: &mut Place, attempt: impl Future<Output = Made>) -> Made {
        let look = || {
            place.give_away();
            self.outbox.bell.single.notify_one();
        };
        let made = self.outbox.unanswered.attempt(receiver, attempt, look).await;
        made.unwrap_or_else(|silent| (Outcome::Failed, silent.to_string()))
    }

    /// Where it goes, and what proves who sends it.
    async fn webhook(&self, delivery: &Delivery) -> Result<Address, Unaddressed> {
        let webhook = self.outbox.directory.one_of_now(delivery.tenant, &delivery.target).await;
        let webhook = webhook.map_err(Unaddressed::Unread)?.ok_or(Unaddressed::Gone)?;
        let webhook = webhook.map_err(Unaddressed::Illegible)?;
        let secrets = webhook.secrets.as_ref().map_err(|why| Unaddressed::Unreadable(why.clone()))?;
        let (mut headers, seconds) = (HeaderMap::new(), (self.wall)() / 1_000);
        insert_trace_headers(&mut headers, &trace_of(delivery));
        sign(&mut headers, secrets, delivery.id.as_str(), seconds, delivery.body.as_bytes());
        Ok((webhook.to.clone(), headers))
    }

    /// The same for a client of a task.
    async fn receiver(&self, delivery: &Delivery) -> Result<Address, Unaddressed> {
        let row = self.store.row(delivery.thread, RowKind::Push, &delivery.target).await;
        let row = row.map_err(Unaddressed::Unread)?;
        let target = row.as_ref().map(PushTarget::read).transpose().map_err(Unaddressed::Unread)?;
        let target = target.flatten().ok_or(Unaddressed::Gone)?;
        target.address(delivery.tenant, self.outbox.directory.sealer())
    }
}

/// Where something goes, and with which headers.
type Address = (Destination, HeaderMap);

/// Why it goes nowhere.
pub(super) enum Unaddressed {
    /// Nobody wants it any more.
    Gone,
    /// What must prove who sends it cannot be opened.
    Unreadable(Unreadable),
    /// The store does not say, or what it says is damaged.
    Unread(store::Error),
    /// What is stored of it cannot be read. It may be written again.
    Illegible(Illegible),
}

/// Of what a webhook is told, that which names the trace.
#[derive(Deserialize)]
struct Told {
    data: ToldData,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToldData {
    /// Empty where it is about no run.
    #[serde(default)]
    trace_id: String,
}

/// The trace of the run of the delivery, under a span of its own.
fn trace_of(delivery: &Delivery) -> CallTrace {
    let unreadable =
        |error: &serde_json::Error| tracing::warn!(%error, deliveryId = %delivery.id, "a delivery names no trace");
    let told = serde_json::from_str::<Told>(&delivery.body).inspect_err(unreadable);
    let trace_id = told.map_or_else(|_| String::new(), |told| told.data.trace_id);
    TraceOrigin::default().call(&trace_id, delivery.id.as_str())
}

/// A redirect is no success: a receiver that moves needs its new URL in the settings.
fn of_status(status: StatusCode) -> Outcome {
    match status {
        StatusCode::GONE => Outcome::Useless,
        status if status.is_success() => Outcome::Taken,
        _ => Outcome::Failed,
    }
}
