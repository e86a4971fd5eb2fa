//! The server without a listener, for programs that embed it. The head of the crate shows how.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::{App, Components, Error};
use crate::auth::OPEN_TENANT;
use crate::config::Config;
use crate::domain::caller::{Caller, Scope};
use crate::domain::fault::{Code, Fault};
use crate::domain::hitl::Answer;
use crate::domain::ids::{RunId, ThreadId};
use crate::domain::message::HistoryMessage;
use crate::domain::run::{AgentFinalResponse, OnBusy, RunResource, RunStatus};
use crate::domain::settings::CallOptions;
use crate::engine::Core;
use crate::provider::Catalog;
use crate::runtime::clock::Clock;
use crate::service::Service;
use crate::service::once::Answered;
use crate::service::runs::{self, ContinueAt, ProcessAsk, Receipt};
use crate::store::Store;
use crate::tool::{Tool, ToolSource};

/// A request to an agent.
#[derive(Clone, Debug, Default)]
pub struct AgentProps {
    /// The conversation it belongs to; created on first use.
    pub thread_id: String,
    /// What the user asks.
    pub query: String,
    /// The program's own id of its user: tools get it.
    pub user_id: Option<String>,
    /// The program's own id of a session; it is stored with the run.
    pub session_id: Option<String>,
    /// Absent: a new one is made.
    pub trace_id: Option<String>,
    /// What happens if a run of the thread is active; the run waits behind it by default.
    pub on_busy: OnBusy,
    /// Earlier messages of the conversation, from elsewhere, oldest first. Only allowed if this query creates the thread.
    pub history: Vec<HistoryMessage>,
    /// The place in the conversation where the query continues; absent: its end.
    pub continue_at: Option<ContinueAt>,
    /// Settings of this run, which win over those of the thread and of the configuration.
    pub options: CallOptions,
}

impl AgentProps {
    /// A query at the end of this conversation, with the settings of its thread.
    pub fn new(thread_id: impl Into<String>, query: impl Into<String>) -> Self {
        Self { thread_id: thread_id.into(), query: query.into(), ..Self::default() }
    }
}

/// A running PES inside another program. Dropping it without [`close`](Self::close) stops nothing: its tasks run, and the data
/// folder is locked, until the tokio runtime ends.
pub struct Instance {
    app: App,
    caller: Caller,
}

/// Builds an [`Instance`]. Parts that are not replaced come from the configuration.
pub struct Builder {
    config: Config,
    store: Option<Arc<dyn Store>>,
    models: Option<Arc<dyn Catalog>>,
    tools: Vec<Arc<dyn Tool>>,
    sources: Vec<Arc<dyn ToolSource>>,
    cores: Vec<Arc<dyn Core>>,
    clock: Option<Arc<dyn Clock>>,
}

impl Builder {
    /// Uses this store.
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }
    /// Uses these models instead of the configured ones.
    pub fn models(mut self, models: Arc<dyn Catalog>) -> Self {
        self.models = Some(models);
        self
    }
    /// Adds a tool.
    pub fn tool(mut self, tool: Arc<dyn Tool>) -> Self {
        self.tools.push(tool);
        self
    }
    /// Adds a source of tools that may change at any time.
    pub fn tools_of(mut self, source: Arc<dyn ToolSource>) -> Self {
        self.sources.push(source);
        self
    }
    /// Adds an agent core; threads select it with `agentCore`, and `config.agent.core` names that of new threads.
    /// Its name must not be that of another core: `pes` and `react` are taken.
    pub fn core(mut self, core: Arc<dyn Core>) -> Self {
        self.cores.push(core);
        self
    }
    /// Uses this clock for times and random seeds.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Opens the store and starts the runtime, which continues unfinished runs. Panics outside of a tokio runtime.
    pub async fn open(self) -> Result<Instance, Error> {
        let mut components = match self.models {
            Some(models) => Components::with(&self.config, models),
            None => Components::of(&self.config)?,
        };
        components.store = self.store;
        components.tools.extend(self.tools);
        components.sources.extend(self.sources);
        components.cores.extend(self.cores);
        components.clock = self.clock.unwrap_or(components.clock);
        let app = App::assemble(self.config, components).await?;
        let caller = Caller {
            tenant: app.store.tenant(OPEN_TENANT, app.service.now()).await?,
            tenant_name: OPEN_TENANT.to_owned(),
            name: "library".to_owned(),
            scopes: Scope::ALL.to_vec(),
            groups: Vec::new(),
        };
        Ok(Instance { app, caller })
    }
}

