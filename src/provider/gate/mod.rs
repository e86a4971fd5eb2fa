//! Limits on the calls to each provider: concurrency, queue length and queue time, and a circuit breaker. Nothing is
//! retried here: a rejected call is a failure like any other, and the engine decides what to do.

mod breaker;
mod permits;

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
use breaker::{Breaker, CallRole, Outcome};
use permits::{CallPermit, CallPermits, QueueEntry, Saturation};

pub use breaker::BreakerState;

/// The tenant that a call is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallOwner {
    pub tenant: TenantPk,
    /// The tenant's calls use a key of its own, not the server's.
    pub has_own_key: bool,
}

/// The state of a provider, as `GET /models` and `/metrics` show it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ProviderHealth)]
pub struct Health {
    pub breaker: BreakerState,
    /// Calls under way.
    pub running: usize,
    /// Calls that wait for a permit.
    pub waiting: usize,
    /// When a call may try next, while the breaker is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Millis>,
    /// Why the last call that counted against the provider failed, until one succeeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// The gates of all providers, created on first use.
pub struct Gates {
    config: config::Gate,
    gates: Mutex<BTreeMap<String, Arc<Gate>>>,
}

struct Gate {
    permits: CallPermits,
    breaker: Mutex<Breaker>,
    last_error: Mutex<Option<String>>,
}

impl Gates {
    pub fn new(config: &config::Gate) -> Self {
        Self { config: config.clone(), gates: Mutex::default() }
    }

    /// Waits without a limit for a permit. Fails with `BreakerOpen` if no request may be sent.
    pub async fn acquire(&self, provider: &str, owner: CallOwner) -> Result<CallPass, ModelFailure> {
        let Some(gate) = self.gate_for_call(provider)? else { return Ok(CallPass(None)) };
        let permit = gate.permits.acquire(owner).await;
        gate.start_call(permit)
    }

    /// The same for a call with an alternative: fails with `Saturated` if too many calls wait, or the wait takes too
    /// long.
    pub async fn acquire_soon(&self, provider: &str, owner: CallOwner) -> Result<CallPass, ModelFailure> {
        let Some(gate) = self.gate_for_call(provider)? else { return Ok(CallPass(None)) };
        let permit = gate.permits.acquire_soon(owner).await.map_err(saturated)?;
        gate.start_call(permit)
    }

    /// The provider's gate, if it has one. Fails if its breaker is open.
    fn gate_for_call(&self, provider: &str) -> Result<Option<Arc<Gate>>, ModelFailure> {
        let gate = self.gate(provider);
        if let Some(gate) = &gate {
            gate.breaker().check_open(Instant::now()).map_err(breaker_open)?;
        }
        Ok(gate)
    }

    /// Reserves room for the first call of a run that is about to be accepted: it would be served by this provider or
    /// may wait, by all limits that apply. The place is free again when the value is dropped.
    pub fn reserve(&self, provider: &str, owner: CallOwner) -> Option<QueuePlace> {
        let Some(gate) = self.gate(provider) else { return Some(QueuePlace { _entry: None }) };
        Some(QueuePlace { _entry: Some(gate.permits.reserve(owner)?) })
    }

    /// The provider's health; `None`: it has no gate.
    pub fn health(&self, provider: &str, now: Millis) -> Option<Health> {
        let gate = self.gate(provider)?;
        let (breaker, rest) = {
            let (breaker, at) = (gate.breaker(), Instant::now());
            (breaker.state(at), breaker.check_open(at).err())
        };
        Some(Health {
            breaker,
            running: gate.permits.running(),
            waiting: gate.permits.waiting(),
            retry_at: rest.and_then(|rest| Some(now + i64::try_from(rest.as_millis()).ok()?)),
            last_error: gate.last_error.lock().clone(),
        })
    }

