//! What an effect does when its lease has ended and it was not notified yet.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::call_questions::{CallMessage, QuestionsOfCall};
use super::results::peer_failed;
use super::{ModelAttempt, RunningEffects, ToolAttempt};
use crate::a2a::directory::Directory;
use crate::config::{Config, Environment, Synchronous};
use crate::domain::fault::Fault;
use crate::domain::hitl::{FeedbackSchema, InputType, Question, Reply};
use crate::domain::ids::{TenantPk, ThreadPk};
use crate::domain::model::{CallContext, FailureKind, ModelFailure, ModelRequest, Phase};
use crate::domain::task::PeerFailureKind;
use crate::domain::tool::{ToolClass, ToolError, ToolSpec};
use crate::egress::Egress;
use crate::engine::effect::Effect;
use crate::engine::event::{Event, PeerEvent, ToolEvent};
use crate::engine::{Invocation, cores};
use crate::live::{Hub, StreamHead};
use crate::outbox::{DeliveryTiming, Outbox, WebhookDirectory};
use crate::provider::{ChatModel, DeltaStream, Models};
use crate::runtime::clock::System;
use crate::runtime::lease::Lease;
use crate::runtime::shared::Shared;
use crate::runtime::{Parts, Runtime};
use crate::store::documents::{DocumentCache, KeySource, Sealer};
use crate::store::sqlite::Sqlite;
use crate::tool::{People, Registry, Tool, ToolContext, ToolOutput};

/// Counts how often it is called, as a tool and as a model.
#[derive(Default)]
struct Counted(AtomicUsize);

impl Counted {
    fn calls(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Tool for Counted {
    fn spec(&self) -> Arc<ToolSpec> {
        Arc::new(
            ToolSpec::new("count", "Counts.", ToolClass::Write, json!({ "type": "object" })).with_timeout_ms(1_000),
        )
    }
    async fn call(&self, _: Value, _: ToolContext) -> Result<ToolOutput, ToolError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(ToolOutput::default())
    }
}

/// Asks a person, and then never ends.
struct Inquiring;

#[async_trait]
impl Tool for Inquiring {
    fn spec(&self) -> Arc<ToolSpec> {
        Arc::new(ToolSpec { name: "inquire".to_owned(), ..ToolSpec::clone(&Counted::default().spec()) })
    }
    async fn call(&self, _: Value, context: ToolContext) -> Result<ToolOutput, ToolError> {
        context.people.ask(question()).await?;
        std::future::pending().await
    }
}

/// Asks two questions at once, and returns the answers.
struct Insistent;

#[async_trait]
impl Tool for Insistent {
    fn spec(&self) -> Arc<ToolSpec> {
        Arc::new(ToolSpec { name: "insist".to_owned(), ..ToolSpec::clone(&Counted::default().spec()) })
    }
    async fn call(&self, _: Value, context: ToolContext) -> Result<ToolOutput, ToolError> {
        let (first, second) = tokio::join!(context.people.ask(question()), context.people.ask(question()));
        Ok(ToolOutput::new(format!("{first:?} {second:?}")))
    }
}

fn question() -> Question {
    let form = FeedbackSchema {
        input_type: InputType::Text,
        prompt: "Well?".to_owned(),
        options: Vec::new(),
        allow_modify_args: false,
        custom_schema: None,
    };
    Question { message: form.prompt.clone(), form }
}

#[async_trait]
impl ChatModel for Counted {
    async fn call(&self, _: ModelRequest) -> Result<DeltaStream, ModelFailure> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Err(ModelFailure::new(FailureKind::Refused, ""))
    }
    fn admit(&self, _: &str, _: &serde_json::Map<String, Value>) -> Result<(), Fault> {
        Ok(())
    }
}

