//! The gate in front of a provider: permits, the queue, fairness between tenants, and the breaker.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures_util::{FutureExt, StreamExt, stream};
use pes::config;
use pes::domain::fault::Fault;
use pes::domain::ids::TenantPk;
use pes::domain::model::{Delta, FailureKind, ModelFailure, ModelRequest, StopReason};
use pes::provider::gate::{BreakerState, CallOwner, Gates};
use pes::provider::{ChatModel, DeltaStream};
use serde_json::{Map, Value};

/// A model that hangs after its first word, or fails.
#[derive(Default)]
struct Model {
    calls: AtomicUsize,
    fails: std::sync::Mutex<Option<FailureKind>>,
    ends: std::sync::atomic::AtomicBool,
}

#[async_trait]
impl ChatModel for Model {
    async fn call(&self, _: ModelRequest) -> Result<DeltaStream, ModelFailure> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        if let Some(kind) = *self.fails.lock().unwrap() {
            return Err(failure(kind));
        }
        let word = stream::iter([Ok(Delta::Text("word".into()))]);
        if self.ends.load(Ordering::SeqCst) {
            Ok(word.chain(stream::iter([Ok(Delta::Stop(StopReason::EndTurn))])).boxed())
        } else {
            Ok(word.chain(stream::pending()).boxed())
        }
    }
    fn admit(&self, _: &str, _: &Map<String, Value>) -> Result<(), Fault> {
        Ok(())
    }
}

fn failure(kind: FailureKind) -> ModelFailure {
    ModelFailure::new(kind, "as told")
}

fn gates(change: impl FnOnce(&mut config::Gate)) -> Gates {
    let mut gate = config::Gate { queue_ms: 1_000, breaker_failures: 2, breaker_ms: 5_000, ..config::Gate::default() };
    change(&mut gate);
    Gates::new(&gate)
}

fn tenant(n: i64) -> CallOwner {
    CallOwner { tenant: TenantPk(n), has_own_key: false }
}

/// A call that may use a fallback.
async fn call(gates: &Gates, model: &Model, owner: CallOwner) -> Result<DeltaStream, FailureKind> {
    let pass = gates.acquire_soon("openai", owner).await.map_err(|failure| failure.kind)?;
    pass.call(model, super::request()).await.map_err(|failure| failure.kind)
}

#[tokio::test(start_paused = true)]
async fn so_many_calls_go_out_at_once_so_many_wait_and_the_rest_is_turned_away() {
    let (gates, model) = (gates(|gate| (gate.per_provider, gate.queue) = (2, 1)), Model::default());
    let first = call(&gates, &model, tenant(1)).await.ok().unwrap();
    let _second = call(&gates, &model, tenant(2)).await.ok().unwrap();
    assert!(gates.reserve("openai", tenant(3)).is_some());
    let third = call(&gates, &model, tenant(3));
    tokio::pin!(third);
    assert!(third.as_mut().now_or_never().is_none(), "it waits");
    assert!(gates.reserve("openai", tenant(4)).is_none());
    let health = gates.health("openai", 1_000).unwrap();
    assert_eq!((health.running, health.waiting), (2, 1));
    let fourth = call(&gates, &model, tenant(4)).now_or_never().expect("it is told at once").err();
    assert_eq!(fourth, Some(FailureKind::Saturated));
    assert_eq!(model.calls.load(Ordering::SeqCst), 2, "what waits was not sent");
    drop(first);
    assert!(third.await.is_ok(), "a reply that is given up makes room");
}

