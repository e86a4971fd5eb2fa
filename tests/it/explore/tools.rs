//! The tools of the random runs. They record each call, whatever becomes of it.

use std::sync::{Arc, Mutex};

use crate::support::tool::spec;
use async_trait::async_trait;
use pes::domain::tool::{CallCode, ToolClass, ToolError, ToolSpec};
use pes::tool::{Tool, ToolContext, ToolOutput};
use serde_json::Value;
use tokio::sync::watch;

pub struct Kind {
    pub name: &'static str,
    class: ToolClass,
    idempotent: bool,
}

pub static KINDS: [Kind; 6] = [
    Kind { name: "read", class: ToolClass::Read, idempotent: true },
    Kind { name: "write", class: ToolClass::Write, idempotent: false },
    Kind { name: "store", class: ToolClass::Write, idempotent: true },
    Kind { name: "send", class: ToolClass::External, idempotent: false },
    Kind { name: "pay", class: ToolClass::Irreversible, idempotent: false },
    Kind { name: "write_too", class: ToolClass::Write, idempotent: false },
];

/// Whether such a call may be made twice without a person.
pub fn is_safe(tool: &str) -> bool {
    KINDS.iter().any(|kind| kind.name == tool && (kind.idempotent || kind.class == ToolClass::Read))
}

/// A call that was made.
#[derive(Clone, Debug)]
pub struct Made {
    pub tool: &'static str,
    pub call: String,
    /// The decision of the model.
    pub n: u64,
    /// It returned an error by which it had no effect.
    pub failed: bool,
}

#[derive(Default)]
pub struct Calls {
    made: Mutex<Vec<Made>>,
    /// How many calls wait for their release.
    pub held: watch::Sender<usize>,
    pub released: watch::Sender<bool>,
}

impl Calls {
    pub fn made(&self) -> Vec<Made> {
        self.made.lock().unwrap().clone()
    }

    pub fn tools(self: &Arc<Self>) -> impl Iterator<Item = Arc<dyn Tool>> {
        let calls = self.clone();
        KINDS.iter().map(move |kind| {
            let spec = ToolSpec { class: kind.class, idempotent: kind.idempotent, ..spec(kind.name) };
            Arc::new(Recording { name: kind.name, spec: Arc::new(spec), calls: calls.clone() }) as Arc<dyn Tool>
        })
    }
}

struct Recording {
    name: &'static str,
    spec: Arc<ToolSpec>,
    calls: Arc<Calls>,
}

/// A call that waits; dropping it ends that.
struct Held<'a>(&'a Calls);

impl<'a> Held<'a> {
    fn begin(calls: &'a Calls) -> Self {
        calls.held.send_modify(|held| *held += 1);
        Self(calls)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.held.send_modify(|held| *held -= 1);
    }
}

#[async_trait]
impl Tool for Recording {
    fn spec(&self) -> Arc<ToolSpec> {
        self.spec.clone()
    }

    async fn call(&self, arguments: Value, context: ToolContext) -> Result<ToolOutput, ToolError> {
        let way = arguments["way"].as_str().unwrap_or("ok").to_owned();
        let n = arguments["n"].as_u64().unwrap_or_default();
        self.calls.made.lock().unwrap().push(Made {
            tool: self.name,
            call: context.call_id.to_string(),
            n,
            failed: way == "fail",
        });
        match way.as_str() {
            "fail" => return Err(ToolError::new(CallCode::Failed, "as the model wanted it")),
            "lost" => return Err(ToolError::new(CallCode::Unknown, "nobody knows")),
            "hold" => {
                let _held = Held::begin(&self.calls);
                let mut released = self.calls.released.subscribe();
                released.wait_for(|released| *released).await.expect("the test runs");
            }
            _ => {}
        }
        Ok(ToolOutput::new(n))
    }
}
