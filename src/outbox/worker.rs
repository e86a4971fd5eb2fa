//! The worker: claims due deliveries, sends them, records the outcome.

use std::hash::{DefaultHasher, Hash, Hasher};
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

use super::{Outbox, Pace, PushTarget};
use crate::domain::Millis;
use crate::domain::trace::{CallTrace, TraceOrigin};
use crate::egress::{Bounds, Destination, Error, Post, insert_trace_headers, sign};
use crate::engine::step::RowKind;
use crate::failpoint;
use crate::store::documents::{Illegible, Unreadable};
use crate::store::outbox::{Delivery, Settled, TargetKind};
use crate::store::{self, Store};

/// Deliveries under way at once.
const PLACES: usize = 32;
/// How much of an answer is read: nobody needs it.
const ANSWER: usize = 16 * 1024;
/// What another replica left is looked for as often.
const HORIZON: Duration = Duration::from_secs(5);
/// What a claim has beyond twice its attempt: for writing down what came of it.
const MARGIN: Millis = 1_000;

pub struct Worker {
    pub store: Arc<dyn Store>,
    pub outbox: Arc<Outbox>,
    pub now: Arc<dyn Fn() -> Millis + Send + Sync>,
    /// Tells an agent that what a thread had given it is not wanted any more.
    pub stop: Sends,
    /// Sends a part of a log to the collector of traces.
    pub send_spans: Sends,
}