/// A runtime on a store of its own, whose folder must outlive it. From then on the clock is paused.
async fn shared(counted: &Arc<Counted>) -> (Arc<Shared>, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Sqlite::open(folder.path(), Synchronous::Normal).await.unwrap());
    let egress = Arc::new(Egress::new(Duration::ZERO));
    let timing = DeliveryTiming {
        backoff: Vec::new(),
        push_backoff: Vec::new(),
        push_retry_for: 0,
        attempt_timeout: Duration::ZERO,
        retention: 0,
    };
    let documents = DocumentCache::open(store.clone()).await.unwrap();
    let sealer = Arc::new(Sealer::new(KeySource::None));
    let (nobody, time) = (Arc::new(Egress::new(Duration::ZERO)), Duration::from_secs(1));
    let agents = Directory::new(Vec::new(), documents.clone(), sealer.clone(), nobody, time, 1 << 20);
    let tools: Vec<Arc<dyn Tool>> = vec![counted.clone(), Arc::new(Inquiring), Arc::new(Insistent)];
    let parts = Parts {
        agents,
        config: Arc::new(Config::default()),
        outbox: Arc::new(Outbox::new(
            WebhookDirectory::new(Vec::new(), documents.clone(), sealer.clone()),
            egress,
            timing,
        )),
        traces: None,
        sealer,
        documents,
        store,
        hub: Hub::new(1 << 16),
        tools: Arc::new(Registry::new(tools, Environment::Development).unwrap()),
        models: Arc::new(Models::only("counted", "m", counted.clone())),
        cores: cores::all(),
        clock: Arc::<System>::default(),
        own_url: None,
    };
    let shared = Runtime::start(parts).await.unwrap().0;
    tokio::time::pause();
    (shared, folder)
}

fn over() -> Lease {
    Lease::of(0)
}

fn lasting() -> Lease {
    Lease::of(60_000)
}

#[tokio::test]
async fn a_tool_is_called_under_a_lease_that_holds_and_not_otherwise() {
    let counted = Arc::new(Counted::default());
    let (shared, _folder) = shared(&counted).await;
    let run = |lease: Lease| run(&shared, "count", lease, mpsc::channel(1).0);
    let lease = over();
    assert!(run(lease.clone()).perform().await.is_none());
    assert_eq!(counted.calls(), 0);
    assert!(lease.ended.is_cancelled(), "its thread must let go");
    assert!(run(lasting()).perform().await.is_some());
    assert_eq!(counted.calls(), 1);
}

#[tokio::test]
async fn the_time_of_a_call_stands_still_while_a_person_is_asked() {
    let (shared, _folder) = shared(&Arc::new(Counted::default())).await;
    let (asks, mut asked) = mpsc::channel(1);
    let call = tokio::spawn(run(&shared, "inquire", lasting(), asks).perform());
    let Some(CallMessage::Asked(asking)) = asked.recv().await else { panic!("it does not ask") };
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    asking.reply.send(Reply::Accepted { value: json!("yes") }).expect("it still waits");
    let Some(Event::Tool(ToolEvent::Returned { outcome, .. })) = call.await.expect("it does not panic") else {
        panic!("it ran")
    };
    assert_eq!(outcome.result.expect_err("it never ends by itself").code, "unknown", "it may have had its effect");
    assert!((3_600_500..=3_602_000).contains(&outcome.duration_ms), "{}", outcome.duration_ms);
}

#[tokio::test]
async fn a_call_asks_one_question_at_a_time_and_another_is_declined() {
    let (shared, _folder) = shared(&Arc::new(Counted::default())).await;
    let (asks, mut asked) = mpsc::channel(2);
    let call = tokio::spawn(run(&shared, "insist", lasting(), asks).perform());
    let Some(CallMessage::Asked(asking)) = asked.recv().await else { panic!("it does not ask") };
    asking.reply.send(Reply::Accepted { value: json!("yes") }).expect("it waits");
    let ended = tokio::time::timeout(Duration::from_secs(60), call).await.expect("nothing waits for its turn");
    let Some(Event::Tool(ToolEvent::Returned { outcome, .. })) = ended.expect("it does not panic") else {
        panic!("it ran")
    };
    let said = outcome.result.expect("it ends");
    assert!(said.as_str().is_some_and(|said| said.ends_with("Ok(Declined)") && said.contains("yes")), "{said}");
}