#[tokio::test(start_paused = true)]
async fn what_may_go_elsewhere_waits_no_longer_than_the_queue_allows() {
    let (gates, model) = (gates(|gate| gate.per_provider = 1), Model::default());
    let _held = call(&gates, &model, tenant(1)).await.ok().unwrap();
    let began = tokio::time::Instant::now();
    assert_eq!(call(&gates, &model, tenant(1)).await.err(), Some(FailureKind::Saturated));
    assert!((1_000..1_100).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
    assert_eq!(gates.health("openai", 1_000).unwrap().waiting, 0);
}

#[tokio::test(start_paused = true)]
async fn a_call_of_an_accepted_run_waits_however_long_and_whatever_waits_already() {
    let (gates, model) = (gates(|gate| (gate.per_provider, gate.queue) = (1, 0)), Model::default());
    let held = call(&gates, &model, tenant(1)).await.ok().unwrap();
    let second = gates.acquire("openai", tenant(1));
    tokio::pin!(second);
    assert!(second.as_mut().now_or_never().is_none(), "it waits");
    tokio::time::advance(std::time::Duration::from_secs(3_600)).await;
    assert!(second.as_mut().now_or_never().is_none(), "and waits");
    drop(held);
    assert!(second.await.is_ok());
}

/// The limit that holds a call back: its tenant's, its key's, or the provider's.
#[tokio::test(start_paused = true)]
async fn a_run_is_admitted_by_every_limit_that_applies_to_it() {
    for (per_provider, per_key, per_tenant) in [(1, 9, 9), (9, 1, 9), (9, 9, 1)] {
        let gates = gates(|gate| {
            (gate.per_provider, gate.per_key, gate.per_tenant, gate.queue) = (per_provider, per_key, per_tenant, 0);
        });
        let first = gates.reserve("openai", tenant(1)).expect("a place is free");
        assert!(gates.reserve("openai", tenant(1)).is_none(), "it is kept for the first");
        drop(first);
        let _held = call(&gates, &Model::default(), tenant(1)).await.ok().unwrap();
        assert!(gates.reserve("openai", tenant(1)).is_none(), "{per_provider} {per_key} {per_tenant}");
        assert_eq!(gates.reserve("openai", tenant(2)).is_some(), per_tenant == 1, "its own tenant's limit is its own");
    }
}

#[tokio::test(start_paused = true)]
async fn the_backlog_of_one_tenant_leaves_room_for_others() {
    let gates = gates(|gate| (gate.per_provider, gate.queue) = (1, 8));
    let model = Model::default();
    let _held = call(&gates, &model, tenant(1)).await.ok().unwrap();
    let backlog: Vec<_> = std::iter::from_fn(|| gates.reserve("openai", tenant(1))).take(100).collect();
    assert_eq!(backlog.len(), 4, "as much as it leaves");
    let others: Vec<_> = (2..4).map_while(|n| gates.reserve("openai", tenant(n))).collect();
    assert_eq!(others.len(), 2, "whoever comes finds room");
    drop(backlog);
    assert!(gates.reserve("openai", tenant(1)).is_some(), "and so does it, once it has less waiting");
}

#[tokio::test(start_paused = true)]
async fn one_tenant_cannot_take_every_place_nor_one_key() {
    for (per_tenant, per_key, own) in [(1, 9, false), (9, 1, true)] {
        let gates = gates(|gate| (gate.per_provider, gate.per_tenant, gate.per_key) = (3, per_tenant, per_key));
        let model = Model::default();
        let greedy = CallOwner { has_own_key: own, ..tenant(1) };
        let _held = call(&gates, &model, greedy).await.ok().unwrap();
        assert_eq!(call(&gates, &model, greedy).await.err(), Some(FailureKind::Saturated));
        assert!(call(&gates, &model, tenant(2)).await.is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_keeps_failing_is_left_alone_until_one_call_succeeds() {
    let (gates, model) = (gates(|_| ()), Model::default());
    *model.fails.lock().unwrap() = Some(FailureKind::Unreachable);
    for _ in 0..2 {
        assert_eq!(call(&gates, &model, tenant(1)).await.err(), Some(FailureKind::Unreachable));
    }
    let refused = gates.acquire("openai", tenant(1)).await.err().unwrap();
    assert_eq!((refused.kind, refused.retry_after_ms), (FailureKind::BreakerOpen, Some(5_000)));
    assert_eq!(model.calls.load(Ordering::SeqCst), 2, "nothing is sent");
    let health = gates.health("openai", 1_000).unwrap();
    assert_eq!(health.breaker, BreakerState::Open);
    assert!(health.retry_at.is_some_and(|at| at > 1_000) && health.last_error.is_some(), "{health:?}");
    assert!(gates.acquire("another", tenant(1)).await.is_ok(), "each provider has its own");
    tokio::time::advance(std::time::Duration::from_millis(5_000)).await;
    assert_eq!(gates.health("openai", 1_000).unwrap().breaker, BreakerState::HalfOpen);
    *model.fails.lock().unwrap() = None;
    model.ends.store(true, Ordering::SeqCst);
    let probe = call(&gates, &model, tenant(1)).await.ok().unwrap();
    assert_eq!(call(&gates, &model, tenant(2)).await.err(), Some(FailureKind::BreakerOpen), "one call tries");
    probe.collect::<Vec<_>>().await;
    let health = gates.health("openai", 1_000).unwrap();
    assert_eq!((health.breaker, health.retry_at, health.last_error), (BreakerState::Closed, None, None));
    assert!(call(&gates, &model, tenant(2)).await.is_ok());
}

/// A reply may take minutes, after which runs would have given up their calls.
#[tokio::test(start_paused = true)]
async fn while_the_first_reply_after_an_outage_still_comes_others_are_called() {
    let (gates, model) = (gates(|_| ()), Model::default());
    *model.fails.lock().unwrap() = Some(FailureKind::Unreachable);
    for _ in 0..2 {
        assert_eq!(call(&gates, &model, tenant(1)).await.err(), Some(FailureKind::Unreachable));
    }
    tokio::time::advance(std::time::Duration::from_millis(5_000)).await;
    *model.fails.lock().unwrap() = None;
    let mut first = call(&gates, &model, tenant(1)).await.ok().unwrap();
    assert_eq!(call(&gates, &model, tenant(2)).await.err(), Some(FailureKind::BreakerOpen));
    assert!(first.next().await.is_some_and(|word| word.is_ok()));
    let _second = call(&gates, &model, tenant(2)).await.ok().unwrap();
    let health = gates.health("openai", 1_000).unwrap();
    assert_eq!((health.breaker, health.running), (BreakerState::Closed, 2));
    *model.fails.lock().unwrap() = Some(FailureKind::Unreachable);
    assert_eq!(call(&gates, &model, tenant(3)).await.err(), Some(FailureKind::Unreachable));
    assert_eq!(call(&gates, &model, tenant(3)).await.err(), Some(FailureKind::BreakerOpen), "one failure is enough");
}

/// Without calls nothing would close the breaker: an alert on it would never end.
#[tokio::test(start_paused = true)]
async fn a_provider_that_nobody_calls_does_not_count_as_failing_for_ever() {
    let (gates, model) = (gates(|_| ()), Model::default());
    *model.fails.lock().unwrap() = Some(FailureKind::Unreachable);
    let passes = |millis| tokio::time::advance(std::time::Duration::from_millis(millis));
    assert!(call(&gates, &model, tenant(1)).await.is_err() && !gates.is_failing("openai"));
    assert!(call(&gates, &model, tenant(1)).await.is_err() && gates.is_failing("openai"));
    // Eight times five seconds.
    passes(39_999).await;
    assert!(gates.is_failing("openai"), "it does not flap while calls are few");
    assert!(call(&gates, &model, tenant(1)).await.is_err());
    passes(39_999).await;
    assert!(gates.is_failing("openai"), "the last failure counts");
    passes(1).await;
    assert!(!gates.is_failing("openai"));
    assert_eq!(gates.health("openai", 1_000).unwrap().breaker, BreakerState::HalfOpen);
    assert!(call(&gates, &model, tenant(1)).await.is_err() && gates.is_failing("openai"));
    passes(5_000).await;
    *model.fails.lock().unwrap() = None;
    model.ends.store(true, Ordering::SeqCst);
    call(&gates, &model, tenant(1)).await.ok().unwrap().collect::<Vec<_>>().await;
    assert!(!gates.is_failing("openai"), "a call that succeeds ends it at once");
}

#[tokio::test(start_paused = true)]
async fn refusals_and_replies_that_are_given_up_open_no_breaker() {
    let (gates, model) = (gates(|_| ()), Arc::new(Model::default()));
    for kind in [Some(FailureKind::Refused), Some(FailureKind::TooLong), None] {
        *model.fails.lock().unwrap() = kind;
        for _ in 0..3 {
            drop(call(&gates, &model, tenant(1)).await);
        }
    }
    assert_eq!(gates.health("openai", 1_000).unwrap().breaker, BreakerState::Closed);
}

#[tokio::test]
async fn the_demo_has_no_gate() {
    let gates = gates(|gate| (gate.per_provider, gate.queue) = (1, 0));
    assert!(gates.reserve("demo", tenant(1)).is_some() && gates.health("demo", 1_000).is_none());
}
