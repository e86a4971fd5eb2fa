//! The gate before a provider: how many calls go out at once, how many wait for how long, and whether the provider is
//! left alone because it failed too often. It sends nothing again: a call that it holds back is a failure like any
//! other, and the engine decides what follows.

mod breaker;
mod places;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::http::failure;
use super::{ChatModel, DeltaStream, demo};
use crate::config;
use crate::domain::Millis;
use crate::domain::ids::TenantPk;
use crate::domain::model::{Delta, FailureKind, ModelFailure, ModelRequest};
use breaker::{Breaker, Entry, Outcome};
use places::{Crowded, Place, Places, Waits};

pub use breaker::BreakerState;

/// On whose behalf a call is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asker {
    pub tenant: TenantPk,
    /// Its calls carry a key of its own, not the server's.
    pub has_own_key: bool,
}

/// How a provider does, as `GET /models` and `/metrics` tell it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ProviderHealth)]
pub struct Health {
    pub breaker: BreakerState,
    /// Calls under way.
    pub running: usize,
    /// Calls that wait for a place.
    pub waiting: usize,
    /// When a call may try next, while the breaker is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Millis>,
    /// Why the last call that counted against the provider failed, until one goes well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// The gates of all providers, made as they are needed.
pub struct Gates {
    config: config::Gate,
    gates: Mutex<BTreeMap<String, Arc<Gate>>>,
}

struct Gate {
    places: Places,
    breaker: Mutex<Breaker>,
    last_error: Mutex<Option<String>>,
}

impl Gates {
    pub fn new(config: &config::Gate) -> Self {
        Self { config: config.clone(), gates: Mutex::default() }
    }

    /// Waits until it is one's turn, however long that takes. The failure is `BreakerOpen`: no request may be sent.
    pub async fn enter(&self, provider: &str, asker: Asker) -> Result<Pass, ModelFailure> {
        self.pass(provider, |gate| async move { Ok(gate.places.take(asker).await) }).await
    }

    /// The same of a call that may go elsewhere: where too many wait, or for too long, the failure is `Saturated`.
    pub async fn enter_soon(&self, provider: &str, asker: Asker) -> Result<Pass, ModelFailure> {
        self.pass(provider, |gate| async move { gate.places.take_soon(asker).await.map_err(crowded) }).await
    }

    async fn pass<F>(&self, provider: &str, take: impl FnOnce(Arc<Gate>) -> F) -> Result<Pass, ModelFailure>
    where
        F: Future<Output = Result<Place, ModelFailure>>,
    {
        let Some(gate) = self.gate(provider) else { return Ok(Pass(None)) };
        gate.breaker().rest(Instant::now()).map_err(left_alone)?;
        let place = take(gate.clone()).await?;
        let entry = gate.breaker().enter(Instant::now()).map_err(left_alone)?;
        Ok(Pass(Some(CallUnderWay { gate, entry, outcome: Outcome::Unknown, _place: place })))
    }

    /// Whether the first call of a run that is to be accepted would be served by this provider, or may wait, by all limits
    /// that apply to it. `Some`: until this is dropped there is room for it.
    pub fn admit(&self, provider: &str, asker: Asker) -> Option<Admitted> {
        let Some(gate) = self.gate(provider) else { return Some(Admitted { _waits: None }) };
        Some(Admitted { _waits: Some(gate.places.admit(asker)?) })
    }

    /// How the provider does; `None`: it has no gate.
    pub fn health(&self, provider: &str, now: Millis) -> Option<Health> {
        let gate = self.gate(provider)?;
        let (breaker, rest) = {
            let (breaker, at) = (gate.breaker(), Instant::now());
            (breaker.state(at), breaker.rest(at).err())
        };
        Some(Health {
            breaker,
            running: gate.places.running(),
            waiting: gate.places.waiting(),
            retry_at: rest.and_then(|rest| Some(now + i64::try_from(rest.as_millis()).ok()?)),
            last_error: gate.last_error.lock().clone(),
        })
    }

    fn gate(&self, provider: &str) -> Option<Arc<Gate>> {
        if provider == demo::PROVIDER {
            return None;
        }
        let mut gates = self.gates.lock();
        if let Some(gate) = gates.get(provider) {
            return Some(gate.clone());
        }
        let rest = Duration::from_millis(self.config.breaker_ms);
        let breaker = Mutex::new(Breaker::new(self.config.breaker_failures, rest));
        let gate = Arc::new(Gate { places: Places::new(&self.config), breaker, last_error: Mutex::default() });
        gates.insert(provider.to_owned(), gate.clone());
        Some(gate)
    }
}

impl Gate {
    fn breaker(&self) -> MutexGuard<'_, Breaker> {
        self.breaker.lock()
    }
}

fn left_alone(rest: Duration) -> ModelFailure {
    let message = "the provider failed too often in a row and is left alone for a while";
    let retry_after_ms = i64::try_from(rest.as_millis()).ok();
    ModelFailure { retry_after_ms, ..failure(FailureKind::BreakerOpen, message) }
}

fn crowded(why: Crowded) -> ModelFailure {
    failure(
        FailureKind::Saturated,
        match why {
            Crowded::QueueFull => "too many calls wait for this provider already",
            Crowded::TooLate => "no place at this provider came free in time",
        },
    )
}

/// Room for a run that is about to be accepted.
pub struct Admitted {
    _waits: Option<Waits>,
}

/// The right to send one request. Dropped unused, it is given back.
pub struct Pass(Option<CallUnderWay>);

impl Pass {
    /// Sends it. The place is held until the reply has ended or is dropped.
    pub async fn call(self, client: &dyn ChatModel, request: ModelRequest) -> Result<DeltaStream, ModelFailure> {
        let Pass(Some(mut held)) = self else { return client.call(request).await };
        let opened = client.call(request).await;
        if let Err(failure) = &opened {
            held.failed(failure);
        }
        Ok(Passing { deltas: opened?, held }.boxed())
    }
}

/// A call under way. However it ends, the breaker counts its outcome.
struct CallUnderWay {
    gate: Arc<Gate>,
    entry: Entry,
    outcome: Outcome,
    _place: Place,
}

impl CallUnderWay {
    fn went_well(&mut self) {
        self.outcome = Outcome::Well;
        *self.gate.last_error.lock() = None;
    }

    fn failed(&mut self, failure: &ModelFailure) {
        self.outcome = Outcome::of(failure);
        if self.outcome == Outcome::Ill {
            *self.gate.last_error.lock() = Some(failure.message.clone());
        }
    }
}

impl Drop for CallUnderWay {
    fn drop(&mut self) {
        self.gate.breaker().left(self.entry, self.outcome, Instant::now());
    }
}

struct Passing {
    deltas: DeltaStream,
    held: CallUnderWay,
}

impl Stream for Passing {
    type Item = Result<Delta, ModelFailure>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.deltas.poll_next_unpin(context);
        match &next {
            Poll::Ready(Some(Ok(Delta::Stop(_)))) => self.held.went_well(),
            Poll::Ready(Some(Err(failure))) => self.held.failed(failure),
            Poll::Ready(Some(Ok(_)) | None) | Poll::Pending => {}
        }
        next
    }
}
