//! The overhead of a run over its model calls and commits: plan, three items with one tool call each, synthesis (8 model
//! calls) on a model without delay, compared with 8 bare calls of that model and 12 bare commits on the same kind of database.
//! Measured with a tool whose calls are effects, and with `calculator`, whose calls are answered at once.
//!
//! `cargo bench --features internals --bench run`

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use pes::domain::fault::Fault;
use pes::domain::model::{Delta, ModelFailure, ModelRequest, Phase, StopReason};
use pes::domain::tool::{ToolClass, ToolError, ToolSpec};
use pes::provider::{ChatModel, DeltaStream, Models};
use pes::store::Store;
use pes::store::postgres::Postgres;
use pes::store::sqlite::Sqlite;
use pes::tool::{Tool, ToolContext, ToolOutput};
use pes::{AgentProps, Config, Instance};
use serde_json::{Map, Value, json};
use sqlx::{Connection, Executor, PgConnection, SqliteConnection};

#[path = "../tests/it/support/postgres.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod cluster;

/// The same allocator as in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const RUNS: usize = 200;
const MODEL_CALLS: usize = 8;
const BARE_COMMITS: usize = 12;
const INSERT: &str = "INSERT INTO bare VALUES (1)";
const SETTINGS: &[&str] = &["fsync=on", "synchronous_commit=on", "max_connections=50"];

/// A model that answers without delay, by phase and iteration, and calls this tool.
struct Prompt(&'static str);

#[async_trait]
impl ChatModel for Prompt {
    async fn call(&self, request: ModelRequest) -> Result<DeltaStream, ModelFailure> {
        let call = Delta::ToolCall {
            index: 0,
            id: Some("c".to_owned()),
            name: Some(self.0.to_owned()),
            arguments: json!({ "expression": "6 * 7" }).to_string(),
        };
        let (said, stop) = match (request.phase, request.context.iteration) {
            (Phase::Planning, _) => (Delta::Text(plan(self.0)), StopReason::EndTurn),
            (Phase::Execution, 1) => (call, StopReason::ToolUse),
            (Phase::Execution, _) => (Delta::Text("It is 42.".to_owned()), StopReason::EndTurn),
            (Phase::Synthesis, _) => (Delta::Text("Everything is 42.".to_owned()), StopReason::EndTurn),
        };
        Ok(stream::iter([Ok(said), Ok(Delta::Stop(stop))]).boxed())
    }

    fn admit(&self, _: &str, _: &Map<String, Value>) -> Result<(), Fault> {
        Ok(())
    }
}

fn plan(tool: &str) -> String {
    let item = |id: &str| json!({ "id": id, "description": "Multiply", "stepType": "tool", "requiredTools": [tool] });
    json!({ "title": "T", "intent": "I", "plan": "P", "todoList": [item("a"), item("b"), item("c")] }).to_string()
}

/// Multiplies; its calls are effects.
struct Multiply;

#[async_trait]
impl Tool for Multiply {
    fn spec(&self) -> Arc<ToolSpec> {
        Arc::new(
            ToolSpec::new("multiply", "Multiplies.", ToolClass::Read, json!({ "type": "object" }))
                .with_timeout_ms(1_000),
        )
    }

    async fn call(&self, arguments: Value, _: ToolContext) -> Result<ToolOutput, ToolError> {
        let output = json!({ "expression": arguments["expression"], "result": 42 });
        Ok(ToolOutput::new(output))
    }
}

#[tokio::main]
async fn main() {
    println!("{:<24}{:>10}{:>14}{:>14}{:>10}", "", "commits", "run p50 ms", "bare p50 ms", "ratio");
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("the target folder is writable");
    let open = async || {
        let store = Sqlite::open(folder.path(), pes::config::Synchronous::Full).await;
        Arc::new(store.expect("it opens")) as Arc<dyn Store>
    };
    let url = format!("sqlite://{}?mode=rwc", folder.path().join("bare.db").display());
    let mut bare = SqliteConnection::connect(&url).await.expect("it opens");
    for pragma in ["PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", "CREATE TABLE bare (n INTEGER)"] {
        bare.execute(pragma).await.expect("a new database");
    }
    report("SQLite", open, async || {
        bare.execute(INSERT).await.expect("it takes rows");
    })
    .await;

    let cluster: &'static cluster::Cluster = Box::leak(Box::new(cluster::Cluster::start(SETTINGS)));
    let (database, other) = (cluster.database().await, cluster.database().await);
    let open = async || {
        let store = Postgres::open(&database.url().into(), 4).await;
        Arc::new(store.expect("it opens")) as Arc<dyn Store>
    };
    let mut bare: PgConnection = other.connect().await;
    bare.execute("CREATE TABLE bare (n bigint)").await.expect("a new database");
    report("PostgreSQL", open, async || {
        bare.execute(INSERT).await.expect("it takes rows");
    })
    .await;
}

async fn report(name: &str, open: impl AsyncFn() -> Arc<dyn Store>, mut commit: impl AsyncFnMut()) {
    for tool in ["multiply", "calculator"] {
        measure(name, tool, open().await, &mut commit).await;
    }
}

/// Alternates runs and bare work, so that both see the same disk.
async fn measure(name: &str, tool: &'static str, store: Arc<dyn Store>, commit: &mut impl AsyncFnMut()) {
    let models = Arc::new(Models::only("none", "none", Arc::new(Prompt(tool))));
    let built = Instance::build(Config::default()).store(store.clone()).models(models).tool(Arc::new(Multiply));
    let instance = built.open().await.expect("it opens");
    let (mut runs, mut bares) = (Vec::new(), Vec::new());
    for nth in 0..RUNS {
        let began = Instant::now();
        let answer = instance.process(AgentProps::new(format!("{tool}{nth}"), "go")).await.expect("it answers");
        runs.push(began.elapsed());
        assert_eq!((answer.metadata.llm_calls, answer.metadata.tool_calls), (8, 3));
        bares.push(bare_work(commit).await);
    }
    let row = store
        .thread(instance.caller().tenant, &format!("{tool}0").as_str().into())
        .await
        .expect("it answers")
        .expect("it is there");
    let (run, bare) = (p50(runs), p50(bares));
    let ratio = run / bare;
    let verdict = if ratio <= 3.0 && row.fence.version <= 16 { "" } else { " MISSED (at most 16 commits, 3 ×)" };
    println!("{:<24}{:>10}{run:>14.2}{bare:>14.2}{ratio:>10.2}{verdict}", format!("{name}, {tool}"), row.fence.version);
    instance.close().await;
}

async fn bare_work(commit: &mut impl AsyncFnMut()) -> Duration {
    let began = Instant::now();
    for _ in 0..MODEL_CALLS {
        let mut said = Prompt("").call(request()).await.expect("it answers");
        while said.next().await.is_some() {}
    }
    for _ in 0..BARE_COMMITS {
        commit().await;
    }
    began.elapsed()
}

fn request() -> ModelRequest {
    ModelRequest {
        provider: "none".to_owned(),
        model: "none".to_owned(),
        phase: Phase::Planning,
        messages: Vec::new(),
        tools: Vec::new(),
        response_schema: None,
        params: Map::new(),
        trace_id: String::new(),
        trace: Default::default(),
        context: Default::default(),
    }
}

fn p50(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1_000.0
}