/// Makes a delivery that the worker cannot make itself: what came of it, in a word and in a sentence.
pub type Sends = Arc<dyn Fn(Delivery) -> BoxFuture<'static, (Outcome, String)> + Send + Sync>;

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
                _ = timeout(rest, self.outbox.bell.0.notified()) => {}
            }
        }
        while under_way.join_next().await.is_some() {}
    }

    /// Begins what is due and has a place; how long to rest then.
    async fn begin(self: &Arc<Self>, under_way: &mut JoinSet<()>, now: Millis) -> store::Result<Duration> {
        let free = PLACES - under_way.len().min(PLACES);
        if free == 0 {
            return Ok(HORIZON);
        }
        let until = now + 2 * i64::try_from(self.outbox.pace.attempt.as_millis()).unwrap_or(MARGIN) + MARGIN;
        let claimed = self.store.claim_deliveries(now, until, u32::try_from(free).unwrap_or(1)).await?;
        let is_all = claimed.len() < free;
        for delivery in claimed {
            under_way.spawn(self.clone().deliver(delivery));
        }
        if !is_all {
            return Ok(Duration::ZERO);
        }
        let next = self.store.next_delivery().await?.unwrap_or(Millis::MAX);
        let rest = Duration::from_millis(u64::try_from(next.saturating_sub(now)).unwrap_or(0));
        Ok(rest.clamp(Duration::from_millis(20), HORIZON))
    }

    async fn deliver(self: Arc<Self>, delivery: Delivery) {
        failpoint::reached("delivery.claimed");
        let (outcome, said) = self.attempt(&delivery).await;
        failpoint::reached("delivery.sent");
        let now = (self.now)();
        let settled = match outcome {
            Outcome::Taken => Settled::Delivered,
            Outcome::Useless => Settled::Dead,
            Outcome::Failed => match self.outbox.pace.pause(&delivery, now) {
                Some(pause) => Settled::Later(now + jittered(pause, &delivery)),
                None => Settled::Dead,
            },
        };
        let outcome = match settled {
            Settled::Delivered => "delivered",
            Settled::Later(_) => "failed",
            Settled::Dead => "dead",
        };
        let labels = [("kind", delivery.kind.as_str()), ("outcome", outcome)];
        metrics::counter!("pes_outbox_deliveries_total", &labels).increment(1);
        if settled == Settled::Dead {
            let (target, attempts) = (&delivery.target, delivery.attempts);
            tracing::warn!(deliveryId = %delivery.id, target, attempts, said, "a delivery is given up");
        }
        let written = self.store.settle_delivery(&delivery.id, delivery.attempts, settled, &said, now).await;
        if let Err(error) = written {
            tracing::warn!(%error, deliveryId = %delivery.id, "an attempt is not written down; it is made again");
        }
    }

    async fn attempt(&self, delivery: &Delivery) -> (Outcome, String) {
        let address = match delivery.kind {
            TargetKind::Webhook => self.webhook(delivery),
            TargetKind::Push => self.receiver(delivery).await,
            TargetKind::Agent => return self.made(&self.stop, delivery).await,
            TargetKind::Collector => return self.made(&self.send_spans, delivery).await,
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
        match self.outbox.egress.post(Post { to, headers, body, bounds }).await {
            Ok(answer) => {
                let status = answer.status();
                answer.let_go(Duration::from_secs(1)).await;
                (of_status(status), status.to_string())
            }
            Err(error @ Error::Refused(_)) => (Outcome::Useless, error.to_string()),
            Err(error) => (Outcome::Failed, error.to_string()),
        }
    }

    async fn made(&self, sends: &Sends, delivery: &Delivery) -> (Outcome, String) {
        let made = timeout(self.outbox.pace.attempt, sends(delivery.clone())).await;
        made.unwrap_or((Outcome::Failed, "it took too long".to_owned()))
    }

    /// Where it goes, and what proves who sends it.
    fn webhook(&self, delivery: &Delivery) -> Result<Address, Unaddressed> {
        let webhook = self.outbox.directory.one(delivery.tenant, &delivery.target).ok_or(Unaddressed::Gone)?;
        let webhook = webhook.map_err(Unaddressed::Illegible)?;
        let secrets = webhook.secrets.as_ref().map_err(|why| Unaddressed::Unreadable(why.clone()))?;
        let (mut headers, seconds) = (HeaderMap::new(), (self.now)() / 1_000);
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

impl Pace {
    /// Until the next attempt; `None`: there is none.
    fn pause(&self, delivery: &Delivery, now: Millis) -> Option<Millis> {
        let made = delivery.attempts.saturating_sub(1) as usize;
        match delivery.kind {
            TargetKind::Webhook | TargetKind::Agent | TargetKind::Collector => self.backoff.get(made).copied(),
            TargetKind::Push => {
                let is_early = now - delivery.created_at < self.push_for;
                // However old it is: it may have waited for those before it with the same ordering key.
                let pause = self.push_backoff.get(made);
                pause.or(self.push_backoff.last().filter(|_| is_early)).copied()
            }
        }
    }
}

/// What an attempt means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Taken,
    Failed,
    /// Trying again is no use.
    Useless,
}

/// A redirect is no success: a receiver that moves needs its new URL in the settings.
fn of_status(status: StatusCode) -> Outcome {
    match status {
        StatusCode::GONE => Outcome::Useless,
        status if status.is_success() => Outcome::Taken,
        _ => Outcome::Failed,
    }
}

/// A fifth more or less, so that what failed together is not tried together.
fn jittered(pause: Millis, delivery: &Delivery) -> Millis {
    let mut hasher = DefaultHasher::new();
    (delivery.id.as_str(), delivery.attempts).hash(&mut hasher);
    let share = i64::try_from(hasher.finish() % 401).unwrap_or(0) - 200;
    pause + pause * share / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;
    use crate::domain::ids::{TenantPk, ThreadPk};
    use crate::store::outbox::DeliveryStatus;

    const DAY: Millis = 24 * 3_600_000;

    #[test]
    fn a_push_that_nobody_takes_is_tried_for_a_day_and_then_given_up() {
        let config = config::Outbox::default();
        let pace = Pace {
            backoff: config.backoff_ms,
            push_backoff: config.push_backoff_ms,
            push_for: config.push_for_ms,
            attempt: Duration::from_secs(15),
            kept: config.kept_ms,
        };
        let mut delivery = Delivery {
            id: "dlv_1".into(),
            tenant: TenantPk(1),
            thread: ThreadPk(1),
            kind: TargetKind::Push,
            target: "here".to_owned(),
            ordering_key: None,
            event: "task".to_owned(),
            body: String::new(),
            status: DeliveryStatus::Pending,
            due_at: None,
            attempts: 1,
            said: None,
            created_at: 0,
            finished_at: None,
        };
        let (mut now, mut longest) = (0, 0);
        while let Some(pause) = pace.pause(&delivery, now) {
            longest = longest.max(pause);
            now += pause;
            delivery.attempts += 1;
        }
        assert!((DAY..DAY + longest).contains(&now), "the last attempt is made after {now} ms");
        assert_eq!((longest, delivery.attempts), (900_000, 106));
    }
}