    /// Whether the provider failed too often in a row, the last time recently, and no call has been answered since. One that
    /// was not called yet, or has no gate, does not.
    pub fn is_failing(&self, provider: &str) -> bool {
        self.gate(provider).is_some_and(|gate| gate.breaker().is_failing(Instant::now()))
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
        let gate = Arc::new(Gate { permits: CallPermits::new(&self.config), breaker, last_error: Mutex::default() });
        gates.insert(provider.to_owned(), gate.clone());
        Some(gate)
    }
}

impl Gate {
    fn breaker(&self) -> MutexGuard<'_, Breaker> {
        self.breaker.lock()
    }

    fn start_call(self: Arc<Self>, permit: CallPermit) -> Result<CallPass, ModelFailure> {
        let role = self.breaker().start_call(Instant::now()).map_err(breaker_open)?;
        Ok(CallPass(Some(ActiveCall { gate: self, role, outcome: Outcome::Unknown, _permit: permit })))
    }
}

fn breaker_open(rest: Duration) -> ModelFailure {
    let message = "the provider failed too often in a row and is left alone for a while";
    let retry_after_ms = i64::try_from(rest.as_millis()).ok();
    ModelFailure { retry_after_ms, ..failure(FailureKind::BreakerOpen, message) }
}

fn saturated(why: Saturation) -> ModelFailure {
    failure(
        FailureKind::Saturated,
        match why {
            Saturation::QueueFull => "too many calls wait for this provider already",
            Saturation::TimedOut => "no place at this provider came free in time",
        },
    )
}

/// The reserved place of a run that is about to be accepted, among the calls to a provider or in their queue.
pub struct QueuePlace {
    _entry: Option<QueueEntry>,
}

/// The permission to send one request. It is returned if dropped unused.
pub struct CallPass(Option<ActiveCall>);

impl CallPass {
    /// For a process in which nobody else calls the provider.
    pub fn without_gate() -> Self {
        Self(None)
    }

    /// Sends the request. The permit is held until the reply has ended or is dropped.
    pub async fn call(self, client: &dyn ChatModel, request: ModelRequest) -> Result<DeltaStream, ModelFailure> {
        let CallPass(Some(mut call)) = self else { return client.call(request).await };
        let opened = client.call(request).await;
        if let Err(failure) = &opened {
            call.failed(failure);
        }
        Ok(MonitoredStream { deltas: opened?, call }.boxed())
    }
}

/// A call in flight. When dropped, it reports its outcome to the breaker.
struct ActiveCall {
    gate: Arc<Gate>,
    role: CallRole,
    outcome: Outcome,
    _permit: CallPermit,
}

impl ActiveCall {
    fn succeeded(&mut self) {
        self.outcome = Outcome::Success;
        *self.gate.last_error.lock() = None;
    }

    /// Content of the reply has arrived.
    fn answered(&mut self) {
        if matches!(self.role, CallRole::Probe(_)) {
            self.role = CallRole::Regular;
            self.gate.breaker().on_probe_answered();
        }
    }

    fn failed(&mut self, failure: &ModelFailure) {
        self.outcome = Outcome::of(failure);
        if self.outcome == Outcome::Failure {
            *self.gate.last_error.lock() = Some(failure.message.clone());
        }
    }
}

impl Drop for ActiveCall {
    fn drop(&mut self) {
        self.gate.breaker().end_call(self.role, self.outcome, Instant::now());
    }
}

struct MonitoredStream {
    deltas: DeltaStream,
    call: ActiveCall,
}

impl Stream for MonitoredStream {
    type Item = Result<Delta, ModelFailure>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.deltas.poll_next_unpin(context);
        match &next {
            Poll::Ready(Some(Ok(Delta::Text(_) | Delta::Thinking(_) | Delta::ToolCall { .. }))) => self.call.answered(),
            Poll::Ready(Some(Ok(Delta::Stop(_)))) => self.call.succeeded(),
            Poll::Ready(Some(Err(failure))) => self.call.failed(failure),
            Poll::Ready(Some(Ok(Delta::WasThinking | Delta::Replay(_) | Delta::Usage(_))) | None) | Poll::Pending => {}
        }
        next
    }
}