#[tokio::test]
async fn a_withdrawn_question_is_told_by_its_number_and_the_next_one_has_another() {
    let (shared, _folder) = shared(&Arc::new(Counted::default())).await;
    let mut effects = RunningEffects::new(CancellationToken::new());
    let questions = QuestionsOfCall {
        shared,
        lease: lasting(),
        pk: ThreadPk(1),
        call: "call".into(),
        attempt: 1,
        messages: effects.message_sender(),
        is_asking: watch::channel(false).0,
        asked: Default::default(),
    };
    for expected in [1, 2] {
        let asked = tokio::select! {
            _ = questions.ask(question()) => panic!("nobody answers"),
            asked = effects.next() => asked,
        };
        let Event::Tool(ToolEvent::Asked { number, .. }) = asked else { panic!("it does not ask") };
        assert_eq!(number, expected);
        questions.withdraw().await;
        let told = tokio::time::timeout(Duration::from_secs(60), effects.next()).await.expect("it is told at once");
        let Event::Tool(ToolEvent::Withdrew { call, attempt, number }) = told else { panic!("it does not withdraw") };
        assert_eq!((call.as_str(), attempt, number), ("call", 1, expected));
    }
}

fn run(shared: &Arc<Shared>, tool: &str, lease: Lease, messages: mpsc::Sender<CallMessage>) -> ToolAttempt {
    ToolAttempt {
        shared: shared.clone(),
        pk: ThreadPk(1),
        tenant: TenantPk(1),
        thread_id: "t".into(),
        invocation: Invocation {
            call_id: "call".into(),
            tool_name: tool.to_owned(),
            arguments: json!({}),
            digest: None,
            policy: None,
            judged_before: None,
            run_id: "run".into(),
            item_id: None,
            user_id: None,
            trace: Default::default(),
            idempotency_key: "key".to_owned(),
            agent_state: Default::default(),
        },
        attempt: 1,
        lease,
        messages,
    }
}

#[tokio::test]
async fn a_model_is_called_under_a_lease_that_holds_and_not_otherwise() {
    let counted = Arc::new(Counted::default());
    let (shared, _folder) = shared(&counted).await;
    let call = |lease: Lease| ModelAttempt {
        tenant: TenantPk(1),
        shared: shared.clone(),
        pk: ThreadPk(1),
        stream: "stream".into(),
        attempt: 1,
        request: ModelRequest {
            provider: "counted".to_owned(),
            model: "m".to_owned(),
            phase: Phase::Planning,
            messages: Vec::new(),
            tools: Vec::new(),
            response_schema: None,
            params: Default::default(),
            trace_id: "trace".to_owned(),
            trace: Default::default(),
            context: CallContext::default(),
        },
        head: StreamHead {
            stream_id: "stream".into(),
            phase: Phase::Planning,
            step_id: None,
            step_description: None,
            thread_id: "t".into(),
            run_id: "run".into(),
            trace_id: "trace".to_owned(),
        },
        lease,
        interrupt: CancellationToken::new(),
    };
    let lease = over();
    assert!(call(lease.clone()).perform().await.is_none());
    assert_eq!(counted.calls(), 0);
    assert!(lease.ended.is_cancelled(), "its thread must let go");
    assert!(call(lasting()).perform().await.is_some());
    assert_eq!(counted.calls(), 1);
}

/// The task's run may have ended, so nobody would ask again.
#[tokio::test]
async fn stopping_a_run_spares_what_is_asked_of_other_agents() {
    let (mut effects, lease) = (RunningEffects::new(CancellationToken::new()), Lease::of(60_000));
    let asking = Effect::AskPeer { task: "task_1".into(), attempt: 1 };
    let calling = Effect::CallTool { call: "call_1".into(), attempt: 1 };
    let (told, answer) = tokio::sync::oneshot::channel();
    effects.start(calling.clone(), lease.clone(), std::future::pending());
    effects.start(asking.clone(), lease, async { answer.await.ok() });
    effects.stop().await;
    assert!(effects.contains(&asking) && !effects.contains(&calling));
    told.send(peer_failed(&"task_1".into(), 1, PeerFailureKind::Unreachable, "why")).unwrap();
    assert!(matches!(effects.next().await, Event::Peer(PeerEvent::Failed { attempt: 1, .. })));
    assert!(effects.is_empty());
}