impl Instance {
    /// Begins with this configuration; [`Builder::open`] starts the instance.
    pub fn build(config: Config) -> Builder {
        Builder {
            config,
            store: None,
            models: None,
            tools: Vec::new(),
            sources: Vec::new(),
            cores: Vec::new(),
            clock: None,
        }
    }

    /// Sends a query and waits for the response. A failed run returns its error. A run that waits for a person returns the
    /// fault `suspended`, whose `suspensions` say what to [`resume`](Self::resume); a cancelled one `run_cancelled`. If
    /// the instance is closed meanwhile, that is the fault `draining`, whose `runId` continues at the next start.
    ///
    /// Once the query is stored the run goes on, also if this future is dropped: [`runs::cancel`] ends it,
    /// [`runs::wait`] waits for it again. If the future is dropped earlier, it is unknown whether there is a run.
    pub async fn process(&self, props: AgentProps) -> Result<AgentFinalResponse, Fault> {
        let ask = ProcessAsk {
            query: props.query,
            user_id: props.user_id,
            session_id: props.session_id,
            trace_id: props.trace_id,
            on_busy: props.on_busy,
            history: props.history,
            continue_at: props.continue_at,
            options: props.options,
            ..ProcessAsk::default()
        };
        let thread = ThreadId::from(props.thread_id);
        let receipt = runs::process(&self.app.service, &self.caller, &thread, ask, None).await?;
        self.wait_for_response(receipt).await
    }

    /// Answers a suspension, and waits like [`process`](Self::process). An [`Answer`] is read from JSON, as the API takes it:
    /// `{"suspensionId": …, "approved": true}`.
    pub async fn resume(&self, thread_id: &str, answer: Answer) -> Result<AgentFinalResponse, Fault> {
        let receipt = runs::resume(&self.app.service, &self.caller, &thread_id.into(), answer, None).await?;
        self.wait_for_response(receipt).await
    }

    /// The argument of the functions of [`service`](crate::service), the other use cases. They also take
    /// [`caller`](Self::caller).
    pub fn service(&self) -> &Service {
        &self.app.service
    }

    /// Who this program is to the use cases: the tenant `default` with all scopes.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Ends the work under way, for at most `runtime.drain_ms`, and closes the store. Unfinished runs continue at the next
    /// start, or wait for what they waited for. If tasks share the instance, `service().close()` does the same: their
    /// [`process`](Self::process) ends then. The data folder may be opened again once all clones of the [`Service`] are
    /// dropped.
    pub async fn close(self) {
        self.app.close().await;
    }

    async fn wait_for_response(&self, receipt: Answered<Receipt>) -> Result<AgentFinalResponse, Fault> {
        let Answered::Fresh(Receipt { run_id, .. }) = receipt else {
            return Err(Fault::new(Code::Internal, "An answer was replayed although there was no key."));
        };
        loop {
            let service = &self.app.service;
            let waited = tokio::select! {
                biased;
                waited = runs::wait(service, &self.caller, &run_id, Duration::from_secs(3_600)) => waited?,
                () = service.stopped() => return Err(closed_fault(&run_id)),
            };
            match waited.run.status {
                RunStatus::Completed | RunStatus::Failed => return response_of(waited.run),
                RunStatus::Cancelled => return Err(Fault::new(Code::RunCancelled, "The run was cancelled.")),
                RunStatus::Suspended => return Err(suspended_fault(&run_id, waited.suspensions)),
                RunStatus::Queued | RunStatus::Running | RunStatus::Waiting => {}
            }
        }
    }
}

fn response_of(run: RunResource) -> Result<AgentFinalResponse, Fault> {
    let missing = || Fault::new(Code::Internal, "The run ended without a response.");
    let response = run.result.ok_or_else(missing)?;
    match response.metadata.error {
        Some(error) if run.status == RunStatus::Failed => Err(Fault::new(error.code, error.message)),
        Some(_) | None => Ok(response),
    }
}

fn closed_fault(run: &RunId) -> Fault {
    // It may have come to wait for a person or for an agent meanwhile.
    let detail =
        "The instance was closed. The run is kept: after the next start it continues, or waits for what it waited for.";
    Fault::new(Code::Draining, detail).with("runId", run.as_str())
}

fn suspended_fault(run: &RunId, suspensions: Vec<Value>) -> Fault {
    Fault::new(Code::Suspended, "The run waits for a person; resume it.")
        .with("runId", run.as_str())
        .with("suspensions", suspensions)
}
